package state

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"
)

// Clashing claims are settled in this order, so it must be the same everywhere.
func TestObjectNameOrder(t *testing.T) {
	want := []ObjectName{{"a", "z"}, {"a-b", "a"}, {"b", "a"}, {"b", "b"}}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, ObjectName.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if text := want[1].String(); text != "a-b/a" {
		t.Errorf("got %s", text)
	}
}

func TestFrontendOrder(t *testing.T) {
	at := netip.MustParseAddr
	want := []Frontend{
		{ClusterIP, at("10.96.0.10"), 443},
		{ExternalIP, at("10.96.0.9"), 80},
		{ExternalIP, at("10.96.0.9"), 443},
		{ExternalIP, at("10.96.0.10"), 80},
		{ExternalIP, at("2001:db8::1"), 80},
		{NodePort, netip.IPv4Unspecified(), 30080},
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, Frontend.Compare)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !slices.IsSortedFunc([]FrontendKind{ClusterIP, ExternalIP, LoadBalancerIP, NodePort}, cmp.Compare) || ClusterIP.External() || !NodePort.External() {
		t.Error("kinds")
	}
}

func TestSource(t *testing.T) {
	if got := (Source{"shop/web.yaml", 12}).String(); got != "shop/web.yaml:12" {
		t.Errorf("got %s", got)
	}
}
