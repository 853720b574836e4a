package check

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

var driverMissing = Check{
	Code: "CSI-001", Reason: "DriverMissing", Category: categoryVolumes, Level: LevelError, Impact: ImpactVolumes, DependsOn: []string{"API-001"},
	Title: "the CSI driver of every in-tree plugin in use is installed",
	Explain: []string{
		"CSI migration hands volumes to a driver that has to be there before: without it, a volume whose plugin migrates is attached and provisioned by nobody. On versions where migration cannot be switched off any more " +
			"that is so already.",
		"While nothing migrates yet, a missing driver is a warning: a plan then keeps the in-tree plugin behind --external-cloud-volume-plugin, up to the last version that has it.",
		"Install the provider's driver, let it make a volume of a class of its own, and migrate then. The cloud-controller-manager does not replace it.",
	},
	judge: func(f facts) v1.Finding {
		vols, finding, ok := f.storage("persistentvolumes", "storageclasses", "csidrivers", "csinodes")
		if !ok {
			return finding
		}
		uses := f.uses(vols)
		var failing, warning complaints
		for _, u := range uses {
			switch {
			case slices.Contains(vols.CSIDrivers, u.Driver):
			case f.relies(u, vols):
				failing.add("CSIDriver/"+u.Driver, "%s is left to CSI, and %s is not installed", u, u.Driver)
			default:
				warning.add("CSIDriver/"+u.Driver, "%s stays with the in-tree plugin, as %s is not installed", u, u.Driver)
			}
		}
		all, outcome, bad := worst(&failing, &warning)
		switch {
		case len(uses) == 0:
			return pass("no in-tree cloud plugin is in use, so that no driver has to take its place")
		case !bad:
			return pass("the drivers of %s are installed", describeUses(uses))
		}
		return with(all.finding(outcome, "%s", all.lines[0]), "a CSIDriver for every in-tree plugin in use", "/apis/storage.k8s.io/v1/csidrivers", "kubectl get csidrivers")
	},
}

// relies tells that some component leaves the volumes of a plugin to CSI already.
func (f facts) relies(u use, vols *v1.Volumes) bool {
	if on, _, _ := f.whoLeaves(u.VolumePlugin, kcm); len(on) > 0 {
		return true
	}
	minor, known := versionMinor(f.Cluster.Version)
	return known && minor > u.LastInTree || slices.ContainsFunc(vols.CSINodes, func(n v1.CSINode) bool { return slices.Contains(n.MigratedPlugins, u.Name) })
}

var driverNotOnNode = Check{
	Code: "CSI-002", Reason: "DriverNotOnNode", Category: categoryVolumes, Level: LevelError, Impact: ImpactVolumes, DependsOn: []string{"API-001", "CSI-001"}, Retryable: true,
	Title: "the CSI drivers run on every node that pods with volumes may come to",
	Explain: []string{
		"A node on which the driver is not registered cannot mount a volume by CSI: if its kubelet leaves volumes to CSI, pods with volumes stay in ContainerCreating there. A kubelet that does not yet must not be switched before the driver is there: a warning.",
		"Nodes with a taint that keeps ordinary pods away are not asked for unless they have in-tree volumes mounted now. A driver's DaemonSet that does not tolerate a pool's own taint is the usual reason for a gap.",
	},
	judge: judgeDriverOnNodes,
}

func judgeDriverOnNodes(f facts) v1.Finding {
	vols, finding, ok := f.storage("persistentvolumes", "storageclasses", "csidrivers", "csinodes")
	if !ok {
		return finding
	}
	if finding, ok := f.missing("nodes"); ok {
		return finding
	}
	uses := f.uses(vols)
	registered, migrated := driverLimits(vols), migratedNodes(vols)
	var failing, warning complaints
	nodes := f.nodesForPods()
	for _, n := range nodes {
		for _, u := range uses {
			_, there := registered[n.Name][u.Driver]
			switch {
			case there || !slices.Contains(vols.CSIDrivers, u.Driver): // what is not installed at all is CSI-001's
			case migrated[n.Name][u.Name]:
				failing.add(n.Name, "%s has no %s", n.Name, u.Driver)
			default:
				warning.add(n.Name, "%s has no %s yet", n.Name, u.Driver)
			}
		}
	}
	all, outcome, bad := worst(&failing, &warning)
	switch {
	case len(uses) == 0:
		return skip("no in-tree cloud plugin is in use")
	case !bad:
		return pass("the drivers of %s run on all %s that ordinary pods may come to", describeUses(uses), plural(len(nodes), "node"))
	}
	return with(all.some(outcome, "the CSI driver does not run on %d of %s", len(all.objects), plural(len(nodes), "node")), "spec.drivers with "+uses[0].Driver, "/apis/storage.k8s.io/v1/csinodes",
		"kubectl describe csinode "+all.objects[0])
}

