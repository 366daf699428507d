package gossip

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// disk is what outlives the process: in the state dir, or nowhere.
type disk struct{ dir string }

const (
	incarnationFile    = "incarnation"
	maxIncarnationFile = 64
	drainsFile         = "drains"
	maxDrainsFile      = maxDrains*(maxPacket+2) + 64
	unfinished         = ".new" // ends the name of a file that's being written
)

// readFile reads a file of at most so many bytes. A pipe would never end.
func readFile(path string, most int) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	switch {
	case info.IsDir():
		return nil, fmt.Errorf("%s: is a directory", path)
	case !info.Mode().IsRegular() || info.Size() > int64(most):
		return nil, fmt.Errorf("%s: want a file of at most %d bytes", path, most)
	}
	return os.ReadFile(path)
}

// read reads a file of at most so many bytes; it's nil if there's none.
func (d disk) read(name string, most int) ([]byte, error) {
	if d.dir == "" {
		return nil, nil
	}
	data, err := readFile(filepath.Join(d.dir, name), most)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// incarnation reads the last incarnation, 0 if there was none.
func (d disk) incarnation() (uint32, error) {
	data, err := d.read(incarnationFile, maxIncarnationFile)
	if data == nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 32)
	if err != nil {
		return 0, d.named(incarnationFile, errors.New("not a number"))
	}
	return uint32(n), nil
}

// nextIncarnation counts the incarnation up. It gives a number even if there's
// an error: the worst that comes of a wrong one is that others hold something
// newer, which is noticed.
func (d disk) nextIncarnation() (uint32, error) {
	n, err := d.incarnation()
	if n < math.MaxUint32 {
		n++
	}
	return n, errors.Join(err, d.saveIncarnation(n))
}

func (d disk) saveIncarnation(n uint32) error {
	return d.write(incarnationFile, []byte(strconv.FormatUint(uint64(n), 10)+"\n"))
}

// drains reads the drains that were saved, whatever the time is: it may be a clock's
// that isn't set yet. A damaged file has none.
func (d disk) drains() (drainMap, error) {
	all := drainMap{}
	data, err := d.read(drainsFile, maxDrainsFile)
	if data == nil {
		return all, err
	}
	if len(data) < 8 || binary.BigEndian.Uint64(data) != sum64(data[8:]) {
		return all, d.named(drainsFile, errors.New("damaged, and ignored"))
	}
	r := &wireReader{rest: data[8:]}
	for len(r.rest) > 0 {
		if drain, ok := decodeDrain(bytes.Clone(r.bytes16())); ok && len(all) < maxDrains {
			all[drain.target] = drain
		}
	}
	return all, nil
}

// saveDrains writes a checksum and the drains' messages.
func (d disk) saveDrains(all drainMap) error {
	var body []byte
	for _, drain := range all {
		body = appendBytes16(body, drain.message)
	}
	return d.write(drainsFile, append(appendU64(nil, sum64(body)), body...))
}

// named says what is wrong with a file's contents.
func (d disk) named(name string, err error) error {
	return fmt.Errorf("%s: %w", filepath.Join(d.dir, name), err)
}

// write replaces a file so that it is there as a whole, the old or the new one,
// whenever the power fails. The new one has one name until then, so that whatever
// ends the process leaves no more than one behind, for the next to write over:
// one process has the state dir, and writes each file from one place at a time.
func (d disk) write(name string, data []byte) error {
	if d.dir == "" {
		return nil
	}
	path := filepath.Join(d.dir, name)
	f, err := os.OpenFile(path+unfinished, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	dir, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
