package ccm

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/program"
)

// chooseByWord takes the image that a word of the options stands for. It is the one that the provider's makers publish
// for the cluster's own minor, or ours.
func chooseByWord(d *draft.Draft) error {
	minor := max(d.APIMinor, d.Upgrade.Minor) // it starts when every API server is upgraded
	word := d.Options.Image
	image, ok, isWord := cloudprovider.Chosen(word, d.Provider.Name, minor)
	if word == "" || !isWord {
		return nil
	}
	if ok {
		d.Options.Image = image.Ref
		return nil
	}
	if word == cloudprovider.Own {
		first, last := proven.Minors()
		return fmt.Errorf(
			"--image=%s: there is no cloud-controller-manager of this project for provider %s and Kubernetes 1.%d: it is for 1.%d to 1.%d, and for %s; leave --image out for the one that fits",
			word,
			d.Provider.Name,
			minor,
			first,
			last,
			strings.Join(cloudprovider.OwnProviders(), ", "),
		)
	}
	return fmt.Errorf(
		"--image=%s: the catalogue has no official cloud-controller-manager of provider %s for Kubernetes 1.%d; name one with --image=REPOSITORY:TAG, of that minor or the one before, or leave --image out",
		word,
		d.Provider.Name,
		minor,
	)
}

// DescribeManager says what it means which manager comes. Ours is newer than the API server and asks a fence. An
// official one is of the API server's minor and asks none.
func DescribeManager(d *draft.Draft) []string {
	if d.Program.Image == "" || d.Options.Part == v1.PartFinish {
		return nil
	}
	if !d.Program.Ours {
		out := fmt.Sprintf(
			"the manager: %s, built from %s. Not promised: it is not fenced. After a pause it can write to the cloud for one renew deadline next to its successor. When it ends, its leases expire instead of being released",
			d.Program.Image,
			libraryRelease(d.Program.Minor),
		)
		if own, ok := cloudprovider.OwnImage(d.Provider.Name, max(d.APIMinor, d.Upgrade.Minor)); ok {
			out += fmt.Sprintf("; --image=%s takes %s, which has a fence and releases its leases", cloudprovider.Own, own.Ref)
		}
		return []string{out}
	}
	out := fmt.Sprintf(
		"the manager: %s (%s), built from %s and so newer than the API server of 1.%d; the version skew policy of Kubernetes does not cover that; its tests run it against kube-apiserver %s. Before each write to the cloud it checks that it still holds its lease",
		proven.Origin(d.Program.Image),
		d.Program.Image,
		libraryRelease(d.Program.Minor),
		max(d.APIMinor, d.Upgrade.Minor),
		strings.Join(proven.VersionsOf(d.Provider.Name), ", "),
	)
	if official, ok := cloudprovider.OfficialImage(d.Provider.Name, max(d.APIMinor, d.Upgrade.Minor)); ok {
		out += fmt.Sprintf(
			"; --image=%s takes %s, which the policy covers and which has no fence",
			cloudprovider.Official,
			official.Ref,
		)
	}
	return []string{out}
}

// libraryRelease is the release of k8s.io/cloud-provider of a minor.
func libraryRelease(minor int) string { return fmt.Sprintf("k8s.io/cloud-provider 0.%d", minor) }

// ChooseImage takes the image of the options, else the catalogue's for the provider and the API server.
func ChooseImage(d *draft.Draft) error {
	if err := chooseByWord(d); err != nil {
		return err
	}
	if d.Options.Image == "" {
		// it starts when every API server is upgraded
		image, ok := cloudprovider.ImageFor(d.Provider.Name, max(d.APIMinor, d.Upgrade.Minor))
		if !ok {
			if d.Options.Part != v1.PartInstall && (d.APIMinor < component.Oldest || d.APIMinor > d.Provider.LastInTree) {
				return fmt.Errorf(
					"the cluster is of 1.%d: plans are made for 1.%d to 1.%d, the last one with the in-tree provider %s",
					d.APIMinor,
					component.Oldest,
					d.Provider.LastInTree,
					d.Provider.Name,
				)
			}
			return fmt.Errorf(
				"the catalogue has no cloud-controller-manager for provider %s and Kubernetes 1.%d: name one with --image=REPOSITORY:TAG, or for the operator with --ccm-image=%s=REPOSITORY:TAG",
				d.Provider.Name,
				max(d.APIMinor, d.Upgrade.Minor),
				d.Provider.Name,
			)
		}
		d.Options.Image = image.Ref
	}
	p, err := program.Identify(d.Provider.Name, d.Options.Image)
	d.Program = p
	return err
}
