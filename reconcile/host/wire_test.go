package host

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// frame, attr, object and gen write what the kernel sends.
func frame(kind uint16, payload []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(messageHeader+len(payload)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, make([]byte, messageHeader-len(b))...)
	return pad(append(b, payload...))
}

func attr(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(attributeHeader+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	return pad(append(b, value...))
}

func pad(b []byte) []byte { return append(b, make([]byte, -len(b)&3)...) }

func object(kind uint8, family Family, table string) []byte {
	payload := append([]byte{byte(family), 0, 0, 0}, attr(objectTable, append([]byte(table), 0))...)
	return frame(unix.NFNL_SUBSYS_NFTABLES<<8|uint16(kind), payload)
}

func gen(id, pid uint32, process string) []byte {
	payload := append([]byte{0, 0, 0, 0}, attr(unix.NFTA_GEN_ID, binary.BigEndian.AppendUint32(nil, id))...)
	payload = append(payload, attr(unix.NFTA_GEN_PROC_PID, binary.BigEndian.AppendUint32(nil, pid))...)
	payload = append(payload, attr(unix.NFTA_GEN_PROC_NAME, append([]byte(process), 0))...)
	return frame(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWGEN, payload)
}

func TestNextMessageDistrustsLengths(t *testing.T) {
	whole := frame(7, []byte{1, 2, 3, 4, 5})
	for n := range len(whole) {
		// Without its padding it is whole, too.
		if _, _, _, ok := nextMessage(whole[:n]); ok != (n >= messageHeader+5) {
			t.Errorf("cut to %d bytes: ok %v", n, ok)
		}
	}
	for _, length := range []uint32{0, 15, 22, 1 << 31, 1<<32 - 1} {
		lying := frame(7, []byte{1, 2, 3, 4, 5})[:21]
		binary.NativeEndian.PutUint32(lying, length)
		if _, _, _, ok := nextMessage(lying); ok {
			t.Errorf("length %d was believed", length)
		}
	}
}

func TestAttributeDistrustsLengths(t *testing.T) {
	b := append(attr(9, []byte{1}), attr(unix.NLA_F_NESTED|3, []byte{2, 3})...)
	if v, ok := attribute(b, 3); !ok || string(v) != "\x02\x03" {
		t.Errorf("got %v, %v", v, ok)
	}
	if _, ok := attribute(b, 4); ok {
		t.Error("found what is not there")
	}
	for _, length := range []uint16{0, 3, 17, 0xffff} {
		lying := append([]byte(nil), b...)
		binary.NativeEndian.PutUint16(lying, length)
		if _, ok := attribute(lying, 3); ok {
			t.Errorf("length %d was believed", length)
		}
	}
}
