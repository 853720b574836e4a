package step

import (
	"sync"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Proofs are what this process has seen itself of the holders of leases, and of their ends.
//
// Handovers in a journal say the same, but a journal is a ConfigMap. Its writers can name any process as the holder of
// a lease, and call it ended. Such a handover is a claim, and its lease is released only after unheld has found no
// holder.
type Proofs struct {
	mu    sync.Mutex
	bound map[boundTerm]bool
	held  map[string]v1.HandoverRecord // by lease, the last that was bound
	ended map[uint64]bool
}

// boundTerm is a process as the holder of a lease in one term.
type boundTerm struct {
	lease, holder, component, host string
	transitions                    int32
	pid                            int
	startTicks                     uint64
}

func termOf(r v1.HandoverRecord) boundTerm {
	return boundTerm{r.Lease, r.Holder, r.Component, r.Host, r.Transitions, r.PID, r.StartTicks}
}

func newProofs() *Proofs {
	return &Proofs{bound: map[boundTerm]bool{}, held: map[string]v1.HandoverRecord{}, ended: map[uint64]bool{}}
}

// NoteBound remembers that this process has bound a holder.
func (p *Proofs) NoteBound(r v1.HandoverRecord) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bound[termOf(r)], p.held[r.Lease] = true, r
}

// HolderOf is the last holder of a lease that this process has bound. The lease may have another one since.
func (p *Proofs) HolderOf(lease string) (v1.HandoverRecord, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, isKnown := p.held[lease]
	return r, isKnown
}

// Forget drops the holder of a lease that has another one.
func (p *Proofs) Forget(lease string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.held, lease)
}

// IsBound reports whether this process has bound the holder of a handover.
func (p *Proofs) IsBound(r v1.HandoverRecord) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bound[termOf(r)]
}

// NoteEnded remembers that a container was seen terminated.
func (p *Proofs) NoteEnded(container uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended[container] = true
}

// HasEnded reports whether this process has seen a container terminated. Its pod may be gone since.
func (p *Proofs) HasEnded(container uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended[container]
}
