package cloud

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/election"
)

// recorder implements every interface of a provider. It notes the operations, and gives back what it was given where it can.
type recorder struct{ made *[]string }

func (r recorder) note(operation string) { *r.made = append(*r.made, operation) }

// recorded is a provider that implements everything.
func recorded(made *[]string) *provider {
	r := recorder{made}
	return &provider{
		balancer: balancers{
			get: func(context.Context) (*corev1.LoadBalancerStatus, bool, error) {
				r.note("GetLoadBalancer")
				return statusWith("get"), true, nil
			},
			name: func() string { return "name" },
			ensure: func(context.Context) (*corev1.LoadBalancerStatus, error) {
				r.note("EnsureLoadBalancer")
				return statusWith("ensure"), nil
			},
			update: func(context.Context) error { r.note("UpdateLoadBalancer"); return nil },
			remove: func(context.Context) error { r.note("EnsureLoadBalancerDeleted"); return nil },
		},
		instances: r, instancesV2: recorderV2{r}, zones: r, clusters: r, routes: r,
	}
}

func statusWith(hostname string) *corev1.LoadBalancerStatus {
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: hostname}}}
}

func (r recorder) NodeAddresses(_ context.Context, name types.NodeName) ([]corev1.NodeAddress, error) {
	r.note("NodeAddresses")
	return []corev1.NodeAddress{{Address: string(name)}}, nil
}

func (r recorder) NodeAddressesByProviderID(_ context.Context, id string) ([]corev1.NodeAddress, error) {
	r.note("NodeAddressesByProviderID")
	return []corev1.NodeAddress{{Address: id}}, nil
}

func (r recorder) InstanceID(_ context.Context, name types.NodeName) (string, error) {
	r.note("InstanceID")
	return string(name), nil
}

func (r recorder) InstanceType(_ context.Context, name types.NodeName) (string, error) {
	r.note("InstanceType")
	return string(name), nil
}

func (r recorder) InstanceTypeByProviderID(_ context.Context, id string) (string, error) {
	r.note("InstanceTypeByProviderID")
	return id, nil
}

func (r recorder) AddSSHKeyToAllInstances(context.Context, string, []byte) error {
	r.note("AddSSHKeyToAllInstances")
	return nil
}

func (r recorder) CurrentNodeName(_ context.Context, hostname string) (types.NodeName, error) {
	r.note("CurrentNodeName")
	return types.NodeName(hostname), nil
}

func (r recorder) InstanceExistsByProviderID(context.Context, string) (bool, error) {
	r.note("InstanceExistsByProviderID")
	return true, nil
}

func (r recorder) InstanceShutdownByProviderID(context.Context, string) (bool, error) {
	r.note("InstanceShutdownByProviderID")
	return true, nil
}

func (r recorder) GetZone(context.Context) (cloudprovider.Zone, error) {
	r.note("GetZone")
	return cloudprovider.Zone{Region: "here"}, nil
}

func (r recorder) GetZoneByProviderID(_ context.Context, id string) (cloudprovider.Zone, error) {
	r.note("GetZoneByProviderID")
	return cloudprovider.Zone{Region: id}, nil
}

func (r recorder) GetZoneByNodeName(_ context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	r.note("GetZoneByNodeName")
	return cloudprovider.Zone{Region: string(name)}, nil
}

func (r recorder) ListClusters(context.Context) ([]string, error) {
	r.note("ListClusters")
	return []string{"c"}, nil
}

func (r recorder) Master(_ context.Context, cluster string) (string, error) {
	r.note("Master")
	return cluster, nil
}

func (r recorder) ListRoutes(_ context.Context, cluster string) ([]*cloudprovider.Route, error) {
	r.note("ListRoutes")
	return []*cloudprovider.Route{{Name: cluster}}, nil
}

func (r recorder) CreateRoute(context.Context, string, string, *cloudprovider.Route) error {
	r.note("CreateRoute")
	return nil
}

func (r recorder) DeleteRoute(context.Context, string, *cloudprovider.Route) error {
	r.note("DeleteRoute")
	return nil
}

type recorderV2 struct{ recorder }

func (r recorderV2) InstanceExists(context.Context, *corev1.Node) (bool, error) {
	r.note("InstanceExists")
	return true, nil
}

