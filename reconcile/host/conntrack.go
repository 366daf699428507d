package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Flow is a UDP entry of the connection tracking table.
type Flow struct {
	// Source and Destination are those of the flow's first packet, before any
	// translation.
	Source, Destination netip.AddrPort
	// ReplySource is where answers come from: the backend where the flow is
	// translated, else the Destination, whether or not it is masqueraded.
	ReplySource netip.AddrPort
	// Zoned says that the flow is not in the default zone: somebody (Open
	// vSwitch, rules for a VRF) tracks its packets apart from all others.
	Zoned bool

	key [3][]byte // attributes that name the entry, as the kernel wrote them
}

// ForgetFlows shows every UDP entry of a family to stale, and removes those
// that it picks: the next packet of such a flow is translated as if it were
// its first. It gives the number removed, also when it fails.
//
// An error means that entries may not have been shown, or could not be
// removed. Those that were shown and picked are gone all the same, as far as
// possible: whoever asks again need not start from nothing.
//
// The netlink library has ConntrackDeleteFilters for this. It collects all
// entries of all protocols before it looks at the first, and decodes them by
// reflection: of 200,000 flows that is 13 million allocations and 190 MB,
// whereas we use 0.4 MB and the kernel's time (BenchmarkForgetFlows).
func ForgetFlows(ctx context.Context, f Family, stale func(Flow) bool) (removed int, err error) {
	var keys [][]byte
	remove := func() error {
		n, err := removeFlows(ctx, f, keys)
		removed, keys = removed+n, keys[:0]
		return err
	}
	var failed error // the first of them
	err = eachFlow(ctx, f, func(flow Flow) {
		if !stale(flow) {
			return
		}
		if keys = append(keys, flow.copyKey()); len(keys) == forgetAtOnce {
			failed = cmp.Or(failed, remove())
		}
	})
	if err != nil {
		err = fmt.Errorf("list UDP flows (%s): %w", f, err)
	}
	err = errors.Join(err, cmp.Or(failed, remove()))
	return removed, err
}

// forgetAtOnce is how many flows are picked before those are removed, amid the
// listing: a table may hold millions, and the keys of all would be held. It
// misses none for that, as the entry where the kernel goes on has not been shown
// yet.
const forgetAtOnce = 4096

// eachFlow lists the UDP entries. What visit gets is valid during the call.
func eachFlow(ctx context.Context, f Family, visit func(Flow)) error {
	return eachEntry(ctx, f, udpFilter(), func(attributes []byte) {
		if flow, ok := parseFlow(attributes); ok {
			visit(flow)
		}
	})
}

// eachEntry lists the entries that a filter leaves, undecoded, and on an old
// kernel others, too.
func eachEntry(ctx context.Context, f Family, filter []nl.NetlinkRequestData, visit func(attributes []byte)) error {
	s, err := subscribe(unix.NETLINK_NETFILTER, requestBuffer) // to no group
	if err != nil {
		return err
	}
	defer s.file.Close()
	defer s.interruptOn(ctx)()
	request := conntrackRequest(f, nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP)
	for _, a := range filter {
		request.AddData(a)
	}
	return s.query(request, func(message []byte) {
		if len(message) >= netfilterHeader {
			visit(message[netfilterHeader:])
		}
	})
}

// removeFlows removes entries by their keys. One that is gone already, or has
// been replaced by another of the same addresses, is no error.
func removeFlows(ctx context.Context, f Family, keys [][]byte) (removed int, err error) {
	if len(keys) == 0 {
		return 0, nil
	}
	s, err := subscribe(unix.NETLINK_NETFILTER, requestBuffer)
	if err != nil {
		return 0, err
	}
	defer s.file.Close()
	defer s.interruptOn(ctx)()
	for _, key := range keys {
		request := conntrackRequest(f, nl.IPCTNL_MSG_CT_DELETE, unix.NLM_F_ACK)
		request.AddRawData(key)
		switch err := s.query(request, nil); {
		case err == nil:
			removed++
		case !errors.Is(err, unix.ENOENT):
			return removed, fmt.Errorf("remove a UDP flow (%s): %w", f, err)
		}
	}
	return removed, nil
}

func conntrackRequest(f Family, operation, flags int) *nl.NetlinkRequest {
	request := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|operation, flags)
	request.AddData(&nl.Nfgenmsg{NfgenFamily: uint8(f), Version: nl.NFNETLINK_V0})
	return request
}
