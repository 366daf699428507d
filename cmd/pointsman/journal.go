package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"

	sd "github.com/coreos/go-systemd/v22/journal"
	"golang.org/x/sys/unix"

	"pointsman/state/event"
)

// journal writes log records to systemd's journal, each attribute as a field
// that can be asked for.
type journal struct {
	socket string    // of journald
	stderr io.Writer // for what can't be sent
	conn   net.Conn
}

const journalSocket = "/run/systemd/journal/socket"

// deliver sends a record. Where the journal isn't, or not any more, there's still
// its stream, which is standard error; that takes those, too, that are too large
// for a datagram.
func (j *journal) deliver(r event.Record) {
	if err := j.send(nativeRecord(r)); err != nil {
		fmt.Fprintf(j.stderr, "<%d>%s\n", priority(r.Level), strings.ReplaceAll(r.Text(), "\n", " "))
	}
}

// send waits for as long as the journal has no room. go-systemd's Send has a CPU
// busy meanwhile: its socket isn't connected, and to those the kernel says that
// there's room when there's none.
func (j *journal) send(record []byte) (err error) {
	for range 2 { // once more, for where journald's socket is another one now
		if j.conn == nil {
			if j.conn, err = net.Dial("unixgram", j.socket); err != nil {
				return err
			}
		}
		if _, err = j.conn.Write(record); err == nil || errors.Is(err, unix.EMSGSIZE) {
			return err
		}
		j.conn.Close()
		j.conn = nil
	}
	return err
}

// nativeRecord writes a record as the journal's native protocol has it.
func nativeRecord(r event.Record) []byte {
	b := appendField(nil, "PRIORITY", strconv.Itoa(int(priority(r.Level))))
	b = appendField(b, "MESSAGE", r.Text())
	for name, value := range journalFields(r) {
		b = appendField(b, name, value)
	}
	return b
}

// appendField appends a field: a value of several lines with its length.
func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	if strings.Contains(value, "\n") {
		b = binary.LittleEndian.AppendUint64(append(b, '\n'), uint64(len(value)))
	} else {
		b = append(b, '=')
	}
	return append(append(b, value...), '\n')
}

func priority(l slog.Level) sd.Priority {
	switch {
	case l >= slog.LevelError:
		return sd.PriErr
	case l >= slog.LevelWarn:
		return sd.PriWarning
	case l >= slog.LevelInfo:
		return sd.PriInfo
	}
	return sd.PriDebug
}

// journalFields gives a record's fields under the names that the journal takes.
// An empty one says nothing.
func journalFields(r event.Record) map[string]string {
	fields := map[string]string{"SYSLOG_IDENTIFIER": "pointsman"}
	if r.Reason != "" {
		fields[journalField("reason")] = string(r.Reason)
	}
	for _, f := range r.Fields {
		if f.Text != "" {
			fields[journalField(f.Name)] = f.Text
		}
	}
	return fields
}

// maxFieldName is the journal's bound: it drops fields with longer names.
const maxFieldName = 64

// journalField makes a field's name: the journal takes capital letters, digits
// and underscores.
func journalField(name string) string {
	name = "POINTSMAN_" + strings.Map(func(r rune) rune {
		switch {
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		}
		return '_'
	}, name)
	return name[:min(len(name), maxFieldName)]
}
