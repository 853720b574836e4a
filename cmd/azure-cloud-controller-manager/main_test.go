package main

import (
	"testing"

	"github.com/transplant-dev/transplant/internal/managerprogram/programtest"
)

func TestVersionIsOurs(t *testing.T) {
	programtest.PrintsItsName(t, newCommand, "azure-cloud-controller-manager")
}

func TestNoOtherCloudIsLinked(t *testing.T) { programtest.LinksOneCloud(t, "azure") }
