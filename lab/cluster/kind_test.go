package cluster

import (
	"strings"
	"testing"
)

// Gates of a lab are those of every component and kubelet, next to those that its version needs.
func TestGatesAreThoseOfEveryComponent(t *testing.T) {
	const given = "CSIMigrationAWS=false"
	for _, c := range []struct {
		version, component, want string
	}{
		{"v1.24.17", APIServer, given},
		{"v1.24.17", ControllerManager, given},
		{"v1.24.17", Scheduler, given},
		{"v1.24.17", "kubelet", given},
		{"v1.30.14", ControllerManager, inTreeGates + "," + given},
		{"v1.30.14", Scheduler, given},
	} {
		o := Options{Dir: t.TempDir(), LockDir: t.TempDir(), Version: c.version, Gates: given}
		o, err := o.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		if have := o.Kind.Flags(c.component)["feature-gates"]; have != c.want {
			t.Errorf("%s of %s has the gates %q, want %q", c.component, c.version, have, c.want)
		}
	}
	without, err := Options{Dir: t.TempDir(), LockDir: t.TempDir(), Version: "v1.24.17"}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if flags := scheduler(without.Kind, &Host{}).flags; strings.Contains(flags["feature-gates"], "=") {
		t.Errorf("without gates the scheduler has %v", flags)
	}
}

// Two labs' pods have no address in common, and none with a component.
func TestAPodHasAnAddressNextToTheBlock(t *testing.T) {
	b := fakeBlock()
	if have := b.podAddress(9); have != "127.51.7.9" || have == b.address(9) {
		t.Errorf("the pod has %s", have)
	}
}
