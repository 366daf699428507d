package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pointsman/state/event"
)

// TestJournalGone: what the journal doesn't take goes to its stream.
func TestJournalGone(t *testing.T) {
	var stderr bytes.Buffer
	j := &journal{socket: filepath.Join(t.TempDir(), "nobody"), stderr: &stderr}
	j.deliver(event.Record{Level: slog.LevelError, Message: "a\nb", Fields: []event.Field{{Name: "x", Text: "1"}}})
	if got := stderr.String(); got != "<3>a b (x=1)\n" {
		t.Errorf("%q", got)
	}
}

func TestJournalField(t *testing.T) {
	for name, want := range map[string]string{
		"endpoint": "POINTSMAN_ENDPOINT", "published.commit": "POINTSMAN_PUBLISHED_COMMIT", "Größe 1=\n": "POINTSMAN_GR__E_1__",
		strings.Repeat("x", 100): "POINTSMAN_" + strings.Repeat("X", 54),
	} {
		if got := journalField(name); got != want {
			t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
}

// asJournald listens as journald does.
func asJournald(t *testing.T) (path string, conn *net.UnixConn) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	return path, listenAt(t, path)
}

func listenAt(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	conn := must[*net.UnixConn](t)(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"}))
	t.Cleanup(func() { conn.Close() })
	return conn
}

// readRecord reads a record that comes to journald's socket.
func readRecord(t *testing.T, conn *net.UnixConn) map[string]string {
	t.Helper()
	data := make([]byte, 1<<20)
	n := must[int](t)(conn.Read(data))
	return must[map[string]string](t)(journalRecord(data[:n]))
}

// TestJournalSocket: what comes to journald's socket is what its protocol wants:
// values of several lines, such as are no text, and long ones; what is too large
// for a datagram goes to the stream.
func TestJournalSocket(t *testing.T) {
	t.Parallel()
	path, conn := asJournald(t)
	var stderr bytes.Buffer
	j := &journal{socket: path, stderr: &stderr}
	for name, value := range map[string]string{"several lines": "a\nb=c\n", "no text": "\x00\xff\n", "long": strings.Repeat("x", 100_000)} {
		r := event.Record{Level: slog.LevelWarn, Message: "it's down", Reason: event.EndpointDown, Fields: []event.Field{{Name: "endpoint", Text: "a:1"}, {Name: "odd name", Text: value}}}
		j.deliver(r)
		got := readRecord(t, conn)
		want := map[string]string{"MESSAGE": r.Text(), "PRIORITY": "4", "SYSLOG_IDENTIFIER": "pointsman", "POINTSMAN_REASON": "EndpointDown",
			"POINTSMAN_ENDPOINT": "a:1", "POINTSMAN_ODD_NAME": value}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %.200q, not %.200q", name, got, want)
		}
	}
	j.deliver(event.Record{Message: strings.Repeat("y", 1<<20)})
	if stderr.Len() < 1<<20 {
		t.Errorf("what is too large: %.200q", &stderr)
	}
}

// TestJournalFull: where others have filled journald's socket a record waits, on
// a socket that the kernel wakes, and comes when it has room again; and so does
// one at the socket of the next journald.
func TestJournalFull(t *testing.T) {
	t.Parallel()
	path, conn := asJournald(t)
	others := must[int](t)(unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0))
	defer unix.Close(others)
	var err error
	for err == nil {
		err = unix.Sendto(others, []byte("MESSAGE=theirs\n"), 0, &unix.SockaddrUnix{Name: path})
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	j := &journal{socket: path, stderr: os.Stderr}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		j.deliver(event.Record{Message: "ours"})
	}()
	for readRecord(t, conn)["MESSAGE"] != "ours" {
	}
	<-sent
	if j.conn.RemoteAddr() == nil {
		t.Error("the socket isn't connected: to wait takes a CPU")
	}
	if err := errors.Join(conn.Close(), os.Remove(path)); err != nil {
		t.Fatal(err)
	}
	conn = listenAt(t, path)
	j.deliver(event.Record{Message: "again"})
	if got := readRecord(t, conn)["MESSAGE"]; got != "again" {
		t.Errorf("the next journald gets %q", got)
	}
}

// journalRecord reads the journal's native protocol, as systemd documents it.
func journalRecord(data []byte) (map[string]string, error) {
	fields := map[string]string{}
	for len(data) > 0 {
		end := bytes.IndexAny(data, "=\n")
		if end < 0 {
			return nil, errors.New("a field without a value")
		}
		name, rest := string(data[:end]), data[end+1:]
		size := bytes.IndexByte(rest, '\n')
		if data[end] == '\n' {
			size, rest = int(binary.LittleEndian.Uint64(rest)), rest[8:]
		}
		if size < 0 || size >= len(rest) || rest[size] != '\n' {
			return nil, errors.New(name + " doesn't end")
		}
		fields[name], data = string(rest[:size]), rest[size+1:]
	}
	return fields, nil
}
