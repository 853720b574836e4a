package fleetapi

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/served"
)

const (
	mergePatch     = types.MergePatchType
	strategicPatch = types.StrategicMergePatchType
)

// The guide's two objects: what somebody writes, and what it says the webhook makes of it. The indentation is restored and the dots are removed.
const (
	guideWritten = `
apiVersion: kubermatic.k8s.io/v1
kind: Cluster
metadata:
  name: crh4xbxz5f
spec:
  exposeStrategy: NodePort
  features:
    externalCloudProvider: true
  humanReadableName: determined-raman
`
	guideMade = `
apiVersion: kubermatic.k8s.io/v1
kind: Cluster
metadata:
  annotations:
    ccm-migration.k8c.io/migration-needed: ""
    csi-migration.k8c.io/migration-needed: ""
  name: crh4xbxz5f
spec:
  exposeStrategy: NodePort
  features:
    externalCloudProvider: true
  humanReadableName: determined-raman
`
)

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(data, &out.Object); err != nil { // whole numbers as the API has them
		t.Fatal(err)
	}
	return out
}

func TestTheGuidesObjectsAreAcceptedAsTheyStand(t *testing.T) {
	for _, version := range versions() {
		s := seedOf(t, version)
		for _, group := range served.Groups {
			for _, text := range []string{guideWritten, guideMade} {
				o := parsed(t, strings.Replace(text, "kubermatic.k8s.io", group, 1))
				made := s.made(t, o)
				if diff := cmp.Diff(o.Object["spec"], made.Object["spec"]); diff != "" {
					t.Errorf("%s, %s: the spec was changed:\n%s", version, group, diff)
				}
				if err := s.clusters(group).Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.clean(t)
	}
}

// No webhook is installed here: the schema alone refuses it.
func TestWhatMustNeverSlipIsRefusedByTheSchema(t *testing.T) {
	s := seedOf(t, old)
	const disabled = `feature gate "externalCloudProvider" cannot be disabled once it's enabled`
	for _, group := range served.Groups {
		o := s.made(
			t,
			object(group, "migrated", `{features: {externalCloudProvider: true, other: true}, cloud: {providerName: aws, aws: {vpcID: v}}, version: v1.26.0}`),
		)
		for patch, want := range map[string]string{
			`{"spec":{"features":{"externalCloudProvider":false}}}`:          disabled,
			`{"spec":{"features":{"externalCloudProvider":null}}}`:           disabled,
			`{"spec":{"features":null}}`:                                     disabled,
			`{"spec":null}`:                                                  disabled,
			`{"spec":{"cloud":{"providerName":"azure"}}}`:                    "not allowed to change the cloud provider",
			`{"spec":{"cloud":null}}`:                                        "not allowed to change the cloud provider",
			`{"spec":{"features":{"externalCloudProvider":"true"}}}`:         "must be of type boolean",
			`{"spec":{"version":"newest"}}`:                                  "spec.version",
			`{"spec":{"exposeStrategy":"Carrier pigeon"}}`:                   "spec.exposeStrategy",
			`{"spec":{"features":{"other":null}}}`:                           "",
			`{"spec":{"cloud":{"aws":{"vpcID":"w"}},"version":"1.27.1"}}`:    "",
			`{"metadata":{"annotations":{"transplant.dev/hold":"someone"}}}`: "",
		} {
			switch _, err := s.patch(t, o, patch); {
			case want == "" && err != nil:
				t.Errorf("%s %s: %v", group, patch, err)
			case want != "" && !refused(err, want):
				t.Errorf("%s %s: %v, want it refused for %q", group, patch, err, want)
			}
		}
		quiet := s.made(t, object(group, "quiet", `{features: {externalCloudProvider: false}}`))
		for _, patch := range []string{`{"spec":{"features":null}}`, `{"spec":null}`, `{"spec":{"cloud":{"providerName":"aws"}}}`, `{"spec":{"features":{"externalCloudProvider":true}}}`} {
			if _, err := s.patch(t, quiet, patch); err != nil {
				t.Errorf("%s %s of a cluster without the feature: %v", group, patch, err)
			}
		}
	}
}

// rich is an object as the original's controllers leave it: most of what is in it, our types do not know.
const rich = `
spec:
  humanReadableName: determined-raman
  version: 1.26.4
  exposeStrategy: Tunneling
  features: {externalCloudProvider: false, etcdLauncher: true, apiserverNetworkPolicy: true}
  containerRuntime: containerd
  enableUserSSHKeyAgent: true
  auditLogging: {enabled: true, policyPreset: recommended}
  cloud:
    dc: aws-eu-central-1a
    providerName: aws
    aws: {instanceProfileName: p, roleARN: r, routeTableID: t, securityGroupID: g, vpcID: v, credentialsReference: {name: credential, namespace: kubermatic, key: k}}
  clusterNetwork: {dnsDomain: cluster.local, proxyMode: ipvs, ipvs: {strictArp: true}, pods: {cidrBlocks: [172.25.0.0/16]}, services: {cidrBlocks: [10.240.16.0/20]}, konnectivityEnabled: true}
  cniPlugin: {type: canal, version: v3.26}
  componentsOverride: {apiserver: {replicas: 2, nodePortRange: 30000-32767}, etcd: {clusterSize: 3}}
  kubernetesDashboard: {enabled: true}
  oidc: {issuerURL: "https://issuer"}
`

const richStatus = `
namespaceName: cluster-rich
userEmail: someone@example.com
address: {url: "https://rich:6443", port: 6443, adminToken: abcdef.0123456789abcdef}
phase: Running
lastUpdated: "2026-01-02T03:04:05Z"
extendedHealth: {apiserver: HealthStatusUp, etcd: HealthStatusUp, machineController: HealthStatusUp}
encryption: {activeKey: "", encryptedResources: [], phase: Active}
versions: {controlPlane: 1.26.4, apiserver: 1.26.4, controllerManager: 1.26.4, scheduler: 1.26.4, oldestNodeVersion: 1.26.4}
conditions:
  ClusterInitialized: {kubermaticVersion: v2.23, lastHeartbeatTime: "2026-01-02T03:04:05Z", lastTransitionTime: "2026-01-02T03:04:05Z", status: "True"}
  SeedResourcesUpToDate: {kubermaticVersion: v2.23, lastHeartbeatTime: "2026-01-02T03:04:05Z", status: "True", reason: ClusterUpdateSuccessful, message: All control plane components are up to date}
`

// rich makes the rich object, status included, and returns it as the API has it.
func (s *seed) rich(t *testing.T, group string) *unstructured.Unstructured {
	t.Helper()
	o := parsed(t, rich)
	o.SetAPIVersion(group + "/v1")
	o.SetKind("Cluster")
	o.SetName("rich")
	o.SetLabels(map[string]string{"project-id": "p1"})
	o.SetFinalizers([]string{"kubermatic.k8c.io/cleanup-credentials-secrets"})
	made := s.made(t, o)
	t.Cleanup(func() { // the finalizer is nobody's here
		if _, err := s.clusters(group).
			Patch(context.Background(), o.GetName(), mergePatch, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Errorf("taking the finalizer away: %v", err)
		}
	})
	made.Object["status"] = parsed(t, richStatus).Object
	out, err := s.clusters(group).UpdateStatus(t.Context(), made, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parsed(t, richStatus).Object, out.Object["status"]); diff != "" {
		t.Fatalf("the status was not kept:\n%s", diff)
	}
	return out
}

// changeAndCompare writes what the operator writes, and wants everything else to be as it was.
func changeAndCompare(t *testing.T, s *seed, before *unstructured.Unstructured) {
	t.Helper()
	group := before.GroupVersionKind().Group
	read, err := objects.Decode(before)
	if err != nil {
		t.Fatal(err)
	}
	next, changed := read.Status.Conditions.Next(
		kubermatic.ConditionMigration,
		kubermatic.ClusterCondition{Status: corev1.ConditionFalse, Reason: kubermatic.PhaseQueued, Message: "waits"},
		metav1.Now(),
		"transplant v0",
	)
	if !changed {
		t.Fatal("a new condition is no change")
	}
	written, err := objects.Of(group, read).Feature("externalCloudProvider", true).Annotate(kubermatic.CCMMigrationNeeded, "").Spec(true, "disableCsiDriver").
		Condition(kubermatic.ConditionMigration, next).Apply(t.Context(), s.dynamic, "transplant-operator")
	if err != nil {
		t.Fatal(err)
	}
	if !written.External() || !written.Spec.CSIDriverDisabled() || written.Status.Conditions[kubermatic.ConditionMigration].LastTransitionTime.Time.IsZero() {
		t.Errorf("what was written is not there: %+v", written.Spec)
	}
	after, err := s.clusters(group).Get(t.Context(), before.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(after.Object, "status", "conditions", string(kubermatic.ConditionMigration))
	unstructured.RemoveNestedField(after.Object, "spec", "disableCsiDriver")
	unstructured.RemoveNestedField(after.Object, "metadata", "annotations")
	if err := unstructured.SetNestedField(after.Object, false, "spec", "features", "externalCloudProvider"); err != nil {
		t.Fatal(err)
	}
	for _, o := range []*unstructured.Unstructured{before, after} {
		o.SetManagedFields(nil)
		o.SetResourceVersion("")
		o.SetGeneration(0)
	}
	if diff := cmp.Diff(before.Object, after.Object); diff != "" {
		t.Errorf("something else was changed:\n%s", diff)
	}
}

func TestNoFieldOfTheOriginalIsLostWhenOneIsWritten(t *testing.T) {
	s := seedOf(t, old)
	for _, group := range served.Groups {
		changeAndCompare(t, s, s.rich(t, group))
	}
}

// The control of the test above: writing the typed object as a whole loses what our types do not know, which is why nothing does it.
func TestAnUpdateOfTheTypedObjectWouldLoseFields(t *testing.T) {
	s := seedOf(t, old)
	before := s.rich(t, kubermatic.GroupName)
	read, err := objects.Decode(before)
	if err != nil {
		t.Fatal(err)
	}
	data, err := yaml.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	whole := parsed(t, string(data))
	after, err := s.clusters(kubermatic.GroupName).Update(t.Context(), whole, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatal(err)
	}
	if _, kept, _ := unstructured.NestedMap(after.Object, "spec", "oidc"); kept {
		t.Error("an update of the typed object keeps what it does not know: then patches are not needed")
	}
}

func TestAStaleWriteIsRefusedAndToldApart(t *testing.T) {
	s := seedOf(t, old)
	group := kubermatic.GroupName
	o := s.made(t, object(group, "stale", `{}`))
	read, err := objects.Decode(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.patch(t, o, `{"spec":{"pause":true}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Of(group, read).Feature("externalCloudProvider", true).Apply(t.Context(), s.dynamic, "t"); !objects.IsStale(err) {
		t.Errorf("a write over another's change: %v", err)
	}
	if _, err := objects.Of(group, read).Unconditional().Annotate("a", "b").Apply(t.Context(), s.dynamic, "t"); err != nil {
		t.Errorf("an unconditional write: %v", err)
	}
	if err := s.clusters(group).Delete(t.Context(), "stale", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Of(group, read).Unconditional().Annotate("a", "b").Apply(t.Context(), s.dynamic, "t"); !objects.IsStale(err) {
		t.Errorf("a write of a cluster that is gone: %v", err)
	}
	s.made(t, object(group, "stale", `{}`))
	if _, err := objects.Of(group, read).Unconditional().Annotate("a", "b").Apply(t.Context(), s.dynamic, "t"); !objects.IsStale(err) {
		t.Errorf("a write of a cluster that was deleted and made again: %v", err)
	}
}

func TestTimesThatAreNilAreTaken(t *testing.T) {
	s := seedOf(t, old)
	o := s.made(t, object(kubermatic.LegacyGroupName, "nil-times", `{}`))
	_, err := s.clusters(kubermatic.LegacyGroupName).Patch(t.Context(), o.GetName(), types.JSONPatchType,
		[]byte(
			`[{"op":"add","path":"/status","value":{"conditions":{"A":{"status":"True","lastHeartbeatTime":"2026-01-02T03:04:05Z","lastTransitionTime":null}}}}]`,
		), metav1.PatchOptions{}, "status")
	if err != nil {
		t.Errorf("the original writes a new condition with a transition that is nil: %v", err)
	}
}
