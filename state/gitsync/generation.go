package gitsync

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// generationFile is the file at a repository's root that holds its number. It's
// part of what a signature covers, and it must grow with each commit that is to
// be published: a commit that was signed long ago stays well signed for ever.
const generationFile = "generation.yaml"

// maxGenerationFile leaves room for comments.
const maxGenerationFile = 4 << 10

// parseGeneration reads `generation: 42`. There is nothing else in the file but
// comments, so no YAML is needed, nor what YAML would take for a number.
func parseGeneration(text string) (uint64, error) {
	found := uint64(0)
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" || line == "---" {
			continue
		}
		digits, ok := strings.CutPrefix(line, "generation:")
		n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 63)
		if !ok || err != nil || n == 0 {
			return 0, fmt.Errorf("%q is not a line such as generation: 42", line)
		}
		if found > 0 {
			return 0, errors.New("there are two numbers")
		}
		found = n
	}
	if found == 0 {
		return 0, errors.New("there is no number")
	}
	return found, nil
}

// grows says what is wrong with a number after the one that is published; 0 is
// none.
func grows(published, next uint64) error {
	switch {
	case next > published || published == 0:
		return nil
	case next == 0:
		return fmt.Errorf("%s is gone; the published commit has %d", generationFile, published)
	}
	return fmt.Errorf("its generation is %d, and that of the published commit %d: it must grow", next, published)
}