// nodesForPods are the nodes that ordinary pods may come to, and those that have in-tree volumes mounted; all nodes where every one of them keeps pods
// away.
func (f facts) nodesForPods() []v1.Node {
	var out []v1.Node
	for _, n := range f.Nodes {
		if n.OS != "windows" && !repels(n) || len(f.inTreeMounts(n)) > 0 {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return f.Nodes
	}
	return out
}

// repels tells that somebody gave a node a taint that keeps pods away. The taints of Kubernetes' own, for conditions of the node and for a cordon, come
// and go.
func repels(n v1.Node) bool {
	return slices.ContainsFunc(n.Taints, func(t string) bool {
		own := strings.HasPrefix(t, "node.kubernetes.io/") || strings.HasPrefix(t, "node.cloudprovider.kubernetes.io/")
		return !own && (strings.HasSuffix(t, ":NoSchedule") || strings.HasSuffix(t, ":NoExecute"))
	})
}

// installed is a container of a workload that holds a CSI driver.
type installed struct {
	driver    catalogue.Driver
	workload  v1.Workload
	container v1.Container
}

// drivers returns where the drivers that replace in-tree plugins run, by the images of the workloads.
func (f facts) drivers() []installed {
	var out []installed
	for _, w := range f.Workloads {
		if w.Role != v1.RoleCSIController && w.Role != v1.RoleCSINode {
			continue
		}
		for _, c := range w.Containers {
			for _, p := range catalogue.Providers() {
				for _, plugin := range p.Plugins {
					if d, ok := catalogue.DriverOf(plugin.Driver); ok && d.IsImage(c.Image) {
						out = append(out, installed{driver: d, workload: w, container: c})
					}
				}
			}
		}
	}
	return out
}

var driverVersion = Check{
	Code: "CSI-003", Reason: "DriverVersion", Category: categoryVolumes, Level: LevelError, Impact: ImpactVolumes, DependsOn: []string{"API-001"},
	Title: "the releases of the CSI drivers take over in-tree volumes and are meant for this version of Kubernetes",
	Explain: []string{
		"Drivers learned migration later than CSI: a release before that leaves translated volumes alone. And the makers of a driver name the versions of Kubernetes that a release is meant for. When the first of the " +
			"documents this tool follows was written, no release of the vSphere driver was meant for 1.22, and migrated clusters could not be upgraded to it.",
		"A release that does not migrate fails. One outside the makers' range is a warning, and so is one that cannot carry the next minor: upgrade the driver before the cluster. Releases that the catalogue does not " +
			"hold are named and not judged.",
	},
	judge: judgeDriverVersion,
}

func judgeDriverVersion(f facts) v1.Finding {
	if finding, ok := f.missing("workloads"); ok {
		return finding
	}
	cluster, ok := versionMinor(f.Cluster.Version)
	if !ok {
		return unknown("version %q of the API server is not one that can be compared", f.Cluster.Version)
	}
	found := f.drivers()
	var failing, warning complaints
	var passed []string
	for _, d := range found {
		version := tagOf(d.container.Image)
		release, listed := d.driver.Release(version)
		migrates, comparable := d.driver.Migrates(version)
		switch {
		case comparable && !migrates:
			failing.add(d.workload.Ref, "%s %s does not take over in-tree volumes; %s does", d.driver.Name, version, d.driver.MigratesSince)
		case listed && release.Newest != 0 && cluster > release.Newest:
			warning.add(d.workload.Ref, "%s %s is meant for Kubernetes up to 1.%d", d.driver.Name, version, release.Newest)
		case listed && cluster < release.Oldest:
			warning.add(d.workload.Ref, "%s %s is meant for Kubernetes from 1.%d", d.driver.Name, version, release.Oldest)
		default:
			passed = append(passed, d.driver.Name+" "+orElse(version, "of an unknown release"))
		}
	}
	all, outcome, bad := worst(&failing, &warning)
	slices.Sort(passed)
	switch {
	case len(found) == 0:
		return skip("no workload of the cluster runs a CSI driver that replaces an in-tree plugin")
	case bad:
		return with(all.some(outcome, "%s (the cluster is 1.%d)", all.lines[0], cluster), "a release that migrates and is meant for 1."+fmt.Sprint(cluster), "images of "+all.objects[0],
			"kubectl -n "+namespaceOf(all.objects[0])+" get "+strings.ToLower(kindOf(all.objects[0]))+" "+nameOf(all.objects[0])+" -o wide")
	}
	return pass("nothing speaks against %s with Kubernetes 1.%d", strings.Join(slices.Compact(passed), ", "), cluster)
}

// tagOf is v1.28.0 of example.com/driver:v1.28.0@sha256:…; empty when an image has no tag.
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	return tag
}

