package volume

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/catalogue/csidriver"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/shell"
)

var driverMissing = rule.Check{
	Code:      "CSI-001",
	Reason:    "DriverMissing",
	Category:  findings.CategoryVolumes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactVolumes,
	LookFor:   "the driver that the finding names, and whether it is there at all",
	DependsOn: []string{"API-001"},
	Judge: func(f facts.Facts) v1.Finding {
		vols, finding, ok := storage(f, "persistentvolumes", "storageclasses", "csidrivers", "csinodes")
		if !ok {
			return finding
		}
		uses := facts.Uses(f, vols)
		var failing, warning findings.Problems
		for _, u := range uses {
			switch {
			case slices.Contains(vols.CSIDrivers, u.Driver):
			case reliesOnCSI(f, u, vols):
				failing.Add("CSIDriver/"+u.Driver, "%s is left to CSI, and %s is not installed", u, u.Driver)
			default:
				warning.Add("CSIDriver/"+u.Driver, "%s stays with the in-tree plugin, as %s is not installed", u, u.Driver)
			}
		}
		all, outcome, bad := findings.Worst(failing, warning)
		switch {
		case len(uses) == 0:
			return findings.Pass("no in-tree cloud plugin is in use, so that no driver has to take its place")
		case !bad:
			return findings.Pass("the drivers of %s are installed", describeUses(uses))
		}
		return findings.With(
			all.Finding(outcome, "%s", all[0].Text),
			"a CSIDriver for every in-tree plugin in use",
			"/apis/storage.k8s.io/v1/csidrivers",
			"kubectl get csidrivers",
		)
	},
}

// reliesOnCSI reports whether some component leaves the volumes of a plugin to CSI already.
func reliesOnCSI(f facts.Facts, u facts.VolumeUse, vols *v1.Volumes) bool {
	if on, _, _ := whoLeaves(f, u.VolumePlugin, component.KCM); len(on) > 0 {
		return true
	}
	minor, known := facts.VersionMinor(f.Cluster.Version)
	return known && minor > u.LastInTree ||
		slices.ContainsFunc(vols.CSINodes, func(n v1.CSINode) bool { return slices.Contains(n.MigratedPlugins, u.Name) })
}

var driverNotOnNode = rule.Check{
	Code:      "CSI-002",
	Reason:    "DriverNotOnNode",
	Category:  findings.CategoryVolumes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactVolumes,
	LookFor:   "the driver that the finding names under spec.drivers; its pod on the node says why it is missing",
	DependsOn: []string{"API-001", "CSI-001"},
	Retryable: true,
	Judge:     judgeDriverOnNodes,
}

func judgeDriverOnNodes(f facts.Facts) v1.Finding {
	vols, finding, ok := storage(f, "persistentvolumes", "storageclasses", "csidrivers", "csinodes")
	if !ok {
		return finding
	}
	if finding, ok := f.Missing("nodes"); ok {
		return finding
	}
	uses := facts.Uses(f, vols)
	registered, migrated := driverLimits(vols), migratedNodes(vols)
	var failing, warning findings.Problems
	nodes := nodesForPods(f)
	installed := map[string]bool{}
	for _, driver := range vols.CSIDrivers {
		installed[driver] = true
	}
	for _, n := range nodes {
		for _, u := range uses {
			_, there := registered[n.Name][u.Driver]
			switch {
			case there || !installed[u.Driver]: // what is not installed at all is CSI-001's
			case migrated[n.Name][u.Name]:
				failing.Add(n.Name, "%s has no %s", n.Name, u.Driver)
			default:
				warning.Add(n.Name, "%s has no %s yet", n.Name, u.Driver)
			}
		}
	}
	all, outcome, bad := findings.Worst(failing, warning)
	switch {
	case len(uses) == 0:
		return findings.Skip("no in-tree cloud plugin is in use")
	case !bad:
		return findings.Pass(
			"the drivers of %s run on all %s that ordinary pods may come to",
			describeUses(uses),
			findings.Plural(len(nodes), "node"),
		)
	}
	return findings.With(
		all.Some(outcome, "the CSI driver does not run on %d of %s", len(all), findings.Plural(len(nodes), "node")),
		"spec.drivers with "+uses[0].Driver,
		"/apis/storage.k8s.io/v1/csinodes",
		"kubectl describe csinode "+shell.Quote(all[0].Object),
	)
}

