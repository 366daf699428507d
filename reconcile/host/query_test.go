package host

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// message makes a netlink message.
func message(kind, flags uint16, payload ...byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(messageHeader+len(payload)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, flags)
	b = append(b, make([]byte, 8)...) // sequence, port
	return append(b, payload...)
}

func errnoBytes(e unix.Errno) []byte {
	return binary.NativeEndian.AppendUint32(nil, uint32(-int32(e)))
}

// TestAnswer: whatever leaves a dump incomplete is an error, and what came
// before is shown.
func TestAnswer(t *testing.T) {
	item := func(flags uint16) []byte { return message(0x100, flags, 'i', 't', 'e', 'm') }
	done, ok := message(unix.NLMSG_DONE, 0), errnoBytes(0)
	for name, tt := range map[string]struct {
		datagrams []string
		visited   int
		want      error
	}{
		"a dump":                      {[]string{string(item(0)) + string(item(0)), string(item(0)) + string(done)}, 3, nil},
		"an empty dump":               {[]string{string(message(unix.NLMSG_DONE, 0, ok...))}, 0, nil},
		"interrupted":                 {[]string{string(item(unix.NLM_F_DUMP_INTR)), string(item(0)), string(done)}, 2, netlink.ErrDumpInterrupted},
		"interrupted at the end":      {[]string{string(item(0)), string(message(unix.NLMSG_DONE, unix.NLM_F_DUMP_INTR, ok...))}, 1, netlink.ErrDumpInterrupted},
		"given up":                    {[]string{string(item(0)), string(message(unix.NLMSG_DONE, 0, errnoBytes(unix.ENOMEM)...))}, 1, unix.ENOMEM},
		"refused":                     {[]string{string(message(unix.NLMSG_ERROR, 0, errnoBytes(unix.EPERM)...))}, 0, unix.EPERM},
		"acknowledged":                {[]string{string(message(unix.NLMSG_ERROR, 0, ok...))}, 0, nil},
		"an error that doesn't say":   {[]string{string(message(unix.NLMSG_ERROR, 0))}, 0, errMalformed},
		"half a message":              {[]string{string(item(0)) + string(item(0)[:18])}, 1, errMalformed},
		"a message without a header":  {[]string{"\x10"}, 0, errMalformed},
		"a message longer than it is": {[]string{"\xff\x00\x00\x00" + string(make([]byte, 16))}, 0, errMalformed},
	} {
		visited := 0
		a := answer{visit: func(p []byte) {
			if string(p) == "item" {
				visited++
			}
		}}
		for i, d := range tt.datagrams {
			end, err := a.read([]byte(d))
			if last := i == len(tt.datagrams)-1; end != last || last && !errors.Is(err, tt.want) || !last && err != nil || last && tt.want == nil && err != nil {
				t.Errorf("%s: datagram %d: end %v, %v", name, i, end, err)
			}
		}
		if visited != tt.visited {
			t.Errorf("%s: %d visited", name, visited)
		}
	}
}
