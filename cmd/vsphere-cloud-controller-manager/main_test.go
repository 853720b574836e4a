package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/internal/managerprogram/programtest"
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
	if !strings.HasPrefix(out.String(), "vsphere-cloud-controller-manager ") {
		t.Errorf("--version prints %q", out.String())
	}
}

func TestNoOtherCloudIsLinked(t *testing.T) { programtest.LinksOneCloud(t, "vsphere") }