// nodesForPods are the nodes that ordinary pods may come to, and those that have in-tree volumes mounted. They are all
// nodes if every one of them keeps pods away.
func nodesForPods(f facts.Facts) []v1.Node {
	var out []v1.Node
	for _, n := range f.Nodes {
		if n.OS != "windows" && !repelsPods(n) || len(facts.InTreeMounts(f, n)) > 0 {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return f.Nodes
	}
	return out
}

// repelsPods reports whether a node has a taint, not set by Kubernetes, that keeps pods away. The taints of Kubernetes'
// own, for conditions of the node and for a cordon, come and go.
func repelsPods(n v1.Node) bool {
	return slices.ContainsFunc(n.Taints, func(t string) bool {
		own := strings.HasPrefix(t, "node.kubernetes.io/") || strings.HasPrefix(t, "node.cloudprovider.kubernetes.io/")
		return !own && (strings.HasSuffix(t, ":NoSchedule") || strings.HasSuffix(t, ":NoExecute"))
	})
}

// drivers returns where the drivers that replace in-tree plugins run, by the images of the workloads.
func drivers(f facts.Facts) []facts.Installed {
	var out []facts.Installed
	for _, w := range f.Workloads {
		if w.Role != v1.RoleCSIController && w.Role != v1.RoleCSINode {
			continue
		}
		for _, c := range w.Containers {
			for _, p := range cloudprovider.Providers() {
				for _, plugin := range p.Plugins {
					if d, ok := csidriver.DriverOf(plugin.Driver); ok && d.IsImage(c.Image) {
						out = append(out, facts.Installed{Driver: d, Workload: w, Container: c})
					}
				}
			}
		}
	}
	return out
}

var driverVersion = rule.Check{
	Code:      "CSI-003",
	Reason:    "DriverVersion",
	Category:  findings.CategoryVolumes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactVolumes,
	LookFor:   "the image of the driver and its version",
	DependsOn: []string{"API-001"},
	Judge:     judgeDriverVersion,
}

func judgeDriverVersion(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("workloads"); ok {
		return finding
	}
	cluster, ok := facts.VersionMinor(f.Cluster.Version)
	if !ok {
		return findings.Unknown("version %q of the API server is not one that can be compared", f.Cluster.Version)
	}
	found := drivers(f)
	var failing, warning findings.Problems
	var passed []string
	for _, d := range found {
		version := tagOf(d.Container.Image)
		release, listed := d.Driver.Release(version)
		migrates, comparable := d.Driver.Migrates(version)
		switch {
		case comparable && !migrates:
			failing.Add(
				d.Workload.Ref,
				"%s %s does not take over in-tree volumes; %s does",
				d.Driver.Name,
				version,
				d.Driver.MigratesSince,
			)
		case listed && release.Newest != 0 && cluster > release.Newest:
			warning.Add(d.Workload.Ref, "%s %s is meant for Kubernetes up to 1.%d", d.Driver.Name, version, release.Newest)
		case listed && cluster < release.Oldest:
			warning.Add(d.Workload.Ref, "%s %s is meant for Kubernetes from 1.%d", d.Driver.Name, version, release.Oldest)
		default:
			passed = append(passed, d.Driver.Name+" "+findings.OrElse(version, "of an unknown release"))
		}
	}
	all, outcome, bad := findings.Worst(failing, warning)
	slices.Sort(passed)
	switch {
	case len(found) == 0:
		return findings.Skip("no workload of the cluster runs a CSI driver that replaces an in-tree plugin")
	case bad:
		return findings.With(
			all.Some(outcome, "%s (the cluster is 1.%d)", all[0].Text, cluster),
			"a release that migrates and is meant for 1."+fmt.Sprint(cluster),
			"images of "+all[0].Object,
			"kubectl "+facts.Named("get", all[0].Object)+" -o wide",
		)
	}
	return findings.Pass(
		"nothing speaks against %s with Kubernetes 1.%d",
		strings.Join(slices.Compact(passed), ", "),
		cluster,
	)
}

// tagOf is v1.28.0 of example.com/driver:v1.28.0@sha256:…; empty when an image has no tag.
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}

