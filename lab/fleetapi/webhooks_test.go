package fleetapi

import (
	"bytes"
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/admission"
	"github.com/transplant-dev/transplant/internal/fleet/certs"
	"github.com/transplant-dev/transplant/internal/fleet/served"
)

// manager keeps certificates in the seed as a replica of the operator does.
func (s *seed) manager(o certs.Options) *certs.Manager {
	o.Client, o.Namespace, o.Hosts = s.kube, metav1.NamespaceDefault, []string{"127.0.0.1"}
	o.Configurations = []string{"transplant-operator", "transplant-operator-strict"}
	return certs.New(o)
}

// operator starts a replica.
func (s *seed) operator(t *testing.T, o admission.Options) *operator {
	t.Helper()
	keeper := s.manager(certs.Options{Interval: 100 * time.Millisecond})
	if err := keeper.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); keeper.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return serve(t, s, keeper.GetCertificate, o)
}

// trusted waits until the API server reaches the webhooks: a forbidden cluster is refused, and a new one gets its defaults. The server hears of the
// configurations of the two kinds one after the other, and passes by a webhook whose certificate it does not trust yet.
func (s *seed) trusted(t *testing.T, groups ...string) {
	t.Helper()
	for _, group := range groups {
		try := func(spec string) (*unstructured.Unstructured, error) {
			return s.clusters(group).Create(t.Context(), object(group, "probe", spec), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		}
		wait(t, "the webhooks are reached", func() bool {
			_, err := try(forbidden)
			return refused(err, "is not supported")
		})
		wait(t, "the webhook that changes clusters is reached", func() bool {
			fresh, err := try(`{version: 1.26.0, cloud: {providerName: aws, aws: {vpcID: v}}}`)
			return err == nil && len(features(fresh)) > 0
		})
	}
}

// forbidden is a spec that only a webhook refuses.
const forbidden = `{features: {externalCloudProvider: true}, cloud: {providerName: nutanix}}`

func features(o *unstructured.Unstructured) []string {
	read, _, _ := unstructured.NestedMap(o.Object, "spec", "features")
	var out []string
	for _, name := range slices.Sorted(maps.Keys(read)) {
		if read[name] == true {
			out = append(out, name)
		}
	}
	return out
}

func annotations(o *unstructured.Unstructured) string {
	return strings.Join(slices.Sorted(maps.Keys(o.GetAnnotations())), " ")
}

const bothAnnotations = kubermatic.CCMMigrationNeeded + " " + kubermatic.CSIMigrationNeeded

func TestTheGuidesWalkThroughTheWebhooks(t *testing.T) {
	s := seedOf(t, old)
	s.install(t, "webhooks.yaml", s.operator(t, admission.Options{VSphereCSI: "v2.3.0"}).address)
	s.trusted(t, served.Groups...)
	for _, group := range served.Groups {
		name := func(of string) string {
			return of + "-" + strings.ReplaceAll(strings.TrimPrefix(group, "kubermatic."), ".", "-")
		}

		in := s.made(t, object(group, name("in-tree"), `{version: 1.26.0, cloud: {providerName: aws, aws: {vpcID: v}}, features: {externalCloudProvider: false}}`))
		if got := features(in); len(got) != 0 || annotations(in) != "" {
			t.Errorf("%s: an explicit false became %v %s", group, got, annotations(in))
		}
		on, err := s.patch(t, in, `{"spec":{"features":{"externalCloudProvider":true}}}`)
		if err != nil {
			t.Fatal(err)
		}
		if got := features(on); annotations(on) != bothAnnotations || !slices.Equal(got, []string{"externalCloudProvider"}) {
			t.Errorf("%s: enabling made %v %q", group, got, annotations(on))
		}
		fresh := s.made(t, object(group, name("fresh"), `{version: 1.26.0, cloud: {providerName: aws, aws: {vpcID: v}}}`))
		if got := features(fresh); !slices.Equal(got, []string{"ccmClusterName", "externalCloudProvider"}) || annotations(fresh) != "" {
			t.Errorf("%s: a new cluster has %v %q", group, got, annotations(fresh))
		}
		stack := s.made(
			t,
			object(group, name("stack"), `{version: 1.25.0, cloud: {providerName: openstack, openstack: {network: n}}, features: {externalCloudProvider: false}}`),
		)
		if stack, err = s.patch(t, stack, `{"spec":{"features":{"externalCloudProvider":true}}}`); err != nil {
			t.Fatal(err)
		}
		if use, _, _ := unstructured.NestedBool(stack.Object, "spec", "cloud", "openstack", "useOctavia"); !use || annotations(stack) != bothAnnotations {
			t.Errorf("%s: OpenStack was enabled as %v", group, stack.Object["spec"])
		}
		guide := s.made(t, parsed(t, strings.NewReplacer("kubermatic.k8s.io", group, "crh4xbxz5f", name("guide")).Replace(guideWritten)))
		if got := features(guide); !slices.Equal(got, []string{"externalCloudProvider"}) || annotations(guide) != "" {
			t.Errorf("%s: the guide's object became %v %q", group, got, annotations(guide))
		}

		for _, test := range []struct {
			of          *unstructured.Unstructured
			patch, want string
		}{
			{on, `{"spec":{"features":{"externalCloudProvider":false}}}`, "cannot be disabled once it's enabled"},
			{on, `{"metadata":{"annotations":{"` + kubermatic.CSIMigrationNeeded + `":null}}}`, "cannot be removed while the migration runs"},
			{on, `{"spec":{"version":"1.27.0"}}`, "wait until the migration is over"},
			{on, `{"spec":{"version":"1.25.9"}}`, "cannot go back from 1.26.0"},
			{on, `{"spec":{"cloud":{"providerName":"azure","azure":{}}}}`, "not allowed to change the cloud provider"},
			{on, `{"spec":{"disableCSIDriver":true}}`, "wait until the migration is over"},
			{on, `{"spec":{"pause":true}}`, ""},
		} {
			if _, err := s.patch(t, test.of, test.patch); test.want == "" && err != nil || test.want != "" && !refused(err, test.want) {
				t.Errorf("%s %s: %v, want %q", group, test.patch, err, test.want)
			}
		}
		if _, err := s.create(
			t,
			object(group, name("vsphere"), `{version: 1.22.0, cloud: {providerName: vsphere, vsphere: {}}}`),
		); !refused(
			err,
			"release 2.3 of the vSphere CSI driver supports Kubernetes 1.19 to 1.21, not 1.22",
		) {
			t.Errorf("%s: vSphere with 1.22: %v", group, err)
		}
		if _, err := s.create(
			t,
			object(group, name("unsupported"), forbidden),
		); !refused(
			err,
			"external cloud-controller-manager is not supported for this cluster / provider combination",
		) {
			t.Errorf("%s: an unsupported provider: %v", group, err)
		}
		for _, other := range served.Groups {
			if _, err := s.create(t, object(other, fresh.GetName(), `{}`)); other != group && !refused(err, "exists in the group "+group+" as well") {
				t.Errorf("%s: the same cluster in %s: %v", group, other, err)
			}
		}
	}
}

func TestConditionsAreWrittenPastTheWebhooks(t *testing.T) {
	s := seedOf(t, old)
	dead, asked := deadEnd(t)
	s.install(t, "webhooks.yaml", dead)
	o := s.made(t, object(kubermatic.GroupName, "status", `{}`))
	before := asked()
	if before == 0 {
		t.Error("the webhooks are not asked for what they are asked for")
	}
	if _, err := s.clusters(kubermatic.GroupName).
		Patch(t.Context(), o.GetName(), mergePatch, []byte(`{"status":{"namespaceName":"cluster-status"}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	if after := asked(); after != before {
		t.Errorf("the webhooks were asked for a status, %d times", after-before)
	}
}

// deadEnd is an address that takes connections and never says a word, which is the worst way of being dead, and how many it has taken.
func deadEnd(t *testing.T) (address string, asked func() int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	var taken atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			taken.Add(1)
			conns = append(conns, c)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
		for _, c := range conns {
			_ = c.Close()
		}
	})
	return l.Addr().String(), taken.Load
}

// nobody is an address at which nobody listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestADeadOperatorDoesNotKeepAnybodyFromWriting(t *testing.T) {
	files := map[string][]string{old: {"webhooks.yaml"}, recent: {"webhooks.yaml", "webhooks-strict.yaml"}}
	for _, version := range versions() {
		silent, _ := deadEnd(t)
		for how, address := range map[string]string{"gone": nobody(t), "silent": silent} {
			t.Run(version+" "+how, func(t *testing.T) {
				s := seedOf(t, version)
				for _, file := range files[version] {
					s.install(t, file, address)
				}
				deadOperator(t, s, len(files[version]) > 1)
			})
		}
	}
}

// bound is for how long a write may take with a dead operator: two webhooks, one after the other, of two and three seconds, and the strict one next to the
// second, on a busy machine.
const bound = 30 * time.Second

func deadOperator(t *testing.T, s *seed, strict bool) {
	group := kubermatic.GroupName
	timed := func(what string, do func() error) error {
		t.Helper()
		began := time.Now()
		err := do()
		took := time.Since(began)
		t.Logf("%s took %s", what, took.Round(10*time.Millisecond))
		if took > bound {
			t.Errorf("%s took %s", what, took)
		}
		return err
	}
	if err := timed("a ConfigMap", func() error {
		_, err := s.kube.CoreV1().
			ConfigMaps(metav1.NamespaceDefault).
			Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "other-"}}, metav1.CreateOptions{})
		return err
	}); err != nil {
		t.Errorf("an object that is nobody's business: %v", err)
	}
	var made *unstructured.Unstructured
	if err := timed("a new cluster", func() (err error) {
		made, err = s.create(t, object(group, "dead", `{version: 1.26.0, cloud: {providerName: aws}}`))
		return err
	}); err != nil {
		t.Fatalf("a new cluster: %v", err)
	}
	for _, patch := range []string{`{"spec":{"humanReadableName":"n"}}`, `{"metadata":{"annotations":{"a":"b"},"finalizers":["a/b"]}}`, `{"metadata":{"finalizers":null}}`} {
		if err := timed(patch, func() error { _, err := s.patch(t, made, patch); return err }); err != nil {
			t.Errorf("%s: %v", patch, err)
		}
	}
	err := timed("enabling", func() error {
		_, err := s.patch(t, made, `{"spec":{"features":{"externalCloudProvider":true}}}`)
		return err
	})
	switch {
	case strict && (err == nil || !strings.Contains(err.Error(), "guard.clusters.transplant.dev")):
		t.Errorf("enabling, strictly: %v", err)
	case !strict && err != nil:
		t.Errorf("enabling: %v", err)
	case !strict:
		if err := timed("disabling", func() error {
			_, err := s.patch(t, made, `{"spec":{"features":{"externalCloudProvider":false}}}`)
			return err
		}); !refused(err, "cannot be disabled") {
			t.Errorf("disabling while no webhook answers: %v", err)
		}
	}
	if err := timed("deleting", func() error { return s.clusters(group).Delete(t.Context(), "dead", metav1.DeleteOptions{}) }); err != nil {
		t.Errorf("deleting: %v", err)
	}
}

func TestTheStrictWebhookIsAskedOnlyWhenTheMigrationIsConcerned(t *testing.T) {
	needsRecent(t)
	s := seedOf(t, recent)
	o := s.made(t, object(kubermatic.GroupName, "strict", `{version: 1.26.0, cloud: {providerName: aws}, features: {externalCloudProvider: true}}`))
	if _, err := s.patch(
		t,
		o,
		`{"metadata":{"annotations":{"`+kubermatic.CCMMigrationNeeded+`":"","`+kubermatic.CSIMigrationNeeded+`":"","a":"b"},"finalizers":["a/b"]}}`,
	); err != nil {
		t.Fatal(err)
	}
	s.install(t, "webhooks-strict.yaml", nobody(t))
	asked := func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "guard.clusters.transplant.dev")
	}
	wait(t, "the webhook is asked", func() bool {
		_, err := s.patch(t, o, `{"metadata":{"annotations":{"`+kubermatic.CCMMigrationNeeded+`":null}}}`)
		return asked(err)
	})
	for patch, want := range map[string]bool{
		`{"metadata":{"annotations":null}}`:                    true,
		`{"metadata":{"annotations":{"a":null}}}`:              false,
		`{"spec":{"features":{"other":true}}}`:                 false,
		`{"spec":{"version":"1.26.1"}}`:                        false,
		`{"spec":{"features":{"externalCloudProvider":true}}}`: false,
	} {
		if _, err := s.patch(t, o, patch); asked(err) != want || !want && err != nil {
			t.Errorf("%s: %v, want the webhook asked: %t", patch, err, want)
		}
	}
	if err := s.clusters(kubermatic.GroupName).Delete(t.Context(), "strict", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.patch(t, o, `{"metadata":{"annotations":null,"finalizers":null}}`); err != nil {
		t.Errorf("a cluster that is being deleted cannot be finalized: %v", err)
	}
}

func TestAnOldAPIServerRefusesTheStrictWebhook(t *testing.T) {
	s := seedOf(t, old)
	if err := s.apply(t, "webhooks-strict.yaml", nobody(t)); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "matchConditions") {
		t.Errorf("a field that it does not know: %v", err)
	}
}

// Two replicas serve, one webhook each, while their authority and their certificates are replaced again and again. A request that does not reach its webhook
// passes, for they fail open: so each forbidden cluster that is made is a moment without trust.
func TestCertificatesAreReplacedWhileRequestsGoOn(t *testing.T) {
	s := seedOf(t, old)
	short := certs.Options{AuthorityLifetime: 30 * time.Second, Lifetime: 20 * time.Second, Overlap: 4 * time.Second, Interval: 500 * time.Millisecond}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var replicas []*operator
	var keepers []*certs.Manager
	for range 2 {
		keeper := s.manager(short)
		keepers = append(keepers, keeper)
		replicas = append(replicas, serve(t, s, keeper.GetCertificate, admission.Options{}))
	}
	s.install(t, "webhooks.yaml", replicas[0].address)
	for _, keeper := range keepers { // both begin at once, with no secret there
		running.Go(func() { keeper.Run(ctx) })
	}
	t.Cleanup(func() { cancel(); running.Wait() })
	s.trusted(t, served.Groups...)
	hooks := s.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	bundles, sent := map[string]bool{}, 0
	group := kubermatic.GroupName
	for began := time.Now(); time.Since(began) < 50*time.Second; sent++ {
		if _, err := s.clusters(group).
			Create(t.Context(), object(group, "forbidden", forbidden), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); !refused(
			err,
			"is not supported",
		) {
			t.Fatalf("request %d after %s: %v", sent, time.Since(began), err)
		}
		if sent%10 == 0 {
			config, err := hooks.Get(t.Context(), "transplant-operator", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			bundles[string(config.Webhooks[0].ClientConfig.CABundle)] = true
		}
		if sent%25 == 0 { // the API server dials again, and the other replica
			other := replicas[(sent/25)%2].address
			patch := `{"webhooks":[{"name":"judge.clusters.transplant.dev","clientConfig":{"url":"https://` + other + admission.ValidatePath + `"}}]}`
			if _, err := hooks.Patch(t.Context(), "transplant-operator", strategicPatch, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	secret, err := s.kube.CoreV1().Secrets(metav1.NamespaceDefault).Get(t.Context(), certs.DefaultSecret, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wait(t, "the API server is told what stands in the secret", func() bool {
		config, err := hooks.Get(t.Context(), "transplant-operator", metav1.GetOptions{})
		if err != nil {
			return false
		}
		if secret, err = s.kube.CoreV1().Secrets(metav1.NamespaceDefault).Get(t.Context(), certs.DefaultSecret, metav1.GetOptions{}); err != nil {
			return false
		}
		return bytes.Equal(config.Webhooks[0].ClientConfig.CABundle, secret.Data["ca.crt"])
	})
	t.Logf("%d requests, all of them judged, under %d bundles", sent, len(bundles))
	if len(bundles) < 3 {
		t.Errorf("%d bundles were seen, want the authority to have been replaced twice", len(bundles))
	}
}

func TestReplicasThatStartTogetherAgreeOnOneAuthority(t *testing.T) {
	s := seedOf(t, old)
	s.install(t, "webhooks.yaml", nobody(t))
	var keepers []*certs.Manager
	for range 4 {
		keepers = append(keepers, s.manager(certs.Options{}))
	}
	var all sync.WaitGroup
	for _, keeper := range keepers {
		all.Go(func() {
			if err := keeper.Ensure(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	first, err := keepers[0].GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, keeper := range keepers[1:] {
		served, err := keeper.GetCertificate(nil)
		if err != nil || !served.Leaf.Equal(first.Leaf) {
			t.Errorf("replica %d serves another certificate (%v)", i+1, err)
		}
	}
}
