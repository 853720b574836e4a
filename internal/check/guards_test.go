package check

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/hosted"
	"github.com/transplant-dev/transplant/internal/check/remedy"
)

// harms are what a fix that is pasted into a shell may not do, and how it is recognised. A name is taken by another object, a file by another tool, and
// between the look and the fix an hour may pass.
var harms = []struct {
	what  string
	match *regexp.Regexp
}{
	{"deletes a Node without saying which object of that name is meant", regexp.MustCompile(`kubectl delete node `)},
	{"throws local data away that its owner was not asked about", regexp.MustCompile(`--delete-emptydir-data|--disable-eviction|--force\b|--grace-period=0`)},
	{"edits a file in place and keeps none of before", regexp.MustCompile(`sed -i '[^']*' \S*[^w](\s|$)`)}, // of a copy that ends in .new, the file itself stays
	{"moves a file over another one of its name", regexp.MustCompile(`\bmv /\S+ \S+/(\s|$)`)},
	{"deletes a route wherever it leads by now", regexp.MustCompile(`^aws ec2 delete-route`)},
	{"takes a tag away whatever its value is by now", regexp.MustCompile(`delete-tags \S+ \S+ --tags Key=[^,\s]+(\s|$)`)},
	{"sets a providerID, which is set for good, from a placeholder", regexp.MustCompile(`"providerID":"[^"]*<`)},
	{"overwrites what a Service says to its provider", regexp.MustCompile(`annotate .*--overwrite (service|loadbalancer)\.`)},
}

func TestNoFixDestroysWithoutAGuard(t *testing.T) {
	for fix, code := range fixes(t) {
		for _, h := range harms {
			if h.match.MatchString(fix) {
				t.Errorf("%s %s: %s", code, h.what, fix)
			}
		}
	}
}

// TestTheGuardsSeeWhatTheyAreFor tries them on fixes that were printed once.
func TestTheGuardsSeeWhatTheyAreFor(t *testing.T) {
	for i, fix := range []string{
		"kubectl get node n -o yaml > n.yaml && kubectl drain n --ignore-daemonsets && kubectl delete node n",
		"kubectl drain --ignore-daemonsets --delete-emptydir-data n",
		"sed -i 's| *--cloud-config=[^ ]*||' /var/lib/kubelet/kubeadm-flags.env && systemctl restart kubelet",
		"mv /etc/kubernetes/manifests/kube-controller-manager.yaml.bak /var/tmp/   # on host cp-1",
		"aws ec2 delete-route --route-table-id rtb-1 --destination-cidr-block 10.200.9.0/24",
		"aws ec2 delete-tags --resources i-1 --tags Key=kubernetes.io/cluster/other",
		`kubectl patch node n -p '{"spec":{"providerID":"aws:///<zone>/<instance id>"}}'`,
		"kubectl -n a annotate service b --overwrite loadbalancer.openstack.org/enable-health-monitor=true",
	} {
		if !harms[i].match.MatchString(fix) {
			t.Errorf("%q passes as one that does not what it does: %s", fix, strings.TrimSpace(harms[i].what))
		}
	}
}

// TestEveryFixSaysWhatItIs holds all rules to the words that go with their commands.
func TestEveryFixSaysWhatItIs(t *testing.T) {
	kinds := map[v1.FixKind]int{}
	destroying := map[string]bool{}
	for _, tc := range allRules() {
		f := tc.finding(t)
		kinds[f.FixKind]++
		for _, broken := range wordsMissing(f) {
			t.Errorf("%s %s: %s: %s", f.Code, tc.name, broken, f.Fix)
		}
		if remedy.Destroys(f.Fix) {
			destroying[f.Code] = true
		}
	}
	if kinds[v1.FixLook] < 80 || kinds[v1.FixChange] < 50 || len(destroying) < 8 {
		t.Errorf("too few were seen: %v, of which %d checks delete, drain or stop something", kinds, len(destroying))
	}
}

// wordsMissing says which words a finding lacks, or has without the command that they are about.
func wordsMissing(f v1.Finding) (out []string) {
	for _, c := range []struct {
		broken bool
		says   string
	}{
		{(f.Fix == "") != (f.FixKind == ""), "a command without a kind, or a kind without a command"},
		{f.FixKind == v1.FixLook && f.LookFor == "", "it only shows more, and does not say what to look for"},
		{f.FixKind != v1.FixLook && f.LookFor != "", "it says what to look for where nothing is shown"},
		{remedy.Destroys(f.Fix) && f.OnlyIf == "", "it deletes, drains or stops something, and does not say when it may be run"},
		{remedy.Destroys(f.Fix) && f.Warning == "", "it deletes, drains or stops something without a word of warning"},
		{!remedy.Destroys(f.Fix) && f.OnlyIf+f.Warning != "", "it warns of what it does not do"},
	} {
		if c.broken {
			out = append(out, c.says)
		}
	}
	return out
}

