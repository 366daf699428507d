package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"pointsman/reconcile/lab"
)

// example is what an example's README claims, with a backend behind each of
// three hosts.
type example struct {
	ports []uint16 // that the backends listen on
	vips  []string // that the client's network brings to n1
	rows  func(w *world) []row
	http  map[string]int // URLs and the status of their answers
	pin   bool           // its manifests are to be pinned first
}

var examples = map[string]example{
	"quickstart": {ports: []uint16{8080}, rows: func(w *world) []row {
		return []row{
			{from: w.Client, to: "10.96.0.80:80", by: "b1 b2 b3"}, {from: w.Client, to: "[2001:db8:96::80]:80", by: "b1 b2 b3"},
			{from: w.Client, to: "192.0.2.13:30080", by: "b1 b2 b3"}, {from: w.Client, to: "[2001:db8::12]:30080", by: "b1 b2 b3"},
		}
	}},
	"checks": {ports: []uint16{8080}, rows: func(w *world) []row {
		return []row{{from: w.Client, to: "10.96.0.80:80", by: "b1 b2"}}
	}},
	"gitops": {ports: []uint16{8080}, rows: func(w *world) []row {
		return []row{
			{from: w.Client, to: "10.96.0.80:80", by: "b1 b2 b3"}, {from: w.Nodes[2], to: "10.96.0.80:80", by: "b1 b2 b3"},
			{from: w.Nodes[0], to: "10.96.0.11:80", by: "b1 b2"}, {from: w.Nodes[1], to: "10.96.0.11:80", by: "b1 b2"},
			{from: w.Nodes[2], to: "10.96.0.11:80", want: lab.Timeout},
		}
	}},
	"health-checks": {ports: []uint16{8080}, rows: func(w *world) []row {
		// Until the first verdicts one connection in four is lost.
		for _, from := range []*lab.Host{w.Client, w.Nodes[2]} {
			eventually(w.t, func() error {
				var tally lab.Tally
				tally.Connect(w.t.Context(), from, addrPort("10.96.0.40:80"), 50)
				return tally.Check()
			})
			await(w.t, row{from: from, to: "10.96.0.40:80", by: "b1 b2 b3"})
		}
		await(w.t, row{from: w.Client, to: "10.96.0.41:5432", want: lab.Refused})
		return []row{{from: w.Client, to: "10.96.0.40:80", by: "b1 b2 b3"}, {from: w.Nodes[2], to: "10.96.0.40:80", by: "b1 b2 b3"}}
	}},
	"legacy-backends": {ports: []uint16{5432, 8080, 9100}, rows: func(w *world) []row {
		return []row{
			{from: w.Client, to: "10.96.0.54:5432", by: "b1"}, {from: w.Nodes[2], to: "10.96.0.54:5432", by: "b1"},
			{from: w.Client, to: "10.96.0.90:80", by: "b2 b3"}, {from: w.Client, to: "10.96.0.90:9100", by: "b2 b3"},
			{from: w.Client, to: "10.96.0.90:8080", want: lab.Refused},
		}
	}},
	"dual-stack": {ports: []uint16{8080}, rows: func(w *world) []row {
		return []row{
			{from: w.Client, to: "10.96.0.80:80", by: "b1 b2"}, {from: w.Client, to: "[2001:db8:96::80]:80", by: "b2 b3"},
			{from: w.Client, to: "192.0.2.11:30080", by: "b1 b2"}, {from: w.Client, to: "[2001:db8::11]:30080", by: "b2 b3"},
			{from: w.Client, to: "[2001:db8:96::81]:80", by: "b1"},
		}
	}},
	"maintenance": {ports: []uint16{8080}, rows: func(w *world) []row {
		file := filepath.Join(w.dir, "state-n1", maintenanceDir, "10.20.1.21:8080")
		replace(w.t, file, "new disk\n")
		await(w.t, row{from: w.Client, to: "10.96.0.80:80", by: "b1 b3"})
		if err := os.Remove(file); err != nil {
			w.t.Fatal(err)
		}
		await(w.t, row{from: w.Client, to: "10.96.0.80:80", by: "b1 b2 b3"})
		return nil
	}},
	"monitoring": {ports: []uint16{3000, 9090}, rows: func(w *world) []row {
		return []row{
			{from: w.Client, to: "10.96.0.60:9090", by: "b1 b2"}, {from: w.Nodes[2], to: "10.96.0.60:9090", by: "b1 b2"},
			{from: w.Client, to: "10.96.0.61:80", by: "b1"},
		}
	}},
	"pinning": {pin: true, ports: []uint16{8080}, rows: func(w *world) []row {
		return []row{
			{from: w.Client, to: "10.96.195.56:80", by: "b1 b2"}, {from: w.Client, to: "192.0.2.13:31873", by: "b1 b2"},
			{from: w.Client, to: "10.96.155.154:80", by: "b3"},
		}
	}},
	"static-route": {ports: []uint16{8080}, vips: []string{"198.18.0.10", "2001:db8:18::10"}, rows: func(w *world) []row {
		return []row{
			{from: w.Client, to: "198.18.0.10:80", by: "b1 b2"}, {from: w.Client, to: "[2001:db8:18::10]:80", by: "b1 b2"},
			{from: w.Nodes[2], to: "198.18.0.10:80", by: "b1 b2"},
		}
	}},
	// Which host has the VIP is TestKeepalived's concern.
	"keepalived": {ports: []uint16{8080}, vips: []string{"192.0.2.200"}, rows: func(w *world) []row {
		return []row{{from: w.Client, to: "192.0.2.200:80", by: "b1", seen: "192.0.2.50"}}
	}, http: map[string]int{"http://192.0.2.11:30910": 200, "http://192.0.2.13:30910": 503}},
	"vip-and-nodeport": {ports: []uint16{25, 8443}, vips: []string{"192.0.2.200"}, rows: func(w *world) []row {
		w.Nodes[1].Serve(lab.TCP, 22)
		return []row{
			{from: w.Client, to: "192.0.2.200:443", by: "b1", seen: "192.0.2.50"},
			{from: w.Client, to: "192.0.2.12:30443", by: "b2", seen: "192.0.2.50"},
			{from: w.Client, to: "192.0.2.13:30443", want: lab.Timeout},
			{from: w.Nodes[2], to: "192.0.2.200:443", by: "b1 b2"},
			{from: w.Client, to: "10.96.1.43:443", by: "b1 b2"},
			{from: w.Client, to: "192.0.2.12:25", by: "b2 b3"}, {from: w.Nodes[0], to: "192.0.2.12:25", by: "b2 b3"},
			{from: w.Client, to: "192.0.2.12:22", by: "n2"}, {from: w.Nodes[0], to: "192.0.2.12:22", by: "n2"},
		}
	}, http: map[string]int{"http://192.0.2.11:30943": 200, "http://192.0.2.12:30943": 200, "http://192.0.2.13:30943": 503}},
}

