package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/managerprogram"
	"github.com/transplant-dev/transplant/provider/aws/inventory"
	"github.com/transplant-dev/transplant/provider/aws/preview"
)

// ec2 describes the instances of newLive's nodes, but for one.
func ec2(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	w.Header().Set("Content-Type", "text/xml")
	switch r.Form.Get("Action") {
	case "DescribeInstances":
		fmt.Fprint(
			w,
			`<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>i-0123456789abcde01</instanceId><instanceType>m5.large</instanceType>
<instanceState><name>running</name></instanceState><privateDnsName>node-cp-1</privateDnsName><placement><availabilityZone>us-east-1a</availabilityZone></placement></item></instancesSet></item></reservationSet></DescribeInstancesResponse>`,
		)
	case "DescribeAvailabilityZones":
		fmt.Fprint(
			w,
			"<DescribeAvailabilityZonesResponse><availabilityZoneInfo><item><zoneName>us-east-1a</zoneName><zoneId>use1-az1</zoneId></item></availabilityZoneInfo></DescribeAvailabilityZonesResponse>",
		)
	default:
		fmt.Fprint(w, "<DescribeInstanceTopologyResponse/>")
	}
}

// awsProgram is aws-cloud-controller-manager as far as transplant asks it: with the provider's real code.
func awsProgram() (*cobra.Command, error) {
	root := &cobra.Command{Use: "aws-cloud-controller-manager"}
	root.AddCommand(managerprogram.Looks{Inventory: inventory.Open, Preview: preview.Open}.Commands("test")...)
	return root, nil
}

// installAWSProgram puts the program into PATH: it is this test's, under another name.
func installAWSProgram(t *testing.T) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "aws-cloud-controller-manager")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// proven is a connection to the cluster that is open.
func (c *live) proven(config string) (*client.Client, *v1.Snapshot) {
	c.t.Helper()
	installAWSProgram(c.t)
	at := filepath.Join(c.t.TempDir(), "cloud.conf")
	if err := os.WriteFile(at, []byte(config), 0o600); err != nil {
		c.t.Fatal(err)
	}
	conn := console.New(console.Streams{Out: io.Discard, Err: io.Discard}).Client
	conn.Kubeconfig, conn.Host, conn.Proof = c.kubeconfig, client.HostOptions{Access: "local:" + c.dir}, client.ProofOptions{Asked: true, Config: at}
	if err := conn.Open(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	s := conn.Gather(c.t.Context(), v1.Options{})
	conn.Prove(c.t.Context(), s, v1.Options{})
	return conn, s
}

func TestProofsOfALiveCluster(t *testing.T) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "x", "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent"} {
		t.Setenv(name, value)
	}
	server := httptest.NewServer(http.HandlerFunc(ec2))
	defer server.Close()
	c := newLive(t)
	c.api.Deny("create", "rolebindings")
	_, s := c.proven(
		"[Global]\nKubernetesClusterID = test\nRegion = us-east-1\n[ServiceOverride \"1\"]\nService = EC2\nRegion = us-east-1\nURL = " + server.URL + "\nSigningRegion = us-east-1\n",
	)
	if s.Preview == nil || s.Preview.Error != "" || len(s.Preview.Nodes) != 2 || s.Preview.Calls == 0 {
		t.Fatalf("preview: %+v", s.Preview)
	}
	if first, second := s.Preview.Nodes[0], s.Preview.Nodes[1]; !first.Found || first.Type != "m5.large" || first.Zone != "us-east-1a" || second.Found {
		t.Errorf("preview: %+v", s.Preview.Nodes)
	}
	refused := 0
	for _, d := range s.DryRuns {
		binding := strings.HasPrefix(d.Ref, "RoleBinding/") && d.Verb == "create"
		if d.OK == binding {
			t.Errorf("dry run: %+v", d)
		}
		if binding {
			refused++
		}
	}
	if len(s.DryRuns) < 8 || refused == 0 {
		t.Errorf("%d dry runs, %d refused", len(s.DryRuns), refused)
	}
	denied := 0
	for _, a := range s.Access {
		if a.Who == "self" && !a.Allowed {
			denied++
			if a.Verb != "create" || a.Resource != "rolebindings" {
				t.Errorf("denied: %+v", a)
			}
		}
	}
	if denied != 1 {
		t.Errorf("%d rights denied", denied)
	}
	if writes := c.api.Writes(); len(writes) > 0 {
		t.Errorf("proving wrote: %q", writes)
	}
}

func TestWhatCannotBeProvenIsUnknown(t *testing.T) {
	c := newLive(t)
	_, s := c.proven("[Global\n")
	var facts []string
	for _, e := range s.Errors {
		if strings.HasPrefix(e.Fact, "preview") {
			facts = append(facts, e.Fact+": "+e.Error)
		}
	}
	if len(facts) != 1 || !strings.Contains(facts[0], "preview: asking the new provider about the nodes: opening provider aws: reading the cloud config") {
		t.Errorf("errors: %q", facts)
	}
	if s.Preview == nil || s.Preview.Error == "" || len(s.DryRuns) == 0 {
		t.Errorf("preview %+v, %d dry runs", s.Preview, len(s.DryRuns))
	}
}
