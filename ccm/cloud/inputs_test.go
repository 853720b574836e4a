package cloud

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/transplant-dev/transplant/ccm/election"
)

// echo is a provider whose calls all fail with one error.
type echo struct {
	recorderV2

	err error
}

// echoing is a provider whose calls all fail with an error, as if it repeated what it was given.
func echoing(err error) *provider {
	e := echo{err: err}
	return &provider{instances: e, instancesV2: e, zones: e, routes: e, balancer: balancers{
		get:    func(context.Context) (*corev1.LoadBalancerStatus, bool, error) { return nil, false, err },
		ensure: func(context.Context) (*corev1.LoadBalancerStatus, error) { return nil, err },
		update: func(context.Context) error { return err },
		remove: func(context.Context) error { return err },
	}}
}

func (e echo) InstanceExists(context.Context, *corev1.Node) (bool, error) { return false, e.err }

func (e echo) InstanceMetadata(context.Context, *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	return nil, e.err
}

func (e echo) InstanceExistsByProviderID(context.Context, string) (bool, error) { return false, e.err }

func (e echo) GetZoneByNodeName(context.Context, types.NodeName) (cloudprovider.Zone, error) {
	return cloudprovider.Zone{}, e.err
}

func (e echo) CreateRoute(context.Context, string, string, *cloudprovider.Route) error { return e.err }

// What a test calls behind a guard.
type calling func(context.Context, cloudprovider.Interface) error

func ensuring(service *corev1.Service, nodes ...*corev1.Node) calling {
	return func(ctx context.Context, c cloudprovider.Interface) error {
		balancer, _ := c.LoadBalancer()
		_, err := balancer.EnsureLoadBalancer(ctx, "c", service, nodes)
		return err
	}
}

func describing(node *corev1.Node) calling {
	return func(ctx context.Context, c cloudprovider.Interface) error {
		instances, _ := c.InstancesV2()
		_, err := instances.InstanceMetadata(ctx, node)
		return err
	}
}

func annotated(value string) *corev1.Service {
	s := service("web")
	s.Annotations = map[string]string{"example.com/setting": value}
	return s
}

func identified(providerID string) *corev1.Node {
	n := node("worker-1")
	n.Spec.ProviderID = providerID
	return n
}

// limits are the rates that a budget has after calls: of each class, and of all.
func limits(guard *Guard) []float64 {
	b := guard.caller.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	rates := []float64{b.all.rate}
	for _, q := range b.queues {
		rates = append(rates, q.limiter.rate)
	}
	return rates
}

// slowsDown reports whether an error of a call cuts a rate.
func slowsDown(t *testing.T, call calling, err error) bool {
	t.Helper()
	guard := New(echoing(err), Options{})
	if got := call(t.Context(), guard.For(election.Unfenced(time.Now()))); got == nil || !strings.Contains(got.Error(), err.Error()) {
		t.Errorf("the call says %v, want %v", got, err)
	}
	for _, rate := range limits(guard) {
		if !math.IsInf(rate, 1) {
			return true
		}
	}
	return false
}