func TestTheWordsThatAreMissingAreNamed(t *testing.T) {
	for name, f := range map[string]v1.Finding{
		"no kind":      {Fix: "kubectl get nodes"},
		"no command":   {FixKind: v1.FixLook, LookFor: "x"},
		"no look for":  {Fix: "kubectl get nodes", FixKind: v1.FixLook},
		"shows none":   {Fix: "kubectl uncordon a", FixKind: v1.FixChange, LookFor: "x"},
		"no condition": {Fix: "kubectl drain a", FixKind: v1.FixChange, Warning: "x"},
		"no warning":   {Fix: "kubectl drain a", FixKind: v1.FixChange, OnlyIf: "x"},
		"no danger":    {Fix: "kubectl uncordon a", FixKind: v1.FixChange, Warning: "x"},
	} {
		if len(wordsMissing(f)) != 1 {
			t.Errorf("%s: %q", name, wordsMissing(f))
		}
	}
}

// TestNoCommandAsksAProgramThatThereIsNot has clusters of each provider, of which nothing was asked.
func TestNoCommandAsksAProgramThatThereIsNot(t *testing.T) {
	dryRuns := []string{"HOOK-005", "PROOF-001"} // --prove sends these to the API server of any cluster
	for name, base := range map[string]func() *v1.Snapshot{
		"aws": healthy, "openstack": openstackCluster, "vsphere": vsphereCluster, "azure": azureCluster, "cloudstack": onCloudStack,
	} {
		s := base()
		s.Preview, s.Cloud = nil, nil
		internalIPs("10.0.0.5", "192.168.0.7")(s)
		s.Nodes[1].ProviderID = ""
		asking := map[string]bool{}
		for _, f := range Run(s, facts.Options{}).Findings {
			if strings.Contains(f.Fix, "--prove") || strings.Contains(f.Fix, "--cloud") {
				asking[f.Code] = true
			}
		}
		maps.DeleteFunc(asking, func(code string, _ bool) bool { return slices.Contains(dryRuns, code) })
		if got, want := len(asking) >= 4, cloudprovider.HasProgram(name); got != want || !want && len(asking) > 0 {
			t.Errorf("%s: the commands of %v ask a program", name, slices.Sorted(maps.Keys(asking)))
		}
	}
}

// TestEveryCheckSaysWhatToLookFor holds those checks, too, whose command no case shows.
func TestEveryCheckSaysWhatToLookFor(t *testing.T) {
	// the commands of these only repair, or there is none
	none := []string{
		"CP-002", "CP-003", "CP-012", "CP-013", "CRED-003", "CRED-005", "GAP-001", "HOOK-001", "HOOK-002", "HOOK-003", "HOOK-005",
		"KUBELET-007", "LB-001", "LB-004", "LB-007", "LB-016", "LM-004", "LM-008", "VER-001", "VER-012", "VOL-007",
	}
	for _, c := range slices.Concat(Checks, hosted.Checks) {
		if (c.LookFor == "") != slices.Contains(none, c.Code) {
			t.Errorf("%s says what to look for: %q", c.Code, c.LookFor)
		}
		if (c.OnlyIf == "") != (c.Warning == "") {
			t.Errorf("%s has a condition or a warning, and not both", c.Code)
		}
	}
}

// TestNoFixDrainsOrDeletesAHostOfTheControlPlane tries each check on clusters whose nodes are all of the control plane, too.
func TestNoFixDrainsOrDeletesAHostOfTheControlPlane(t *testing.T) {
	tried, shown := 0, map[string]bool{}
	for _, tc := range allRules() {
		s := tc.snapshot()
		for _, all := range []bool{false, true} {
			if all {
				for i := range s.Nodes {
					s.ControlPlaneNodes = append(s.ControlPlaneNodes, s.Nodes[i].Name)
				}
			}
			f := found(t, Run(s, tc.opts), tc.code)
			tried++
			if !remedy.Destroys(f.Fix) {
				shown[tc.code] = shown[tc.code] || all && f.FixKind == v1.FixLook
				continue
			}
			for _, name := range controlPlaneNames(s) {
				if strings.HasPrefix(f.Fix, "mv ") { // a second manifest is moved on the host that has it, and kept
					continue
				}
				if regexp.MustCompile(`(^|[^A-Za-z0-9.-])` + regexp.QuoteMeta(name) + `($|[^A-Za-z0-9.-])`).MatchString(f.Fix) {
					t.Errorf("%s (%s) deletes or drains %s of the control plane: %s", tc.code, tc.name, name, f.Fix)
				}
			}
		}
	}
	for _, code := range []string{"NODE-005", "VOL-003", "LB-013", "ROUTE-001"} {
		if !shown[code] {
			t.Errorf("%s shows nothing where all nodes are of the control plane, of %d that were tried", code, tried)
		}
	}
}

// controlPlaneNames are the names that a command may have for hosts of the control plane.
func controlPlaneNames(s *v1.Snapshot) []string {
	out := slices.Clone(s.ControlPlaneNodes)
	for _, h := range s.Hosts {
		if h.ControlPlane {
			out = append(out, h.Name, h.NodeName)
		}
	}
	if s.Cloud != nil {
		for _, i := range s.Cloud.Instances {
			if slices.Contains(s.ControlPlaneNodes, i.Node) && i.Found {
				out = append(out, i.ID)
			}
		}
	}
	return slices.DeleteFunc(out, func(name string) bool { return name == "" })
}
