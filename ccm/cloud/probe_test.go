package cloud

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// prober is a provider that says itself whether its cloud answers.
type prober struct {
	*provider
	err error
}

func (p prober) Probe(context.Context) error { return p.err }

func TestWhetherTheCloudAnswers(t *testing.T) {
	v2 := func(err error) *provider {
		return &provider{instancesV2: newCloud{recorder: recorder{&[]string{}}, fails: map[string]error{"InstanceExists": err}}}
	}
	lister := func(state InstanceState, err error) cloudprovider.Interface {
		return &withLister{provider: &provider{}, max: 10, list: func(context.Context, []*corev1.Node, Want) ([]InstanceState, error) {
			return []InstanceState{state}, err
		}}
	}
	failed := func(outcome, why string) string { return "probing the cloud, outcome " + outcome + ": " + why }
	broken := failed("server_error", "no success (500 Internal Server Error)")
	for name, c := range map[string]struct {
		provider cloudprovider.Interface
		node     *corev1.Node
		want     string
	}{
		"its prober says so":               {prober{v2(errBroken), nil}, nil, "<nil>"},
		"its prober says no":               {prober{v2(nil), errors.New("connection refused")}, nil, failed("connection_refused", "connection refused")},
		"nothing to ask for":               {v2(nil), nil, ErrNothingToProbe.Error()},
		"nobody to ask":                    {&provider{}, node("a"), ErrNothingToProbe.Error()},
		"an instance that is there":        {v2(nil), node("a"), "<nil>"},
		"no such instance":                 {v2(cloudprovider.InstanceNotFound), node("a"), "<nil>"},
		"a question that it does not like": {v2(statusError(400)), node("a"), "<nil>"},
		"too many questions":               {v2(statusError(429)), node("a"), "<nil>"},
		"no credentials":                   {v2(statusError(401)), node("a"), failed("auth", "no success (401 Unauthorized)")},
		"a cloud that is broken":           {v2(statusError(503)), node("a"), failed("server_error", "no success (503 Service Unavailable)")},
		"a list":                           {lister(InstanceState{Exists: true}, nil), node("a"), "<nil>"},
		"a list without the instance":      {lister(InstanceState{}, nil), node("a"), "<nil>"},
		"a list that fails":                {lister(InstanceState{}, statusError(500)), node("a"), broken},
		"a list that fails for the node":   {lister(InstanceState{Err: statusError(500)}, nil), node("a"), broken},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, fmt.Sprint(New(c.provider, Options{}).Probe(t.Context(), c.node))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
