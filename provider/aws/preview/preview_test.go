package preview

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// The provider's batchers are never told to stop.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/cloud-provider-aws/pkg/providers/v1/batcher.(*Batcher[...]).run"))
}

func TestPreviewOfAWS(t *testing.T) {
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		action := r.Form.Get("Action")
		asked[action]++
		w.Header().Set("Content-Type", "text/xml")
		switch action {
		case "DescribeInstances":
			if isAsked(r.Form, unknownID) && r.Form.Get("Filter.1.Name") == "" { // EC2 refuses the whole request, and names what it does not know
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(
					w,
					"<Response><Errors><Error><Code>InvalidInstanceID.NotFound</Code><Message>The instance ID '%s' does not exist</Message></Error></Errors><RequestID>r</RequestID></Response>",
					unknownID,
				)
				return
			}
			fmt.Fprint(w, "<DescribeInstancesResponse><reservationSet>"+instances(r.Form)+"</reservationSet></DescribeInstancesResponse>")
		case "DescribeAvailabilityZones":
			fmt.Fprint(
				w,
				"<DescribeAvailabilityZonesResponse><availabilityZoneInfo><item><zoneName>eu-west-1a</zoneName><zoneId>euw1-az1</zoneId></item></availabilityZoneInfo></DescribeAvailabilityZonesResponse>",
			)
		default:
			http.Error(w, "not expected: "+action, http.StatusNotImplemented)
		}
	}))
	defer server.Close()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID":           "AKIA",
		"AWS_SECRET_ACCESS_KEY":       "x",
		"AWS_REGION":                  "",
		"AWS_CONFIG_FILE":             "/nonexistent",
		"AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
		"HTTP_PROXY":                  "",
		// No metadata service answers: this machine is no instance.
		"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1",
		"http_proxy":                        "",
	} {
		t.Setenv(name, value)
	}
	config := "[Global]\nKubernetesClusterID = lab\n[ServiceOverride \"1\"]\nService = EC2\nRegion = eu-west-1\nURL = " + server.URL + "\nSigningRegion = eu-west-1\n"
	var nodes []v1.Node
	for i := range 500 {
		id := fmt.Sprintf("i-%017x", i)
		nodes = append(
			nodes,
			v1.Node{
				Name:       "node-" + id,
				ProviderID: "aws:///eu-west-1a/" + id,
				Labels:     map[string]string{corev1.LabelTopologyRegion: "eu-west-1", "topology.k8s.aws/network-node-layer-1": "nn-1"},
			},
		)
	}
	source, err := Open(t.Context(), []byte(config), nodes)
	if err != nil {
		t.Fatal(err)
	}
	got := source.Preview(t.Context(), nodes)
	if got.Error != "" || len(got.Nodes) != 500 {
		t.Fatalf("got %q and %d nodes", got.Error, len(got.Nodes))
	}
	want := v1.NodePreview{
		Node: "node-i-00000000000000001", Found: true, ProviderID: "aws:///eu-west-1a/i-00000000000000001", Zone: "eu-west-1a", Region: "eu-west-1", Type: "m5.large",
		Addresses: []string{"InternalIP=10.0.0.7", "InternalDNS=ip-10-0-0-7.eu-west-1.compute.internal", "Hostname=ip-10-0-0-7.eu-west-1.compute.internal"},
		Labels:    map[string]string{"topology.k8s.aws/zone-id": "euw1-az1"},
	}
	if diff := cmp.Diff(want, got.Nodes[1]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if gone := got.Nodes[0]; gone.Found || gone.Error != "" {
		t.Errorf("the instance that EC2 does not have: %+v", gone)
	}
	total := 0
	for action, n := range asked {
		total += n
		if !strings.HasPrefix(action, "Describe") {
			t.Errorf("the preview called %s: it only reads", action)
		}
	}
	if total > 5 || got.Calls != total {
		t.Errorf("%d calls (%v), of which the preview tells %d", total, asked, got.Calls)
	}
	// Most in-tree clusters have no cluster ID in their cloud config: the manager takes it from the tags of its instance.
	untold, err := Open(t.Context(), []byte(strings.Replace(config, "KubernetesClusterID = lab\n", "", 1)), nodes)
	if err != nil {
		t.Fatalf("without a cluster ID: %v", err)
	}
	if got := untold.Preview(t.Context(), nodes[1:3]); got.Error != "" || len(got.Nodes) != 2 || !got.Nodes[0].Found || !got.Nodes[1].Found {
		t.Errorf("without a cluster ID: %+v", got)
	}
}

