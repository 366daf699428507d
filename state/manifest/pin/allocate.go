package pin

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"pointsman/state"
	"pointsman/state/manifest"
)

// allocator chooses values. Where a value is looked for first depends on the
// Service's name alone, so that another Service which comes or goes moves it
// only where the two meet.
type allocator struct {
	cfg    manifest.Config
	used   taken // by the files, or given by this allocator
	freed  taken // by what the files no longer are
	former map[state.ObjectName]*corev1.Service
}

func newAllocator(cfg manifest.Config, used taken) *allocator {
	if cfg.NodePortLast == 0 {
		cfg.NodePortFirst, cfg.NodePortLast = 30000, 32767 // Kubernetes' own
	}
	return &allocator{cfg: cfg, used: used, freed: newTaken(), former: map[state.ObjectName]*corev1.Service{}}
}

// remember keeps what an earlier version of the files names from being given
// to anybody but the Service that had it: clients, caches and flows may still
// mean the old one.
func (a *allocator) remember(s *survey) {
	a.freed = s.taken
	for _, svc := range s.services {
		a.former[svc.name()] = svc.object.Service
	}
}

// fill gives a Service the settings it lacks, or says why it can't have them;
// then nothing is used up.
func (a *allocator) fill(s *service) error {
	c := choice{allocator: a, service: s.object.Service, name: s.name(), former: a.former[s.name()]}
	if c.former == nil {
		c.former = &corev1.Service{}
	}
	for _, choose := range []func() error{c.clusterIPs, c.nodePorts, c.healthCheck} {
		if err := choose(); err != nil {
			c.release()
			return err
		}
	}
	s.settings = c.settings
	return nil
}

// choice is what is chosen for one Service.
type choice struct {
	*allocator
	service *corev1.Service
	name    state.ObjectName
	former  *corev1.Service // what it was; empty where that isn't known

	settings  []setting
	addresses []netip.Addr // that it got
	ports     []uint16
}

func (c *choice) release() {
	for _, a := range c.addresses {
		delete(c.used.addresses, a)
	}
	for _, n := range c.ports {
		delete(c.used.ports, n)
	}
}

func (c *choice) clusterIPs() error {
	spec := &c.service.Spec
	all := append([]string(nil), spec.ClusterIPs...)
	missing := missingFamilies(spec, c.cfg)
	for _, f := range missing {
		addr, err := c.address(f)
		if err != nil {
			return err
		}
		all = append(all, addr.String())
	}
	if len(missing) > 0 {
		c.settings = append(c.settings, clusterIPSettings(spec, all)...)
	}
	return nil
}

// nodePorts gives entries of one port number, TCP and UDP, one nodePort, as
// the API server does on create.
func (c *choice) nodePorts() error {
	spec := &c.service.Spec
	if !wantsNodePorts(spec) {
		return nil
	}
	byPort := map[int32]uint16{}
	for _, p := range spec.Ports {
		if _, known := byPort[p.Port]; !known && p.NodePort != 0 {
			byPort[p.Port] = uint16(p.NodePort)
		}
	}
	for i, p := range spec.Ports {
		if p.NodePort != 0 {
			continue
		}
		if _, known := byPort[p.Port]; !known {
			n, err := c.port(fmt.Sprint(keyNodePort, "/", p.Port), formerNodePort(c.former, p))
			if err != nil {
				return fmt.Errorf("spec.ports[%d].nodePort: %w", i, err)
			}
			byPort[p.Port] = n
		}
		c.settings = append(c.settings, nodePortSetting(i, byPort[p.Port]))
	}
	return nil
}

func formerNodePort(former *corev1.Service, p corev1.ServicePort) int32 {
	for _, f := range former.Spec.Ports {
		if f.Port == p.Port && f.Protocol == p.Protocol {
			return f.NodePort
		}
	}
	return 0
}

func (c *choice) healthCheck() error {
	if !lacksHealthCheck(&c.service.Spec) {
		return nil
	}
	n, err := c.port(keyHealthCheck, c.former.Spec.HealthCheckNodePort)
	if err != nil {
		return fmt.Errorf("spec.healthCheckNodePort: %w", err)
	}
	c.settings = append(c.settings, healthCheckSetting(n))
	return nil
}