// kindOf, namespaceOf and nameOf are the parts of Kind/namespace/name.
func kindOf(ref string) string { kind, _, _ := strings.Cut(ref, "/"); return kind }

func namespaceOf(ref string) string {
	parts := strings.Split(ref, "/")
	if len(parts) < 3 {
		return ""
	}
	return parts[1]
}

func nameOf(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }

var driverNotRunning = Check{
	Code: "CSI-004", Reason: "DriverNotRunning", Category: categoryVolumes, Level: LevelError, Impact: ImpactVolumes, DependsOn: []string{"API-001", "CSI-001"}, Retryable: true,
	Title: "the CSI drivers' controllers and node pods are ready and complete",
	Explain: []string{
		"A CSIDriver object says that somebody installed a driver once, not that it runs. Its controller needs the containers csi-provisioner and, where volumes are attached, csi-attacher beside the driver; without " +
			"them migrated volumes are made and attached by nobody, and nothing but the pods that wait says so.",
		"A controller that runs outside of this cluster cannot be seen from here: that is a warning, and so is every fault while nothing migrates yet.",
	},
	judge: judgeDriverRuns,
}

func judgeDriverRuns(f facts) v1.Finding {
	if finding, ok := f.missing("workloads"); ok {
		return finding
	}
	vols, finding, ok := f.storage("csidrivers", "persistentvolumes", "storageclasses", "csinodes")
	if !ok {
		return finding
	}
	uses := slices.DeleteFunc(f.uses(vols), func(u use) bool { return !slices.Contains(vols.CSIDrivers, u.Driver) })
	if len(uses) == 0 {
		return skip("no in-tree cloud plugin in use has its driver installed")
	}
	var failing, warning complaints
	byDriver := map[string][]installed{}
	for _, d := range f.drivers() {
		byDriver[d.driver.Name] = append(byDriver[d.driver.Name], d)
	}
	for _, u := range uses {
		controllers, faults := 0, &warning
		if f.relies(u, vols) {
			faults = &failing
		}
		for _, d := range byDriver[u.Driver] {
			if d.workload.Role == v1.RoleCSIController {
				controllers++
				missingSidecars(d, faults)
			}
			readiness(d, faults, &warning)
		}
		if controllers == 0 {
			warning.add(u.Driver, "no controller of %s was found in the cluster", u.Driver)
		}
	}
	all, outcome, bad := worst(&failing, &warning)
	if !bad {
		return pass("the drivers of %s are ready, with their sidecars", describeUses(uses))
	}
	fix := "kubectl get deployments,daemonsets,statefulsets -A -o wide | grep csi"
	if ns := namespaceOf(all.objects[0]); ns != "" {
		fix = "kubectl -n " + ns + " describe " + strings.ToLower(kindOf(all.objects[0])) + " " + nameOf(all.objects[0])
	}
	return with(all.finding(outcome, "%s", all.lines[0]), "ready, with provisioner and attacher", "/apis/apps/v1", fix)
}

func missingSidecars(d installed, failing *complaints) {
	for _, sidecar := range d.driver.Sidecars {
		if !hasSidecar(d.workload, sidecar) {
			failing.add(d.workload.Ref, "the controller %s of %s has no container %s", d.workload.Ref, d.driver.Name, sidecar)
		}
	}
}