// TestExamples: every example is without a finding, and does what its README
// says.
func TestExamples(t *testing.T) {
	t.Parallel()
	const dir = "../../examples"
	for _, entry := range must[[]os.DirEntry](t)(os.ReadDir(dir)) {
		t.Run(entry.Name(), func(t *testing.T) {
			t.Parallel()
			x, ok := examples[entry.Name()]
			if !ok {
				t.Fatal("nothing is said of what it should do")
			}
			manifests := filepath.Join(dir, entry.Name(), "manifests")
			if x.pin {
				manifests = pinned(t, manifests)
			}
			if out, err := exec.Command("pointsman", "validate", "--strict", manifests).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			w := newWorld(t, 1, 1, 1)
			if err := os.CopyFS(w.manifests, os.DirFS(manifests)); err != nil {
				t.Fatal(err)
			}
			for _, p := range x.ports {
				w.serve(p)
			}
			w.route(w.Nodes[0], x.vips...)
			w.agents("--service-cidr", lab.ServiceRange4+","+lab.ServiceRange6)
			check(t, x.rows(w)...)
			for url, want := range x.http {
				if code, body, err := httpGet(w.Client, url); code != want {
					t.Errorf("%s: %d %s %v", url, code, body, err)
				}
			}
		})
	}
}

// pinned gives a copy of a directory with the values that it lacks.
func pinned(t *testing.T, dir string) string {
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("pointsman", "pin", "--service-cidr", lab.ServiceRange4+","+lab.ServiceRange6, copied).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return copied
}
