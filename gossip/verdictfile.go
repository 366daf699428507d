package gossip

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"pointsman/state"
)

// The file of verdicts, in which they survive a restart: a magic that ends with
// the format's version, the verdicts by key (8 bytes of key, one of verdict, 8 of
// Unix seconds since when), and the CRC-32C of all before it. Numbers are
// big-endian. Releases N-1 and N share a state dir: what one can't read it starts
// without.
const (
	verdictMagic = "pointsman verdicts 1\n"
	verdictSize  = 8 + 1 + 8
	maxVerdicts  = 1 << 20

	// MaxVerdictFile is the size in bytes that a file of verdicts doesn't exceed.
	MaxVerdictFile = len(verdictMagic) + maxVerdicts*verdictSize + crc32.Size
)

// EncodeVerdicts gives the contents of a file of verdicts, the same for the same
// verdicts. What hasn't got one yet isn't in it.
func EncodeVerdicts(v *state.Verdicts) []byte {
	var keys []state.CheckKey
	for k, j := range v.All() {
		if !j.Untried {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	keys = keys[:min(len(keys), maxVerdicts)]
	b := append(make([]byte, 0, len(verdictMagic)+len(keys)*verdictSize+crc32.Size), verdictMagic...)
	for _, k := range keys {
		j := v.Get(k)
		b = binary.BigEndian.AppendUint64(b, uint64(k))
		b = append(b, byte(j.Verdict))
		b = binary.BigEndian.AppendUint64(b, uint64(j.Since.Unix()))
	}
	return appendChecksum(b)
}

func appendChecksum(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// DecodeVerdicts reads a file of verdicts for NewFolder. All are unconfirmed,
// and hold until five minutes from now. The error says what is wrong with the
// contents; then nothing is taken from them.
func DecodeVerdicts(file []byte, now time.Time) (map[state.CheckKey]*state.Judgement, error) {
	body, ok := bytes.CutPrefix(file, []byte(verdictMagic))
	switch {
	case !ok:
		return nil, errors.New("not a file of verdicts, or of another release")
	case len(file) > MaxVerdictFile || len(body)%verdictSize != crc32.Size:
		return nil, fmt.Errorf("a file of verdicts can't be %d bytes long", len(file))
	}
	end := len(file) - crc32.Size
	if crc32.Checksum(file[:end], castagnoli) != binary.BigEndian.Uint32(file[end:]) {
		return nil, errors.New("the checksum is wrong")
	}
	body = body[:len(body)-crc32.Size]
	out := make(map[state.CheckKey]*state.Judgement, len(body)/verdictSize)
	for one := range slices.Chunk(body, verdictSize) {
		key, verdict := state.CheckKey(binary.BigEndian.Uint64(one)), state.Verdict(one[8])
		if verdict > state.Down {
			return nil, fmt.Errorf("%x: unknown verdict %d", uint64(key), verdict)
		}
		since := time.Unix(int64(binary.BigEndian.Uint64(one[9:])), 0)
		if since.After(now) || since.Unix() < 0 { // the clock was turned back
			since = now
		}
		j := &state.Judgement{Verdict: verdict, Since: since, Unconfirmed: true}
		if verdict != state.Unknown {
			j.Held, j.Until = true, now.Add(holdFor)
		}
		out[key] = j
	}
	return out, nil
}
