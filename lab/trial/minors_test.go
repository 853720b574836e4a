package trial

import (
	"flag"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/lab/azurelab"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/gcelab"
	"github.com/transplant-dev/transplant/lab/openstacklab"
)

var everyMinor = flag.Bool("trial.minors", false, "migrate a cluster of each provider and in-tree minor, too, which takes an hour and a half (make providers)")

// clouds are what a cluster on each cloud is like.
var clouds = map[string]func() cloudTrial{
	"aws": onAWS, "vsphere": onVSphere,
	"azure":     func() cloudTrial { return onAzure(azurelab.Kind{}) },
	"gce":       func() cloudTrial { return onGCE(gcelab.Kind{}, "service", "route", "cloud-node-lifecycle") },
	"openstack": func() cloudTrial { return onOpenStack(openstacklab.Simulated()) },
}

// gaugesSince is the first minor whose kube-controller-manager says which loops it runs.
const gaugesSince = 26

// isMute reports whether a lab's kube-controller-managers do not say which loops they run.
func isMute(o Options) bool {
	return o.Version != "" && version.MustParse(o.Version).Minor() < gaugesSince
}

// TestClustersOfOtherMinorsAreMigratedAndBroughtBack has each provider under every minor that has its in-tree code, but for the one that its own test has.
func TestClustersOfOtherMinorsAreMigratedAndBroughtBack(t *testing.T) {
	if !*everyMinor {
		t.Skip("takes an hour and a half: make providers, or -trial.minors")
	}
	for provider, of := range clouds {
		for _, v := range otherMinors(t, provider, of().Kind) {
			t.Run(provider+"-"+v, func(t *testing.T) {
				trial := of()
				trial.Version = v
				trial.isMute = isMute(trial.Options)
				migratedAndBack(t, trial)
			})
		}
	}
}

// otherMinors are the versions of the lab's control planes that have a provider's in-tree code, without that of its kind.
func otherMinors(t *testing.T, provider string, kind cluster.Kind) (out []string) {
	t.Helper()
	p, ok := cloudprovider.Lookup(provider)
	if !ok {
		t.Fatalf("the catalogue does not know %q", provider)
	}
	own := cluster.Version
	if kind != nil {
		own = kind.Version()
	}
	for _, set := range build.Sets {
		minor := int(version.MustParse(set.Version).Minor())
		if set.Name == "kubernetes" && set.Version != own && minor >= firstMinor && minor <= p.LastInTree {
			out = append(out, set.Version)
		}
	}
	return out
}

// TestEveryInTreeMinorIsTried holds the lab's versions to the catalogue: no minor that has a provider's in-tree code is left out.
func TestEveryInTreeMinorIsTried(t *testing.T) {
	var built []int
	for _, set := range build.Sets {
		if set.Name == "kubernetes" {
			built = append(built, int(version.MustParse(set.Version).Minor()))
		}
	}
	for minor := firstMinor; minor <= lastMinor; minor++ {
		if !slices.Contains(built, minor) {
			t.Errorf("the lab builds no control plane of 1.%d", minor)
		}
	}
}
