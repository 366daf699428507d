package manifest

import (
	"slices"
	"strings"
	"testing"
)

func TestReadApproval(t *testing.T) {
	const commit, hash = "1f3a9c2b7d5e8f601f3a9c2b7d5e8f601f3a9c2b", "1234567890123456"
	for _, c := range []struct {
		name, text string
		want       Approval
		err        string
	}{
		{"from a commit", "from: " + commit, Approval{From: commit}, ""},
		{"from a hash that looks like a number", "from: " + hash + "\nreason: old racks go\n", Approval{From: hash, Reason: "old racks go"}, ""},
		{"to a hash", "to: '" + hash + "'", Approval{To: hash}, ""},
		{"from and to", "# by ann\nfrom: 1f3a9c2\nto: " + hash, Approval{From: "1f3a9c2", To: hash}, ""},
		{"nothing", "", Approval{}, "it needs"},
		{"neither", "reason: because", Approval{}, "it needs"},
		{"too short", "from: 1f3a9c", Approval{}, "neither a commit nor a hash"},
		{"no hex", "from: HEAD~1xx", Approval{}, "neither a commit nor a hash"},
		{"to a commit", "to: " + commit, Approval{}, "not the hash of a state"},
		{"misspelt", "form: 1f3a9c2", Approval{}, `unknown field "form"`},
		{"twice", "from: 1f3a9c2\nfrom: 1f3a9c3", Approval{}, "already defined"},
		{"a list", "- from: 1f3a9c2", Approval{}, "cannot unmarshal"},
		{"two documents", "from: 1f3a9c2\n---\nfrom: 1f3a9c3", Approval{}, "more than one document"},
		{"too long", "from: 1f3a9c2\n" + strings.Repeat("#", maxApproval), Approval{}, "longer than"},
		{"no YAML", "from: [", Approval{}, "did not find"},
	} {
		got, err := readApproval(&File{Path: ApprovalFile, Data: []byte(c.text)})
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		id := got.ID
		got.ID = ""
		if *got != c.want || len(id) != hashDigits {
			t.Errorf("%s: %+v (%q), want %+v", c.name, *got, id, c.want)
		}
	}
}

func FuzzReadApproval(f *testing.F) {
	for _, seed := range []string{"from: 1f3a9c2", "to: 1234567890123456\nreason: x", "&a [*a]", "{", "from: !!binary aGVsbG8="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := readApproval(&File{Path: ApprovalFile, Data: []byte(text)})
		if err != nil {
			return
		}
		if a.From+a.To == "" || !isHex(a.From+a.To) {
			t.Fatalf("%q approves %+v", text, a)
		}
	})
}

// approve.yaml at the top is no manifest; one in a folder is.
func TestApprovalIsNoManifest(t *testing.T) {
	web := "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {clusterIP: 10.96.0.5, ports: [{port: 80}]}\n"
	l := NewLoader(ranges, "")
	files := map[string]string{"web.yaml": web}
	plain := l.Load(snapshotOf(files))
	files[ApprovalFile] = "from: 1f3a9c2"
	approved := l.Load(snapshotOf(files))
	if plain.Approval != nil || approved.Approval == nil || approved.Approval.From != "1f3a9c2" || HasErrors(approved.Problems) {
		t.Errorf("%+v, then %+v and %v", plain.Approval, approved.Approval, approved.Problems)
	}
	if plain.Hash() != approved.Hash() {
		t.Error("an approval is another state")
	}
	l.Accept(approved)
	if r := l.Restore(); r.Approval != nil {
		t.Errorf("the state before has the approval %+v", r.Approval)
	}
	files["team/"+ApprovalFile] = "from: 1f3a9c2"
	if r := l.Load(snapshotOf(files)); !HasErrors(r.Problems) {
		t.Error("an approval in a folder says nothing")
	}
	s := snapshotOf(files)
	if s.Approval.Path != ApprovalFile || len(s.Files) != 2 || !slices.IsSortedFunc(s.Files, byPath) {
		t.Errorf("%+v", s)
	}
}

func TestNames(t *testing.T) {
	const hash, commit = "00c0ffee00c0ffee", "1f3a9c2b7d5e8f601f3a9c2b7d5e8f601f3a9c2b"
	for text, want := range map[string]bool{
		hash: true, commit: true, commit[:7]: true, commit[:39]: true, commit[:6]: false, hash[:15]: false,
		"": false, commit + "0": false, commit[1:]: false, "1f3a9c3": false,
	} {
		if got := Names(text, hash, commit); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if Names("", hash, "") || Names("1f3a9c2", hash, "") {
		t.Error("no commit has a name")
	}
}
