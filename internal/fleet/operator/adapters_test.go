package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes/fake"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/fleet/userclusters"
	"github.com/transplant-dev/transplant/internal/hosted"
)

// Connections are closed when a cluster is left alone, and a run that has not ended yet asks through them.
func TestARunWhoseConnectionsWereClosedIsTriedAgain(t *testing.T) {
	p := userclusters.New(userclusters.Options{Seed: fake.NewClientset()})
	p.Close()
	_, closed := p.Get(t.Context(), "cluster-a")
	for _, err := range []error{closed, fmt.Errorf("listing nodes: %w", userclusters.ErrForgotten)} {
		if got, _ := outcome(err); got != state.Unreachable {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// Where no plan can be made, nothing has failed and nothing was changed: who repairs what is said goes on from there.
func TestAClusterWithoutAPlanIsBlocked(t *testing.T) {
	err := fmt.Errorf("running: %w", &hosted.UnplannedError{Part: hosted.Install, Err: errors.New("the catalogue has no image: name one with --ccm-image")})
	if got, why := outcome(err); got != state.Blocked || !strings.Contains(why, "--ccm-image") {
		t.Errorf("%v: %s", got, why)
	}
}

// The operator's flag gives a provider's clusters an image, or the official one of each cluster's own minor; the others get the catalogue's.
func TestTheFlagForImagesReachesThePlan(t *testing.T) {
	h := &Hosted{Images: map[string]string{"aws": cloudprovider.Official, "gce": "registry.example.com/ccm:v30.0.0"}}
	for provider, want := range map[string]string{"aws": cloudprovider.Official, "gcp": "registry.example.com/ccm:v30.0.0", "openstack": ""} {
		cluster := &kubermaticv1.Cluster{Spec: kubermaticv1.ClusterSpec{Cloud: kubermaticv1.CloudSpec{ProviderName: provider}}}
		if got := h.seedOnly(Target{Name: "a", Namespace: "cluster-a", Cluster: cluster}).Options.Image; got != want {
			t.Errorf("%s: %q, want %q", provider, got, want)
		}
	}
}

// The rules take a Cluster for one of the only provider that has settings; what is carried out must not be another cluster's.
func TestTheProviderOfAClusterIsTheOneThatTheRulesJudge(t *testing.T) {
	for want, cloud := range map[string]kubermaticv1.CloudSpec{
		"aws":       {AWS: &kubermaticv1.ProviderSpec{}},
		"gce":       {GCP: &kubermaticv1.ProviderSpec{}},
		"openstack": {ProviderName: "openstack"},
		"":          {ProviderName: "hetzner"},
	} {
		if got := engineProvider(Target{Cluster: &kubermaticv1.Cluster{Spec: kubermaticv1.ClusterSpec{Cloud: cloud}}}); got != want {
			t.Errorf("%+v: %q, want %q", cloud, got, want)
		}
	}
}

func TestAClusterThatSaysNoVersionIsAskedForIt(t *testing.T) {
	kube, _ := apitest.New(t).Clients(t)
	user := userclusters.Clients{Kube: kube}
	if minor, err := minorOf(t.Context(), &kubermaticv1.Cluster{}, user); err != nil || minor < 20 {
		t.Errorf("%d, %v", minor, err)
	}
	said := &kubermaticv1.Cluster{
		Spec:   kubermaticv1.ClusterSpec{Version: "1.27.1"},
		Status: kubermaticv1.ClusterStatus{Versions: &kubermaticv1.ClusterVersions{Apiserver: "1.26.0"}},
	}
	if minor, err := minorOf(t.Context(), said, userclusters.Clients{Kube: fake.NewClientset()}); err != nil || minor != 26 {
		t.Errorf("of one that says it: %d, %v", minor, err)
	}
}

func TestDisksBearTheNameOfTheirCluster(t *testing.T) {
	h := HostedParts{Hosted: &Hosted{}}
	c := &kubermaticv1.Cluster{Spec: kubermaticv1.ClusterSpec{Cloud: kubermaticv1.CloudSpec{ProviderName: "aws"}}}
	if p := h.of(
		t.Context(),
		Target{Name: "x7k2p", Namespace: "cluster-x7k2p", Cluster: c},
		userclusters.Clients{},
		26,
	); p.ClusterName != "x7k2p" || p.Provider != "aws" ||
		!p.CSI {
		t.Errorf("the parts are %+v", p)
	}
}

func TestADriverThatADatacenterForbidsIsNotInstalled(t *testing.T) {
	h := HostedParts{Datacenter: FleetRules{}.Datacenter}
	c := &kubermaticv1.Cluster{}
	if !h.wantsDriver(t.Context(), c) {
		t.Error("no driver where nobody forbids one")
	}
	h.Datacenter = func(_ context.Context, _ string) *rules.Datacenter { return &rules.Datacenter{DisableCSIDriver: true} }
	if h.wantsDriver(t.Context(), c) {
		t.Error("a driver against the datacenter")
	}
}

func TestImagesAreNamedByProvidersThatAreMigrated(t *testing.T) {
	if err := rules.CheckImages("ccm-image", map[string]string{"aws": "x", "gce": "y"}); err != nil {
		t.Error(err)
	}
	if err := rules.CheckImages(
		"image",
		map[string]string{"gcp": "x"},
	); err == nil ||
		!strings.Contains(err.Error(), "--image gcp=x: the providers that are migrated are aws, azure, gce, openstack, vsphere") {
		t.Error(err)
	}
}