func TestWhatATenantOrAKubeletWroteSlowsNoOtherCallsDown(t *testing.T) {
	labelled := node("worker-1")
	labelled.Labels = map[string]string{"zone": "RequestLimitExceeded"}
	named := service("throttled")
	dashed := service("thrott-led")
	ported := service("web")
	ported.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 429}}
	addressed := node("worker-1")
	addressed.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "slowdown.example.com"}}
	route := func(target string) calling {
		return func(ctx context.Context, c cloudprovider.Interface) error {
			routes, _ := c.Routes()
			return routes.CreateRoute(ctx, "c", "hint", &cloudprovider.Route{TargetNode: types.NodeName(target), DestinationCIDR: "10.0.0.0/24"})
		}
	}
	byID := func(id string) calling {
		return func(ctx context.Context, c cloudprovider.Interface) error {
			instances, _ := c.Instances()
			_, err := instances.InstanceExistsByProviderID(ctx, id)
			return err
		}
	}
	zoneOf := func(name string) calling {
		return func(ctx context.Context, c cloudprovider.Interface) error {
			zones, _ := c.Zones()
			_, err := zones.GetZoneByNodeName(ctx, types.NodeName(name))
			return err
		}
	}
	for name, c := range map[string]struct {
		call calling
		text string
	}{
		"an annotation's value, as the provider of AWS repeats it": {ensuring(annotated("throttled")),
			`annotation "service.beta.kubernetes.io/aws-load-balancer-proxy-protocol"="throttled" detected, but the only value supported currently is '*'`},
		"an annotation's value, as our provider of OpenStack does": {ensuring(annotated("Throttling")),
			`service default/web: annotation loadbalancer.openstack.org/load-balancer-id is "Throttling": it has to be the ID of a load balancer`},
		"one item of an annotation":                {ensuring(annotated("subnet-1, TooManyRequests,subnet-2")), `no subnet "toomanyrequests"`},
		"an annotation's name":                     {ensuring(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"rate exceeded": ""}}}), "rate exceeded: unknown"},
		"an annotation that escapes":               {ensuring(annotated("\nthrottled")), fmt.Sprintf("annotation is %q", "\nthrottled")},
		"a word that completes the provider's":     {ensuring(annotated("exceeded")), "there is no rate exceeded"},
		"a name that completes the provider's":     {zoneOf("exceeded-1"), "no zone at this rate exceeded-1"},
		"a name that the provider completes":       {ensuring(service("corporate")), "default/corporate exceeded its quota"},
		"a name that begins as a status does":      {ensuring(service("web"), node("n1"), node("429-worker")), "no instances [429-worker n1]"},
		"a status in an annotation":                {ensuring(annotated("status code 429")), "annotation is status code 429"},
		"a bare status in an annotation":           {ensuring(annotated("429,500")), "no such timeout (429)"},
		"a code in an annotation":                  {ensuring(annotated("api error PriorRequestNotComplete: x")), "cannot parse api error PriorRequestNotComplete: x"},
		"the Service's name":                       {ensuring(named), `service default/throttled: no subnets`},
		"the Service's name without its dash":      {ensuring(dashed), `creating load balancer throttled: name is taken`},
		"the Service's port":                       {ensuring(ported), `ports [429] are in use`},
		"a label of a node":                        {ensuring(service("web"), node("n1"), labelled), `zone "RequestLimitExceeded" has no subnet`},
		"the kubelet's providerID":                 {describing(identified("aws:///throttled/i-1")), `invalid instance ID "aws:///throttled/i-1"`},
		"the kubelet's providerID with a status":   {describing(identified("aws:///(429/i-1")), `invalid instance ID "aws:///(429/i-1"`},
		"the kubelet's providerID, by itself":      {byID("aws:///throttled/i-1"), `invalid instance ID "aws:///throttled/i-1"`},
		"the kubelet's address":                    {describing(addressed), `no instance is called slowdown.example.com`},
		"the node's name":                          {zoneOf("throttling"), `no zone of throttling`},
		"the node's name in a route":               {route("throttling"), `no instance of node throttling`},
		"the name in a Forbidden without a reason": {ensuring(named), (&googleError{Code: 403, Message: "no permission for default-throttled"}).Error()},
	} {
		t.Run(name, func(t *testing.T) {
			if Classify(errors.New(c.text)) != OutcomeThrottled {
				t.Fatalf("%q would slow nothing down", c.text)
			}
			if slowsDown(t, c.call, errors.New(c.text)) {
				t.Errorf("%q slows other calls down", c.text)
			}
		})
	}
	forbidden := &googleError{Code: 403, Message: "no permission for default-throttled"}
	if slowsDown(t, ensuring(named), forbidden) {
		t.Errorf("%v, which is a 403, slows other calls down", forbidden)
	}
}

func TestACloudThatThrottlesIsBelievedWhateverATenantWrote(t *testing.T) {
	lost := "error describing load balancers: %q"
	for name, c := range map[string]struct {
		call calling
		err  error
	}{
		"AWS, as text": {ensuring(annotated("nlb"), node("n1")), fmt.Errorf(lost,
			"operation error Elastic Load Balancing: DescribeLoadBalancers, https response error StatusCode: 400, RequestID: r, api error Throttling: Rate exceeded")},
		"AWS, as text, next to a word of it":     {ensuring(annotated("rate")), fmt.Errorf(lost, "api error Throttling: Rate exceeded")},
		"AWS, as text, next to other words":      {ensuring(annotated("throttled")), fmt.Errorf(lost, "api error RequestLimitExceeded: Request limit exceeded.")},
		"a status, as text":                      {ensuring(annotated("nlb"), node("worker-429")), errors.New("got 429 instead of 200")},
		"a status, as text, after a tenant's":    {ensuring(annotated("(404)")), errors.New("setting (404): status code 429")},
		"gRPC, as text":                          {describing(node("worker-1")), errors.New("rpc error: code = ResourceExhausted desc = quota")},
		"a status, next to the tenant's words":   {ensuring(annotated("throttled")), fmt.Errorf("throttled: %w", statusError(429))},
		"a code, next to the tenant's words":     {ensuring(annotated("throttled")), &azureError{"SubscriptionRequestsThrottled", 409, nil}},
		"Google's reason, next to the same word": {ensuring(annotated("rateLimitExceeded")), &googleError{403, "Quota exceeded", []googleItem{{"rateLimitExceeded"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if !slowsDown(t, c.call, c.err) {
				t.Errorf("%v slows nothing down", c.err)
			}
		})
	}
}

func TestAKubeletsProviderIDKeepsNoOtherNodeFromBeingDescribed(t *testing.T) {
	for _, id := range []string{"test://throttled", "test://x509:", "test://timed out"} {
		synctest.Test(t, func(t *testing.T) {
			p := &withLister{provider: &provider{}, max: 100, list: func(_ context.Context, nodes []*corev1.Node, _ Want) ([]InstanceState, error) {
				for _, n := range nodes {
					if n.Spec.ProviderID == id {
						return nil, fmt.Errorf("invalid provider ID %q", id)
					}
				}
				return running(nodes), nil
			}}
			all, begun := append(nodes(9), identified(id)), time.Now()
			known := 0
			for _, state := range readerOf(t, p).Read(t.Context(), all, WantMetadata, 0) {
				if state.Err == nil {
					known++
				}
			}
			if took := time.Since(begun); known != 9 || took > time.Second {
				t.Errorf("with a provider ID %q %d of 9 other nodes are known after %s", id, known, took)
			}
		})
	}
}

func TestOneNodeIsNotAskedForAgainAndAgainForWhatItsKubeletWrote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		states := readerOf(t, echoing(errors.New(`invalid instance ID "aws:///throttled"`))).
			Read(t.Context(), []*corev1.Node{identified("aws:///throttled")}, WantMetadata, 0)
		if took := time.Since(begun); took > time.Second || states[0].Err == nil {
			t.Errorf("after %s: %+v", took, states[0])
		}
	})
}

