package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"
)

// loadConfig is a Before hook: it sets the flags that neither the command line
// nor the environment has set from the configuration file, whose keys are the
// flags' names. Without --config the file may be absent.
func loadConfig(c *cli.Context) error {
	path, required := c.String("config"), true
	if path == "" {
		path, required = defaultConfig, false
	}
	text, err := readConfig(c.Context, path)
	if errors.Is(err, fs.ErrNotExist) && !required {
		return nil
	}
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return applyConfig(c, path, text)
}

// The most bytes of a configuration file, and how long it may take to read: it may
// be a pipe, such as a shell's <(...), and one that nobody writes to has no end.
const (
	maxConfig      = 1 << 20
	configPatience = 10 * time.Second
)

func readConfig(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, configPatience, fmt.Errorf("%s: no end of it for %v: is it a pipe that nobody writes to?", path, configPatience))
	defer cancel()
	var text []byte
	read := make(chan error, 1)
	go func() { // which ends with the process
		f, err := os.Open(path)
		if err == nil {
			text, err = io.ReadAll(io.LimitReader(f, maxConfig+1))
			_ = f.Close()
		}
		read <- err
	}()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case err := <-read:
		if len(text) > maxConfig {
			err = fmt.Errorf("%s: more than %d KiB", path, maxConfig>>10)
		}
		return text, err
	}
}

func applyConfig(c *cli.Context, path string, text []byte) error {
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil // empty
	} else if err != nil {
		return fmt.Errorf("configuration: %s: %w", path, err)
	}
	if err := noMore(path, d); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("configuration: %s:%d: a mapping of settings is expected", path, root.Line)
	}
	seen := map[string]bool{}
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if seen[key.Value] {
			return fmt.Errorf("configuration: %s:%d: %s is there twice", path, key.Line, key.Value)
		}
		seen[key.Value] = true
		if err := applySetting(c, key.Value, value); err != nil {
			return fmt.Errorf("configuration: %s:%d: %s: %w", path, key.Line, key.Value, err)
		}
	}
	return nil
}

// noMore refuses what comes after the document that was read: nothing of it would
// count, and nobody be told.
func noMore(path string, d *yaml.Decoder) error {
	var next yaml.Node
	switch err := d.Decode(&next); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	return fmt.Errorf("%s:%d: a second document begins here: put everything into the first", path, next.Line)
}

// applySetting sets one flag. The file serves several commands, so a setting
// that only another one knows is passed over.
func applySetting(c *cli.Context, key string, value *yaml.Node) error {
	if known := settings(slices.Concat(runCommand().Flags, originFlags())); !slices.Contains(known, key) {
		return fmt.Errorf("unknown setting; known are %s", strings.Join(known, ", "))
	}
	text, err := scalars(value)
	if err != nil || c.IsSet(key) || !slices.Contains(settings(c.Command.Flags), key) {
		return err
	}
	return c.Set(key, text)
}

// settings are the flags' names, but for --config itself.
func settings(flags []cli.Flag) []string {
	var names []string
	for _, f := range flags {
		if name := f.Names()[0]; name != "config" && name != "help" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// scalars gives a value as a flag has it: a scalar, or a list joined by
// commas.
func scalars(value *yaml.Node) (string, error) {
	switch value.Kind {
	case yaml.ScalarNode:
		return value.Value, nil
	case yaml.SequenceNode:
		var items []string
		for _, item := range value.Content {
			if item.Kind != yaml.ScalarNode {
				return "", errors.New("a list of plain values is expected")
			}
			items = append(items, item.Value)
		}
		return strings.Join(items, ","), nil
	}
	return "", errors.New("a plain value or a list of them is expected")
}
