package volume

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/shell"
)

var mountedInTree = rule.Check{
	Code:      "VOL-003",
	Reason:    "MountedInTree",
	Category:  findings.CategoryVolumes,
	Level:     findings.LevelError,
	Impact:    findings.ImpactVolumes,
	LookFor:   "volumes of an in-tree plugin, without kubernetes.io/csi/ in their name; the owner of the control plane moves their pods",
	OnlyIf:    "its pods may run on other nodes, and their PodDisruptionBudgets allow it",
	Warning:   "all pods of the node are evicted; it takes no new ones until kubectl uncordon",
	DependsOn: []string{"API-001"},
	Retryable: true,
	Judge:     judgeMounted,
}

func judgeMounted(f facts.Facts) v1.Finding {
	vols, finding, ok := storage(f, "csinodes", "attachments")
	if !ok {
		return finding
	}
	if finding, ok := f.Missing("nodes"); ok {
		return finding
	}
	var failing, warning findings.Problems
	migrated := migratedNodes(vols)
	volumes := 0
	for _, n := range f.Nodes {
		for _, u := range facts.InTreeMounts(f, n) {
			volumes += u.Mounted
			switch {
			case migrated[n.Name][u.Name]:
				failing.Add(
					n.Name,
					"%s has %s of %s mounted in-tree, and its kubelet leaves them to CSI",
					n.Name,
					findings.Plural(u.Mounted, "volume"),
					u.Name,
				)
			default:
				warning.Add(n.Name, "%s has %s of %s mounted in-tree", n.Name, findings.Plural(u.Mounted, "volume"), u.Name)
			}
		}
	}
	for _, a := range vols.Attachments {
		if strings.HasPrefix(a.Attacher, "kubernetes.io/") {
			failing.Add(
				"VolumeAttachment/"+a.Name,
				"VolumeAttachment %s of node %s names the in-tree plugin %s",
				a.Name,
				a.Node,
				a.Attacher,
			)
		}
	}
	const expected, source = "status.volumesInUse with kubernetes.io/csi/… only, before the kubelet migrates", "/api/v1/nodes, /apis/storage.k8s.io/v1/volumeattachments"
	switch {
	case !failing.Empty():
		return findings.With(
			failing.Some(
				v1.Fail,
				"%s cannot be unmounted or detached by the CSI driver: a kubelet was switched without a drain",
				findings.Plural(len(failing), "node or attachment"),
			),
			expected,
			source,
			unmount(f, failing.Objects()),
		)
	case !warning.Empty():
		return findings.With(
			warning.Some(
				v1.Warn,
				"%s %s mounted by in-tree plugins on %s, which must be drained before their kubelets migrate",
				findings.Plural(volumes, "volume"),
				english.Word(volumes, "is", "are"),
				findings.Plural(len(warning), "node"),
			),
			expected,
			source,
			drain(f, warning.Objects()),
		)
	}
	return findings.Pass(
		"none of %s has a volume mounted by an in-tree cloud plugin",
		findings.Plural(len(f.Nodes), "node"),
	)
}

// unmount is the command for the first object: a node is drained, an attachment read.
func unmount(f facts.Facts, objects []string) string {
	if name, ok := strings.CutPrefix(objects[0], "VolumeAttachment/"); ok {
		return "kubectl describe volumeattachment " + shell.Quote(name)
	}
	nodes := slices.DeleteFunc(slices.Clone(objects), func(o string) bool { return strings.HasPrefix(o, "VolumeAttachment/") })
	return drain(f, nodes)
}

// drain is the command that drains the first worker of these nodes. It names pods whose local data would be lost, and
// those that nothing recreates. Their owner decides whether they may be lost. Of a node of the control plane the
// volumes are shown: how its pods leave it is decided by who runs the control plane.
func drain(f facts.Facts, nodes []string) string {
	if worker, ok := facts.FirstWorker(f, nodes); ok {
		return "kubectl drain --ignore-daemonsets " + shell.Quote(worker)
	}
	return "kubectl get node " + shell.Quote(nodes[0]) + " -o jsonpath='{.status.volumesInUse}'"
}

var attachmentsStuck = rule.Check{
	Code:      "VOL-009",
	Reason:    "AttachmentStuck",
	Category:  findings.CategoryVolumes,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactVolumes,
	LookFor:   "Attached, the error of the attacher, and how old they are",
	DependsOn: []string{"API-001"},
	Retryable: true,
	Judge:     judgeStuck,
}

