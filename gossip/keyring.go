package gossip

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/memberlist"
)

const (
	keySize        = 32
	maxKeys        = 16
	maxKeyringSize = 16 << 10
)

// parseKeyring reads a keyring file: base64 of 32 bytes a line, the key that
// encrypts first. Blank lines and those that begin with # are left out.
func parseKeyring(data []byte) ([][]byte, error) {
	var keys [][]byte
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(key) != keySize { // the text itself is a secret
			return nil, fmt.Errorf("line %d: want base64 of %d bytes", n, keySize)
		}
		keys = append(keys, key)
	}
	switch err := lines.Err(); {
	case err != nil:
		return nil, err
	case len(keys) == 0:
		return nil, errors.New("no key in it")
	case len(keys) > maxKeys:
		return nil, fmt.Errorf("more than %d keys in it", maxKeys)
	}
	return keys, nil
}

// keyringFile is a keyring, and the file that it's read from.
type keyringFile struct {
	path string
	ring *memberlist.Keyring // nil: nothing is encrypted
	keys [][]byte            // of the file that was read last
}

func openKeyring(path string) (*keyringFile, error) {
	f := &keyringFile{path: path}
	if path == "" {
		return f, nil
	}
	var err error
	if f.keys, err = f.read(); err != nil {
		return nil, fmt.Errorf("gossip keyring: %w", err)
	}
	f.ring, err = memberlist.NewKeyring(f.keys, f.keys[0])
	return f, err
}

func (f *keyringFile) read() ([][]byte, error) {
	data, err := readFile(f.path, maxKeyringSize)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeyring(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	return keys, nil
}

// poll reads the file again, and tells whether the ring changed. On an error the
// ring stays as it is. The file's time and size say nothing: all keys are of one
// length, and where whole directories are replaced (an image, a link to a release,
// rsync -t) all files are of one time.
func (f *keyringFile) poll() (bool, error) {
	if f.path == "" {
		return false, nil
	}
	keys, err := f.read()
	if err != nil || slices.EqualFunc(keys, f.keys, bytes.Equal) {
		return false, err
	}
	f.keys = keys
	return true, install(f.ring, keys)
}

// install makes keys the ring's, the first the one that encrypts.
func install(ring *memberlist.Keyring, keys [][]byte) error {
	var errs error
	for _, key := range keys {
		errs = errors.Join(errs, ring.AddKey(key))
	}
	gone := slices.DeleteFunc(slices.Clone(ring.GetKeys()), func(key []byte) bool {
		return slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) })
	})
	// UseKey puts a key first. With each of those that stay put first in turn,
	// those that go are the last: RemoveKey shifts what follows a key in the very
	// slice that packets are being decrypted with (memberlist v0.7.0).
	if len(gone) > 0 {
		for _, key := range slices.Backward(keys) {
			errs = errors.Join(errs, ring.UseKey(key))
		}
	}
	errs = errors.Join(errs, ring.UseKey(keys[0]))
	for range gone {
		all := ring.GetKeys()
		errs = errors.Join(errs, ring.RemoveKey(all[len(all)-1]))
	}
	return errs
}
