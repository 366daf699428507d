package conformance

// scenario is Services, and rows of what becomes of connections to them.
type scenario struct {
	name     string
	settings settings
	services []service
	rows     []row
}

// row is a client, where it connects to, and the outcome: each server that
// may answer, and whom it sees; or that the connection is refused at once,
// dropped in silence, lost (sent to nobody on a network), or goes on to the
// router's uplink. It's the same in both families unless " | " parts them.
//
// c is a client outside, whose packets for ClusterIPs and most other addresses
// of Services go to n1, and for 203.0.113.2 and .20 to n2. b1 is a server
// behind n1, b2 behind n2, b3 behind n3; n1, n2 and n3 serve as well.
type row struct{ from, to, want string }

// clusterIPs is the range of the ClusterIPs.
const clusterIPs = "10.96.0.0/16"

var scenarios = []scenario{
	{
		name:     "a ClusterIP leads to all endpoints, and hides the client when it leaves the node",
		services: []service{{cluster: "10.96.0.20", endpoints: "b1 b2 n1"}},
		rows: []row{
			{"c", "10.96.0.20:80", "b1<-n1 b2<-n1 n1<-c"}, // a process of the node itself sees the client
			{"n1", "10.96.0.20:80", "b1<-n1 b2<-n1 n1<-n1"},
			{"n2", "10.96.0.20:80", "b1<-n2 b2<-n2 n1<-n2"},
			{"b1", "10.96.0.20:80", "b1<-n1 b2<-n1 n1<-b1"},
			{"c", "10.96.0.20:81", "refused"}, // another port of an address in use
			{"n1", "10.96.0.20:81", "refused"},
			{"c", "10.96.0.99:80", "uplink"}, // without a range, what is nobody's is left alone
		},
	}, {
		name:     "--local-cidr: sources inside it keep their address, the others don't (C98)",
		settings: settings{localCIDRs: true},
		services: []service{{cluster: "10.96.0.20", endpoints: "b2 n2"}},
		rows: []row{
			{"c", "10.96.0.20:80", "b2<-n1 n2<-n1"},
			{"n1", "10.96.0.20:80", "b2<-n1 n2<-n1"},
			{"b1", "10.96.0.20:80", "b2<-b1 n2<-b1"},
		},
	}, {
		name:     "a backend calls its own Service (C52)",
		settings: settings{localCIDRs: true},
		services: []service{
			{name: "named", cluster: "10.96.0.20", endpoints: "b1"},
			{name: "nameless", cluster: "10.96.0.21", endpoints: "b1@-"},
			{name: "local", cluster: "10.96.0.22", external: "203.0.113.1", nodePort: 30080, outside: local, endpoints: "b1"},
		},
		rows: []row{
			{"b1", "10.96.0.20:80", "b1<-n1"},
			{"b1", "10.96.0.21:80", "b1<-n1"},
			{"b1", "203.0.113.1:80", "b1<-n1"},
			{"b1", "192.0.2.11:30080", "b1<-n1"},
			{"b2", "10.96.0.20:80", "b1<-b2"},
		},
	}, {
		name: "without --local-cidr an endpoint that is on this node by name alone",
		services: []service{
			{cluster: "10.96.0.20", external: "203.0.113.1", outside: local, endpoints: "b1"},
			{name: "nameless", cluster: "10.96.0.21", external: "203.0.113.3", outside: local, endpoints: "b1@- b2"},
		},
		rows: []row{
			{"b1", "203.0.113.1:80", "b1<-n1"},
			{"b1", "203.0.113.3:80", "dropped"}, // no node is its home
			{"b1", "10.96.0.21:80", "b1<-n1 b2<-n1"},
		},
	}, {
		name: "externalTrafficPolicy Cluster: from outside to every endpoint, always from the node's address",
		services: []service{{cluster: "10.96.0.20", external: "203.0.113.1 192.0.2.12", balancer: "203.0.113.2 192.0.2.200 10.20.2.99",
			nodePort: 30080, endpoints: "b1 b2 n1"}},
		settings: settings{localCIDRs: true},
		rows: []row{
			{"c", "203.0.113.1:80", "b1<-n1 b2<-n1 n1<-c"},
			{"c", "203.0.113.2:80", "b1<-n2 b2<-n2 n1<-n2"},
			{"c", "192.0.2.200:80", "b1<-n1 b2<-n1 n1<-c"},
			{"c", "192.0.2.11:30080", "b1<-n1 b2<-n1 n1<-c"},
			{"c", "192.0.2.12:30080", "b1<-n2 b2<-n2 n1<-n2"},
			{"n1", "203.0.113.2:80", "b1<-n1 b2<-n1 n1<-n1"},
			{"n1", "192.0.2.11:30080", "b1<-n1 b2<-n1 n1<-n1"},
			{"n1", "192.0.2.12:30080", "b1<-n2 b2<-n2 n1<-n2"},
			{"b1", "203.0.113.1:80", "b1<-n1 b2<-n1 n1<-b1"}, // also sources in --local-cidr
			// An externalIP that is another node's address is taken on the way there, and on that node.
			{"b1", "192.0.2.12:80", "b1<-n1 b2<-n1 n1<-b1"},
			{"c", "192.0.2.12:80", "b1<-n2 b2<-n2 n1<-n2"},
			// What else goes to that node is nobody's business, and neither is loopback (C34).
			{"c", "192.0.2.12:8080", "n2<-c"},
			{"b1", "192.0.2.12:8080", "n2<-b1"},
			{"n1", "192.0.2.12:8080", "n2<-n1"},
			{"n1", "192.0.2.12:81", "refused"},
			{"n1", "127.0.0.1:30080", "refused"},
			{"c", "10.20.0.1:30080", "refused"}, // NodePorts answer on the node's own address
			// Other ports of a VIP: refused where the packet would go back to a router (C82), and else routed on,
			// also to where a host of that address would be.
			{"c", "10.20.2.99:81", "refused"},
			{"b1", "10.20.2.99:81", "lost"},
			{"c", "192.0.2.200:81", "lost"},
			{"b1", "192.0.2.200:81", "lost"},
			{"n1", "192.0.2.200:81", "lost"},
			{"c", "203.0.113.1:81", "uplink"},
			{"n1", "203.0.113.1:81", "uplink"},
		},
	}, {
		name:     "a VIP that is bound here, elsewhere, or on two nodes",
		services: []service{{cluster: "10.96.0.20", external: "203.0.113.10 203.0.113.20 203.0.113.12", nodePort: 30080, endpoints: "b1 b2 n2"}},
		rows: []row{
			{"c", "203.0.113.10:30080", "refused"}, // a NodePort is not one on a VIP
			{"n1", "203.0.113.10:30080", "refused"},
			{"c", "203.0.113.10:80", "b1<-n1 b2<-n1 n2<-n1"},
			{"n1", "203.0.113.10:80", "b1<-n1 b2<-n1 n2<-n1"},
			{"n2", "203.0.113.10:80", "b1<-n2 b2<-n2 n2<-n2"},
			{"b2", "203.0.113.10:80", "b1<-n2 b2<-n2 n2<-b2"},
			{"c", "203.0.113.20:80", "b1<-n2 b2<-n2 n2<-c"},
			{"n1", "203.0.113.20:80", "b1<-n1 b2<-n1 n2<-n1"},
			{"n1", "203.0.113.12:80", "b1<-n1 b2<-n1 n2<-n1"},
			{"n2", "203.0.113.12:80", "b1<-n2 b2<-n2 n2<-n2"},
			{"c", "203.0.113.12:80", "b1<-n1 b2<-n1 n2<-n1"},
			{"c", "203.0.113.10:81", "refused"}, // by the host whose address it is
			{"n1", "203.0.113.10:81", "refused"},
			{"b2", "203.0.113.10:81", "refused"},
		},
	}, {
		name: "externalTrafficPolicy Local: from outside to this node's endpoints, which see the client (C19)",
		services: []service{{cluster: "10.96.0.20", external: "203.0.113.1 203.0.113.20 203.0.113.12", balancer: "203.0.113.2",
			nodePort: 30080, outside: local, endpoints: "b2 n2"}},
		settings: settings{localCIDRs: true},
		rows: []row{
			{"c", "203.0.113.1:80", "dropped"}, // n1 has none
			{"c", "203.0.113.2:80", "b2<-c n2<-c"},
			{"c", "203.0.113.20:80", "b2<-c n2<-c"},
			{"c", "203.0.113.12:80", "dropped"},
			{"c", "192.0.2.11:30080", "dropped"},
			{"c", "192.0.2.12:30080", "b2<-c n2<-c"},
			{"n1", "192.0.2.11:30080", "b2<-n1 n2<-n1"}, // this host: all endpoints
			{"n1", "203.0.113.1:80", "b2<-n1 n2<-n1"},
			{"n1", "203.0.113.12:80", "b2<-n1 n2<-n1"}, // its source is the VIP, which is n2's as well
			{"n1", "192.0.2.12:30080", "b2<-n1 n2<-n1"},
			{"n3", "192.0.2.11:30080", "dropped"}, // another host is outside
			{"b1", "203.0.113.1:80", "b2<-b1 n2<-b1"},
			{"b2", "203.0.113.1:80", "b2<-n2 n2<-b2"},
			{"c", "10.96.0.20:80", "b2<-n1 n2<-n1"}, // a ClusterIP is not external
		},
	}, {
		name: "externalTrafficPolicy Local without --local-cidr: only this host's own connections go anywhere",
		services: []service{{cluster: "10.96.0.20", external: "203.0.113.1 203.0.113.2", balancer: "203.0.113.12", nodePort: 30080,
			outside: local, endpoints: "b2 b3"}},
		rows: []row{
			{"b1", "203.0.113.1:80", "dropped"},
			{"n1", "203.0.113.1:80", "b2<-n1 b3<-n1"},
			{"n1", "203.0.113.12:80", "b2<-n1 b3<-n1"},
			{"c", "203.0.113.2:80", "b2<-c"},
		},
	}, {
		name: "internalTrafficPolicy Local counts for the ClusterIP alone (C86)",
		services: []service{
			{cluster: "10.96.0.20", external: "203.0.113.1", nodePort: 30080, inside: local, endpoints: "b2"},
			{name: "here", cluster: "10.96.0.21", inside: local, endpoints: "b1 b2"},
			{name: "nowhere", cluster: "10.96.0.22", inside: local},
		},
		rows: []row{
			{"c", "10.96.0.20:80", "dropped"},
			{"n1", "10.96.0.20:80", "dropped"},
			{"n2", "10.96.0.20:80", "b2<-n2"},
			{"c", "192.0.2.11:30080", "b2<-n1"},
			{"c", "203.0.113.1:80", "b2<-n1"},
			{"c", "10.96.0.21:80", "b1<-n1"},
			{"b2", "10.96.0.21:80", "b2<-n2"},
			{"c", "10.96.0.22:80", "refused"},
		},
	}, {
		name: "without any usable endpoint: refused, whatever the frontend and the policy",
		services: []service{
			{cluster: "10.96.0.20", external: "203.0.113.1 203.0.113.10 192.0.2.12", balancer: "192.0.2.200", nodePort: 30080, endpoints: "b1/unready b2/gone"},
			{name: "local", cluster: "10.96.0.21", external: "203.0.113.2", nodePort: 30081, inside: local, outside: local},
		},
		rows: []row{
			{"c", "10.96.0.20:80", "refused"},
			{"n1", "10.96.0.20:80", "refused"},
			{"c", "203.0.113.1:80", "refused"},
			{"n1", "203.0.113.1:80", "refused"},
			{"c", "203.0.113.10:80", "refused"},
			{"c", "192.0.2.11:30080", "refused"},
			{"n1", "192.0.2.12:80", "refused"},
			{"c", "192.0.2.200:80", "refused"},
			{"c", "203.0.113.2:80", "refused"},
			{"c", "192.0.2.11:30081", "refused"},
			{"c", "10.96.0.21:80", "refused"},
		},
	}, {
		name: "conditions: ready ones; else those that serve while they terminate, for each policy by itself (C20)",
		services: []service{
			{cluster: "10.96.0.20", external: "203.0.113.1", outside: local, endpoints: "b1/draining b2 b3/unready"},
			{name: "draining", cluster: "10.96.0.21", endpoints: "b1/draining b2/draining b3/gone"},
		},
		rows: []row{
			{"c", "203.0.113.1:80", "b1<-c"},
			{"c", "10.96.0.20:80", "b2<-n1"},
			{"n1", "203.0.113.1:80", "b2<-n1"},
			{"c", "10.96.0.21:80", "b1<-n1 b2<-n1"},
		},
	}, {
		name: "hints: where every ready endpoint has them and one matches; nodes first, then zones",
		services: []service{
			{name: "node", cluster: "10.96.0.20", endpoints: "b1/node=n1/zone=a b2/node=n2/zone=b b3/node=n3/zone=b"},
			{name: "zone", cluster: "10.96.0.21", endpoints: "b1/zone=a b2/zone=b b3/zone=b"},
			{name: "partly", cluster: "10.96.0.22", endpoints: "b1/zone=a b2/zone=b b3"},
			{name: "unmatched", cluster: "10.96.0.23", endpoints: "b1/node=n9/zone=x b2/node=n9/zone=y"},
			{name: "drained", cluster: "10.96.0.24", endpoints: "b1/draining/zone=a b2/draining/zone=b"},
			{name: "policy", cluster: "10.96.0.25", inside: local, endpoints: "b1/zone=b b2/zone=a"},
		},
		rows: []row{
			{"c", "10.96.0.20:80", "b1<-n1"},
			{"n2", "10.96.0.20:80", "b2<-n2"},
			{"c", "10.96.0.21:80", "b1<-n1"},
			{"n2", "10.96.0.21:80", "b2<-n2 b3<-n2"},
			{"c", "10.96.0.22:80", "b1<-n1 b2<-n1 b3<-n1"},
			{"c", "10.96.0.23:80", "b1<-n1 b2<-n1"},
			{"c", "10.96.0.24:80", "b1<-n1 b2<-n1"},
			{"c", "10.96.0.25:80", "b1<-n1"},
		},
	}, {
		name: "loadBalancerSourceRanges guard load-balancer IPs, and nothing else (C25, C28)",
		services: []service{{cluster: "10.96.0.20", external: "203.0.113.1", balancer: "203.0.113.2 203.0.113.3", nodePort: 30080,
			ranges: "10.20.0.0/24 198.51.100.0/24", endpoints: "b2 n1 n2"}},
		rows: []row{
			{"c", "203.0.113.2:80", "dropped"},
			{"c", "203.0.113.3:80", "dropped"}, // for backends of the node itself as well
			{"b1", "203.0.113.3:80", "b2<-n1 n1<-b1 n2<-n1"},
			{"n1", "203.0.113.3:80", "dropped"},
			{"c", "203.0.113.1:80", "b2<-n1 n1<-c n2<-n1"},
			{"c", "192.0.2.11:30080", "b2<-n1 n1<-c n2<-n1"},
			{"c", "10.96.0.20:80", "b2<-n1 n1<-c n2<-n1"},
		},
	}, {
		name: "source ranges: a node's own access to a VIP that is bound on it, families, overlaps (C29, C26)",
		services: []service{
			{name: "holds-node", cluster: "10.96.0.20", balancer: "203.0.113.10", ranges: "192.0.2.0/24", endpoints: "b2"},
			{name: "holds-none", cluster: "10.96.0.21", balancer: "203.0.113.20", ranges: "10.20.2.0/24 10.20.2.0/24", endpoints: "b1"},
			// Ranges count for their own family: the other is open.
			{name: "four", cluster: "10.96.0.23", balancer: "203.0.113.2", onlyRanges: "10.0.0.0/8 10.20.0.0/16", endpoints: "b1"},
			{name: "open", cluster: "10.96.0.24", balancer: "203.0.113.3", ranges: "10.20.2.0/24", onlyRanges: "0.0.0.0/0 2001:db8::/32", endpoints: "b1"},
			{name: "twice", cluster: "10.96.0.22", external: "203.0.113.1", balancer: "203.0.113.1", ranges: "198.51.100.1/32", endpoints: "b1"},
		},
		rows: []row{
			{"n1", "203.0.113.10:80", "b2<-n1"},
			{"n2", "203.0.113.10:80", "b2<-n2"},
			{"c", "203.0.113.10:80", "b2<-n1"},
			{"b1", "203.0.113.10:80", "dropped"},
			{"n2", "203.0.113.20:80", "dropped"},
			{"n1", "203.0.113.20:80", "dropped"},
			{"c", "203.0.113.1:80", "dropped"}, // an externalIP that is a load-balancer IP too
			{"c", "203.0.113.2:80", "dropped | b1<-n2"},
			{"b1", "203.0.113.2:80", "b1<-n1"},
			{"c", "203.0.113.3:80", "b1<-n1"},
		},
	}, {
		name:     "--service-cidr: addresses that nobody has are dropped (C83)",
		settings: settings{serviceCIDRs: clusterIPs},
		services: []service{{cluster: "10.96.0.20", endpoints: "b1"}},
		rows: []row{
			{"c", "10.96.0.7:80", "dropped"},
			{"n1", "10.96.0.7:80", "dropped"},
			{"b1", "10.96.0.7:80", "dropped"},
			{"c", "10.96.0.20:81", "refused"},
			{"c", "10.96.0.20:80", "b1<-n1"},
		},
	}, {
		name: "an endpoint that is another Service's address is reached where that address leads",
		services: []service{
			{name: "front", cluster: "10.96.0.20", external: "203.0.113.1", endpoints: "203.0.113.20:80"},
			{name: "via-node-port", cluster: "10.96.0.21", external: "203.0.113.3", endpoints: "n2:30080@-"},
			{name: "cluster-ip", cluster: "10.96.0.22", external: "203.0.113.2", endpoints: "10.96.0.23:80"},
			{name: "web", cluster: "10.96.0.23", external: "203.0.113.20", nodePort: 30080, endpoints: "b3"},
			// A node without an endpoint of a policy-Local Service lets pass what it translated to it.
			{name: "to-local", cluster: "10.96.0.25", endpoints: "203.0.113.2:444"},
			{name: "local", cluster: "10.96.0.26", external: "203.0.113.2", port: 444, outside: local, endpoints: "b2"},
		},
		rows: []row{
			{"c", "10.96.0.25:80", "b2<-n1"},
			{"c", "203.0.113.2:444", "b2<-c"},
			{"c", "203.0.113.1:80", "b3<-n2"}, // out by the interface it came in by, and no loop
			{"n1", "203.0.113.1:80", "b3<-n2"},
			{"b1", "10.96.0.20:80", "b3<-n2"},
			{"c", "203.0.113.3:80", "b3<-n2"},
			{"c", "203.0.113.2:80", "refused"}, // one node translates once, and a ClusterIP leads nowhere
			{"n2", "203.0.113.2:80", "refused"},
		},
	}, {
		name: "an externalIP that is a node's address, where Services have endpoints",
		services: []service{
			{cluster: "10.96.0.20", endpoints: "n2"},
			{name: "zz", cluster: "10.96.0.24", external: "192.0.2.12", port: 443, endpoints: "n2"},
		},
		rows: []row{
			{"c", "10.96.0.20:80", "n2<-n1"},
			{"c", "10.96.0.24:443", "n2<-n1"},
			{"b1", "192.0.2.12:443", "n2<-n1"},
		},
	}, {
		name: "one address with two ports is two endpoints (C14)",
		services: []service{
			{cluster: "10.96.0.20", external: "203.0.113.1", outside: local, endpoints: "b1 b1:8081"},
			{name: "sticky", cluster: "10.96.0.21", sticky: true, endpoints: "b1 b1:8081"},
		},
		rows: []row{
			{"c", "10.96.0.20:80", "b1:8081<-n1 b1<-n1"},
			{"c", "203.0.113.1:80", "b1:8081<-c b1<-c"},
			{"c", "10.96.0.21:80", "b1:8081<-n1 b1<-n1 sticky"},
		},
	}, {
		name: "sessionAffinity ClientIP: a client stays with one endpoint of each frontend (C88, C89)",
		services: []service{
			{cluster: "10.96.0.20", external: "203.0.113.1", nodePort: 30080, sticky: true, endpoints: "b1 b2 b3"},
			{name: "processes", cluster: "10.96.0.21", sticky: true, endpoints: "n1 n1:8081"},
			{name: "local", cluster: "10.96.0.22", external: "203.0.113.3 203.0.113.12", nodePort: 30081, outside: local, sticky: true,
				endpoints: "b1 b1:8081"},
		},
		rows: []row{
			{"c", "10.96.0.20:80", "b1<-n1 b2<-n1 b3<-n1 sticky"},
			{"n1", "10.96.0.20:80", "b1<-n1 b2<-n1 b3<-n1 sticky"},
			{"c", "203.0.113.1:80", "b1<-n1 b2<-n1 b3<-n1 sticky"},
			{"c", "192.0.2.11:30080", "b1<-n1 b2<-n1 b3<-n1 sticky"},
			{"c", "10.96.0.21:80", "n1:8081<-c n1<-c sticky"},
			{"b1", "10.96.0.21:80", "n1:8081<-b1 n1<-b1 sticky"},
			{"c", "203.0.113.3:80", "b1:8081<-c b1<-c sticky"},
			{"n1", "203.0.113.3:80", "b1:8081<-n1 b1<-n1 sticky"},
			{"b1", "203.0.113.3:80", "b1:8081<-n1 b1<-n1 sticky"},
			{"c", "192.0.2.11:30081", "b1:8081<-c b1<-c sticky"},
			{"n2", "192.0.2.11:30081", "b1:8081<-n2 b1<-n2 sticky"},
			{"n3", "192.0.2.11:30081", "b1:8081<-n3 b1<-n3 sticky"},
			{"b2", "192.0.2.11:30081", "b1:8081<-b2 b1<-b2 sticky"},
		},
	},
}
