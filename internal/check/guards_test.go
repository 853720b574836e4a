package check

import (
	"regexp"
	"strings"
	"testing"
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
