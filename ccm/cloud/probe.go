package cloud

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Prober is what a provider may implement beside cloudprovider.Interface to say whether its cloud answers, with a call that is cheap and needs no object.
type Prober interface {
	// Probe returns nil if the cloud answers and takes the credentials.
	Probe(ctx context.Context) error
}

// ErrNothingToProbe is that whether the cloud answers cannot be known yet: the provider is no Prober, and there is no node to ask for.
var ErrNothingToProbe = errors.New("there is nothing to ask the cloud for yet")

// Probe asks the cloud something that changes nothing: what the provider's Prober asks, or whether the node has an instance. An answer is one that
// the cloud gave: also that there is no such instance, that it does not like the question, or that it gets too many.
func (s *Shell) Probe(ctx context.Context, node *corev1.Node) error {
	var err error
	ctx = WithClass(ctx, ClassOther)
	prober, isProber := s.provider.(Prober)
	switch {
	case isProber:
		c := s.caller.read(ctx, "Probe", object{kind: "the cloud"}, ClassOther)
		_, err = do(ctx, s.caller, c, errorOnly(prober.Probe))
	case node == nil || !describes(s.provider):
		return ErrNothingToProbe
	default:
		err = s.reader.probe(ctx, node)
	}
	switch outcome := Classify(err); outcome {
	case OutcomeOK, OutcomeNotFound, OutcomeClientError, OutcomeThrottled:
		return nil
	default:
		return fmt.Errorf("probing the cloud, outcome %s: %w", outcome, err)
	}
}

// probe asks whether a node has an instance, alone and once.
func (r *reader) probe(ctx context.Context, node *corev1.Node) error {
	lister, ok := r.provider.(InstancesLister)
	if !ok {
		return r.single(ctx, node, WantExists, false).Err
	}
	nodes := []*corev1.Node{node}
	states, err := do(ctx, r.caller, r.caller.listing(ctx, nodes), func(ctx context.Context) ([]InstanceState, error) {
		return lister.ListInstances(ctx, nodes, WantExists)
	})
	if err == nil && len(states) == 1 {
		err = states[0].Err
	}
	return err
}
