package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"

	"pointsman/state"
)

// ApprovalFile is the name of the file at the top of a manifests directory that
// lets a held change through on all hosts. It's no manifest.
const ApprovalFile = "approve.yaml"

// Approval is what approve.yaml says. It's for one change: that which starts
// from a state (From), or leads to one (To), or both.
type Approval struct {
	From   string // a commit (in full or its first digits), or a state's hash
	To     string // a state's hash
	Reason string // for people
	ID     string // of the file's very contents
}

// minCommit is how many digits of a commit name it.
const minCommit = 7

const (
	hashDigits    = 16
	maxApproval   = 4096 // bytes
	approvalShape = "it needs from: COMMIT-OR-HASH, or to: HASH, or both, and may have a reason"
)

// HashText writes a state's hash.
func HashText(hash uint64) string { return fmt.Sprintf("%0*x", hashDigits, hash) }

// Names reports whether a text names a state by its hash, or by the commit
// that it's of.
func Names(text, hash, commit string) bool {
	byCommit := len(text) >= minCommit && len(text) <= len(commit) && commit[:len(text)] == text
	return text != "" && (text == hash || byCommit)
}

// readApproval reads the file; strictly, for a misspelt approval must not be
// half a one.
func readApproval(f *File) (*Approval, error) {
	if f.Fault != "" {
		return nil, errors.New(f.Fault)
	}
	if len(f.Data) > maxApproval {
		return nil, fmt.Errorf("it is longer than %d bytes", maxApproval)
	}
	said, err := approvalFields(f.Data)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(f.Data)
	a := &Approval{From: said["from"], To: said["to"], Reason: said["reason"], ID: hex.EncodeToString(sum[:8])}
	switch {
	case a.From == "" && a.To == "":
		return nil, errors.New(approvalShape)
	case a.From != "" && (!isHex(a.From) || len(a.From) < minCommit):
		return nil, fmt.Errorf("from: %.80q is neither a commit nor a hash", a.From)
	case a.To != "" && (!isHex(a.To) || len(a.To) != hashDigits):
		return nil, fmt.Errorf("to: %.80q is not the hash of a state, which has %d digits", a.To, hashDigits)
	}
	return a, nil
}

// approvalFields gives the fields as text: a hash may be all digits.
func approvalFields(data []byte) (map[string]string, error) {
	var said map[string]string
	dec := yamlv3.NewDecoder(bytes.NewReader(data))
	err := dec.Decode(&said)
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New(approvalShape)
	case err != nil:
		return nil, errors.New(strings.Join(strings.Fields(err.Error()), " "))
	}
	if err := dec.Decode(new(yamlv3.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document")
	}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		if !slices.Contains([]string{"from", "to", "reason"}, name) {
			return nil, fmt.Errorf("unknown field %.80q: %s", name, approvalShape)
		}
	}
	return said, nil
}

// takeApproval makes the file of a Snapshot that of the Loader, and reports
// whether it's another one.
func (l *Loader) takeApproval(f *File) bool {
	if f == l.approvalFile {
		return false
	}
	l.approvalFile, l.approval, l.unapproved = f, nil, nil
	if f == nil {
		return true
	}
	a, err := readApproval(f)
	if err != nil {
		l.unapproved = []Problem{newProblem(ruleApproval, state.Source{File: f.Path, Line: 1}, "nothing is approved: %v", err)}
	}
	l.approval = a
	return true
}