var driverNotRunning = rule.Check{
	Code:      "CSI-004",
	Reason:    "DriverNotRunning",
	Category:  findings.CategoryVolumes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactVolumes,
	LookFor:   "pods of the driver that are not ready, and the events that say why",
	DependsOn: []string{"API-001", "CSI-001"},
	Retryable: true,
	Judge:     judgeDriverRuns,
}

func judgeDriverRuns(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("workloads"); ok {
		return finding
	}
	vols, finding, ok := storage(f, "csidrivers", "persistentvolumes", "storageclasses", "csinodes")
	if !ok {
		return finding
	}
	uses := slices.DeleteFunc(
		facts.Uses(f, vols),
		func(u facts.VolumeUse) bool { return !slices.Contains(vols.CSIDrivers, u.Driver) },
	)
	if len(uses) == 0 {
		return findings.Skip("no in-tree cloud plugin in use has its driver installed")
	}
	var failing, warning findings.Problems
	byDriver := map[string][]facts.Installed{}
	for _, d := range drivers(f) {
		byDriver[d.Driver.Name] = append(byDriver[d.Driver.Name], d)
	}
	for _, u := range uses {
		controllers, faults := 0, &warning
		if reliesOnCSI(f, u, vols) {
			faults = &failing
		}
		for _, d := range byDriver[u.Driver] {
			if d.Workload.Role == v1.RoleCSIController {
				controllers++
				missingSidecars(d, faults)
			}
			readiness(d, faults, &warning)
		}
		if controllers == 0 {
			warning.Add(u.Driver, "no controller of %s was found in the cluster", u.Driver)
		}
	}
	all, outcome, bad := findings.Worst(failing, warning)
	if !bad {
		return findings.Pass("the drivers of %s are ready, with their sidecars", describeUses(uses))
	}
	fix := "kubectl get deployments,daemonsets,statefulsets -A -o wide | grep csi"
	if facts.NamespaceOf(all[0].Object) != "" {
		fix = "kubectl " + facts.Named("describe", all[0].Object)
	}
	return findings.With(
		all.Finding(outcome, "%s", all[0].Text),
		"ready, with provisioner and attacher",
		"/apis/apps/v1",
		fix,
	)
}

func missingSidecars(d facts.Installed, failing *findings.Problems) {
	for _, sidecar := range d.Driver.Sidecars {
		if !hasSidecar(d.Workload, sidecar) {
			failing.Add(d.Workload.Ref, "the controller %s of %s has no container %s", d.Workload.Ref, d.Driver.Name, sidecar)
		}
	}
}

// hasSidecar reports whether a workload has a sidecar such as csi-provisioner, by the container's name or its image.
// Its project is called external-provisioner, and so are some mirrors.
func hasSidecar(w v1.Workload, sidecar string) bool {
	project := "external-" + strings.TrimPrefix(sidecar, "csi-")
	return slices.ContainsFunc(w.Containers, func(c v1.Container) bool {
		image := c.Image[strings.LastIndex(c.Image, "/")+1:]
		return strings.HasSuffix(c.Name, sidecar) || strings.Contains(image, sidecar) || strings.Contains(image, project)
	})
}

