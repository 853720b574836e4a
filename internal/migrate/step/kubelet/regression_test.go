package kubelet

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestWhatIsWorseThanBeforeAndWhatIsMerelyDifferent(t *testing.T) {
	before := v1.NodeRecord{
		UID:        "u",
		ProviderID: "aws:///a/i-1",
		Addresses:  []string{"InternalIP=10.0.0.1", "InternalIP=10.0.0.2", "ExternalDNS=x.example"},
		Labels:     map[string]string{"zone": "a", "kubernetes.io/hostname": "ip-1"},
		Taints: []string{
			"dedicated=db:NoSchedule",
			"node.kubernetes.io/unschedulable=:NoSchedule",
		},
		Drivers:    []string{"ebs.csi.aws.com"},
		Attachable: map[string]string{"attachable-volumes-aws-ebs": "39"},
	}
	for _, c := range []struct {
		name             string
		step             v1.Step
		change           func(*v1.NodeRecord)
		worse, different string
	}{
		{"nothing", v1.Step{}, func(*v1.NodeRecord) {}, "", ""},
		{"a new Node of that name", v1.Step{}, func(n *v1.NodeRecord) { n.UID = "w" }, "the Node was recreated: its uid is w, it was u", ""},
		{"a providerID that is gone", v1.Step{}, func(n *v1.NodeRecord) { n.ProviderID = "" }, `its providerID is "", it was "aws:///a/i-1"`, ""},
		{"an internal address", v1.Step{}, func(n *v1.NodeRecord) { n.Addresses = n.Addresses[1:] }, "it has lost the address InternalIP=10.0.0.1", ""},
		{"another first internal address", v1.Step{}, func(n *v1.NodeRecord) {
			n.Addresses = []string{"InternalIP=10.0.0.2", "InternalIP=10.0.0.1", "ExternalDNS=x.example"}
		}, "its first InternalIP is 10.0.0.2, it was 10.0.0.1", ""},
		{"another order of kinds", v1.Step{}, func(n *v1.NodeRecord) {
			n.Addresses = []string{"ExternalDNS=x.example", "InternalIP=10.0.0.1", "InternalIP=10.0.0.2"}
		}, "", "its addresses are in another order: ExternalDNS=x.example, InternalIP=10.0.0.1, InternalIP=10.0.0.2, before InternalIP=10.0.0.1, InternalIP=10.0.0.2, ExternalDNS=x.example"},
		{"a name for another", v1.Step{}, func(n *v1.NodeRecord) {
			n.Addresses = []string{"InternalIP=10.0.0.1", "InternalIP=10.0.0.2", "Hostname=x"}
		}, "", "it has lost the address ExternalDNS=x.example; it has got the address Hostname=x"},
		{"the host's name where the step gives one", v1.Step{Edits: []v1.Edit{{Op: v1.EditSetFlag, Name: "hostname-override", Value: "n"}}}, func(n *v1.NodeRecord) {
			n.Labels = map[string]string{"zone": "a", "kubernetes.io/hostname": "n", "new": "1"}
		}, "", ""},
		{"the host's name where it gives none", v1.Step{}, func(n *v1.NodeRecord) { n.Labels = map[string]string{"zone": "a", "kubernetes.io/hostname": "n"} },
			`its label kubernetes.io/hostname is "n", it was "ip-1"`, ""},
		{"taints of the node's state", v1.Step{}, func(n *v1.NodeRecord) {
			n.Taints = []string{"dedicated=db:NoSchedule", "node.kubernetes.io/not-ready=:NoSchedule"}
		}, "", ""},
		{"a taint of the owner that is gone", v1.Step{}, func(n *v1.NodeRecord) { n.Taints = nil }, "its taint dedicated=db:NoSchedule is gone", ""},
		{"somebody else's new taint", v1.Step{}, func(n *v1.NodeRecord) { n.Taints = append(n.Taints[:1:1], "ToBeDeleted=1:NoSchedule") }, "", "it has the new taint ToBeDeleted=1:NoSchedule"},
		{"a driver", v1.Step{}, func(n *v1.NodeRecord) { n.Drivers = nil }, "CSI driver ebs.csi.aws.com is no longer registered on it", ""},
		{"a limit of in-tree volumes, which goes with the plugin", v1.Step{}, func(n *v1.NodeRecord) { n.Attachable = nil }, "", `its allocatable attachable-volumes-aws-ebs is "", it was "39"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := before
			c.change(&now)
			worse, different := regressed(c.step, before, now)
			if have := strings.Join(worse, "; "); have != c.worse {
				t.Errorf("worse: %q, want %q", have, c.worse)
			}
			if have := strings.Join(different, "; "); have != c.different {
				t.Errorf("different: %q, want %q", have, c.different)
			}
		})
	}
}

func TestARunningKubeletIsComparedByItsFlags(t *testing.T) {
	for _, c := range []struct {
		name  string
		edits []v1.Edit
		args  []string
		want  string
	}{
		{"as wanted", []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}, {Op: v1.EditUnsetFlag, Name: "cloud-config"}},
			[]string{"kubelet", "--cloud-provider=external"}, ""},
		{"the old provider", []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}}, []string{"kubelet", "--cloud-provider=aws"}, `its process runs with --cloud-provider="aws", not "external"`},
		{"a flag that another file gives once more", []v1.Edit{{Op: v1.EditUnsetFlag, Name: "cloud-config"}}, []string{"kubelet", "--cloud_config", "/a"}, "its process still runs with --cloud-config=/a"},
		{"gates in another order and from two flags", []v1.Edit{{Op: v1.EditSetFlag, Name: "feature-gates", Value: "A=true,B=false"}}, []string{"kubelet",
			"--feature-gates=B=false", "--feature-gates=A=True"}, ""},
		{"a gate too many", []v1.Edit{{Op: v1.EditSetFlag, Name: "feature-gates", Value: "A=true"}}, []string{"kubelet", "--feature-gates=A=true,B=false"}, `its process runs with --feature-gates="A=true,B=false", not "A=true"`},
		{"gates of the configuration file are on no command line", []v1.Edit{{Op: v1.EditSetGate, Name: "A", Value: "true"}}, []string{"kubelet"}, ""},
		{"no process' arguments", []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}}, nil, `its process runs with --cloud-provider="", not "external"`},
	} {
		if have := shownBy(c.edits)(c.args); have != c.want {
			t.Errorf("%s: %q, want %q", c.name, have, c.want)
		}
	}
}

// TestANodeThatFillsTheJournalIsNotChanged: a kubelet writes its labels, and root on the host what its processes are.
func TestANodeThatFillsTheJournalIsNotChanged(t *testing.T) {
	long := strings.Repeat("x", 300<<10)
	for name, c := range map[string]struct {
		record  v1.NodeRecord
		flags   map[string]string
		refused bool
	}{
		"an ordinary one": {v1.NodeRecord{Labels: map[string]string{"zone": "a"}, Names: []string{"n"}}, map[string]string{"cloud-provider": "aws"}, false},
		"labels":          {v1.NodeRecord{Labels: map[string]string{"zone": long}}, nil, true},
		"addresses":       {v1.NodeRecord{Addresses: []string{long}}, nil, true},
		"names":           {v1.NodeRecord{Names: []string{long}}, nil, true},
		"drivers":         {v1.NodeRecord{Drivers: []string{long}}, nil, true},
		"flags":           {v1.NodeRecord{}, map[string]string{"cloud-provider": long}, true},
	} {
		err := checkBaseline("n1", c.record, c.flags)
		if (err != nil) != c.refused || err != nil && (!strings.Contains(err.Error(), "node n1 was not changed") || len(err.Error()) > 1000) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChangesOfANodeAreNotedAsFarAsTheyFit(t *testing.T) {
	few := []string{"a", "b"}
	if got := cutClauses(few); len(got) != 2 {
		t.Errorf("%q", got)
	}
	many := []string{"a", strings.Repeat("x", 5000), "c"}
	if got := cutClauses(many); len(got) != 2 || got[0] != "a" || got[1] != "2 other changes" {
		t.Errorf("%.100q", got)
	}
}
