package cloud

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// batch is one call about some nodes, and what follows from its failing.
type batch struct {
	reader *reader
	cancel context.CancelFunc
	ticket *ticket // the budget's leave for the first call
	wanted int     // items that somebody waits for
	spare  int     // how many more calls may be made to find the nodes that a call fails for
}

// spareCalls is enough to find one node in a thousand that makes a call fail.
const spareCalls = 24

// begin notes that items are being asked for. The caller has the reader's lock.
func (b *batch) begin(items []*item) {
	b.wanted, b.spare = len(items), spareCalls
	now := time.Now()
	for _, i := range items {
		i.batch, i.begun = b, now
		b.reader.running[i.key] = append(b.reader.running[i.key], i)
	}
}

// left is for an item that nobody waits for any more. The caller has the reader's lock.
func (b *batch) left() {
	b.wanted--
	if b.wanted == 0 {
		b.cancel()
	}
}

// ask asks for items and finishes each. When the cloud refuses the call, it is made again for both halves: one node that the cloud does not like must not
// keep the others from being known. When the cloud cannot be reached or throttles, halves would fare no better.
func (b *batch) ask(ctx context.Context, items []*item) {
	nodes := make([]*corev1.Node, len(items))
	var want Want
	for n, i := range items {
		nodes[n] = i.node
		want |= i.want // which changes only as long as the item waits
	}
	states, err := b.call(ctx, nodes, want)
	if err == nil {
		for n, i := range items {
			b.reader.finish(i, want, states[n])
		}
		return
	}
	if len(items) > 1 && b.spare >= 2 && divisible(Classify(err)) && ctx.Err() == nil {
		b.spare -= 2
		half := len(items) / 2
		b.ask(ctx, items[:half])
		b.ask(ctx, items[half:])
		return
	}
	for _, i := range items {
		b.reader.finish(i, want, InstanceState{Err: err})
	}
}

// divisible is whether an outcome may be the fault of some of the nodes.
func divisible(outcome Outcome) bool {
	switch outcome {
	case OutcomeClientError, OutcomeNotFound, OutcomePanic, OutcomeOther, OutcomeOK:
		return true
	default:
		return false
	}
}

// call asks the provider in the best way that it has.
func (b *batch) call(ctx context.Context, nodes []*corev1.Node, want Want) ([]InstanceState, error) {
	r := b.reader
	lister, ok := r.provider.(InstancesLister)
	if !ok {
		return []InstanceState{r.single(ctx, nodes[0], want, true)}, nil
	}
	batchSize.Observe(float64(len(nodes)))
	c := r.caller.listing(ctx, nodes)
	c.retries, c.ticket = true, b.ticket
	b.ticket = nil
	return do(ctx, r.caller, c, func(ctx context.Context) ([]InstanceState, error) {
		states, err := lister.ListInstances(ctx, nodes, want)
		if err == nil && len(states) != len(nodes) {
			return nil, fmt.Errorf("listing instances: the cloud provider returned %d states for %d nodes", len(states), len(nodes))
		}
		return states, err
	})
}
