package main

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"pointsman/state"
)

func explainCommand() *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "say what becomes of connections to an address on this host, and why",
		ArgsUsage: "ADDR:PORT[/PROTO] | endpoint ADDR[:PORT]",
		Description: "Of ADDR:PORT it walks the way of a new connection: the Service, its frontend and policy, each\n" +
			"endpoint and why it's used or isn't (who saw it failing, and what they saw), masquerading, the\n" +
			"elements as the kernel has them, and the connections that there are. It reports where the\n" +
			"kernel isn't as it should be. Without --from it tells of clients outside, and what is different\n" +
			"for this host's own processes. Without a protocol it's TCP, unless only another is served.\n\n" +
			"It goes on where the rules end: the routes to endpoints that are used (to 100 at most) and back\n" +
			"to --from, forwarding, neighbours that don't answer, and other people's firewalls, as pointsman\n" +
			"doctor judges them. No packet is sent for it. Packet marks that routes depend on aren't known.\n\n" +
			"Of an endpoint it tells what it backs, its conditions as declared and as they count, who saw\n" +
			"what, its drain, and by which frontends it gets connections.\n\n" +
			"The exit code is 0 if new connections are served (the endpoint gets some), the kernel is as it\n" +
			"should be, and nothing on this host stops them for certain, else 1.",
		Flags: []cli.Flag{configFlag(), socketFlag(), outputFlag(explainFormats...),
			stringFlag("from", "", "what holds for the client `ADDR`")},
		Before:       loadConfig,
		OnUsageError: usageError,
		Action:       explain,
	}
}

var explainFormats = []string{"text", "json", "yaml"}

func explain(c *cli.Context) error {
	format, err := outputOf(c, explainFormats...)
	if err != nil {
		return err
	}
	if c.Args().First() == "endpoint" {
		return explainEndpoint(c, format)
	}
	if c.NArg() != 1 {
		return usage("explain needs one address, such as 10.96.0.80:80 or [fd00:10:96::80]:53/UDP; or: endpoint ADDR[:PORT]")
	}
	query, err := explainQuery(c.Args().First(), c.String("from"))
	if err != nil {
		return err
	}
	var a explainAnswer
	if err := ask(c.Context, c.String("socket"), "/v1/explain?"+query.Encode(), &a); err != nil {
		return err
	}
	if err := writeExplained(c.App.Writer, format, &a, func(p *walk) { p.explanation(&a) }); err != nil {
		return err
	}
	return unless(a.OK)
}

func explainEndpoint(c *cli.Context, format string) error {
	switch {
	case c.NArg() != 2:
		return usage("explain endpoint needs one address, such as 10.20.0.11 or 10.20.0.11:8080")
	case c.String("from") != "":
		return usage("explain endpoint: --from is for frontends")
	}
	e, err := parseEndpoint(c.Args().Get(1))
	if err != nil {
		return usage("explain endpoint: %q is not an address such as 10.20.0.11 or 10.20.0.11:8080", c.Args().Get(1))
	}
	var a explainedEndpoint
	if err := ask(c.Context, c.String("socket"), "/v1/explain?"+url.Values{"endpoint": {e.String()}}.Encode(), &a); err != nil {
		return err
	}
	if err := writeExplained(c.App.Writer, format, &a, func(p *walk) { p.endpoint(&a) }); err != nil {
		return err
	}
	return unless(a.OK)
}

// unless gives the exit code of an answer that was shown.
func unless(ok bool) error {
	if ok {
		return nil
	}
	return cli.Exit("", exitError)
}

// explainQuery judges the command line before anybody is asked.
func explainQuery(target, from string) (url.Values, error) {
	to, protocol, err := parseQuestion(target)
	if err != nil {
		return nil, err
	}
	query := url.Values{"to": {to.String()}}
	if protocol != "" {
		query.Set("protocol", string(protocol))
	}
	if from == "" {
		return query, nil
	}
	client, err := netip.ParseAddr(strings.Trim(from, "[]"))
	switch {
	case err != nil || client.Zone() != "":
		return nil, usage("--from: %q is not an address such as 192.0.2.50", from)
	case client.Unmap().Is6() != to.Addr().Unmap().Is6():
		return nil, usage("--from: %s and %s are not of one family", client, to.Addr())
	}
	query.Set("from", client.String())
	return query, nil
}

var allProtocols = []state.Protocol{state.TCP, state.UDP, state.SCTP}

// parseQuestion reads ADDR:PORT[/PROTO].
func parseQuestion(text string) (to netip.AddrPort, protocol state.Protocol, err error) {
	address, name, named := strings.Cut(text, "/")
	protocol = state.Protocol(strings.ToUpper(name))
	to, err = netip.ParseAddrPort(address)
	switch {
	case err == nil && named && !slices.Contains(allProtocols, protocol):
		return to, "", usage("explain: %q is none of TCP, UDP, SCTP", name)
	case err == nil && to.Port() != 0 && to.Addr().Zone() == "":
		return to, protocol, nil
	}
	hint := "; pointsman get services has those of Services"
	if a, err := netip.ParseAddr(address); err == nil {
		hint = fmt.Sprintf(": which port? Such as %s", netip.AddrPortFrom(a, 80))
	}
	return to, "", usage("explain: %q is not an address and a port%s", text, hint)
}
