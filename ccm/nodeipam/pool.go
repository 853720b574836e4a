package nodeipam

import (
	"fmt"
	"net/netip"
	"slices"
)

// maxBits bounds how many blocks a range can have, 2 to the power of it. What is free is not stored, so a large range
// costs nothing; upstream has a bitmap and stops at 16 for IPv6.
const maxBits = 62

// wideSpan is from how many blocks on a span is kept as one, not block by block: the range of Services may be large.
const wideSpan = 256

// pool is a range that is cut into equal blocks. It knows which are used, and by how many.
type pool struct {
	prefix  netip.Prefix
	size    int // mask of a block
	blocks  uint64
	used    map[uint64]int // by how many
	wide    []span
	outside int // used blocks that are in no wide span
	next    uint64
	// wholes are the nodes that have all blocks, parts how many spans of some of them nodes have.
	wholes []*holder
	parts  int
}

// span is blocks from first to last, both included.
type span struct{ first, last uint64 }

func (s span) contains(block uint64) bool { return s.first <= block && block <= s.last }

func newPool(prefix netip.Prefix, size int) (*pool, error) {
	switch width := size - prefix.Bits(); {
	case size > prefix.Addr().BitLen():
		return nil, fmt.Errorf("a block of /%d is smaller than an address", size)
	case width < 0:
		return nil, fmt.Errorf("a block of /%d does not fit into %s of --cluster-cidr", size, prefix)
	case width > maxBits:
		return nil, fmt.Errorf(
			"blocks of /%d are too small for %s of --cluster-cidr: /%d at most",
			size,
			prefix,
			prefix.Bits()+maxBits,
		)
	default:
		p := &pool{
			prefix: prefix,
			size:   size,
			blocks: 1 << width,
			used:   map[uint64]int{},
		}
		maxBlocks.WithLabelValues(p.label()).Set(float64(p.blocks))
		return p, nil
	}
}

func (p *pool) label() string { return p.prefix.String() }

// u128 is an address as a number.
type u128 struct{ hi, lo uint64 }

func number(a netip.Addr) u128 {
	b := a.As16()
	if a.Is4() {
		b = [16]byte{}
		four := a.As4()
		copy(b[12:], four[:])
	}
	var n u128
	for i := range 8 {
		n.hi, n.lo = n.hi<<8|uint64(b[i]), n.lo<<8|uint64(b[i+8])
	}
	return n
}

// block returns the block that an address of the range is in.
func (p *pool) block(a netip.Addr) uint64 {
	n, base, shift := number(a), number(p.prefix.Addr()), p.prefix.Addr().BitLen()-p.size
	hi, lo := n.hi^base.hi, n.lo^base.lo
	if shift >= 64 {
		return hi >> (shift - 64)
	}
	if shift == 0 {
		return lo
	}
	return hi<<(64-shift) | lo>>shift
}

// cidr returns a block.
func (p *pool) cidr(block uint64) netip.Prefix {
	base, shift := number(p.prefix.Addr()), p.prefix.Addr().BitLen()-p.size
	n := u128{lo: block}
	switch {
	case shift >= 64:
		n = u128{hi: block << (shift - 64)}
	case shift > 0:
		n = u128{hi: block >> (64 - shift), lo: block << shift}
	}
	n.hi, n.lo = n.hi|base.hi, n.lo|base.lo
	var b [16]byte
	for i := range 8 {
		b[i], b[i+8] = byte(n.hi>>(56-8*i)), byte(n.lo>>(56-8*i))
	}
	if p.prefix.Addr().Is4() {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte(b[12:])), p.size)
	}
	return netip.PrefixFrom(netip.AddrFrom16(b), p.size)
}

// whole are all blocks.
func (p *pool) whole() span { return span{0, p.blocks - 1} }