func judgeStuck(f facts.Facts) v1.Finding {
	vols, finding, ok := storage(f, "attachments")
	if !ok {
		return finding
	}
	if finding, ok := f.Missing("nodes"); ok {
		return finding
	}
	nodes := make(map[string]bool, len(f.Nodes))
	for _, n := range f.Nodes {
		nodes[n.Name] = true
	}
	var failing, warning findings.Problems
	for _, a := range vols.Attachments {
		of := fmt.Sprintf("%s of volume %s", a.Name, findings.OrElse(a.Volume, "?"))
		switch {
		case !nodes[a.Node]:
			failing.Add(a.Name, "%s is for node %s, which does not exist", of, a.Node)
		case a.Deleting && a.Error != "":
			failing.Add(a.Name, "%s cannot be detached from %s: %s", of, a.Node, a.Error)
		case !a.Attached && !a.Deleting && f.TakenAt.Sub(a.Created) > facts.VolumeGracePeriod:
			warning.Add(
				a.Name,
				"%s is not attached to %s after %s: %s",
				of,
				a.Node,
				f.TakenAt.Sub(a.Created).Round(time.Minute),
				findings.OrElse(a.Error, "no error is given"),
			)
		}
	}
	all, outcome, bad := findings.Worst(failing, warning)
	if len(vols.Attachments) == 0 {
		return findings.Pass("no volume is attached by CSI")
	}
	if !bad {
		return findings.Pass(
			"all %s are attached to nodes that exist, or on their way",
			findings.Plural(len(vols.Attachments), "VolumeAttachment"),
		)
	}
	return findings.With(
		all.Some(
			outcome,
			"%d of %s %s",
			len(all),
			findings.Plural(len(vols.Attachments), "VolumeAttachment"),
			findings.HowMany(len(all), "hangs", "hang"),
		),
		"attached to a node that exists",
		"/apis/storage.k8s.io/v1/volumeattachments",
		"kubectl describe volumeattachment "+shell.Quote(all[0].Object),
	)
}

var attachLimits = rule.Check{
	Code:      "VOL-010",
	Reason:    "AttachLimitLower",
	Category:  findings.CategoryVolumes,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactScheduling,
	LookFor:   "the limit of each node, against the number of volumes that the finding names",
	DependsOn: []string{"API-001"},
	Judge:     judgeLimits,
}

func judgeLimits(f facts.Facts) v1.Finding {
	vols, finding, ok := storage(f, "csinodes", "persistentvolumes", "storageclasses")
	if !ok {
		return finding
	}
	if finding, ok := f.Missing("nodes"); ok {
		return finding
	}
	uses := facts.Uses(f, vols)
	if len(uses) == 0 {
		return findings.Skip("no in-tree cloud plugin is in use")
	}
	limits := driverLimits(vols)
	var failing, warning findings.Problems
	for _, n := range f.Nodes {
		judgeLimit(n, uses, limits[n.Name], &failing, &warning)
	}
	all, outcome, bad := findings.Worst(failing, warning)
	const expected, source = "no fewer than the node holds", "/apis/storage.k8s.io/v1/csinodes, status.allocatable of the Nodes"
	fix := "kubectl get csinodes -o custom-columns='NODE:.metadata.name,LIMITS:.spec.drivers[*].allocatable.count'"
	switch {
	case bad && outcome == v1.Fail:
		return findings.With(
			all.Some(
				outcome,
				"%s more volumes than the CSI driver attaches",
				findings.HowMany(len(failing), "1 node holds", "nodes hold"),
			),
			expected,
			source,
			fix,
		)
	case bad:
		return findings.With(
			all.Some(
				outcome,
				"%s fewer volumes through CSI",
				findings.HowMany(len(warning), "1 node attaches", "nodes attach"),
			),
			expected,
			source,
			fix,
		)
	}
	return findings.Pass(
		"the CSI limits of %s are no lower than what the nodes have and hold",
		findings.Plural(len(f.Nodes), "node"),
	)
}

func judgeLimit(n v1.Node, uses []facts.VolumeUse, limits map[string]*int32, failing, warning *findings.Problems) {
	mounts := MountsOf(n)
	for _, u := range uses {
		limit, registered := limits[u.Driver]
		if !registered {
			continue // CSI-002 says so
		}
		held := mounts[u.Name] + mounts[u.Driver]
		switch old, err := strconv.Atoi(n.Attachable[u.LimitResource]); {
		case limit != nil && held > int(*limit):
			failing.Add(n.Name, "%s holds %s, and %s attaches %d", n.Name, findings.Plural(held, "volume"), u.Driver, *limit)
		case limit != nil && err == nil && int(*limit) < old:
			warning.Add(n.Name, "%s: %d instead of %d", n.Name, *limit, old)
		case limit == nil && err == nil:
			warning.Add(n.Name, "%s: %s says no limit, in-tree it is %d", n.Name, u.Driver, old)
		}
	}
}

// driverLimits are the attach limits of each driver on each node; nil where the driver is there and says none.
func driverLimits(vols *v1.Volumes) map[string]map[string]*int32 {
	out := make(map[string]map[string]*int32, len(vols.CSINodes))
	for _, n := range vols.CSINodes {
		drivers := make(map[string]*int32, len(n.Drivers))
		for _, d := range n.Drivers {
			drivers[d.Name] = d.Limit
		}
		out[n.Name] = drivers
	}
	return out
}
