package gitsync

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// The names in DEST.
const (
	// CurrentLink leads to the published tree.
	CurrentLink = "current"

	commitsDir = "commits"
	statusFile = "status.json"
	repoDir    = "repository.git"
	lockFile   = "lock"

	// recordFile is in each published tree. No manifest is looked for in a hidden
	// file.
	recordFile = ".pointsman-sync.json"
)

// Published is what is known of a published tree. It's inside it, and so
// becomes visible with it.
type Published struct {
	Commit     string    `json:"commit"`
	Ref        string    `json:"ref"`
	Path       string    `json:"path"` // "." for the whole commit
	Signer     string    `json:"signer,omitempty"`
	Generation uint64    `json:"generation,omitempty"`
	Time       time.Time `json:"time"`
	Services   int       `json:"services"`
	Errors     int       `json:"errors"`             // objects that the agent serves the last good version of
	Findings   []string  `json:"findings,omitempty"` // the first of those errors
	Skipped    []string  `json:"skipped,omitempty"`  // submodules, which are not part of it
}

// Status is what the last runs came to. Everybody may read it.
type Status struct {
	Repo      string     `json:"repo"`
	Ref       string     `json:"ref"`
	Published *Published `json:"published,omitempty"`
	// Fetched is what the ref pointed to when the repository last answered.
	Fetched string `json:"fetched,omitempty"`
	// Attempted is when the last run was; Succeeded, when one last found the
	// newest commit published. What is in between is stale.
	Attempted time.Time `json:"attempted"`
	Succeeded time.Time `json:"succeeded,omitzero"`
	// Error is why the last run failed, and Refused the commit that it was about,
	// if it was about one.
	Error   string   `json:"error,omitempty"`
	Refused *Refusal `json:"refused,omitempty"`
}

// maxRecord bounds what is read of a record or a status.
const maxRecord = 1 << 20

// ReadStatus gives the status in a directory that sync publishes to.
func ReadStatus(dest string) (Status, error) {
	var s Status
	err := readJSON(filepath.Join(dest, statusFile), &s)
	return s, err
}

// readRecord gives the record of a published tree, such as DEST/current.
func readRecord(tree string) (Published, error) {
	var p Published
	err := readJSON(filepath.Join(tree, recordFile), &p)
	return p, err
}

func readJSON(file string, into any) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// lastPublished gives what is published: the tree knows. Should it be gone, the
// status still does, so that its loss doesn't open the way back.
func lastPublished(dest string, s Status) (*Published, error) {
	link := filepath.Join(dest, CurrentLink)
	info, err := os.Lstat(link)
	if err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return nil, fmt.Errorf("%s is not a link, so sync didn't make it, and won't replace it", link)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if p, err := readRecord(link); err == nil {
		return &p, nil
	}
	return s.Published, nil
}

// writeStatus replaces the status. It isn't forced to the disk: after a crash an
// older one, or none, is what the next run replaces.
func writeStatus(dest string, s Status) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	temp := filepath.Join(dest, "."+statusFile)
	if err := writeFile(temp, append(data, '\n')); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(dest, statusFile))
}

// writeFile writes a file that everybody may read, whatever the umask.
func writeFile(name string, data []byte) error {
	if err := os.WriteFile(name, data, 0o644); err != nil {
		return err
	}
	return os.Chmod(name, 0o644)
}
