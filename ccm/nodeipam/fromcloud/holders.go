package fromcloud

import (
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/transplant-dev/transplant/ccm/nodeipam/internal/podcidr"
)

// holders knows which Nodes have which ranges, or are about to get them.
type holders struct {
	mu sync.Mutex
	of map[types.UID]holder
}

type holder struct {
	name   string
	ranges []netip.Prefix
}

func newHolders() *holders { return &holders{of: map[types.UID]holder{}} }

// note keeps what a Node has, in the place of what was kept for it.
func (h *holders) note(node *corev1.Node) {
	held := holder{name: node.Name}
	for _, cidr := range node.Spec.PodCIDRs {
		if prefix, err := podcidr.Parse(cidr); err == nil {
			held.ranges = append(held.ranges, prefix)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of[node.UID] = held
}

// claim keeps ranges for a Node, unless another one has some of them: then it returns that one's name.
func (h *holders) claim(node *corev1.Node, ranges []netip.Prefix) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid, other := range h.of {
		if uid != node.UID && other.overlaps(ranges) {
			return other.name
		}
	}
	h.of[node.UID] = holder{node.Name, ranges}
	return ""
}

func (o holder) overlaps(ranges []netip.Prefix) bool {
	for _, mine := range o.ranges {
		for _, other := range ranges {
			if mine.Overlaps(other) {
				return true
			}
		}
	}
	return false
}

// release forgets a Node that is gone.
func (h *holders) release(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.of, uid)
}

// retain forgets all but the Nodes that there are: one may have been deleted while it was given a range.
func (h *holders) retain(present map[types.UID]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid := range h.of {
		if !present[uid] {
			delete(h.of, uid)
		}
	}
}
