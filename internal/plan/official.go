package plan

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

// chooseOfficial takes the image that the provider's makers publish for the cluster's own minor.
func (b *builder) chooseOfficial() error {
	minor := max(b.api, b.up.minor) // it starts when every API server is upgraded
	image, ok := catalogue.OfficialImage(b.provider.Name, minor)
	if !ok {
		return fmt.Errorf("--image=%s: the catalogue has no official cloud-controller-manager of provider %s for Kubernetes 1.%d: name one with --image=REPOSITORY:TAG, of that minor or the one before, or leave --image out",
			catalogue.Official, b.provider.Name, minor)
	}
	b.opts.Image = image.Ref
	return nil
}

// managerNote says what it means which manager comes: ours is newer than the API server and asks a fence, an official one is of its minor and asks none.
func (b *builder) managerNote() []string {
	if b.program.image == "" || b.opts.Part == v1.PartFinish {
		return nil
	}
	if !b.program.ours {
		return []string{fmt.Sprintf("the manager: %s, built from %s. Not promised: it is not fenced. One that is paused and resumed can write to the cloud for one renew deadline beside its successor, and when it ends its leases run out instead of being released",
			b.program.image, library(b.program.minor))}
	}
	out := fmt.Sprintf("the manager: ours (%s), built from %s and so newer than the API server of 1.%d, which the version skew policy of Kubernetes does not cover; its tests run it against kube-apiserver %s. It asks a fence before each request that changes something",
		b.program.image, library(b.program.minor), max(b.api, b.up.minor), strings.Join(proven.Versions(), ", "))
	if official, ok := catalogue.OfficialImage(b.provider.Name, max(b.api, b.up.minor)); ok {
		out += fmt.Sprintf("; --image=%s takes %s, which the policy covers and which has no fence", catalogue.Official, official.Ref)
	}
	return []string{out}
}

// library is the release of k8s.io/cloud-provider of a minor.
func library(minor int) string { return fmt.Sprintf("k8s.io/cloud-provider 0.%d", minor) }
