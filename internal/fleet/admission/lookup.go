package admission

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
)

// Groups looks for Clusters in the seed itself; a cache may lag behind the other group by just the write that matters.
func Groups(client dynamic.Interface) func(ctx context.Context, group, name string) ([]string, error) {
	return func(ctx context.Context, group, name string) ([]string, error) {
		var out []string
		for _, other := range []string{kubermatic.GroupName, kubermatic.LegacyGroupName} {
			if other == group {
				continue
			}
			_, err := client.Resource(objects.Resource(other)).Get(ctx, name, metav1.GetOptions{})
			switch {
			case err == nil:
				out = append(out, other)
			case apierrors.IsNotFound(err): // neither the object, or not even the group
			default:
				return nil, fmt.Errorf("looking for cluster %q in %s: %w", name, other, err)
			}
		}
		return out, nil
	}
}

const (
	// datacentersAge is for how long what seeds say of their datacenters is taken for true.
	datacentersAge = 30 * time.Second
	// datacentersRetry is for how long a seed that did not answer is not asked again. Otherwise decisions about 500
	// clusters would wait for it one after the other.
	datacentersRetry = 5 * time.Second
)

// Datacenters reads the datacenters of a Kubermatic installation from its Seed objects. Where there are none, no
// datacenter is known. It is safe for concurrent use.
type Datacenters struct {
	Client dynamic.Interface
	// Clock is the real one when nil.
	Clock clock.PassiveClock

	mu    sync.Mutex
	known map[string]*rules.Datacenter
	read  time.Time
	// failed is the last reading's error, and when it was.
	failed   error
	failedAt time.Time
}

var seeds = schema.GroupVersionResource{Group: kubermatic.GroupName, Version: "v1", Resource: "seeds"}

// NeverReadError is that Seeds could not be read, and never were: what they say of a datacenter is unknown.
type NeverReadError struct{ err error }

func (e *NeverReadError) Error() string { return e.err.Error() }

// Unwrap returns why they could not be read.
func (e *NeverReadError) Unwrap() error { return e.err }

// Get returns what is known of a datacenter; nil when no Seed has it. With an error it is what was known before, which
// is nothing with a *NeverReadError.
func (d *Datacenters) Get(ctx context.Context, name string) (*rules.Datacenter, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if d.Clock != nil {
		now = d.Clock.Now()
	}
	switch {
	case d.failed != nil && now.Sub(d.failedAt) <= datacentersRetry:
		return d.known[name], d.failed
	case d.known == nil || now.Sub(d.read) > datacentersAge:
		list, err := d.Client.Resource(seeds).List(ctx, metav1.ListOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			d.failed, d.failedAt = fmt.Errorf("listing seeds: %w", err), now
			if d.known == nil {
				d.failed = &NeverReadError{d.failed}
			}
			return d.known[name], d.failed
		}
		d.failed = nil
		d.known, d.read = map[string]*rules.Datacenter{}, now
		if err == nil {
			for i := range list.Items {
				d.add(&list.Items[i])
			}
		}
	}
	return d.known[name], nil
}

func (d *Datacenters) add(seed *unstructured.Unstructured) {
	all, _, _ := unstructured.NestedMap(seed.Object, "spec", "datacenters") // what has another shape says nothing
	for name, value := range all {
		dc, ok := value.(map[string]any)
		if !ok {
			continue
		}
		disabled, _, _ := unstructured.NestedBool(dc, "spec", "disableCsiDriver")
		auth, _, _ := unstructured.NestedString(dc, "spec", "openstack", "authURL")
		network, _, _ := unstructured.NestedString(dc, "spec", "hetzner", "network")
		d.known[name] = &rules.Datacenter{DisableCSIDriver: disabled, OpenStackAuthURL: auth, HetznerNetwork: network}
	}
}
