package doctor

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"pointsman/reconcile/host"
)

func (p *Patient) kernel() []Finding {
	what := fmt.Sprintf("Linux %s, %s", p.Kernel, p.Nft)
	if p.Preflight != nil {
		return one(Finding{Level: Problem, What: what + ": " + p.Preflight.Error(),
			Means: "The agent does not start here. It needs root or CAP_NET_ADMIN (so does this command), Linux 5.13 and nft 1.0.1 or newer.",
			Fix:   []string{"# run as root; install nftables; for missing modules, the distribution's package of extra kernel modules"}})
	}
	if olderThan(p.Kernel, 5, 13) {
		return one(Finding{Level: Warning, What: what + ": Linux before 5.13 is not tested",
			Means: "It takes the rules, but nobody has looked at what it makes of them."})
	}
	return ok("%s take the rules", what)
}

// olderThan compares a kernel's release with a version; one that can't be read
// is as new as any.
func olderThan(release string, major, minor int) bool {
	var a, b int
	if _, err := fmt.Sscanf(release, "%d.%d", &a, &b); err != nil {
		return false
	}
	return a < major || a == major && b < minor
}

// manyAddresses is from where on more NodePort addresses are rather a mistake.
const manyAddresses = 8

func (p *Patient) node() []Finding {
	addrs, why := p.nodePortAddresses()
	switch {
	case len(addrs) == 0:
		return one(Finding{Level: Problem, What: fmt.Sprintf("this is node %s, and NodePorts have no address to answer on", p.NodeName),
			Means: "NodePorts and health check ports answer nowhere. The host has no global address, or none within --nodeport-addresses.",
			Fix:   []string{"ip address add ADDRESS/LENGTH dev INTERFACE"}})
	case p.NodeName == "localhost" || strings.HasPrefix(p.NodeName, "localhost."):
		return one(Finding{Level: Warning, What: "this node's name is " + p.NodeName,
			Means: "Endpoints name their node by nodeName; hosts that are all localhost take each other's endpoints for their own.",
			Fix:   []string{"hostnamectl set-hostname NAME", "# or, in /etc/pointsman/config.yaml:", "node-name: NAME"}})
	case p.Manifests && len(p.NodeNames) > 0 && !slices.Contains(p.NodeNames, p.NodeName):
		return one(Finding{Level: Warning, What: fmt.Sprintf("no Node manifest is named %s (there are %s)", p.NodeName, some(p.NodeNames)),
			Means: "The endpoints of this host are not local to it, if nodeName calls it by another name; and its InternalIPs and zone are not known.",
			Fix:   []string{"# in /etc/pointsman/config.yaml:", "node-name: NAME"}})
	case len(p.InternalIPs) > 0 && !slices.ContainsFunc(p.InternalIPs, p.Addrs.Has):
		return one(Finding{Level: Warning, What: fmt.Sprintf("the Node manifest of %s has no address of this host, but %s", p.NodeName, some(p.InternalIPs)),
			Means: "NodePorts answer elsewhere than it says, and the other hosts don't find this one by it, or take it for another.",
			Fix:   []string{"# is it the right node? Else correct the manifest's InternalIP, or, in /etc/pointsman/config.yaml:", "node-name: NAME"}})
	case len(addrs) > manyAddresses:
		return one(Finding{Level: Warning, What: fmt.Sprintf("NodePorts answer on %d addresses: %s", len(addrs), some(addrs)),
			Means: "Every NodePort has rules for each of them, and each of its health check ports a listener.",
			Fix:   []string{"# in /etc/pointsman/config.yaml:", "nodeport-addresses: [CIDR]"}})
	}
	return ok("this is node %s; NodePorts answer on %s (%s)", p.NodeName, some(addrs), why)
}

func (p *Patient) agent() []Finding {
	a := p.Agent
	switch {
	case a.PID == 0 && p.missing([]string{"nf_tables"}) != "": // without root nobody's open files are seen, either
		return one(Finding{Level: Note, What: "how the agent is wasn't found out: that takes root"})
	case a.Elsewhere:
		return one(Finding{Level: Warning, What: "the agent runs, with another --state-dir than this command was given",
			Means: "How it is wasn't looked at, and what is said of the rest may be for other flags than it has.",
			Fix:   []string{"# give this command the agent's flags, or its file:", "pointsman doctor --config FILE"}})
	case a.PID == 0 && slices.ContainsFunc(p.Chains, isOurs):
		return one(Finding{Level: Warning, What: "the agent does not run, but its rules are in place",
			Means: "Services work as they did when it stopped. Nobody follows changes of manifests, of this host's addresses or of the rules.",
			Fix:   []string{"systemctl start pointsman", "# or, to have the rules removed:", "pointsman cleanup"}})
	case a.PID == 0:
		return one(Finding{Level: Note, What: "the agent does not run, and there are no rules of its"})
	case a.Healthz == "":
		return ok("the agent runs (pid %d); its /healthz is turned off", a.PID)
	case a.Error != "":
		return one(Finding{Level: Warning, What: fmt.Sprintf("the agent runs (pid %d), but %s does not answer: %s", a.PID, a.Healthz, a.Error),
			Means: "It is starting, or it listens elsewhere than --healthz-listen says here.",
			Fix:   []string{"journalctl -u pointsman"}})
	case a.Code != http.StatusOK:
		return one(Finding{Level: Problem, What: fmt.Sprintf("the agent (pid %d) can't program the kernel: %s", a.PID, strings.Join(a.Degraded, "; ")),
			Means: "The rules are as they were when it last could. It tries again by itself.",
			Fix:   []string{"journalctl -u pointsman"}})
	case len(a.Degraded) > 0:
		return one(Finding{Level: Warning, What: fmt.Sprintf("the agent (pid %d) is not content: %s", a.PID, strings.Join(a.Degraded, "; ")),
			Means: "The kernel is as it should be, apart from this."})
	}
	return ok("the agent runs (pid %d) and is healthy", a.PID)
}

func isOurs(c host.Chain) bool { return c.Is("ip", "pointsman") || c.Is("ip6", "pointsman") }

func (p *Patient) inotify() []Finding {
	if p.Inotify != "" {
		return one(Finding{Level: Warning, What: "the manifests can't be watched: " + p.Inotify,
			Means: "The limits of inotify are used up. The agent looks at the directory every two seconds instead.",
			Fix:   []string{"sysctl -w fs.inotify.max_user_instances=1024", "sysctl -w fs.inotify.max_user_watches=524288"}})
	}
	return ok("directories can be watched")
}

// unread tells what this judgement lacks.
func (p *Patient) unread() []Finding {
	var out []Finding
	for _, what := range p.Unread {
		out = append(out, Finding{Level: Warning, What: "could not be read: " + what,
			Means: "What depends on it was not looked at. Run as root?"})
	}
	return out
}
