package nodeipam

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/transplant-dev/transplant/ccm/nodeipam/internal/podcidr"
)

// errExhausted is that a range has no free block.
var errExhausted = errors.New("the range is exhausted")

// ledger knows which node has which blocks.
type ledger struct {
	mu      sync.Mutex
	pools   []*pool
	holders map[types.UID]*holder
}

// holder is a node that has blocks.
type holder struct {
	name  string
	cidrs []string
	spans [][]span // by pool
	// whole are the pools of which it has all blocks. They are among its spans only while they count as used.
	// parts has a pool for each span of some blocks.
	whole, parts []int
	// reserved blocks were chosen for the node, but it is not known to have them.
	reserved bool
	shared   bool
}

func newLedger(pools []*pool) *ledger { return &ledger{pools: pools, holders: map[types.UID]*holder{}} }

// complaint is something about a node's podCIDRs that a user has to know.
type complaint struct{ reason, message string }

// hold notes the podCIDRs that a node has. They replace what was reserved for it, which may free blocks. Complaints are
// returned when they are new.
func (l *ledger) hold(uid types.UID, name string, cidrs []string) (complaints []complaint, freed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.holders[uid]; before != nil && slices.Equal(before.cidrs, cidrs) {
		before.reserved = false
		return nil, false
	}
	freed = l.releaseNodeLocked(uid)
	h := &holder{name: name, cidrs: slices.Clone(cidrs), spans: make([][]span, len(l.pools))}
	for _, cidr := range cidrs {
		known := false
		prefix, err := podcidr.Parse(cidr)
		for i, p := range l.pools {
			s, ok := p.span(prefix)
			if err != nil || !ok {
				continue
			}
			known = true
			if p.blocks > 1 && s == p.whole() {
				complaints = append(complaints, l.holdWhole(h, i)...)
				continue
			}
			l.holdPart(h, i, s)
			if p.isTaken(s) {
				h.shared = true
				complaints = append(complaints, complaint{"CIDRConflict", l.conflict(i, s, name, cidr)})
			}
			p.occupy(s)
		}
		if !known {
			complaints = append(complaints, complaint{"CIDROutOfRange", fmt.Sprintf(
				"Node %s has the podCIDR %s, which is not in the ranges of --cluster-cidr", name, cidr)})
		}
	}
	l.holders[uid] = h
	l.report()
	return complaints, freed
}

// holdWhole counts a whole range that a node has as used, unless other nodes have parts of it. A kubelet that registers
// its Node chooses its podCIDRs: with a whole range it would keep all later nodes from getting one.
func (l *ledger) holdWhole(h *holder, i int) (complaints []complaint) {
	p := l.pools[i]
	h.whole = append(h.whole, i)
	p.wholes = append(p.wholes, h)
	if p.parts > 0 {
		h.shared = true
		return []complaint{{"CIDRConflict", fmt.Sprintf(
			"Node %s has the podCIDR %s, a whole range of --cluster-cidr, of which other nodes have parts: it is not counted as used. "+
				"Drain and delete the node, and find out who set it", h.name, p.prefix)}}
	}
	l.occupyWhole(h, i)
	return nil
}

func (l *ledger) occupyWhole(h *holder, i int) {
	p := l.pools[i]
	p.occupy(p.whole())
	h.spans[i] = append(h.spans[i], p.whole())
}

// holdPart notes that a node has a part of a pool. Nodes that have all of it give way.
func (l *ledger) holdPart(h *holder, i int, s span) {
	p := l.pools[i]
	if p.parts++; p.parts == 1 {
		for _, w := range p.wholes {
			p.release(p.whole())
			w.spans[i], w.shared = nil, true
		}
	}
	h.parts = append(h.parts, i)
	h.spans[i] = append(h.spans[i], s)
}

// freeParts is the way back of holdPart and holdWhole.
func (l *ledger) freeParts(h *holder) {
	for _, i := range h.whole {
		p := l.pools[i]
		p.wholes = slices.DeleteFunc(p.wholes, func(w *holder) bool { return w == h })
	}
	for _, i := range h.parts {
		p := l.pools[i]
		if p.parts--; p.parts == 0 {
			for _, w := range p.wholes {
				l.occupyWhole(w, i)
			}
		}
	}
}

// conflict says with whom a node shares a podCIDR.
func (l *ledger) conflict(i int, s span, name, cidr string) string {
	var others []string
	for _, other := range l.holders {
		if slices.ContainsFunc(other.spans[i], func(o span) bool { return o.first <= s.last && s.first <= o.last }) {
			others = append(others, "node "+other.name)
		}
	}
	slices.Sort(others)
	with := "the range of Services"
	if len(others) > 0 {
		with = fmt.Sprint(others)
	}
	return fmt.Sprintf("Node %s has the podCIDR %s, which overlaps with that of %s: something else gives out podCIDRs. "+
		"Drain and delete the younger node, and let it register again", name, cidr, with)
}

// reserve chooses podCIDRs for a node: one of each pool, or none at all. A node for which some were chosen before gets
// the same. It is false if the node is known to have its podCIDRs.
func (l *ledger) reserve(uid types.UID, name string) (cidrs []string, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.holders[uid]; h != nil {
		return h.cidrs, h.reserved, nil
	}
	h := &holder{name: name, reserved: true, spans: make([][]span, len(l.pools))}
	for i, p := range l.pools {
		if p.freeBlocks() == 0 {
			return nil, false, fmt.Errorf(
				"choosing podCIDRs for node %q: %w: %s has no free block of /%d",
				name,
				errExhausted,
				l.pools[i].prefix,
				p.size,
			)
		}
	}
	for i, p := range l.pools {
		s, _ := p.takeBlock()
		l.holdPart(h, i, s)
		h.cidrs = append(h.cidrs, p.cidr(s.first).String())
	}
	l.holders[uid] = h
	return h.cidrs, true, nil
}

// releaseNode forgets a node that is gone, and reports whether that has freed anything.
func (l *ledger) releaseNode(uid types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.report()
	return l.releaseNodeLocked(uid)
}

func (l *ledger) releaseNodeLocked(uid types.UID) bool {
	h := l.holders[uid]
	if h == nil {
		return false
	}
	delete(l.holders, uid)
	for i, spans := range h.spans {
		for _, s := range spans {
			l.pools[i].release(s)
		}
	}
	l.freeParts(h)
	return true
}

// names returns the nodes that have blocks.
func (l *ledger) names() map[types.UID]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := make(map[types.UID]string, len(l.holders))
	for uid, h := range l.holders {
		names[uid] = h.name
	}
	return names
}

// report counts the nodes that share a block. A node that did stays counted until it is gone: it is the one that has to
// go.
func (l *ledger) report() {
	n := 0
	for _, h := range l.holders {
		if h.shared {
			n++
		}
	}
	podcidr.Conflicts.Set(float64(n))
}