// hasSidecar tells whether a workload has a sidecar such as csi-provisioner, by the container's name or its image: its project is called
// external-provisioner, and so are some mirrors.
func hasSidecar(w v1.Workload, sidecar string) bool {
	project := "external-" + strings.TrimPrefix(sidecar, "csi-")
	return slices.ContainsFunc(w.Containers, func(c v1.Container) bool {
		image := c.Image[strings.LastIndex(c.Image, "/")+1:]
		return strings.HasSuffix(c.Name, sidecar) || strings.Contains(image, sidecar) || strings.Contains(image, project)
	})
}

func readiness(d installed, failing, warning *complaints) {
	w := d.workload
	switch {
	case w.Ready == 0 && w.Replicas > 0, w.Replicas == 0 && w.Role == v1.RoleCSIController:
		failing.add(w.Ref, "%s of %s has no pod that is ready (of %d)", w.Ref, d.driver.Name, w.Replicas)
	case w.Ready < w.Replicas:
		warning.add(w.Ref, "%s of %s has %d of %d pods ready", w.Ref, d.driver.Name, w.Ready, w.Replicas)
	}
}

var driverCluster = Check{
	Code: "CSI-005", Reason: "DriverClusterID", Category: categoryVolumes, Level: LevelWarning, Impact: ImpactVolumes, DependsOn: []string{"API-001"},
	Title: "the CSI drivers mark disks with one cluster ID, and with the cluster's own",
	Explain: []string{
		"A driver marks the disks it makes with a cluster ID of its own. A driver that is installed anew during the migration with another one does not know the disks that exist: on vSphere that breaks the volumes of a " +
			"migrated cluster, on AWS the policies that select disks by the tag kubernetes.io/cluster/<id> do not match.",
		"Keep the ID that is there. vSphere's is in a Secret that this tool does not read; the fix shows how to look at it.",
	},
	judge: judgeDriverCluster,
}

func judgeDriverCluster(f facts) v1.Finding {
	if finding, ok := f.missing("workloads"); ok {
		return finding
	}
	ids := map[string][]string{}
	var bad complaints
	var secret string
	tags := f.clusterIDs()
	for _, d := range f.drivers() {
		if d.driver.ClusterSecret != "" {
			secret = d.driver.ClusterSecret
		}
		id := d.container.Flags[d.driver.ClusterFlag]
		if d.driver.ClusterFlag == "" || id == "" {
			continue
		}
		if !slices.Contains(ids[d.driver.Name], id) {
			ids[d.driver.Name] = append(ids[d.driver.Name], id)
		}
		switch {
		case len(ids[d.driver.Name]) > 1:
			bad.add(d.workload.Ref, "%s has --%s=%s and elsewhere %s", d.workload.Ref, d.driver.ClusterFlag, id, ids[d.driver.Name][0])
		case d.driver.Name == awsDriver && len(tags) == 1 && tags[0] != id:
			bad.add(d.workload.Ref, "%s has --%s=%s, and the instances are tagged for %s", d.workload.Ref, d.driver.ClusterFlag, id, tags[0])
		}
	}
	switch {
	case !bad.empty():
		return with(bad.finding(v1.Warn, "%s", bad.lines[0]), "one ID, that of the cluster", "flags of the CSI drivers", "kubectl -n "+namespaceOf(bad.objects[0])+" get "+strings.ToLower(kindOf(bad.objects[0]))+" "+nameOf(bad.objects[0])+" -o yaml")
	case len(ids) > 0:
		var parts []string
		for driver, id := range ids {
			parts = append(parts, driver+" marks disks for "+id[0])
		}
		slices.Sort(parts)
		return pass("%s", strings.Join(parts, ", "))
	case secret != "":
		finding := skip("the cluster ID of the driver is in Secret %s, which is not read", secret)
		finding.Fix = "kubectl -n " + strings.Replace(secret, "/", " get secret ", 1) + " -o jsonpath='{.data.csi-vsphere\\.conf}' | base64 -d | grep cluster-id"
		return finding
	}
	return skip("no CSI driver of the cluster marks disks with a cluster ID")
}

// awsDriver is the driver whose cluster ID is that of the instances' tags.
const awsDriver = "ebs.csi.aws.com"

// clusterIDs are the ids of the tags kubernetes.io/cluster/<id> on the instances, sorted.
func (f facts) clusterIDs() []string {
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
