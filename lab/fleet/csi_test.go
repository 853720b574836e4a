package fleet

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/transplant-dev/transplant/internal/fleet/parts"
	"github.com/transplant-dev/transplant/lab/apiserver"
)

// Every object of every CSI driver, of every minor that has one, is taken by real API servers, and applying it again changes nothing. No cloud is asked.
func TestRealAPIServersTakeTheCSIDrivers(t *testing.T) {
	onlyWithAll(t)
	for _, version := range []string{"v1.26.0", "v1.30.14", "v1.36.3"} {
		t.Run(version, func(t *testing.T) { takesDrivers(t, version) })
	}
}

func takesDrivers(t *testing.T, version string) {
	server, err := apiserver.Start(t.Context(), apiserver.Options{Dir: t.TempDir(), Version: version, Flags: []string{"--allow-privileged=true"}})
	must(t, err)
	t.Cleanup(server.Stop)
	w, err := On(server)
	must(t, err)
	taken := 0
	for _, provider := range []string{"aws", "azure", "gce", "openstack", "vsphere"} {
		for minor := 20; minor <= 36; minor++ {
			objects, err := parts.Manifests(provider, minor)
			if err != nil {
				continue // no driver for that minor, which the rules refuse
			}
			for _, o := range objects {
				appliedTwice(t, w, fmt.Sprintf("%s 1.%d", provider, minor), o)
			}
			taken += len(objects)
		}
	}
	if taken == 0 {
		t.Error("there is no object at all")
	}
	t.Logf("%d objects", taken)
}

// appliedTwice applies an object as the operator does, and again: what the first made is what the second finds.
func appliedTwice(t *testing.T, w *World, of string, o *unstructured.Unstructured) {
	t.Helper()
	first, err := w.apply(t.Context(), o)
	if err != nil {
		t.Errorf("%s: %v", of, err)
		return
	}
	second, err := w.apply(t.Context(), o)
	if err != nil || second.GetResourceVersion() != first.GetResourceVersion() {
		t.Errorf("%s: %s %s applied again: %v", of, o.GetKind(), o.GetName(), err)
	}
}
