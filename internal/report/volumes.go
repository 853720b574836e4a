package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// settling is for how long a volume that was asked for may be on its way to its node. Attaching takes clouds up to a
// minute.
const settling = 2 * time.Minute

// canComparePart reports whether a part of the inventory can be compared: it was gathered on both sides. What could not
// be is said.
func (c *inventories) canComparePart(part, fact, count string) bool {
	known := true
	for _, side := range []struct {
		name string
		snap *v1.Snapshot
	}{{"before", c.before}, {"after", c.after}} {
		why := ""
		for _, e := range side.snap.Errors {
			if e.Fact == fact || strings.HasPrefix(fact, e.Fact+"/") {
				why = e.Error
			}
		}
		if _, counted := side.snap.Counts[count]; why == "" && count != "" && !counted {
			why = "it was not gathered by the version of transplant that took the snapshot"
		}
		if why != "" {
			c.out.Unknown = append(c.out.Unknown, fmt.Sprintf("%s %s: %s", part, side.name, why))
			known = false
		}
	}
	return known
}

// volumes compares everything of storage.
func (c *inventories) volumes() {
	before, after := orEmpty(c.before.Volumes), orEmpty(c.after.Volumes)
	claims := c.canComparePart("persistentvolumeclaims", "volumes/claims", "persistentvolumeclaims")
	if claims {
		c.claims(before, after)
	}
	if c.canComparePart("persistentvolumes", "volumes/persistentvolumes", "persistentvolumes") {
		c.out.Volumes = v1.CountDiff{Before: len(before.PersistentVolumes), After: len(after.PersistentVolumes)}
		c.persistentVolumes(before, after, claims)
	}
	if c.canComparePart("volumeattachments", "volumes/attachments", "volumeattachments") {
		c.out.Attachments = v1.CountDiff{Before: attached(before), After: attached(after)}
		c.attachments(before, after)
	}
	if c.canComparePart("csinodes", "volumes/csinodes", "") {
		c.out.Drivers = v1.CountDiff{Before: drivers(before), After: drivers(after)}
		c.csiNodes(before, after)
	}
}

func orEmpty(v *v1.Volumes) *v1.Volumes {
	if v == nil {
		return &v1.Volumes{}
	}
	return v
}

func attached(v *v1.Volumes) int {
	n := 0
	for _, a := range v.Attachments {
		if a.Attached {
			n++
		}
	}
	return n
}

func drivers(v *v1.Volumes) int {
	n := 0
	for _, node := range v.CSINodes {
		n += len(node.Drivers)
	}
	return n
}

// claims says which claims have lost their volume. That a claim is gone is its owner's doing.
func (c *inventories) claims(before, after *v1.Volumes) {
	now := map[string]v1.VolumeClaim{}
	for _, a := range after.Claims {
		now[a.Ref] = a
	}
	for _, b := range before.Claims {
		if a, ok := now[b.Ref]; ok && a.Volume == b.Volume {
			c.differ("PersistentVolumeClaim/"+b.Ref, "phase", b.Phase, a.Phase)
		}
	}
}

func (c *inventories) persistentVolumes(before, after *v1.Volumes, claimsKnown bool) {
	now := map[string]v1.PersistentVolume{}
	for _, a := range after.PersistentVolumes {
		now[a.Name] = a
	}
	claims := map[string]v1.VolumeClaim{}
	for _, a := range after.Claims {
		claims[a.Ref] = a
	}
	given := func(b v1.PersistentVolume) string {
		claim, there := claims[b.Claim]
		switch {
		case b.Phase != "Bound":
			return "it was " + strings.ToLower(b.Phase) + ": no pod used it"
		case !claimsKnown || b.Claim == "":
			return ""
		case !there:
			return "its claim " + b.Claim + " is gone too: no step of a migration deletes a claim"
		case claim.Volume != b.Name:
			return "its claim " + b.Claim + " was made again, and has another volume"
		}
		return ""
	}
	for _, b := range before.PersistentVolumes {
		object := "PersistentVolume/" + b.Name
		a, ok := now[b.Name]
		if !ok {
			c.expect(object, fieldObject, strings.TrimSpace(b.Phase+" "+b.Claim), "", given(b))
			continue
		}
		c.differ(object, "plugin", b.Plugin, a.Plugin)
		c.differ(object, "driver", b.Driver, a.Driver)
		c.differ(object, "volumeHandle", b.Handle, a.Handle)
		c.expect(
			object,
			"claim",
			b.Claim,
			a.Claim,
			"no step of a migration binds a volume: another client gave it to another claim",
		)
		c.expect(object, "phase", b.Phase, a.Phase, whyPhase(b, a, given(b)))
		c.expect(
			object,
			"reclaimPolicy",
			b.ReclaimPolicy,
			a.ReclaimPolicy,
			"no step of a migration changes it: another client did",
		)
		why := ""
		if c.forward && b.MigratedTo == "" {
			why = "CSI migration: " + a.MigratedTo + " takes over what the in-tree plugin made"
		}
		c.expect(object, "migratedTo", b.MigratedTo, a.MigratedTo, why)
	}
}