func FuzzWhatAnInputHasIsNoWordOfTheClouds(f *testing.F) {
	for _, text := range []string{
		"exceeded-1", "429-worker", "many requests", "throttled", "Rate\texceeded", "api error .:", "(429", "error: 429", "Too-Many-Requests too many requests", "", "\xff throttling", "İslowdown",
	} {
		for _, before := range []string{"creating it:", "rate", "too", "error", "["} {
			f.Add(text, before)
		}
	}
	f.Fuzz(func(t *testing.T, given, before string) {
		if Classify(errors.New(before)) == OutcomeThrottled {
			t.Skip("the provider's own words say it, whatever the input is")
		}
		for _, text := range []string{given, before + " " + given, given + " " + before, fmt.Sprintf("[%s %q]", given, given)} {
			got := inputs{annotated(given)}.classify(errors.New(text))
			if got == OutcomeThrottled || got == OutcomeOK {
				t.Errorf("with the input %q, %q is %s", given, text, got)
			}
		}
	})
}

// typed is a provider that wraps what its SDK returned.
type typed struct{ *provider }

func (typed) HasTypedErrors() bool { return true }

// TestOnlyTypesOfErrorsThrottleIfTheProviderKeepsThem: a text may quote the tag of another user's load balancer, which no input of the call
// tells.
func TestOnlyTypesOfErrorsThrottleIfTheProviderKeepsThem(t *testing.T) {
	quoted := errors.New("port 80 is used by another Service (tags kube_service_c_default_throttled)")
	retryAfter := http.Header{"Retry-After": {"5"}}
	for name, c := range map[string]struct {
		err  error
		want Outcome
	}{
		"a tag":              {quoted, OutcomeOther},
		"a status":           {fmt.Errorf("listing: %w", gophercloudError{"u", 429, nil}), OutcomeThrottled},
		"over limit":         {fmt.Errorf("listing: %w", gophercloudError{"u", 413, retryAfter}), OutcomeThrottled},
		"a code":             {fmt.Errorf("listing: %w", &azureError{ErrorCode: "RequestLimitExceeded"}), OutcomeThrottled},
		"refused with words": {fmt.Errorf("throttled: %w", gophercloudError{"u", 403, nil}), OutcomeAuth},
		"not there":          {cloudprovider.InstanceNotFound, OutcomeNotFound},
	} {
		guard := New(typed{echoing(c.err)}, Options{})
		if got := guard.caller.classify(nil, c.err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	if got := New(echoing(quoted), Options{}).caller.classify(nil, quoted); got != OutcomeThrottled {
		t.Errorf("of a provider that may lose types: %s", got)
	}
}

// TestWhatAProviderLooksUpIsAnInputToo: it finds the Node of a route's name by itself, and quotes what the kubelet says of it.
func TestWhatAProviderLooksUpIsAnInputToo(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{ProviderID: "aws:///throttled/x"}}
	err := errors.New(`Invalid format for AWS instance (aws:///throttled/x)`)
	if got := inputsOf(WithInputs(t.Context(), node), inputs{"n"}).classify(err); got == OutcomeThrottled {
		t.Error("a providerID is taken for the words of the cloud")
	}
	if got := inputsOf(t.Context(), inputs{"n"}).classify(err); got != OutcomeThrottled {
		t.Errorf("without that input: %s", got)
	}
}
