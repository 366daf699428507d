package main

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// sample is a command line, and what it's for.
type sample struct{ why, line string }

// samples are shown by --help and in the manual page, by the command's path.
var samples = map[string][]sample{
	"": {
		{"Judge manifests, and serve them on this host", "pointsman validate manifests && sudo pointsman run --manifests manifests"},
		{"Ask the running agent how things are", "pointsman status"},
		{"Read more about a command", "pointsman get endpoints --help"},
	},
	"run": {
		{"Serve what is in /etc/pointsman/manifests", "sudo pointsman run"},
		{"Serve a checkout; the addresses of the range belong to Services alone", "sudo pointsman run --manifests /srv/fleet/manifests --service-cidr 10.96.0.0/16"},
		{"Share the probes with the other hosts", "sudo pointsman run --gossip-bind 192.0.2.11 --gossip-join n2.example.org,n3.example.org --gossip-keyring /etc/pointsman/keyring"},
		{"Keep all settings in a file", "sudo pointsman run --config /etc/pointsman/config.yaml"},
	},
	"validate": {
		{"Judge what is about to be pushed, by the ranges of the hosts", "pointsman validate --service-cidr 10.96.0.0/16 manifests"},
		{"Fail for warnings, too, and mark the lines of a pull request", "pointsman validate --strict -o github manifests"},
	},
	"render": {
		{"See the rules that node n1 would hold", "pointsman render --node-name n1 --address 192.0.2.11 manifests"},
		{"See what a change does to them", "diff <(pointsman render --node-name n1 before) <(pointsman render --node-name n1 after)"},
	},
	"plan": {
		{"What would this host do with these manifests?", "pointsman plan manifests"},
		{"And with a commit that pointsman sync has fetched?", "pointsman plan --commit 3f2a9c1"},
		{"Compare two directories, without an agent, for a pull request", "pointsman plan --against before -o markdown after"},
	},
	"pin": {
		{"Write the values that are missing into the files", "pointsman pin --service-cidr 10.96.0.0/16 manifests"},
		{"Have CI refuse a Service without an address", "pointsman pin --check --service-cidr 10.96.0.0/16 manifests"},
	},
	"get": {
		{"Which endpoints of a Service get no connections, and why?", "pointsman get endpoints shop/web"},
		{"Which hosts are in the fleet, and what do they serve?", "pointsman get nodes"},
	},
	"get endpoints": {
		{"The endpoints of one Service", "pointsman get endpoints -n shop web"},
		{"Those that are not ready", `pointsman get endpoints -o json | jq '.items[].endpoints[] | select(.conditions.ready | not)'`},
	},
	"get services": {
		{"All Services, and how each fares on this host", "pointsman get services"},
		{"One as it's served, with all defaults", "pointsman get services -n shop web -o yaml"},
	},
	"get events": {
		{"What happened to a Service, and its endpoints", "pointsman get events shop/web"},
		{"What goes wrong from now on", "pointsman get events --type Warning -w"},
	},
	"get nodes": {
		{"Who is behind?", "pointsman get nodes"},
	},
	"get drains": {
		{"What is drained, by whom and until when", "pointsman get drains"},
	},
	"get problems": {
		{"What is wrong with the manifests of a namespace", "pointsman get problems -n shop"},
	},
	"status": {
		{"How is this host?", "pointsman status"},
		{"Keep a VIP only where its Service can be reached, as a track_script", "pointsman status --service shop/web"},
	},
	"explain": {
		{"What becomes of connections to a Service?", "pointsman explain 10.96.0.80:80"},
		{"And of those of a client, to a port for UDP?", "pointsman explain [fd00:10:96::53]:53/UDP --from 2001:db8::50"},
		{"Why does a backend get no connections?", "pointsman explain endpoint 10.20.0.11"},
	},
	"drain": {
		{"Take this host out of service for its new kernel", "pointsman drain node --for 2h --reason 'new kernel'"},
		{"Give a backend no new connections, on any of its ports, and wait until the open ones have ended", "pointsman drain endpoint 10.20.0.11 --wait --grace 10m"},
		{"Have other sites serve a Service", "pointsman drain service shop/web"},
	},
	"undrain": {
		{"This host is back", "pointsman undrain node"},
		{"So is a backend", "pointsman undrain endpoint 10.20.0.11"},
	},
	"approve": {
		{"Let the change through that pointsman status shows as held", "pointsman approve 5d1f6a3c"},
	},
	"reload": {
		{"Read the manifests of a file system that tells of no changes", "pointsman reload"},
	},
	"sync": {
		{"Publish what main points to, once", "pointsman sync --repo https://git.example.org/fleet.git --path manifests"},
		{"Go on, and take signed commits only", "pointsman sync --repo git@git.example.org:fleet.git --known-hosts /etc/pointsman/hosts --verify ssh --allowed-signers /etc/pointsman/signers --interval 30s"},
	},
	"keygen": {
		{"Make a keyring", "pointsman keygen > keyring"},
	},
	"doctor": {
		{"Look at this host as the agent is configured", "sudo pointsman doctor"},
		{"Judge it for manifests that it's to serve", "sudo pointsman doctor --manifests manifests --service-cidr 10.96.0.0/16"},
	},
	"cleanup": {
		{"Stop the agent, and leave nothing of it", "sudo systemctl stop pointsman && sudo pointsman cleanup"},
	},
	"version": {
		{"Which release is this?", "pointsman version"},
	},
	"completion": {
		{"In this bash", "source <(pointsman completion bash)"},
		{"In every zsh of yours", "pointsman completion zsh > ~/.zfunc/_pointsman"},
		{"In every fish of yours", "pointsman completion fish > ~/.config/fish/completions/pointsman.fish"},
	},
}

// withExamples puts each command's examples at the end of its help.
func withExamples(a *cli.App) *cli.App {
	a.CustomAppHelpTemplate = cli.AppHelpTemplate + exampleText("")
	eachCommand(a.Commands, "", func(path string, c *cli.Command) {
		c.CustomHelpTemplate = cli.CommandHelpTemplate
		if len(c.Subcommands) > 0 {
			c.CustomHelpTemplate = cli.SubcommandHelpTemplate
		}
		c.CustomHelpTemplate += exampleText(path)
	})
	return a
}

// eachCommand visits the commands that are told of, each with its path.
func eachCommand(commands []*cli.Command, under string, visit func(path string, c *cli.Command)) {
	for _, c := range visible(commands) {
		path := strings.TrimSpace(under + " " + c.Name)
		visit(path, c)
		eachCommand(c.Subcommands, path, visit)
	}
}

// exampleText is a part of a template: no example holds what would be one.
func exampleText(path string) string {
	if len(samples[path]) == 0 {
		return ""
	}
	text := "\nEXAMPLES:\n"
	for _, e := range samples[path] {
		text += "   # " + e.why + "\n   " + e.line + "\n"
	}
	return text
}
