package cloud

import (
	cloudprovider "k8s.io/cloud-provider"
)

// EarlyStarter is what a provider implements to be started before a lease is held, and so on standby too: then it has nothing left to read when the
// lease is won. Others are started when the first lease is won, as upstream does it, because they may write then, or start loops that do.
type EarlyStarter interface {
	// StartsEarly reports whether Initialize and SetInformers write nothing, to the cluster or to the cloud, and start nothing that writes. With true,
	// the provider answers before them, too, which of the interfaces it has: a lease with nothing to run under it is then left alone.
	StartsEarly() bool
}

// StartsEarly reports whether a provider, or the one below a shell, asks to be started before a lease is held.
func StartsEarly(c cloudprovider.Interface) bool {
	early, ok := Unwrap(c).(EarlyStarter)
	return ok && early.StartsEarly()
}
