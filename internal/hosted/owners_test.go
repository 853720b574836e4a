package hosted

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
)

// routes of the world's cluster are not the cloud's, as Kubermatic has it: nobody is missed who would run a route loop.
func TestALoopThatAClusterHasNotIsNobodysBusiness(t *testing.T) {
	w := newWorld(t, 1, false)
	o, err := w.plane().Owners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if route, has := o.Loops["route"]; has || len(o.Loops) != 2 {
		t.Errorf("the loops are %+v, and that of routes is %+v", o.Loops, route)
	}
}

// openStack makes the world's cluster one on OpenStack whose managers are to set routes up, with a cloud config.
func (w *world) openStack(config string) *Plane {
	w.t.Helper()
	d, err := w.s.Kube.AppsV1().Deployments(ns).Get(w.t.Context(), kcmRef, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	c := &d.Spec.Template.Spec.Containers[0]
	c.Image, c.Args[3] = "registry.k8s.io/kube-controller-manager:v1.25.0", "openstack"
	c.Args = slices.DeleteFunc(c.Args, func(arg string) bool { return arg == "--configure-cloud-routes=false" })
	api, err := w.s.Kube.AppsV1().Deployments(ns).Get(w.t.Context(), "apiserver", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	api.Spec.Template.Spec.Containers[0].Image, api.Spec.Template.Spec.Containers[0].Args[1] = "registry.k8s.io/kube-apiserver:v1.25.0", "openstack"
	n, err := w.u.Kube.CoreV1().Nodes().Get(w.t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	n.Spec.ProviderID, n.Status.NodeInfo.KubeletVersion = "openstack:///0f3b1a52-5c8e-4b5e-9d0e-0a1b2c3d4e5f", "v1.25.0"
	w.user.Put(w.t, n)
	w.seed.Put(w.t, d, api, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cloud-config", Namespace: ns}, Data: map[string]string{"config": config}})
	for range 20 {
		w.clock.Step(2 * time.Second)
		w.catchUp()
	}
	p := w.plane()
	p.Provider, p.Options.Image = "openstack", "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1.25.6"
	return p
}

const openStackConfig = "[Global]\nauth-url=https://keystone/v3\nusername=x\npassword=" + secretText + "\n[LoadBalancer]\nuse-octavia=true\n"

// Without a router in its config OpenStack's provider starts no route controller, whatever the flags say.
func TestAMigrationWaitsForNoRouteLoopOnAnOpenStackWithoutARouter(t *testing.T) {
	w := newWorld(t, 1, false)
	p := w.openStack(openStackConfig)
	for _, manager := range []string{component.KCM, component.CCM} {
		o, err := p.Owners(t.Context())
		if err != nil || len(o.Unknown) > 0 || len(o.Loops) != 2 || o.Loops["service"].Component != manager {
			t.Errorf("the loops are %+v, unknown %v, %v; want two of %s", o.Loops, o.Unknown, err, manager)
		}
		if manager == component.KCM {
			if err := p.Run(t.Context(), Handover, nil, nil); err != nil {
				t.Fatal(describe(err))
			}
		}
	}
}

func TestTheRouteLoopOfAnOpenStackWithARouterIsMissed(t *testing.T) {
	w := newWorld(t, 1, false)
	p := w.openStack(openStackConfig + "[Route]\nrouter-id=r-1\n")
	if o, err := p.Owners(t.Context()); err != nil || len(o.Unknown) > 0 || len(o.Loops) != 3 || o.Loops["route"].Component != "" {
		t.Errorf("the loops are %+v, unknown %v, %v", o.Loops, o.Unknown, err)
	}
	w.seed.Delete("/api/v1/namespaces/" + ns + "/configmaps/cloud-config")
	if o, err := p.Owners(t.Context()); err != nil || len(o.Unknown) != 1 || len(o.Loops) != 3 {
		t.Errorf("without its config the loops are %+v, unknown %v, %v", o.Loops, o.Unknown, err)
	}
}

func TestTheOwnerOfAManagerThatDoesNotSayWhatItRunsIsTakenFromItsLease(t *testing.T) {
	w := newWorld(t, 1, false)
	w.run(Handover)
	w.owns(component.CCM)
	mute := w.plane()
	mute.Scrape = func(ctx context.Context, component, pod, address string) (v1.Manager, error) {
		m, err := w.scrape(ctx, component, pod, address)
		m.Loops, m.Leads = nil, nil
		return m, err
	}
	look := func() Owner {
		t.Helper()
		o, err := mute.Owners(t.Context())
		if err != nil || len(o.Unknown) > 0 {
			t.Fatalf("%v, unknown %v", err, o.Unknown)
		}
		return o.Loops["service"]
	}
	if got := look(); got.Component != "" {
		t.Errorf("one that would say what it runs, and says nothing, is taken for %+v", got)
	}
	mute.Provider = "azure" // whose manager never says it
	if got := look(); got.Component != component.CCM || !got.ByLease || len(got.Also) > 0 {
		t.Errorf("the owner is %+v", got)
	}
	mute.Scrape = func(context.Context, string, string, string) (v1.Manager, error) { return v1.Manager{}, nil } // the managers do not renew meanwhile
	w.clock.Step(10 * time.Minute)
	if got := look(); got.Component != "" {
		t.Errorf("with leases that ran out the owner is %+v", got)
	}
}
