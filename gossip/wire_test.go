package gossip

import (
	"bytes"
	"encoding/base64"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pointsman/state"
)

func exampleBucket() *bucket {
	return newBucket("n1", versionOf(3, 4), region{1 << 63, 1}, []Entry{
		{Key: 1 << 63, Verdict: state.Down, Failure: state.Refused},
		{Key: 1<<63 | 5, Verdict: state.Unknown},
	})
}

func exampleHeader() *header {
	return newHeader(header{observer: "n1", version: versionOf(3, 5), generation: 77, buckets: 88, meta: appendMeta(nil, Meta{Release: "v1", Commit: "abc"})})
}

func exampleDrains() []*drain {
	d := drain{drained: true, reason: "disk", by: "n2", since: today.Unix(), until: today.Unix() + 60, keep: today.Unix() + 60, version: 9, boot: "b", grace: 90, file: true}
	var all []*drain
	for _, target := range []state.DrainTarget{
		{Node: "n1"},
		{Endpoint: netip.MustParseAddrPort("[2001:db8::1]:0")},
		{Service: state.ObjectName{Namespace: "shop", Name: "web"}},
	} {
		d.target = target
		all = append(all, newDrain(d))
	}
	return all
}

// gossipedExamples are a message of each kind that is passed on.
func gossipedExamples() [][]byte {
	all := [][]byte{exampleBucket().message, exampleHeader().message, newBlank("n1", 1, region{}).message}
	for _, d := range exampleDrains() {
		all = append(all, d.message)
	}
	return all
}

// exchangedExamples are messages of the steps of an exchange.
func exchangedExamples() [][]byte {
	a, b := newStore("a", 1), newStore("b", 1)
	for _, m := range gossipedExamples() {
		a.apply(m, today)
	}
	all := [][]byte{a.sumsMessage(), b.sumsMessage(), a.digest(^uint64(0), true), a.details([]string{"n1", "n2"}, flagReturn)}
	return append(all, a.itemMessages(gossipedExamples())...)
}

func TestMessagesComeBackAsTheyWere(t *testing.T) {
	b, ok := decodeBucket(exampleBucket().message)
	if !ok || !reflect.DeepEqual(b, exampleBucket()) {
		t.Errorf("%+v", b)
	}
	h, ok := decodeHeader(exampleHeader().message)
	if !ok || !reflect.DeepEqual(h, exampleHeader()) || decodeMeta(h.meta) != (Meta{Release: "v1", Commit: "abc"}) {
		t.Errorf("%+v", h)
	}
	for _, want := range exampleDrains() {
		if d, ok := decodeDrain(want.message); !ok || !reflect.DeepEqual(d, want) {
			t.Errorf("%+v, want %+v", d, want)
		}
	}
}