func (r recorderV2) InstanceShutdown(context.Context, *corev1.Node) (bool, error) {
	r.note("InstanceShutdown")
	return true, nil
}

func (r recorderV2) InstanceMetadata(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	r.note("InstanceMetadata")
	return &cloudprovider.InstanceMetadata{InstanceType: node.Name}, nil
}

// answers are the answers of every method of a cloud that has all interfaces, and their errors.
func answers(ctx context.Context, c cloudprovider.Interface) (answers map[string]any, errs map[string]error) {
	answers, errs = map[string]any{}, map[string]error{}
	note := func(operation string, answer any, err error) { answers[operation], errs[operation] = answer, err }
	balancer, _ := c.LoadBalancer()
	got, exists, err := balancer.GetLoadBalancer(ctx, "c", service("web"))
	note("GetLoadBalancer", []any{got, exists}, err)
	got, err = balancer.EnsureLoadBalancer(ctx, "c", service("web"), nil)
	note("EnsureLoadBalancer", got, err)
	note("UpdateLoadBalancer", nil, balancer.UpdateLoadBalancer(ctx, "c", service("web"), nil))
	note("EnsureLoadBalancerDeleted", nil, balancer.EnsureLoadBalancerDeleted(ctx, "c", service("web")))

	instances, _ := c.Instances()

	addresses, err := instances.NodeAddresses(ctx, "n")
	note("NodeAddresses", addresses, err)
	addresses, err = instances.NodeAddressesByProviderID(ctx, "id")
	note("NodeAddressesByProviderID", addresses, err)
	text, err := instances.InstanceID(ctx, "n")
	note("InstanceID", text, err)
	text, err = instances.InstanceType(ctx, "n")
	note("InstanceType", text, err)
	text, err = instances.InstanceTypeByProviderID(ctx, "id")
	note("InstanceTypeByProviderID", text, err)
	note("AddSSHKeyToAllInstances", nil, instances.AddSSHKeyToAllInstances(ctx, "u", nil))
	name, err := instances.CurrentNodeName(ctx, "h")
	note("CurrentNodeName", name, err)
	yes, err := instances.InstanceExistsByProviderID(ctx, "id")
	note("InstanceExistsByProviderID", yes, err)
	yes, err = instances.InstanceShutdownByProviderID(ctx, "id")
	note("InstanceShutdownByProviderID", yes, err)

	v2, _ := c.InstancesV2()
	yes, err = v2.InstanceExists(ctx, node("n"))
	note("InstanceExists", yes, err)
	yes, err = v2.InstanceShutdown(ctx, node("n"))
	note("InstanceShutdown", yes, err)
	metadata, err := v2.InstanceMetadata(ctx, node("n"))
	note("InstanceMetadata", metadata, err)

	zones, _ := c.Zones()
	zone, err := zones.GetZone(ctx)
	note("GetZone", zone, err)
	zone, err = zones.GetZoneByProviderID(ctx, "id")
	note("GetZoneByProviderID", zone, err)
	zone, err = zones.GetZoneByNodeName(ctx, "n")
	note("GetZoneByNodeName", zone, err)

	clusters, _ := c.Clusters()
	list, err := clusters.ListClusters(ctx)
	note("ListClusters", list, err)
	text, err = clusters.Master(ctx, "c")
	note("Master", text, err)

	routes, _ := c.Routes()
	listed, err := routes.ListRoutes(ctx, "c")
	note("ListRoutes", listed, err)
	note("CreateRoute", nil, routes.CreateRoute(ctx, "c", "hint", &cloudprovider.Route{DestinationCIDR: "10.0.0.0/24"}))
	note("DeleteRoute", nil, routes.DeleteRoute(ctx, "c", nil))
	return answers, errs
}

func callAll(ctx context.Context, c cloudprovider.Interface) map[string]error {
	_, errs := answers(ctx, c)
	return errs
}