func TestTheControlPlanesInstancesComeFirst(t *testing.T) {
	var nodes []v1.Node
	for i := range 30 {
		nodes = append(nodes, v1.Node{ProviderID: fmt.Sprintf("aws:///eu-west-1a/i-%017x", i)})
	}
	nodes[28].Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	nodes[29].Labels = map[string]string{"node-role.kubernetes.io/master": ""}
	nodes[0].ProviderID, nodes[1].ProviderID = "", "kwok://node-1"
	got := someInstances(nodes)
	if len(got) != maxInstances || got[0] != "i-0000000000000001c" || got[1] != "i-0000000000000001d" || got[2] != "i-00000000000000002" {
		t.Errorf("got %q", got)
	}
	if got := someInstances(nil); len(got) != 0 {
		t.Errorf("of no nodes: %q", got)
	}
}

// unknownID is the first of the IDs, which EC2 does not know.
const unknownID = "i-00000000000000000"

func isAsked(form url.Values, id string) bool {
	for key := range form {
		if form.Get(key) == id {
			return true
		}
	}
	return false
}

// instances answers for all IDs that are asked for.
func instances(form url.Values) string {
	var b strings.Builder
	for key := range form {
		id := form.Get(key)
		if !strings.HasPrefix(id, "i-") {
			continue
		}
		b.WriteString(
			"<item><instancesSet><item><instanceId>" + id + "</instanceId><instanceType>m5.large</instanceType><instanceState><code>16</code><name>running</name></instanceState>" +
				"<privateDnsName>ip-10-0-0-7.eu-west-1.compute.internal</privateDnsName><placement><availabilityZone>eu-west-1a</availabilityZone></placement>" +
				"<tagSet><item><key>kubernetes.io/cluster/lab</key><value>owned</value></item></tagSet>" +
				"<networkInterfaceSet><item><status>in-use</status><attachment><deviceIndex>0</deviceIndex></attachment><privateIpAddressesSet><item><privateIpAddress>10.0.0.7</privateIpAddress></item></privateIpAddressesSet></item></networkInterfaceSet></item></instancesSet></item>",
		)
	}
	return b.String()
}

func TestOpenNamesWhatItCannotOpen(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	if _, err := Open(t.Context(), nil, []v1.Node{{ProviderID: "aws:///x/i-1"}}); err == nil || !strings.Contains(err.Error(), "export AWS_REGION") {
		t.Errorf("got %v", err)
	}
	if _, err := Open(
		t.Context(),
		[]byte("Region = x\n[Global\n"),
		nil,
	); err == nil ||
		!strings.Contains(err.Error(), "opening provider aws: reading the cloud config") {
		t.Errorf("got %v", err)
	}
}

func TestTheConfigWinsOverWhatIsCompleted(t *testing.T) {
	nodes := []v1.Node{{Labels: map[string]string{corev1.LabelTopologyRegion: "eu-west-1"}}}
	got := string(complete([]byte("[Global]\nVPC = vpc-1\n"), nodes))
	if strings.Index(got, "vpc-of-the-cluster") > strings.Index(got, "vpc-1") || !strings.Contains(got, "Region = eu-west-1\n") {
		t.Errorf("got\n%s", got)
	}
	for providerID, want := range map[string]string{
		"aws:///us-east-1a/i-1": "us-east-1", "aws:///us-gov-west-1b/i-1": "us-gov-west-1", "aws:///us-west-2-lax-1a/i-1": "us-west-2", "aws://i-1": "", "": "",
	} {
		if got := regionOf([]v1.Node{{ProviderID: providerID}}); got != want {
			t.Errorf("%q: got %q", providerID, got)
		}
	}
	for name, other := range map[string]v1.Node{
		"regions that differ":          {Labels: map[string]string{corev1.LabelFailureDomainBetaRegion: "us-east-1"}},
		"a region that is no INI text": {Labels: map[string]string{corev1.LabelTopologyRegion: "eu-west-1\n[ServiceOverride"}},
	} {
		if got := regionOf(append(nodes[:len(nodes):len(nodes)], other)); got != "" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