// address takes a free address of a family, of the first range that has one.
func (c *choice) address(f corev1.IPFamily) (netip.Addr, error) {
	ranges := rangesOf(f, c.cfg)
	for _, text := range c.former.Spec.ClusterIPs {
		had, err := netip.ParseAddr(text)
		if err == nil && familyOf(had) == f && !c.used.addresses[had] && isUsable(had, ranges) {
			return c.takeAddress(had), nil
		}
	}
	for _, r := range ranges {
		network := r.Masked().Addr()
		free := func(i uint64) bool {
			a := add(network, i)
			return !c.used.addresses[a] && !c.freed.addresses[a]
		}
		if i, ok := pick(addressBands(r), c.key(keyClusterIP+"/"+string(f)), free); ok {
			return c.takeAddress(add(network, i)), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("spec.clusterIP: no address of %s is free", strings.Trim(fmt.Sprint(ranges), "[]"))
}

func (c *choice) takeAddress(a netip.Addr) netip.Addr {
	c.used.addresses[a] = true
	c.addresses = append(c.addresses, a)
	return a
}

// port takes a free number of the node port range, the one that the Service
// had if that may be.
func (c *choice) port(what string, had int32) (uint16, error) {
	first, last := uint64(c.cfg.NodePortFirst), uint64(c.cfg.NodePortLast)
	n, ok := uint64(had), had > 0 && uint64(had) >= first && uint64(had) <= last && !c.used.ports[uint16(had)]
	if !ok {
		free := func(i uint64) bool { return !c.used.ports[uint16(i)] && !c.freed.ports[uint16(i)] }
		n, ok = pick(portBands(first, last), c.key(what), free)
	}
	if !ok {
		return 0, fmt.Errorf("no port of %d-%d is free", first, last)
	}
	c.used.ports[uint16(n)] = true
	c.ports = append(c.ports, uint16(n))
	return uint16(n), nil
}

func (c *choice) key(what string) string { return c.name.String() + "/" + what }

// band is a part of a range, both ends included; empty where last < first.
type band struct{ first, last uint64 }

// pick gives the first free number of the first band that has one, looking
// from where the key's hash points and round.
func pick(bands []band, key string, free func(uint64) bool) (uint64, bool) {
	sum := sha256.Sum256([]byte(key))
	hash := binary.BigEndian.Uint64(sum[:])
	for _, b := range bands {
		if b.last < b.first {
			continue
		}
		size := b.last - b.first + 1
		for i := range size {
			if n := b.first + (hash%size+i)%size; free(n) {
				return n, true
			}
		}
	}
	return 0, false
}

// addressBands gives the parts of a service CIDR as distances from its network
// address: first what the API server gives out, then what it leaves to values
// that are chosen by hand (KEP-3070). The first address is that of
// default/kubernetes in any cluster of that range, and nobody's here.
func addressBands(cidr netip.Prefix) []band {
	size := uint64(1) << min(cidr.Addr().BitLen()-cidr.Bits(), 62)
	if size < 4 {
		return nil
	}
	last := size - 1
	if cidr.Addr().Is4() {
		last-- // broadcast
	}
	offset := bandOffset(size, 16, 256)
	return []band{{max(offset+1, 2), last}, {2, offset}}
}

// portBands gives the parts of the node port range (KEP-3668).
func portBands(first, last uint64) []band {
	middle := first + bandOffset(last-first+1, 32, 128)
	return []band{{middle, last}, {first, middle - 1}}
}

// bandOffset is the size of the lower band: the size-th part of the range by
// divisor, between 16 and most, and nothing of a range of 16.
func bandOffset(size, divisor, most uint64) uint64 {
	if size <= 16 {
		return 0
	}
	return min(max(size/divisor, 16), most)
}

// isUsable reports whether an address may be a Service's.
func isUsable(a netip.Addr, ranges []netip.Prefix) bool {
	for _, r := range ranges {
		if r.Contains(a) {
			network := r.Masked().Addr()
			broadcast := a.Is4() && !r.Contains(a.Next())
			return a != network && a != network.Next() && !broadcast
		}
	}
	return false
}

// add gives the address n after another one.
func add(a netip.Addr, n uint64) netip.Addr {
	b := a.As16()
	low, carry := bits.Add64(binary.BigEndian.Uint64(b[8:]), n, 0)
	binary.BigEndian.PutUint64(b[8:], low)
	binary.BigEndian.PutUint64(b[:8], binary.BigEndian.Uint64(b[:8])+carry)
	sum := netip.AddrFrom16(b)
	if a.Is4() {
		return sum.Unmap()
	}
	return sum
}
