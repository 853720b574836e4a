package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/fleet/rules"
	"github.com/transplant-dev/transplant/internal/fleet/state"
	"github.com/transplant-dev/transplant/internal/fleet/userclusters"
	"github.com/transplant-dev/transplant/internal/hosted"
	"github.com/transplant-dev/transplant/internal/kubeconfig"
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

// The rules take a Cluster for one of the only provider that has settings; what is executed must not be another cluster's.
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
	p, err := h.clusterParts(t.Context(), Target{Name: "x7k2p", Namespace: "cluster-x7k2p", Cluster: c}, userclusters.Clients{}, 26)
	if err != nil || p.ClusterName != "x7k2p" || p.Provider != "aws" || !p.CSI {
		t.Errorf("the parts are %+v, %v", p, err)
	}
}

func TestADriverThatADatacenterForbidsIsNotInstalled(t *testing.T) {
	h := HostedParts{Datacenter: FleetRules{}.Datacenter}
	c := inDatacenter("d")
	if wanted, err := h.wantsDriver(t.Context(), c); err != nil || !wanted {
		t.Errorf("a driver where nobody forbids one: %v, %v", wanted, err)
	}
	h.Datacenter = func(_ context.Context, _ string) (*rules.Datacenter, error) {
		return &rules.Datacenter{DisableCSIDriver: true}, nil
	}
	if wanted, err := h.wantsDriver(t.Context(), c); err != nil || wanted {
		t.Errorf("a driver against the datacenter: %v, %v", wanted, err)
	}
}

// inDatacenter returns a Cluster on AWS that may be migrated, if its datacenter allows it.
func inDatacenter(name string) *kubermaticv1.Cluster {
	return &kubermaticv1.Cluster{Spec: kubermaticv1.ClusterSpec{
		Version: "1.26.0", Cloud: kubermaticv1.CloudSpec{ProviderName: "aws", DatacenterName: name},
		Features: map[string]bool{kubermaticv1.FeatureExternalCloudProvider: true},
	}}
}

var errSeeds = errors.New("listing seeds: away")

func unknownDatacenter(context.Context, string) (*rules.Datacenter, error) { return nil, errSeeds }

// TestADatacenterThatIsUnknownMovesNothing: it may forbid the CSI driver, with which cloud credentials go to the user cluster.
func TestADatacenterThatIsUnknownMovesNothing(t *testing.T) {
	seed, user := apitest.New(t), apitest.New(t)
	kube, dyn := seed.Clients(t)
	config, err := clientcmd.Write(*apitest.OverTLS(t, user, "u", clientcmdapi.AuthInfo{Token: "t"}))
	if err != nil {
		t.Fatal(err)
	}
	seed.Put(t, &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "cluster-a", Name: kubeconfig.SecretName}, Data: map[string][]byte{kubeconfig.SecretKey: config},
	})
	users := userclusters.New(userclusters.Options{Seed: kube})
	defer users.Close()
	engine := &Hosted{Seed: hosted.Clients{Kube: kube, Dynamic: dyn}, Users: users}
	target := Target{Name: "a", Namespace: "cluster-a", Group: kubermaticv1.GroupName, Cluster: inDatacenter("d")}
	_, err = HostedParts{Hosted: engine, Datacenter: unknownDatacenter}.Ensure(t.Context(), target)
	if !errors.Is(err, errSeeds) || !strings.Contains(err.Error(), `datacenter "d"`) || !strings.Contains(err.Error(), "list seeds.kubermatic.k8c.io") {
		t.Errorf("the parts around machines: %v", err)
	}
	fleet := FleetRules{Hosted: engine, Datacenter: unknownDatacenter}
	for _, inTree := range []bool{false, true} {
		if got := fleet.Refusals(t.Context(), target.Cluster, inTree); len(got) != 1 || !strings.Contains(got[0], `datacenter "d"`) {
			t.Errorf("refused because of %q", got)
		}
	}
	if !fleet.IsUnjudged(t.Context(), target.Cluster) || (FleetRules{}).IsUnjudged(t.Context(), target.Cluster) {
		t.Error("it is not told from a judgement")
	}
	if written, err := fleet.Repair(t.Context(), target.Group, target.Cluster); written || !errors.Is(err, errSeeds) {
		t.Errorf("annotations are written: %v, %v", written, err)
	}
	if writes := append(seed.Writes(), user.Writes()...); len(writes) > 0 {
		t.Errorf("written: %q", writes)
	}
}

func TestAClusterThatNamesNoDatacenterNeedsNone(t *testing.T) {
	c := inDatacenter("")
	if wanted, err := (HostedParts{Datacenter: unknownDatacenter}).wantsDriver(t.Context(), c); err != nil || !wanted {
		t.Errorf("a driver: %v, %v", wanted, err)
	}
	if got := (FleetRules{Datacenter: unknownDatacenter}).Refusals(t.Context(), c, true); len(got) > 0 {
		t.Errorf("refused because of %q", got)
	}
	c = inDatacenter("d")
	c.Spec.DisableCSIDriver = true
	if wanted, err := (HostedParts{Datacenter: unknownDatacenter}).wantsDriver(t.Context(), c); err != nil || wanted {
		t.Errorf("a driver that the cluster itself disables: %v, %v", wanted, err)
	}
}

// TestAClusterWaitsUntilItsDatacenterIsKnown: nothing changes in the Cluster when the seed answers again.
func TestAClusterWaitsUntilItsDatacenterIsKnown(t *testing.T) {
	var known atomic.Bool
	unknown := func(o *Options) {
		o.Rules = FleetRules{Datacenter: func(context.Context, string) (*rules.Datacenter, error) {
			if !known.Load() {
				return nil, errSeeds
			}
			return nil, nil
		}}
	}
	bubble(t, unknown, func(w *world) {
		w.cluster("a", enabled, func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(u.Object, "d", "spec", "cloud", "dc")
		})
		w.until("a", kubermaticv1.PhaseBlocked, time.Minute)
		<-time.After(time.Hour)
		if began := w.began(); len(began) > 0 {
			t.Errorf("begun: %q", began)
		}
		if c := w.read("a").Status.Conditions[kubermaticv1.ConditionMigration]; c.Reason != kubermaticv1.PhaseBlocked || !strings.Contains(c.Message, "listing seeds: away") {
			t.Errorf("the cluster is in phase %s: %s", c.Reason, c.Message)
		}
		w.user.mu.Lock()
		w.user.of("a").machines = &state.Machines{Total: 1}
		w.user.mu.Unlock()
		known.Store(true)
		w.until("a", kubermaticv1.PhaseMachines, 10*time.Minute)

		known.Store(false) // as for the next leader, which has to read the seed as well
		<-time.After(time.Hour)
		if c := w.read("a").Status.Conditions[kubermaticv1.ConditionMigration]; c.Reason != kubermaticv1.PhaseMachines {
			t.Errorf("the cluster is in phase %s: %s", c.Reason, c.Message)
		}
		w.user.mu.Lock()
		w.user.of("a").machines = nil
		w.user.mu.Unlock()
		known.Store(true)
		w.until("a", kubermaticv1.PhaseCompleted, 10*time.Minute)
	})
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