// span returns the blocks that a CIDR has addresses of; false if none.
func (p *pool) span(cidr netip.Prefix) (span, bool) {
	cidr = cidr.Masked()
	switch {
	case !cidr.IsValid() || !cidr.Overlaps(p.prefix):
		return span{}, false
	case cidr.Bits() <= p.prefix.Bits():
		return p.whole(), true
	}
	first := p.block(cidr.Addr())
	if cidr.Bits() >= p.size {
		return span{first, first}, true
	}
	return span{first, first + 1<<(p.size-cidr.Bits()) - 1}, true
}

func (p *pool) isInWideSpan(block uint64) bool {
	return slices.ContainsFunc(p.wide, func(s span) bool { return s.contains(block) })
}

// isTaken reports whether anybody has a block of a span.
func (p *pool) isTaken(s span) bool {
	if slices.ContainsFunc(p.wide, func(w span) bool { return s.first <= w.last && w.first <= s.last }) {
		return true
	}
	for block := range p.used {
		if s.last-s.first < wideSpan {
			break
		}
		if s.contains(block) {
			return true
		}
	}
	if s.last-s.first < wideSpan {
		for block := s.first; ; block++ {
			if p.used[block] > 0 {
				return true
			}
			if block == s.last {
				break
			}
		}
	}
	return false
}

// occupy marks blocks as used by one more.
func (p *pool) occupy(s span) {
	free := p.freeBlocks()
	if s.last-s.first >= wideSpan {
		p.wide = append(p.wide, s)
		p.recount()
	} else {
		for block := s.first; ; block++ {
			if p.used[block]++; p.used[block] == 1 && !p.isInWideSpan(block) {
				p.outside++
			}
			if block == s.last {
				break
			}
		}
	}
	allocations.WithLabelValues(p.label()).Add(float64(free - p.freeBlocks()))
	p.report()
}

// release marks blocks as used by one less.
func (p *pool) release(s span) {
	free := p.freeBlocks()
	if s.last-s.first >= wideSpan {
		if i := slices.Index(p.wide, s); i >= 0 {
			p.wide = slices.Delete(p.wide, i, i+1)
		}
		p.recount()
	} else {
		for block := s.first; ; block++ {
			switch p.used[block] {
			case 0:
			case 1:
				delete(p.used, block)
				if !p.isInWideSpan(block) {
					p.outside--
				}
			default:
				p.used[block]--
			}
			if block == s.last {
				break
			}
		}
	}
	releases.WithLabelValues(p.label()).Add(float64(p.freeBlocks() - free))
	p.report()
}

func (p *pool) recount() {
	p.outside = 0
	for block := range p.used {
		if !p.isInWideSpan(block) {
			p.outside++
		}
	}
}

// freeBlocks is how many blocks no node has.
func (p *pool) freeBlocks() uint64 {
	wide := slices.SortedFunc(slices.Values(p.wide), func(a, b span) int {
		if a.first < b.first {
			return -1
		}
		return 1
	})
	free, from := p.blocks-uint64(p.outside), uint64(0)
	for _, s := range wide {
		if s.first = max(s.first, from); s.first <= s.last {
			free -= s.last - s.first + 1
			from = s.last + 1
		}
	}
	return free
}

// takeBlock occupies the next free block, going round: a block that has just become free is given out last. It is false
// if none is.
func (p *pool) takeBlock() (span, bool) {
	if p.freeBlocks() == 0 {
		return span{}, false
	}
	tries := 0
	for block := p.next % p.blocks; ; {
		i := slices.IndexFunc(p.wide, func(s span) bool { return s.contains(block) })
		switch {
		case i >= 0:
			block = (p.wide[i].last + 1) % p.blocks
		case p.used[block] > 0:
			block = (block + 1) % p.blocks
		default:
			p.next = (block + 1) % p.blocks
			p.occupy(span{block, block})
			allocationTries.WithLabelValues(p.label()).Observe(float64(tries))
			return span{block, block}, true
		}
		tries++
	}
}

func (p *pool) report() {
	usage.WithLabelValues(p.label()).Set(1 - float64(p.freeBlocks())/float64(p.blocks))
}