// TestFormat: what hosts of this release send, and those of the next have to
// understand.
func TestFormat(t *testing.T) {
	for name, c := range map[string]struct {
		message []byte
		want    string
	}{
		"bucket": {exampleBucket().message, "AQECbjEAAAADAAAABAGAAAAAAAAAAAAAAoAAAAAAAAAABoAAAAAAAAAFAA=="},
		"header": {exampleHeader().message, "AgECbjEAAAADAAAABQAAAAAAAABNAAAAAAAAAFgACQACdjEDYWJjAA=="},
		"drain":  {exampleDrains()[0].message, "AwECbjIAAAAAAAAACQEAAAAAa0nSAAAAAABrSdI8AAAAAGtJ0jwBAm4xAWIABGRpc2sAAAAAAAAAWgE="},
	} {
		if got := base64.StdEncoding.EncodeToString(c.message); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// drainTail is how much longer drains are than those of the first agents.
const drainTail = 9

// TestDrainOfFirstAgents: it's read, held and passed on as it is.
func TestDrainOfFirstAgents(t *testing.T) {
	message, err := base64.StdEncoding.DecodeString("AwECbjIAAAAAAAAACQEAAAAAa0nSAAAAAABrSdI8AAAAAGtJ0jwBAm4xAWIABGRpc2s=")
	if err != nil {
		t.Fatal(err)
	}
	want := *exampleDrains()[0]
	want.grace, want.file = int64(DefaultGrace/time.Second), false
	want.message, want.sum = message, sum64(message)
	if d, ok := decodeDrain(message); !ok || !reflect.DeepEqual(d, &want) {
		t.Errorf("%+v, want %+v", d, want)
	}
}

func TestCutMessagesAreRefused(t *testing.T) {
	for _, m := range gossipedExamples() {
		for n := range m {
			if kind(m[0]) == kindDrain && n == len(m)-drainTail {
				continue // the first agents' drains end there
			}
			s := newStore("a", 1)
			if s.apply(m[:n:n], today).news {
				t.Errorf("kind %d: %d of %d bytes are taken", m[0], n, len(m))
			}
			if n > 1 && s.refused != 1 {
				t.Errorf("kind %d: %d of %d bytes aren't counted", m[0], n, len(m))
			}
		}
	}
}

// A later release may add fields, kinds and formats.
func TestLaterReleases(t *testing.T) {
	for _, m := range gossipedExamples() {
		s := newStore("a", 1)
		if !s.apply(append(slices.Clone(m), "more"...), today).news {
			t.Errorf("kind %d with another field isn't read", m[0])
		}
		later := slices.Clone(m)
		later[1] = wireFormat + 1
		if s = newStore("a", 1); s.apply(later, today).news {
			t.Errorf("kind %d of a later format is read", m[0])
		}
		later[0], later[1] = 200, wireFormat
		if s = newStore("a", 1); s.apply(later, today).news || s.refused != 0 {
			t.Error("a later kind isn't ignored")
		}
	}
}

func TestMalformedMessages(t *testing.T) {
	entries := []Entry{{Key: 5}, {Key: 4}}
	long := strings.Repeat("x", 300)
	for name, m := range map[string][]byte{
		"keys out of order":    newBucket("n", 1, region{}, entries).message,
		"a key twice":          newBucket("n", 1, region{}, []Entry{{Key: 5}, {Key: 5}}).message,
		"keys not in region":   newBucket("n", 1, region{1 << 63, 1}, entries[:1]).message,
		"a region of 65 bits":  newBucket("n", 1, region{0, 65}, nil).message,
		"a region that's none": newBucket("n", 1, region{1, 1}, nil).message,
		"no name":              newBucket("", 1, region{}, nil).message,
		"a long name":          newBucket(long, 1, region{}, nil).message,
		"a long meta":          newHeader(header{observer: "n", meta: make([]byte, maxMeta+1)}).message,
		"a long reason":        newDrain(drain{by: "n", target: state.DrainTarget{Node: "n"}, reason: long}).message,
		"no target":            newDrain(drain{by: "n"}).message,
		"a grace of ages":      newDrain(drain{by: "n", target: state.DrainTarget{Node: "n"}, grace: 1 << 40}).message,
		"a grace before":       newDrain(drain{by: "n", target: state.DrainTarget{Node: "n"}, grace: -1}).message,
		"half a service":       newDrain(drain{by: "n", target: state.DrainTarget{Service: state.ObjectName{Name: "x"}}}).message,
		"kept too short":       newDrain(drain{by: "n", target: state.DrainTarget{Node: "n"}, until: today.Unix() + 2, keep: today.Unix() + 1}).message,
	} {
		if s := newStore("a", 1); s.apply(m, today).news || s.refused != 1 {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestMetaIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1000)
	m := appendMeta(nil, Meta{Release: long, Commit: long, BootID: long, Drained: true, Isolated: true})
	if len(m) > maxMeta {
		t.Error(len(m), "bytes")
	}
	want := Meta{Release: long[:maxMetaString], Commit: long[:maxMetaString], BootID: long[:maxMetaString], Drained: true, Isolated: true}
	if got := decodeMeta(m); got != want {
		t.Errorf("%+v", got)
	}
}

// Nothing that comes from the network makes a store panic, or hold something
// that it would not take from another.
func FuzzReceive(f *testing.F) {
	for _, m := range slices.Concat(gossipedExamples(), exchangedExamples()) {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		s := newStore("b", 1)
		s.say(statement{entries: []Entry{{Key: 3}}, generation: 1})
		s.apply(bytes.Clone(message), today)
		s.applyItems(bytes.Clone(message), today)
		s.answer(bytes.Clone(message))
		for name, o := range s.observers {
			if v := o.view(); name != v.Observer || o.size > maxRecordSize {
				t.Errorf("observer %q: %+v", name, v)
			}
		}
		s.drains.active(today, 0)
		other := newStore("c", 1)
		settle(t, s, other)
		if string(other.payload()) != string(s.payload()) && !slices.ContainsFunc(slices.Collect(maps.Values(s.observers)), leaps) {
			t.Error("another store doesn't take it")
		}
	})
}

// leaps tells whether an observer's versions are so far apart that the later
// ones aren't taken after the earlier ones.
func leaps(o *observer) bool {
	least := o.newest()
	if o.header != nil {
		least = min(least, o.header.version)
	}
	for _, b := range o.buckets {
		least = min(least, b.version)
	}
	return o.newest().incarnation()-least.incarnation() > maxLeap
}

func FuzzMeta(f *testing.F) {
	f.Add(appendMeta(nil, Meta{Release: "v1", Commit: "abc", BootID: "x", Drained: true}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := decodeMeta(b)
		again := appendMeta(nil, m)
		if short := max(len(m.Release), len(m.Commit), len(m.BootID)) <= maxMetaString; short && decodeMeta(again) != m {
			t.Errorf("%+v comes back as %+v", m, decodeMeta(again))
		}
	})
}

func FuzzKeyring(f *testing.F) {
	f.Add([]byte("# keys\n\n" + strings.Repeat("A", 43) + "=\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := parseKeyring(data)
		if err == nil && (len(keys) == 0 || len(keys) > maxKeys) {
			t.Error(len(keys), "keys")
		}
		for _, k := range keys {
			if len(k) != keySize {
				t.Error("a key of", len(k), "bytes")
			}
		}
	})
}

func FuzzLog(f *testing.F) {
	f.Add("[ERR] memberlist: Decrypt packet failed: no installed keys could decrypt the message from=10.0.0.1:7946")
	f.Add("[WARN] memberlist: Was able to connect to n1 over TCP but UDP probes failed, network may be misconfigured")
	f.Fuzz(func(_ *testing.T, line string) {
		l := parseLog(line)
		l.hint()
		l.template()
	})
}
