package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// Describe says what an upgrade on the way changes next to the migration, what it leaves to the operator, and what was
// not checked.
func Describe(d *draft.Draft) []string {
	if !d.Upgrade.IsWanted() {
		return nil
	}
	if !slices.ContainsFunc(d.Steps, planstep.ChangesImage) {
		return []string{"versions: the control plane is " + d.Upgrade.Version + " already, no image changes"}
	}
	v := d.Upgrade.Version
	out := []string{
		fmt.Sprintf(
			"versions: %s go from %s to %s, API servers first, by the tag of their images; registries and repositories stay",
			strings.Join(component.Versioned, ", "),
			currentVersion(d),
			v,
		),
		fmt.Sprintf(
			"to do before: pull the images of %s on each control-plane host, so that no component waits for a download while it is stopped: %s",
			v,
			strings.Join(pullCommands(d), "; "),
		),
		fmt.Sprintf(
			"not upgraded: kubelets and kubeadm (packages of the hosts), kube-proxy, the cluster's DNS and etcd; kubelets of %s fit API servers of %s, and kubeadm upgrade node upgrades them later",
			listKubeletVersions(d),
			v,
		),
		fmt.Sprintf(
			"not checked: defaults that are new in %s, its release notes, values of flags, admission webhooks, --runtime-config; the API versions in files that flags name (--encryption-provider-config, --admission-control-config-file, --audit-policy-file, --config); whether etcd is as new as upstream tests %s with",
			v,
			v,
		),
		fmt.Sprintf(
			"rollback: goes back to %s from any step. One minor version back is what upstream's tests try; what only %s can store cannot be kept",
			currentVersion(d),
			v,
		),
	}
	if gone := catalogue.RemovedAPIs(d.Upgrade.Minor); len(gone) > 0 && d.Upgrade.Minor > d.APIMinor {
		out = append(
			out,
			fmt.Sprintf(
				"no longer served from 1.%d on: %s. Who still asks for them is not in a snapshot; each API server counts it: kubectl get --raw /metrics | grep '^apiserver_requested_deprecated_apis.*removed_release=\"1.%d\"'",
				d.Upgrade.Minor,
				strings.Join(gone, "; "),
				d.Upgrade.Minor,
			),
		)
	}
	return out
}

// currentVersion is the version of the API servers before the plan.
func currentVersion(d *draft.Draft) string {
	for _, h := range d.Hosts {
		if c := clusterview.FindComponent(h, component.KAS); c != nil {
			return tagOf(c.Image)
		}
	}
	return d.Snapshot.Cluster.Version
}

func tagOf(image string) string { return image[strings.LastIndex(image, ":")+1:] }

// pullCommands are the commands that fetch the new images.
func pullCommands(d *draft.Draft) []string {
	images := map[string]bool{}
	for _, s := range d.Steps {
		for _, c := range s.Changes {
			if c.Field == planstep.FieldImage && planstep.ChangesImage(s) {
				images["crictl pull "+c.After] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(images))
}

// listKubeletVersions names the versions of the kubelets.
func listKubeletVersions(d *draft.Draft) string {
	seen := map[string]bool{}
	for _, n := range d.Snapshot.Nodes {
		seen[n.KubeletVersion] = true
	}
	delete(seen, "")
	if len(seen) == 0 {
		return "the version that they have"
	}
	return english.FirstOf(5, slices.Sorted(maps.Keys(seen)))
}
