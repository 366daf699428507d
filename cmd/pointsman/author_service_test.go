package main

import (
	"fmt"
	"strings"
)

func (a *author) service() string {
	namespace, name := nameOf(a.named())
	spec := []string{a.clusterIPs(), a.externalIPs(), a.affinity(),
		a.seldom("internalTrafficPolicy: " + a.value(a.pick("Cluster", "Local"), "local", "''")),
		a.seldom("trafficDistribution: " + a.value(a.pick("PreferClose", "PreferSameZone", "PreferSameNode"), "Nearest")),
		a.seldom("selector: {app: " + a.name("web") + "}"), a.seldom("publishNotReadyAddresses: true"),
		a.value("", "clusterIp: 10.96.0.1", "ports: []", "externalName: x", "healthCheckNodePort: 30001", "sessionAffinityConfig: {}", "nonsense: 1")}
	annotations, status := a.probing(), ""
	switch a.pick("ClusterIP", "ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer", "ExternalName") {
	case "ClusterIP":
		spec = append(spec, a.value("", "type: ClusterIP", "type: clusterip", "externalTrafficPolicy: Local"), a.ports(""))
	case "NodePort":
		spec = append(spec, "type: NodePort", a.seldom("externalTrafficPolicy: "+a.value(a.pick("Cluster", "Local"), "local")), a.ports("nodePort"))
	case "LoadBalancer":
		spec = append(spec, "type: LoadBalancer", a.balancer(), a.ports(a.pick("", "nodePort")))
		annotations = a.pick(annotations, "annotations: {pointsman/load-balancer-ips: "+a.balancerIPs()+"}")
		status = a.seldom("status: {loadBalancer: {ingress: [{ip: " + a.addr("198.19", "2001:db8:19", 1) + a.value("", ", ipMode: Proxy", ", ipMode: x", ", hostname: 1.2.3.4") + "}]}}")
	case "ExternalName":
		spec = []string{"type: ExternalName", "externalName: " + a.value("db.example.com", "", "1.2.3", "'*'"), a.seldom(a.clusterIPs()), a.externalIPs()}
	}
	return "{" + flow("apiVersion: v1", "kind: Service", a.meta(namespace, name, annotations, a.seldom("labels: {service.kubernetes.io/service-proxy-name: other}")),
		"spec: {"+flow(spec...)+"}", status) + "}"
}

func (a *author) clusterIPs() string {
	v4, v6 := a.addr4("10.96", 1), a.addr6("fd00:96", 1)
	switch a.pick("IPv4", "IPv4", "IPv4", "IPv6", "IPv6", "dual", "dual", "dual", "absent", "headless") {
	case "IPv4":
		return "clusterIP: " + v4
	case "IPv6":
		return flow("clusterIP: "+v6, a.seldom("ipFamilies: ["+a.value("IPv6", "IPv4", "ipv6", "IPv6, IPv6")+"]"))
	case "dual":
		if a.oneIn(2) {
			v4, v6 = v6, v4
		}
		return fmt.Sprintf("clusterIP: %s, clusterIPs: [%s, %s%s], ipFamilyPolicy: %s", a.value(v4, v6, "None"), v4, v6, a.value("", ", "+v4),
			a.value(a.pick("RequireDualStack", "PreferDualStack"), "SingleStack", "Dual", "''"))
	case "headless":
		return "clusterIP: None"
	}
	return ""
}

func (a *author) externalIPs() string {
	var ips []string
	for i := range a.below(3) {
		ips = append(ips, a.addr("198.18", "2001:db8:18", 1+i))
	}
	if len(ips) == 0 {
		return ""
	}
	return "externalIPs: [" + strings.Join(ips, ", ") + "]"
}

func (a *author) affinity() string {
	return a.seldom(fmt.Sprintf("sessionAffinity: %s, sessionAffinityConfig: {clientIP: {timeoutSeconds: %s}}",
		a.value("ClientIP", "None", "clientip"), a.value(a.pick("1", "10800", "86400"), "0", "-1", "86401", "null", "1.5")))
}

// balancer draws what only a LoadBalancer may have.
func (a *author) balancer() string {
	policy := a.pick("externalTrafficPolicy: Cluster", "", "externalTrafficPolicy: Local", "externalTrafficPolicy: Local, healthCheckNodePort: "+a.nodePort(9))
	return flow(policy, a.pick("", "loadBalancerIP: "+a.addr("198.19", "2001:db8:19", 1)), a.seldom("loadBalancerClass: "+a.value(a.pick("pointsman/x", "example.com/x"), "x", "'a b'")),
		a.sourceRanges(), a.seldom("allocateLoadBalancerNodePorts: false"))
}

func (a *author) balancerIPs() string {
	ips := strings.Trim(a.addr("198.19", "2001:db8:19", 1), "'")
	if a.oneIn(2) {
		ips += a.value(",", " , ", ",,", ";") + strings.Trim(a.addr("198.19", "2001:db8:19", 2), "'")
	}
	return "'" + ips + "'"
}

// sourceRanges draws ranges that overlap, meet and repeat each other, and end
// where the address space does.
func (a *author) sourceRanges() string {
	var ranges []string
	for range a.below(6) {
		own := fmt.Sprintf("172.16.%d.0/24", a.number())
		good := a.pick(own, own, "10.0.0.0/8", "10.1.0.0/16", "10.1.0.0/17", "10.1.128.0/17", "0.0.0.0/0", "0.0.0.0/1", "128.0.0.0/1", "0.0.0.0/32", "192.0.2.0/24",
			"192.0.2.11/32", "255.255.255.255/32", "255.255.255.0/24", "255.255.255.254/31", "224.0.0.0/4", "127.0.0.0/8", "::/0", "::/1", "8000::/1", "2001:db8::/32",
			"2001:db8::/33", "2001:DB8::/32", "::/128", "::1/128", "fe80::/10", "ff00::/8", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128", " 10.2.0.0/16 ")
		ranges = append(ranges, "'"+a.value(good, "10.1.2.3/8", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0", "10.0.0.0/08", "010.0.0.0/8", "::ffff:10.0.0.0/104", "::ffff:0:0/96",
			"fe80::%eth0/64", "2001:db8::1/32", "", "any", "10.0.0.0-10.0.0.9", "10.0.0.0/8,11.0.0.0/8", "0.0.0.0/0 }")+"'")
	}
	if len(ranges) == 0 {
		return ""
	}
	return "loadBalancerSourceRanges: [" + strings.Join(ranges, ", ") + "]"
}

func (a *author) nodePort(i int) string {
	return a.value(fmt.Sprint(30000+10*a.number()+i), "0", "-1", "80", "29999", "30000", "32767", "32768", "70000", "030080", "'30080'")
}

// ports draws one port without a name or some with names.
func (a *author) ports(nodePort string) string {
	names := portNames[:1]
	if a.oneIn(2) {
		names = portNames[1 : 2+a.below(len(portNames)-1)]
	}
	var ports []string
	for i, p := range names {
		node := ""
		if nodePort != "" {
			node = "nodePort: " + a.nodePort(i)
		}
		ports = append(ports, "{"+flow("name: "+a.name(p.name), "protocol: "+a.value(p.protocol, "tcp", "ICMP", "''", "SCTP"),
			"port: "+a.port(a.pick("1", "80", "443", "65535")), a.seldom("targetPort: "+a.value("8080", "-1", "70000", "'8080'", "http--x", "''")), node)+"}")
	}
	return "ports: [" + a.value(strings.Join(ports, ", "), "", ports[0]+", "+ports[0], "null") + "]"
}
