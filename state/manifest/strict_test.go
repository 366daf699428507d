package manifest

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"clusterIP", "clusterIPs", "httpGet", "ports", "tcpSocket", "ip"}
	for key, want := range map[string]string{
		"clusterIp": "clusterIP", "CLUSTERIPS": "clusterIPs", "httpget": "httpGet",
		"htpGet": "httpGet", "httpGett": "httpGet", "httpGte": "httpGet", "httpPet": "httpGet", "port": "ports", "Ports ": "ports",
		"tcpSockte": "tcpSocket", "clusterI": "clusterIP",
		"": "", "i": "", "ipp": "", "pp": "", "selector": "", "hhtpGte": "", "socket": "",
	} {
		if got := nearest(key, names); got != want {
			t.Errorf("%q is taken for %q, not %q", key, got, want)
		}
	}
}
