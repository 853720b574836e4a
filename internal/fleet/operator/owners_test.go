package operator

import (
	"slices"
	"testing"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hosted"
)

func TestEveryLoopThatAClusterHasIsInOneList(t *testing.T) {
	in, out := hosted.Owner{Component: component.KCM, Pod: "old"}, hosted.Owner{Component: "cloud-controller-manager", Pod: "new", ByLease: true}
	twice := in
	twice.Also = []string{"cloud-controller-manager/new"}
	o := ownersOf(hosted.Owners{Loops: map[string]hosted.Owner{"service": twice, "route": {}, "cloud-node-lifecycle": out}})
	if !slices.Equal(o.Twice, []string{"service"}) || !slices.Equal(o.Unowned, []string{"route"}) || !slices.Equal(o.External, []string{"cloud-node-lifecycle"}) ||
		!slices.Equal(o.ByLease, o.External) {
		t.Errorf("%+v", o)
	}
	without := ownersOf(hosted.Owners{Loops: map[string]hosted.Owner{"service": out, "cloud-node-lifecycle": out}})
	without.Known = true
	if !without.AllExternal() {
		t.Errorf("a cluster without a route loop waits for one: %+v", without)
	}
}
