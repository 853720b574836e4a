package cloudprovider

import (
	"testing"

	"github.com/transplant-dev/transplant/internal/component"
)

func TestAnImageIsFoundAgainByItsReference(t *testing.T) {
	found := 0
	for provider := range official {
		for minor := component.Oldest; minor <= component.Newest; minor++ {
			want, ok := OfficialImage(provider, minor)
			if !ok {
				continue
			}
			found++
			if got, ok := ImageOf(want.Ref); !ok || got.Minor != minor || got.Ref != want.Ref {
				t.Errorf("%s is the image of 1.%d, and is found as %+v", want.Ref, minor, got)
			}
		}
	}
	if _, ok := ImageOf("registry.example.com/cloud-controller-manager:v1.26.0"); ok || found == 0 {
		t.Errorf("an image of somebody else is an official one, or none of %d is", found)
	}
}
