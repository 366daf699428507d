package lab

import (
	"net"
	"os"
	"testing"
)

func TestMain(m *testing.M) { Isolated(m) }

func TestIsolated(t *testing.T) {
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 || all[0].Name != "lo" || all[0].Flags&net.FlagUp == 0 {
		t.Errorf("interfaces: %v, want lo alone, and up", all)
	}
	ours, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	parents, err := os.Readlink("/proc/1/ns/net")
	if err == nil && ours == parents {
		t.Error("the tests run in the machine's own network namespace")
	}
}
