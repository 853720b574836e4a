package check

import (
	"slices"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/volume"
)

func TestTheLastValueOfAFlagCounts(t *testing.T) {
	k := facts.Kubelet{Kubelet: v1.Kubelet{Flags: map[string]string{"cloud-provider": "external"}}}
	if _, known := k.Running("cloud-provider"); known || k.Provider() != facts.External {
		t.Error("without a process the files count")
	}
	k.Process = &v1.Process{Args: []string{"kubelet", "--cloud-provider", "aws", "--v=2", "--fail-swap-on", "--cloud-provider=gce"}}
	if values, _ := k.Running("cloud-provider"); !slices.Equal(values, []string{"aws", "gce"}) || k.Provider() != "gce" || !k.InTree() {
		t.Errorf("got %q, provider %s", values, k.Provider())
	}
	if values, _ := k.Running("fail-swap-on"); !slices.Equal(values, []string{"true"}) {
		t.Errorf("a flag without a value is %q", values)
	}
	k.Process.Args = []string{"kubelet"}
	if k.Provider() != "" {
		t.Errorf("a process without the flag names %s", k.Provider())
	}
}

func TestAGateThatIsGoneHasItsLastValue(t *testing.T) {
	for _, tc := range []struct {
		gate  string
		minor int
		set   map[string]bool
		want  bool
	}{
		{"CSIMigrationAWS", 22, nil, false},
		{"CSIMigrationAWS", 22, map[string]bool{"CSIMigrationAWS": true}, true},
		{"CSIMigrationAWS", 24, nil, true},
		{"CSIMigrationAWS", 24, map[string]bool{"CSIMigrationAWS": false}, false},
		{"CSIMigrationAWS", 25, map[string]bool{"CSIMigrationAWS": false}, true}, // locked
		{"CSIMigrationAWS", 30, nil, true},                                       // gone
		{"KubeletCredentialProviders", 23, nil, false},
		{"KubeletCredentialProviders", 30, nil, true},
		{"NeverWas", 26, nil, false},
	} {
		if got := facts.Effective(tc.gate, tc.set, tc.minor); got != tc.want {
			t.Errorf("%s in 1.%d with %v is %t", tc.gate, tc.minor, tc.set, got)
		}
	}
}

func TestVolumesInUseNameTheirPluginOrDriver(t *testing.T) {
	got := volume.MountsOf(v1.Node{VolumesInUse: []string{
		"kubernetes.io/aws-ebs/aws://us-east-1a/vol-1",
		"kubernetes.io/csi/ebs.csi.aws.com^vol-2",
		"kubernetes.io/csi/ebs.csi.aws.com^vol-3",
		"kubernetes.io/vsphere-volume/[ds] a/b.vmdk",
	}})
	for name, want := range map[string]int{"kubernetes.io/aws-ebs": 1, "ebs.csi.aws.com": 2, "kubernetes.io/vsphere-volume": 1} {
		if got[name] != want {
			t.Errorf("%s has %d in use, want %d (%v)", name, got[name], want, got)
		}
	}
}
