// Package programtest decides what holds for every cloud-controller-manager of ours, for the tests of their mains.
package programtest

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// sdks are where the packages of clouds are, by cloud.
var sdks = map[string][]string{
	"aws":       {"github.com/aws/", "k8s.io/cloud-provider-aws/"},
	"azure":     {"github.com/Azure/azure-sdk", "sigs.k8s.io/cloud-provider-azure"},
	"gce":       {"google.golang.org/api/compute", "k8s.io/cloud-provider-gcp"},
	"openstack": {"github.com/gophercloud/", "k8s.io/cloud-provider-openstack/"},
	"vsphere":   {"github.com/vmware/", "k8s.io/cloud-provider-vsphere/"},
}

// LinksOneCloud tests that the program in the working directory links the SDK of this cloud, and of no other; of none
// for "". Each has a size and advisories of its own. The list is that of go version -m, without the time that linking
// takes.
func LinksOneCloud(t *testing.T, cloud string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	packages := strings.Fields(string(out))
	for of, prefixes := range sdks {
		linked := slices.IndexFunc(packages, func(pkg string) bool {
			return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(pkg, prefix) })
		})
		switch {
		case of == cloud && linked < 0:
			t.Errorf("it links nothing of %s: the list is not that of this program", cloud)
		case of != cloud && linked >= 0:
			t.Errorf("it links %s, of %s", packages[linked], of)
		}
	}
}

// PrintsItsName tests that --version begins with the program's own name, and not with the library's.
func PrintsItsName(t *testing.T, build func() (*cobra.Command, error), name string) {
	t.Helper()
	command, err := build()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetArgs([]string{"--version"})
	if err := command.Execute(); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), name+" ") {
		t.Errorf("--version prints %q", out.String())
	}
}
