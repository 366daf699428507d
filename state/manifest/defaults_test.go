package manifest

import (
	"fmt"
	"net/netip"
	"testing"
)

// The families of a Service, where they are not told, are those of its
// clusterIPs, and else of the service CIDRs, in their order.
func TestDefaultFamilies(t *testing.T) {
	const v4, v6 = "10.96.0.0/16", "fd00::/112"
	for _, tt := range []struct {
		cidrs []string
		spec  string
		want  string
	}{
		{nil, "{}", "SingleStack [IPv4]"},
		{[]string{v4}, "{}", "SingleStack [IPv4]"},
		{[]string{v6}, "{}", "SingleStack [IPv6]"},
		{[]string{v6, v4}, "{}", "SingleStack [IPv6]"},
		{[]string{v4, "10.97.0.0/16", v6}, "{ipFamilyPolicy: PreferDualStack}", "PreferDualStack [IPv4 IPv6]"},
		{[]string{v6, v4}, "{ipFamilyPolicy: RequireDualStack}", "RequireDualStack [IPv6 IPv4]"},
		{[]string{v6}, "{ipFamilyPolicy: PreferDualStack}", "PreferDualStack [IPv6]"},
		{[]string{v4, v6}, "{ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv6]}", "PreferDualStack [IPv6 IPv4]"},
		{[]string{v4, v6}, "{clusterIP: 'fd00::5'}", "SingleStack [IPv6]"},
		{[]string{v4, v6}, "{ipFamilyPolicy: PreferDualStack, clusterIP: 'fd00::5'}", "PreferDualStack [IPv6 IPv4]"},
		{[]string{v4, v6}, "{ipFamilyPolicy: PreferDualStack, clusterIP: 'fd00::5', clusterIPs: ['fd00::5', 10.96.0.5]}", "PreferDualStack [IPv6 IPv4]"},
		{[]string{v4}, "{clusterIP: None}", "RequireDualStack [IPv4 IPv6]"},
		{[]string{v4}, "{clusterIP: None, ipFamilyPolicy: SingleStack}", "SingleStack [IPv4]"},
		{[]string{v4}, "{clusterIP: None, selector: {a: b}}", "SingleStack [IPv4]"},
	} {
		t.Run(fmt.Sprint(tt.cidrs, tt.spec), func(t *testing.T) {
			var cfg Config
			for _, cidr := range tt.cidrs {
				cfg.ServiceCIDRs = append(cfg.ServiceCIDRs, netip.MustParsePrefix(cidr))
			}
			text := "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec:\n  <<: " + tt.spec + "\n  ports: [{port: 80}]\n"
			o := Decode(&File{Path: "m.yaml", Data: []byte(text)}, cfg)[0]
			if o.Failed() {
				t.Fatal(problemsOf(o))
			}
			if got := fmt.Sprint(*o.Service.Spec.IPFamilyPolicy, " ", o.Service.Spec.IPFamilies); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
