package main

import (
	"strconv"

	"github.com/urfave/cli/v2"
)

func getServicesCommand() *cli.Command {
	return lister(&cli.Command{
		Name:      "services",
		Aliases:   []string{"service", "svc"},
		Usage:     "the Services of the manifests, and how each fares on this host",
		ArgsUsage: "[SERVICE]",
		Description: "Also those that are refused, held, or not for this host: STATUS says so. ENDPOINTS are those that\n" +
			"are ready, of all; of each port, if they differ. With -o wide there are the policies for traffic\n" +
			"from inside and outside, affinity, source ranges, the health check port, and where it's declared.\n" +
			"JSON and YAML are v1 Services as they are served here; they can be read as manifests. One that\n" +
			"is named is in no List. What a change that is held would do to a Service is in STATUS, too.",
	}, resource[servicesAnswer, serviceAnswer]{
		name: "services", path: "/v1/services", objects: true, named: true,
		rows: func(a *servicesAnswer) []serviceAnswer { return a.Services },
		key:  func(s *serviceAnswer) string { return s.Namespace + "/" + s.Name },
		columns: []column[serviceAnswer]{
			{head: "NAMESPACE", text: func(s *serviceAnswer) string { return s.Namespace }},
			{head: "NAME", text: func(s *serviceAnswer) string { return s.Name }},
			{head: "TYPE", text: func(s *serviceAnswer) string { return orDash(s.Type) }},
			{head: "CLUSTER-IP", text: func(s *serviceAnswer) string { return listText(s.ClusterIPs) }},
			{head: "EXTERNAL-IP", text: func(s *serviceAnswer) string { return listText(s.External) }},
			{head: "PORT(S)", text: func(s *serviceAnswer) string { return listText(s.Ports) }},
			{head: "ENDPOINTS", text: func(s *serviceAnswer) string { return orDash(s.Endpoints) }},
			{head: "POLICIES", wide: true, text: func(s *serviceAnswer) string { return orDash(s.Policies) }},
			{head: "AFFINITY", wide: true, text: func(s *serviceAnswer) string { return orDash(s.Affinity) }},
			{head: "SOURCE-RANGES", wide: true, text: func(s *serviceAnswer) string { return listText(s.SourceRanges) }},
			{head: "HEALTH-PORT", wide: true, text: healthPortText},
			{head: "FILE", wide: true, text: func(s *serviceAnswer) string { return orDash(s.Source) }},
			{head: "STATUS", text: func(s *serviceAnswer) string { return s.Status }},
		},
	}.action, namespaceFlags()...)
}

func healthPortText(s *serviceAnswer) string {
	if s.HealthPort == 0 {
		return "-"
	}
	return strconv.Itoa(int(s.HealthPort))
}
