package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sd "github.com/coreos/go-systemd/v22/journal"
	"golang.org/x/sys/unix"

	"pointsman/state/event"
)

// TestJournalNeverWaits: a journald that hangs costs records, not time; how many
// is said once it's back, and the program's end doesn't wait for it for long.
func TestJournalNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs, sent := make(chan struct{}), []string{}
		j := &journal{queue: make(chan entry, maxQueued), send: func(message string, _ sd.Priority, _ map[string]string) error {
			<-hangs
			sent = append(sent, message)
			return nil
		}}
		go j.run()
		defer close(j.queue)
		began := time.Now()
		for range maxQueued + 10 {
			j.take(event.Record{Message: "hello"})
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("records take %s", took)
		}
		if j.flush(); time.Since(began) != flushTime {
			t.Errorf("the end takes %s", time.Since(began))
		}
		close(hangs)
		j.take(event.Record{Message: "bye"})
		j.flush()
		synctest.Wait()
		text := strings.Join(sent, "\n")
		if !strings.Contains(text, " log records were lost: the journal didn't take them in time") || strings.Count(text, "hello") < maxQueued {
			t.Errorf("%d messages, the last: %s", len(sent), sent[len(sent)-1])
		}
	})
}

// TestJournalGone: what the journal doesn't take goes to its stream.
func TestJournalGone(t *testing.T) {
	var stderr bytes.Buffer
	j := &journal{stderr: &stderr, send: func(string, sd.Priority, map[string]string) error { return errors.New("gone") }}
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

// TestJournalSocket: what comes to journald's socket is what its protocol wants:
// values of several lines, such as are no text, and records that are too large for
// a datagram.
func TestJournalSocket(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	for name, value := range map[string]string{"several lines": "a\nb=c\n", "no text": "\x00\xff\n", "large": large} {
		j := &journal{send: sd.Send, stderr: os.Stderr}
		r := event.Record{Level: slog.LevelWarn, Message: "it's down", Reason: event.EndpointDown, Fields: []event.Field{{Name: "endpoint", Text: "a:1"}, {Name: "odd name", Text: value}}}
		got, err := onJournalSocket(func() { j.deliver(r) })
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"MESSAGE": r.Text(), "PRIORITY": "4", "SYSLOG_IDENTIFIER": "pointsman", "POINTSMAN_REASON": "EndpointDown",
			"POINTSMAN_ENDPOINT": "a:1", "POINTSMAN_ODD_NAME": value}
		for field, text := range want {
			if got[field] != text {
				t.Errorf("%s: %s is %.80q, not %.80q", name, field, got[field], text)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d fields", name, len(got))
		}
	}
}

// onJournalSocket gives the fields that a function sends to journald's socket, from
// a thread that sees another one there. The thread ends with it.
func onJournalSocket(send func()) (fields map[string]string, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		var conn *net.UnixConn
		if conn, err = listenAsJournald(); err != nil {
			return
		}
		defer conn.Close()
		send()
		fields, err = readJournal(conn)
	}()
	<-done
	return fields, err
}

// listenAsJournald gives this thread a /run of its own.
func listenAsJournald() (*net.UnixConn, error) {
	const dir = "/run/systemd/journal"
	err := errors.Join(unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("tmpfs", "/run", "tmpfs", 0, ""))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return net.ListenUnixgram("unixgram", &net.UnixAddr{Name: dir + "/socket", Net: "unixgram"})
}

// readJournal reads a record, which is a datagram or a file that comes with one.
func readJournal(conn *net.UnixConn) (map[string]string, error) {
	data, rights := make([]byte, 64<<10), make([]byte, 1024)
	n, oob, _, _, err := conn.ReadMsgUnix(data, rights)
	if err != nil {
		return nil, err
	}
	if oob == 0 {
		return journalRecord(data[:n])
	}
	messages, err := unix.ParseSocketControlMessage(rights[:oob])
	if err != nil {
		return nil, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fds[0]), "record")
	defer f.Close()
	all, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	if err != nil {
		return nil, err
	}
	return journalRecord(all)
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
