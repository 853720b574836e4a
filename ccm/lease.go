package ccm

import (
	"context"
	"reflect"

	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app/config"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/ccm/election"
)

// lease is what our own controllers find in the context of a lease and authors' are not given: caches that are warm, and the provider behind the fence.
type lease struct {
	caches informers.SharedInformerFactory
	cloud  cloudprovider.Interface
}

type leaseKey struct{}

func withLease(ctx context.Context, caches informers.SharedInformerFactory, guarded cloudprovider.Interface) context.Context {
	return context.WithValue(ctx, leaseKey{}, lease{caches, guarded})
}

// ofLease returns what a controller of ours works with. An author's constructor that calls one of ours passes what it got: the provider itself, in whose
// place comes the guarded one, or one of its own making, which is guarded here. Without a lease in ctx, as under upstream's app.Run, both stay.
func ofLease(
	ctx context.Context, completed *config.CompletedConfig, provider cloudprovider.Interface,
) (informers.SharedInformerFactory, cloudprovider.Interface) {
	l, ok := ctx.Value(leaseKey{}).(lease)
	if !ok {
		return completed.SharedInformers, provider
	}
	switch {
	case cloud.IsGuarded(provider):
		return l.caches, provider
	case isSame(provider, cloud.Unwrap(l.cloud)):
		return l.caches, l.cloud
	}
	return l.caches, cloud.New(provider, settingsOf(ctx).Cloud).For(election.FromContext(ctx))
}

// isSame reports whether two providers are one.
func isSame(a, b cloudprovider.Interface) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	return x.IsValid() && y.IsValid() && x.Type() == y.Type() && x.Comparable() && y.Comparable() && a == b
}
