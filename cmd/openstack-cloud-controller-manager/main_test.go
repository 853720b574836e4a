package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

func TestVersionIsOurs(t *testing.T) {
	command, err := newCommand()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetArgs([]string{"--version"})
	if err := command.Execute(); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "openstack-cloud-controller-manager ") {
		t.Errorf("--version prints %q", out.String())
	}
}

// Whoever runs this program needs no other cloud's SDK, with its size and its advisories.
func TestNoOtherCloudIsLinked(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	own := false
	for pkg := range strings.FieldsSeq(string(out)) {
		own = own || strings.HasPrefix(pkg, "github.com/gophercloud/")
		for _, foreign := range []string{"github.com/aws/", "github.com/vmware/", "github.com/Azure/azure-sdk", "cloud.google.com/", "k8s.io/cloud-provider-"} {
			if strings.HasPrefix(pkg, foreign) {
				t.Errorf("it links %s", pkg)
			}
		}
	}
	if !own {
		t.Error("it does not link gophercloud: the list is not that of this program")
	}
}
