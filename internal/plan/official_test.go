package plan

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// TestTheOfficialImageIsTakenInEveryShape: on each snapshot of a provider that has one for the cluster's minor, the official image stands in the plan in every
// place, and the plan says what that means.
func TestTheOfficialImageIsTakenInEveryShape(t *testing.T) {
	for shape, c := range map[string]struct {
		snap    *v1.Snapshot
		options v1.Options
	}{
		"static pods":             {lab(t), v1.Options{Shape: v1.ShapeStaticPod}},
		"a DaemonSet":             {lab(t), v1.Options{Shape: v1.ShapeDaemonSet}},
		"a Deployment":            {deployedCluster(), v1.Options{}},
		"a seed":                  {seeded(2), v1.Options{}},
		"a seed with one replica": {seeded(1), v1.Options{}},
		"a new cluster in a seed": {installed(), v1.Options{Part: v1.PartInstall}},
		"an upgrade on the way":   {awsUpgrade(), v1.Options{TargetVersion: "v1.27.4"}},
	} {
		c.options.Image = cloudprovider.Official
		p := mustMake(t, c.snap, c.options)
		minor := 26
		if c.options.TargetVersion != "" { // the manager starts when every API server is upgraded
			minor = 27
		}
		want, ok := cloudprovider.OfficialImage(cloudprovider.AWS, minor)
		if !ok || p.Options.Image != want.Ref {
			t.Fatalf("%s: the plan's image is %q, want %q", shape, p.Options.Image, want.Ref)
		}
		found := 0
		for _, s := range p.Steps {
			for _, text := range []string{s.Content, s.Object} {
				if strings.Contains(text, "transplant-dev") {
					t.Errorf("%s: step %s names our image", shape, s.ID)
				}
				found += strings.Count(text, want.Ref)
			}
		}
		if effects := strings.Join(p.Effects, "\n"); found == 0 || !strings.Contains(effects, want.Ref) || !strings.Contains(effects, "it is not fenced") {
			t.Errorf("%s: the image is in %d places, the effects are\n%s", shape, found, effects)
		}
	}
}

// TestOurManagerIsSaidToBeNewerThanTheAPIServer: the version skew policy does not cover it, and who decides is told.
func TestOurManagerIsSaidToBeNewerThanTheAPIServer(t *testing.T) {
	effects := strings.Join(mustMake(t, lab(t), v1.Options{}).Effects, "\n")
	for _, says := range []string{"newer than the API server of 1.26", "v1.26.0", "--image=official takes registry.k8s.io/provider-aws/", "no fence"} {
		if !strings.Contains(effects, says) {
			t.Errorf("the effects do not say %q:\n%s", says, effects)
		}
	}
}

// TestWithoutAnOfficialImageNoPlanIsMade says what to do.
func TestWithoutAnOfficialImageNoPlanIsMade(t *testing.T) {
	d := &draft.Draft{Options: v1.Options{Image: cloudprovider.Official}}
	d.Provider, _ = cloudprovider.Lookup(cloudprovider.GCE)
	d.APIMinor = 24 // its makers published none
	if err := ccm.ChooseImage(
		d,
	); err == nil || !strings.Contains(err.Error(), "no official cloud-controller-manager of provider gce for Kubernetes 1.24") ||
		!strings.Contains(err.Error(), "--image=REPOSITORY:TAG") {
		t.Errorf("the error is %v", err)
	}
}

// TestANewClusterOfAnyMinorIsToldWhichImageIsMissing: that one has no in-tree provider to be within the range of, and its operator has a flag.
func TestANewClusterOfAnyMinorIsToldWhichImageIsMissing(t *testing.T) {
	d := &draft.Draft{Options: v1.Options{Part: v1.PartInstall}}
	d.Provider, _ = cloudprovider.Lookup(cloudprovider.GCE)
	d.APIMinor = 31 // its makers published none
	err := ccm.ChooseImage(d)
	if err == nil || !strings.Contains(err.Error(), "no cloud-controller-manager for provider gce and Kubernetes 1.31") ||
		!strings.Contains(err.Error(), "--ccm-image=gce=REPOSITORY:TAG") {
		t.Errorf("the error is %v", err)
	}
	d.Options.Part, d.Options.Image = "", ""
	if err := ccm.ChooseImage(d); err == nil || !strings.Contains(err.Error(), "the last one with the in-tree provider gce") {
		t.Errorf("of a migration, the error is %v", err)
	}
}

// TestWhoPlansAsksForNoSecret: the API server answers whether a Secret is there with what it holds.
func TestWhoPlansAsksForNoSecret(t *testing.T) {
	refs := layout.ObjectRefs()
	for _, ref := range refs {
		if strings.HasPrefix(ref, "Secret/") {
			t.Errorf("a snapshot would read %s", ref)
		}
	}
	if len(refs) < 5 {
		t.Errorf("a snapshot asks for %v alone", refs)
	}
}

// TestOurManagerCanBeChosenWhereItIsNotTheDefault: vSphere's plan takes the official one and names ours; with --image=ours the plan has our program, whose
// leases need no waiting out, with the config that both read.
func TestOurManagerCanBeChosenWhereItIsNotTheDefault(t *testing.T) {
	official, _ := cloudprovider.OfficialImage(cloudprovider.VSphere, 29)
	own, _ := cloudprovider.OwnImage(cloudprovider.VSphere, 29)
	for image, want := range map[string]cloudprovider.Image{"": official, cloudprovider.Official: official, cloudprovider.Own: own, own.Ref: own} {
		p := mustMake(t, vsphere29(), v1.Options{Image: image})
		effects := strings.Join(p.Effects, "\n")
		if p.Options.Image != want.Ref || want.Ref == "" || !strings.Contains(effects, "--image=") {
			t.Errorf("--image=%s: the plan's image is %q, want %q; the effects are\n%s", image, p.Options.Image, want.Ref, effects)
		}
		if starts := strings.Contains(manifests(p), "/vsphere-cloud-controller-manager"); !starts {
			t.Errorf("--image=%s: no step starts the program", image)
		}
		if names := strings.Contains(effects, own.Ref); !names {
			t.Errorf("--image=%s: the effects do not name ours:\n%s", image, effects)
		}
	}
}

func manifests(p *v1.Plan) string {
	var all strings.Builder
	for _, s := range p.Steps {
		all.WriteString(s.Content + s.Object)
	}
	return all.String()
}

// TestOurManagerIsRefusedWhereItIsNotProven names the range, and what to do.
func TestOurManagerIsRefusedWhereItIsNotProven(t *testing.T) {
	for provider, minor := range map[string]int{cloudprovider.OpenStack: 23, cloudprovider.VSphere: 23, cloudprovider.GCE: 23, cloudprovider.Azure: 23} {
		d := &draft.Draft{Options: v1.Options{Image: cloudprovider.Own}}
		d.APIMinor = minor
		d.Provider, _ = cloudprovider.Lookup(provider)
		err := ccm.ChooseImage(d)
		if err == nil || !strings.Contains(err.Error(), "1.24 to 1.37") || !strings.Contains(err.Error(), "aws, azure, gce, openstack, vsphere") {
			t.Errorf("%s: the error is %v", provider, err)
		}
	}
}