// whyPhase explains another phase of a volume; a volume that failed, or that cannot be deleted any longer, is explained
// by nothing.
func whyPhase(b, a v1.PersistentVolume, given string) string {
	switch {
	case a.Phase == "Failed":
		return ""
	case a.Phase == "Released":
		return given
	case b.Phase == "Available" && a.Phase == "Bound":
		return "a new claim took it"
	case a.Phase == "Available":
		return "another client freed it for other claims"
	case b.Phase == "Pending":
		return "it has come to be meanwhile"
	}
	return ""
}

// attachments compares what is attached where. An attachment that is gone was taken back in order. The attach-detach
// controller deletes one when no pod on the node needs the volume. That it did is a proof that it works.
func (c *inventories) attachments(before, after *v1.Volumes) {
	key := func(a v1.VolumeAttachment) string { return a.Volume + "@" + a.Node }
	now, elsewhere := map[string]v1.VolumeAttachment{}, map[string]string{}
	for _, a := range after.Attachments {
		now[key(a)] = a
		if a.Attached {
			elsewhere[a.Volume] = a.Node
		}
	}
	was := map[string]v1.VolumeAttachment{}
	for _, b := range before.Attachments {
		was[key(b)] = b
		a, ok := now[key(b)]
		if !ok && b.Attached {
			why := "detached in order: no pod on the node needs it"
			if node := elsewhere[b.Volume]; node != "" && b.Volume != "inline" {
				why = "its pod moved: it is attached to node " + node
			}
			c.expect("VolumeAttachment/"+key(b), fieldObject, "attached", "", why)
		} else if ok {
			c.differ("VolumeAttachment/"+key(b), "driver", b.Attacher, a.Attacher)
		}
	}
	for _, a := range after.Attachments {
		c.attachment("VolumeAttachment/"+key(a), was[key(a)], a)
	}
}

// attachment judges one that there is now; b has no name when there was none before.
func (c *inventories) attachment(object string, b, a v1.VolumeAttachment) {
	why := ""
	if c.after.TakenAt.Sub(a.Created) < settling {
		why = "it is being attached: asked for less than " + settling.String() + " before"
	}
	if !a.Attached && (b.Attached || b.Name == "" && a.Error == "") {
		had := ""
		if b.Name != "" {
			had = "true"
		}
		c.expect(object, "attached", had, "false", why)
	}
	if a.Error != b.Error && a.Error != "" {
		c.differ(object, "error", b.Error, a.Error)
	}
}

func (c *inventories) csiNodes(before, after *v1.Volumes) {
	now := map[string]v1.CSINode{}
	for _, a := range after.CSINodes {
		now[a.Name] = a
	}
	for _, b := range before.CSINodes {
		if c.wentNodes[b.Name] {
			continue // the Node says so
		}
		c.csiNode(b, now[b.Name])
	}
}

func (c *inventories) csiNode(b, a v1.CSINode) {
	object := "CSINode/" + b.Name
	now := map[string]v1.CSINodeDriver{}
	for _, d := range a.Drivers {
		now[d.Name] = d
	}
	for _, d := range b.Drivers {
		have, ok := now[d.Name]
		if !ok {
			c.differ(object, "driver "+d.Name, "registered", "")
			continue
		}
		delete(now, d.Name)
		c.differ(object, "allocatable of "+d.Name, limit(d), limit(have))
	}
	for name := range now {
		c.expect(object, "driver "+name, "", "registered", "it was installed outside the migration")
	}
	for _, plugin := range a.MigratedPlugins {
		if !slices.Contains(b.MigratedPlugins, plugin) {
			why := ""
			if c.forward {
				why = "CSI migration: this kubelet leaves the plugin's volumes to CSI now"
			}
			c.expect(object, "migrated plugin "+plugin, "", "left to CSI", why)
		}
	}
	for _, plugin := range b.MigratedPlugins {
		if !slices.Contains(a.MigratedPlugins, plugin) {
			c.differ(object, "migrated plugin "+plugin, "left to CSI", "")
		}
	}
}

func limit(d v1.CSINodeDriver) string {
	if d.Limit == nil {
		return ""
	}
	return fmt.Sprint(*d.Limit)
}

// whyAttachable explains another limit of attachable volumes: that of an in-tree plugin goes with the plugin, where a
// CSI driver on the node has one.
func (c *inventories) whyAttachable(node, after string) string {
	if !c.forward || after != "" {
		return ""
	}
	for _, n := range orEmpty(c.after.Volumes).CSINodes {
		if n.Name == node && len(n.Drivers) > 0 {
			return "the limit of the in-tree plugin went with the plugin: that of the CSI driver stands in the CSINode"
		}
	}
	if !slices.ContainsFunc(
		orEmpty(c.before.Volumes).PersistentVolumes,
		func(pv v1.PersistentVolume) bool { return pv.Plugin != "" },
	) {
		return "the limit of the in-tree plugin went with the plugin: there is no volume of it"
	}
	return ""
}
