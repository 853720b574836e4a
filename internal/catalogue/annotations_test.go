package catalogue

import (
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
)

func TestEveryAnnotationRowSaysWhatChanges(t *testing.T) {
	for provider, rows := range annotationRows {
		if _, ok := cloudprovider.Lookup(provider); !ok {
			t.Errorf("%s is no provider", provider)
		}
		for _, row := range rows {
			if row.Key == "" || row.Effect == "" || strings.HasSuffix(row.Effect, ".") {
				t.Errorf("%s: a row lacks its key or effect, or the effect is a sentence: %+v", provider, row)
			}
			if (row.InTree != 0) != (row.Reading == Lost) {
				t.Errorf("%s: %s is %s and has a last in-tree minor %d", provider, row.Key, row.Reading, row.InTree)
			}
		}
	}
}

func TestAnnotationsOf(t *testing.T) {
	const aws = "service.beta.kubernetes.io/aws-load-balancer-"
	for name, tc := range map[string]struct {
		provider         string
		annotations      map[string]string
		inTree, external int
		want             string
	}{
		"nothing that differs":                 {"aws", map[string]string{aws + "internal": "true"}, 26, 37, ""},
		"left to another controller":           {"aws", map[string]string{aws + "type": "external"}, 26, 37, "elsewhere type"},
		"the same key with another value":      {"aws", map[string]string{aws + "type": "nlb"}, 26, 37, ""},
		"refused with another annotation":      {"aws", map[string]string{aws + "type": "nlb", aws + "extra-security-groups": "sg-1"}, 26, 37, "refused extra-security-groups"},
		"taken without it":                     {"aws", map[string]string{aws + "extra-security-groups": "sg-1"}, 26, 37, ""},
		"an external provider that is older":   {"aws", map[string]string{aws + "type": "nlb", aws + "extra-security-groups": "sg-1"}, 26, 27, ""},
		"lost by an old in-tree provider":      {"azure", map[string]string{"service.beta.kubernetes.io/azure-load-balancer-mixed-protocols": "true"}, 21, 30, "lost azure-load-balancer-mixed-protocols"},
		"ignored by a newer one already":       {"azure", map[string]string{"service.beta.kubernetes.io/azure-load-balancer-mixed-protocols": "true"}, 22, 30, ""},
		"one of a family":                      {"openstack", map[string]string{"loadbalancer.openstack.org/timeout-member-data": "5000"}, 25, 26, "begins timeout-member-data"},
		"a provider without load balancers":    {"vsphere", map[string]string{"loadbalancer.openstack.org/class": "x"}, 25, 26, ""},
		"an annotation both of them know well": {"openstack", map[string]string{"loadbalancer.openstack.org/subnet-id": "x"}, 25, 26, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, row := range AnnotationsOf(tc.provider, tc.annotations, tc.inTree, tc.external) {
				key := strings.TrimPrefix(row.Key[strings.LastIndex(row.Key, "/")+1:], "aws-load-balancer-")
				got = append(got, string(row.Reading)+" "+key)
			}
			if g := strings.Join(got, ", "); g != tc.want {
				t.Errorf("got %q, want %q", g, tc.want)
			}
		})
	}
}

func TestProviderIDForms(t *testing.T) {
	for name, tc := range map[string]struct {
		provider, id string
		want         bool
	}{
		"AWS with a zone":               {"aws", "aws:///us-east-1a/i-0123456789abcdef0", true},
		"AWS without one":               {"aws", "aws:////i-0123456789abcdef0", true},
		"AWS Fargate":                   {"aws", "aws:///us-east-1a/1234-abcd/fargate-ip-10-0-0-1", false},
		"a placeholder":                 {"aws", "kubermatic://machine-1", false},
		"Azure":                         {"azure", "azure:///subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/vm-1", true},
		"Azure in another case":         {"azure", "azure:///subscriptions/s/resourcegroups/RG/providers/Microsoft.Compute/virtualMachineScaleSets/ss/virtualMachines/0", true},
		"Azure without a machine":       {"azure", "azure:///subscriptions/s/resourceGroups/rg", false},
		"GCE":                           {"gce", "gce://project/europe-west1-b/worker-1", true},
		"GCE without a project":         {"gce", "gce:///europe-west1-b/worker-1", false},
		"OpenStack":                     {"openstack", "openstack:///6d1b0b0c-6d1b-4a0e-8a5f-000000000001", true},
		"OpenStack with a region":       {"openstack", "openstack://RegionOne/6d1b0b0c-6d1b-4a0e-8a5f-000000000001", true},
		"OpenStack of another form":     {"openstack", "openstack://6d1b0b0c", false},
		"vSphere":                       {"vsphere", "vsphere://42250F96-C7FC-A3CE-2E94-A6A5DC8F1D5C", true},
		"vSphere with a machine's name": {"vsphere", "vsphere://worker-1", false},
	} {
		t.Run(name, func(t *testing.T) {
			form, ok := cloudprovider.ProviderIDForm(tc.provider)
			if !ok {
				t.Fatal("the table has no form")
			}
			if got := form.Pattern.MatchString(tc.id); got != tc.want {
				t.Errorf("%s: got %t, want %t", tc.id, got, tc.want)
			}
		})
	}
	if _, ok := cloudprovider.ProviderIDForm("photon"); ok {
		t.Error("a provider that cannot be migrated has a form")
	}
}

func TestNodeNameIn(t *testing.T) {
	for name, tc := range map[string]struct{ provider, id, want string }{
		"GCE":                  {"gce", "gce://project/europe-west1-b/worker-1", "worker-1"},
		"Azure":                {"azure", "azure:///subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/vm-1", "vm-1"},
		"an Azure scale set":   {"azure", "azure:///subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/ss/virtualMachines/0", ""},
		"AWS names by address": {"aws", "aws:///us-east-1a/i-1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := cloudprovider.NodeNameIn(tc.provider, tc.id); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRoutingCNI(t *testing.T) {
	for image, want := range map[string]string{
		"docker.io/calico/node:v3.26.1":     "Calico",
		"quay.io/cilium/cilium:v1.14.0":     "Cilium",
		"docker.io/flannel/flannel:v0.22.0": "",
		"registry.k8s.io/pause:3.9":         "",
	} {
		if got := cloudprovider.RoutingCNI(image, nil); got != want {
			t.Errorf("%s: got %q, want %q", image, got, want)
		}
	}
	const kubeRouter = "docker.io/cloudnativelabs/kube-router:v1.6.0"
	if got := cloudprovider.RoutingCNI(kubeRouter, map[string]string{"run-router": "true"}); got != "kube-router" {
		t.Errorf("kube-router that routes: got %q", got)
	}
	if got := cloudprovider.RoutingCNI(kubeRouter, map[string]string{"run-router": "false"}); got != "" {
		t.Errorf("kube-router that does not route: got %q", got)
	}
}