func readiness(d facts.Installed, failing, warning *findings.Problems) {
	w := d.Workload
	switch {
	case w.Ready == 0 && w.Replicas > 0, w.Replicas == 0 && w.Role == v1.RoleCSIController:
		failing.Add(w.Ref, "%s of %s has no pod that is ready (of %d)", w.Ref, d.Driver.Name, w.Replicas)
	case w.Ready < w.Replicas:
		warning.Add(w.Ref, "%s of %s has %d of %d pods ready", w.Ref, d.Driver.Name, w.Ready, w.Replicas)
	}
}

var driverCluster = rule.Check{
	Code:      "CSI-005",
	Reason:    "DriverClusterID",
	Category:  findings.CategoryVolumes,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactVolumes,
	LookFor:   "the cluster ID that the driver is given, which has to be the cluster's own",
	DependsOn: []string{"API-001"},
	Judge:     judgeDriverCluster,
}

func judgeDriverCluster(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("workloads"); ok {
		return finding
	}
	ids, several := map[string]string{}, map[string]bool{} // by driver: the first ID, and whether there are others
	var bad findings.Problems
	var secret string
	tags := clusterIDs(f)
	for _, d := range drivers(f) {
		if d.Driver.ClusterSecret != "" {
			secret = d.Driver.ClusterSecret
		}
		id := d.Container.Flags[d.Driver.ClusterFlag]
		if d.Driver.ClusterFlag == "" || id == "" {
			continue
		}
		first, known := ids[d.Driver.Name]
		if !known {
			ids[d.Driver.Name], first = id, id
		}
		if id != first {
			several[d.Driver.Name] = true
		}
		switch {
		case several[d.Driver.Name]:
			marksOther(&bad, d, id, "%s has --%s=%s and elsewhere %s", first)
		case d.Driver.Name == awsDriver && len(tags) == 1 && tags[0] != id:
			marksOther(&bad, d, id, "%s has --%s=%s, and the instances are tagged for %s", tags[0])
		}
	}
	return clusterFinding(bad, ids, secret)
}

// marksOther notes a driver that marks disks for another cluster than is expected.
func marksOther(bad *findings.Problems, d facts.Installed, id, format, other string) {
	ref := d.Workload.Ref
	bad.Add(ref, format, ref, d.Driver.ClusterFlag, findings.Short(id), findings.Short(other))
}

// clusterFinding is what the drivers' IDs come to. The secret is one that holds an ID, and is not read.
func clusterFinding(bad findings.Problems, ids map[string]string, secret string) v1.Finding {
	switch {
	case !bad.Empty():
		return findings.With(
			bad.Finding(v1.Warn, "%s", bad[0].Text),
			"one ID, that of the cluster",
			"flags of the CSI drivers",
			"kubectl "+facts.Named("get", bad[0].Object)+" -o yaml",
		)
	case len(ids) > 0:
		var parts []string
		for driver, id := range ids {
			parts = append(parts, driver+" marks disks for "+findings.Short(id))
		}
		slices.Sort(parts)
		return findings.Pass("%s", strings.Join(parts, ", "))
	case secret != "":
		finding := findings.Skip("the cluster ID of the driver is in Secret %s, which is not read", secret)
		finding.Fix = "kubectl -n " + strings.Replace(
			secret,
			"/",
			" get secret ",
			1,
		) + " -o jsonpath='{.data.csi-vsphere\\.conf}' | base64 -d | grep cluster-id"
		return finding
	}
	return findings.Skip("no CSI driver of the cluster marks disks with a cluster ID")
}

// awsDriver is the driver whose cluster ID is that of the instances' tags.
const awsDriver = "ebs.csi.aws.com"

// clusterIDs are the ids of the tags kubernetes.io/cluster/<id> on the instances, sorted.
func clusterIDs(f facts.Facts) []string {
	if f.Cloud == nil {
		return nil
	}
	var out []string
	for _, i := range f.Cloud.Instances {
		for _, tag := range i.ClusterTags {
			id, _, _ := strings.Cut(tag, "=")
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