func TestTheShellAnswersAsTheProviderDoes(t *testing.T) {
	var bare, behind []string
	p := recorded(&bare)
	want, _ := answers(t.Context(), p)
	got, _ := answers(t.Context(), New(recorded(&behind), Options{}).For(election.Unfenced(time.Now())))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-provider +guard):\n%s", diff)
	}
	if diff := cmp.Diff(bare, behind); diff != "" {
		t.Errorf("calls (-provider +guard):\n%s", diff)
	}
}

func TestTheShellImplementsWhatTheProviderDoesAndNothingElse(t *testing.T) {
	type implemented struct{ LoadBalancer, Instances, InstancesV2, Zones, Clusters, Routes, InformerUser, InstancesLister, Describes bool }
	of := func(c cloudprovider.Interface) (i implemented) {
		_, i.LoadBalancer = c.LoadBalancer()
		_, i.Instances = c.Instances()
		_, i.InstancesV2 = c.InstancesV2()
		_, i.Zones = c.Zones()
		_, i.Clusters = c.Clusters()
		_, i.Routes = c.Routes()
		_, i.InformerUser = c.(cloudprovider.InformerUser)
		_, i.InstancesLister = c.(InstancesLister)
		_, i.Describes = InstancesOf(c)
		return i
	}
	all := recorded(&[]string{})
	for name, p := range map[string]cloudprovider.Interface{
		"nothing":              &provider{},
		"load balancers":       &provider{balancer: all.balancer},
		"Instances":            &provider{instances: all.instances},
		"InstancesV2":          &provider{instancesV2: all.instancesV2},
		"zones":                &provider{zones: all.zones},
		"clusters":             &provider{clusters: all.clusters},
		"routes":               &provider{routes: all.routes},
		"everything":           all,
		"informers":            &withInformers{provider: &provider{}},
		"a lister":             &withLister{provider: &provider{}, max: 10},
		"informers and lister": &everything{withInformers{provider: all}, &withLister{max: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			guardedCloud := New(p, Options{}).For(nil)
			if diff := cmp.Diff(of(p), of(guardedCloud)); diff != "" {
				t.Errorf("(-provider +guard):\n%s", diff)
			}
			if balancer, ok := guardedCloud.LoadBalancer(); !ok && balancer != nil {
				t.Error("a load balancer that is none must be nil, so that == nil says so")
			}
			if Unwrap(guardedCloud) != p || Unwrap(p) != p {
				t.Error("Unwrap does not return the provider")
			}
			if guardedCloud.ProviderName() != "test" || !guardedCloud.HasClusterID() {
				t.Error("the name or the cluster's ID is lost")
			}
		})
	}
}

// everything is a provider with both optional interfaces.
type everything struct {
	withInformers
	lister *withLister
}

func (e *everything) MaxInstances() int { return e.lister.MaxInstances() }

func (e *everything) ListInstances(ctx context.Context, nodes []*corev1.Node, want Want) ([]InstanceState, error) {
	return e.lister.ListInstances(ctx, nodes, want)
}

func TestAProviderIsInitialisedOnceForAllLeases(t *testing.T) {
	p := &withInformers{provider: &provider{}}
	guard := New(p, Options{})
	for range 2 {
		cloud := guard.For(election.Unfenced(time.Now()))
		cloud.Initialize(nil, nil)
		cloud.(cloudprovider.InformerUser).SetInformers(nil)
	}
	if p.initialized != 1 || p.informers != 1 {
		t.Errorf("initialised %d times, given informers %d times", p.initialized, p.informers)
	}
}

func TestAShelledListerListsThroughTheShell(t *testing.T) {
	p := &withLister{provider: &provider{}, max: 0}
	lister := New(p, Options{}).For(nil).(InstancesLister)
	states, err := lister.ListInstances(t.Context(), nodes(2), WantExists)
	if diff := cmp.Diff(running(nodes(2)), states); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if lister.MaxInstances() != 1 {
		t.Error("a call for no instance would never end")
	}
	p.list = func(context.Context, []*corev1.Node, Want) ([]InstanceState, error) { panic("no") }
	if _, err := lister.ListInstances(t.Context(), nodes(2), WantExists); Classify(err) != OutcomePanic {
		t.Errorf("got %v", err)
	}
	if _, err := lister.ListInstances(t.Context(), nil, WantExists); Classify(err) != OutcomePanic {
		t.Errorf("got %v", err)
	}
}
