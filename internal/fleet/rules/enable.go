package rules

import (
	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// Addition is what is added to a Cluster. The zero value is nothing.
type Addition struct {
	// Features that are set to true.
	Features []string
	// Annotations that are set, with an empty value.
	Annotations []string
	// UseOctavia sets spec.cloud.openstack.useOctavia.
	UseOctavia bool
	// DisableCSIDriver sets spec.disableCsiDriver.
	DisableCSIDriver bool
	// Warnings are sentences for the user who writes the Cluster.
	Warnings []string
}

// Empty reports whether nothing of the Cluster changes.
func (a Addition) Empty() bool {
	return len(a.Features) == 0 && len(a.Annotations) == 0 && !a.UseOctavia && !a.DisableCSIDriver
}

// OnCreate is what a new Cluster gets: the external provider, unless it says false, where it is supported. A new
// cluster has nothing to migrate, so it gets no annotations.
func OnCreate(c *kubermatic.Cluster, facts Facts) Addition {
	var out Addition
	if facts.Datacenter != nil && facts.Datacenter.DisableCSIDriver && !c.Spec.CSIDriverDisabled() {
		out.DisableCSIDriver = true
	}
	on, said := c.Spec.Features[kubermatic.FeatureExternalCloudProvider]
	if said && !on {
		return out
	}
	support := External(c, facts)
	if !support.Yes {
		if on && support.Unknown {
			out.Warnings = append(out.Warnings, "the feature is on, but nothing will be done: "+support.Why)
		}
		return out
	}
	provider, _ := Lookup(ProviderOf(c.Spec.Cloud))
	features := append([]string{kubermatic.FeatureExternalCloudProvider}, provider.NewFeatures...)
	for _, name := range features {
		if _, said := c.Spec.Features[name]; !said {
			out.Features = append(out.Features, name)
		}
	}
	return out
}

// OnUpdate is what a Cluster gets when the feature is enabled for the first time. That is both annotations if the
// provider was in tree, and Octavia on OpenStack.
//
// It does not get ccmClusterName, which the original sets here. Load balancers of a cluster that ran in tree carry the
// name that kube-controller-manager gave them. A cloud-controller-manager with another name makes new ones next to
// them, with new addresses. Both annotations are set even where the CSI driver is left out, because both together are
// what the original takes for a migration.
func OnUpdate(before, after *kubermatic.Cluster, facts Facts) Addition {
	if before.External() || !after.External() {
		return Addition{}
	}
	if support := External(after, facts); !support.Yes {
		if support.Unknown {
			return Addition{Warnings: []string{"the feature is on, but nothing will be done: " + support.Why}}
		}
		return Addition{} // it will be refused
	}
	return migration(after)
}

// Repair is what the operator adds to a Cluster whose feature was enabled while no webhook was there. The control plane
// still runs an in-tree provider, and nothing says that it has to be migrated. Without that observation it cannot be
// told from a new cluster, which has nothing to migrate.
func Repair(c *kubermatic.Cluster, facts Facts) Addition {
	if !c.External() || !facts.RunsInTree || c.MigrationCompleted() || !External(c, facts).Yes {
		return Addition{}
	}
	return migration(c)
}

// migration is what says that a cluster has to be migrated, as far as it does not say so yet.
func migration(c *kubermatic.Cluster) Addition {
	var out Addition
	provider, _ := Lookup(ProviderOf(c.Spec.Cloud))
	if provider.InTree == "" {
		return out
	}
	for _, key := range []string{kubermatic.CCMMigrationNeeded, kubermatic.CSIMigrationNeeded} {
		if _, there := c.Annotations[key]; !there {
			out.Annotations = append(out.Annotations, key)
		}
	}
	if provider.Name != "openstack" {
		return out
	}
	if settings := c.Spec.Cloud.Openstack; settings == nil || settings.UseOctavia == nil || !*settings.UseOctavia {
		out.UseOctavia = true
		if settings != nil && settings.UseOctavia != nil {
			out.Warnings = append(
				out.Warnings,
				"spec.cloud.openstack.useOctavia was false and becomes true: the external provider knows no other load balancers, and does not take over those that Neutron made",
			)
		}
	}
	return out
}
