package ec2

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

// Volume is a block device. The times of its states are left out: a volume is there as soon as it was asked for.
type Volume struct {
	ID         string            `json:"id"`
	Size       int               `json:"size"` // GiB
	Type       string            `json:"type"`
	Zone       string            `json:"zone"`
	Encrypted  bool              `json:"encrypted,omitempty"`
	IOPS       int               `json:"iops,omitempty"`
	Throughput int               `json:"throughput,omitempty"`
	Attachment *VolumeAttachment `json:"attachment,omitempty"`
	// Token and Asked are what CreateVolume was called with, so that it can be called again.
	Token string `json:"token,omitempty"`
	Asked string `json:"asked,omitempty"`
	// OriginalSize is that before the last modification; 0 for a volume that never was modified.
	OriginalSize int               `json:"originalSize,omitempty"`
	Tags         map[string]string `json:"tags,omitempty"`
}

// VolumeAttachment says where a volume is.
type VolumeAttachment struct {
	Instance string `json:"instance"`
	Device   string `json:"device"`
}

func (v *Volume) state() string {
	if v.Attachment != nil {
		return "in-use"
	}
	return "available"
}

var (
	volumeID    = regexp.MustCompile(`^vol-([0-9a-f]{8}|[0-9a-f]{17})$`)
	volumeTypes = []string{"gp2", "gp3", "io1", "io2", "sc1", "st1", "standard"}
)

// maxVolumeSize of the general purpose types, in GiB ("Amazon EBS volume types", before the larger gp3 volumes of
// 2025).
const maxVolumeSize = 16384

func (r *Region) volumeActions() []wire.Action {
	tags := []string{"TagSpecification.N.ResourceType", "TagSpecification.N.Tag.N.Key", "TagSpecification.N.Tag.N.Value"}
	return []wire.Action{
		{
			Name:     "CreateVolume",
			Mutating: true,
			Params: append(
				[]string{
					"ClientToken",
					"Size",
					"VolumeType",
					"Encrypted",
					"MultiAttachEnabled",
					"AvailabilityZone",
					"Iops",
					"Throughput",
				},
				tags...),
			Errors: []string{"MissingParameter", "InvalidParameterValue", "InvalidZone.NotFound", "IdempotentParameterMismatch"},
			Note: "The answer's status is creating, and the next answer's available. The same token gives the same volume, or is refused with other parameters. " +
				"Snapshots, keys and multi-attach are not there.",
			Do: r.createVolume,
		},
		{
			Name:   "DescribeVolumes",
			Params: []string{"VolumeId.N", "Filter.N.Name", "Filter.N.Value.N", "MaxResults", "NextToken"},
			Filters: []string{
				"volume-id",
				"status",
				"availability-zone",
				"attachment.instance-id",
				"attachment.device",
				"tag-key",
				"tag:<key>",
			},
			Errors: []string{
				"InvalidVolume.NotFound",
				"InvalidParameterValue",
				"InvalidParameterCombination",
				"InvalidNextToken",
			},
			Do: r.describeVolumes,
		},
		{
			Name: "DeleteVolume", Mutating: true,
			Params: []string{"VolumeId"},
			Errors: []string{"MissingParameter", "InvalidVolume.NotFound", "VolumeInUse"},
			Do:     r.deleteVolume,
		},
		{
			Name:     "AttachVolume",
			Mutating: true,
			Params:   []string{"Device", "InstanceId", "VolumeId"},
			Errors: []string{
				"MissingParameter",
				"InvalidVolume.NotFound",
				"InvalidInstanceID.NotFound",
				"InvalidInstanceID.Malformed",
				"VolumeInUse",
				"IncorrectState",
				"InvalidVolume.ZoneMismatch",
				"InvalidParameterValue",
			},
			Note: "The answer's status is attaching, and the next answer's attached.",
			Do:   r.attachVolume,
		},
		{
			Name:     "DetachVolume",
			Mutating: true,
			Params:   []string{"InstanceId", "VolumeId"},
			Errors:   []string{"MissingParameter", "InvalidVolume.NotFound", "IncorrectState", "InvalidAttachment.NotFound"},
			Note:     "The answer's status is detaching, and the next answer has no attachment. A terminated instance loses its volumes, too.",
			Do:       r.detachVolume,
		},
		{
			Name:     "ModifyVolume",
			Mutating: true,
			Params:   []string{"VolumeId", "Size"},
			Errors:   []string{"MissingParameter", "InvalidVolume.NotFound", "InvalidParameterValue"},
			Note:     "Only larger. The answer's state is modifying, and the next answer's completed; a volume may be modified again at once.",
			Do:       r.modifyVolume,
		},
		{
			Name:   "DescribeVolumesModifications",
			Params: []string{"VolumeId.N"},
			Errors: []string{"InvalidVolume.NotFound", "InvalidVolumeModification.NotFound"},
			Do:     r.describeVolumesModifications,
		},
		{
			Name:   "DescribeInstanceTypes",
			Params: []string{"InstanceType.N"},
			Errors: []string{"InvalidInstanceType"},
			Note:   "Knows the types of the region's instances, and says of them only that they have NVMe.",
			Do:     r.describeInstanceTypes,
		},
	}
}

func unknownVolume(id string) error {
	return wire.Fail("InvalidVolume.NotFound", "The volume '%s' does not exist.", id)
}

// volume finds the one that a mutating call is about.
func (r *Region) volume(c *wire.Call) (*Volume, error) {
	id, err := required(c, "VolumeId")
	if err != nil {
		return nil, err
	}
	if v := r.Volumes[id]; v != nil {
		return v, nil
	}
	return nil, unknownVolume(id)
}

func (r *Region) createVolume(c *wire.Call) ([]wire.Node, error) {
	zone, err := required(c, "AvailabilityZone")
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(r.Zones, func(z Zone) bool { return z.Name == zone }) {
		return nil, wire.Fail("InvalidZone.NotFound", "The zone '%s' does not exist.", zone)
	}
	v := &Volume{Zone: zone, Type: "gp2", Encrypted: c.Params["Encrypted"] == "true", Token: c.Params["ClientToken"]}
	if err := v.measure(c); err != nil {
		return nil, err
	}
	if v.Tags, err = specifiedTags(c, "volume"); err != nil {
		return nil, err
	}
	v.Asked = fmt.Sprint(v.Size, v.Type, v.Zone, v.Encrypted, v.IOPS, v.Throughput, v.Tags)
	for _, have := range r.Volumes {
		if v.Token == "" || have.Token != v.Token {
			continue
		}
		if have.Asked != v.Asked {
			return nil, wire.Fail(
				"IdempotentParameterMismatch",
				"The client token you have provided is associated with a resource that was created with other parameters.",
			)
		}
		return r.volumeNode(have, have.state()).Children, nil
	}
	r.volumes++
	v.ID = fmt.Sprintf("vol-%017x", 0xdef0000+r.volumes)
	if r.Volumes == nil {
		r.Volumes = map[string]*Volume{}
	}
	r.Volumes[v.ID] = v
	c.Made(v.ID)
	return r.volumeNode(v, "creating").Children, nil
}

// measure reads a new volume's size, type and speed.
func (v *Volume) measure(c *wire.Call) error {
	size, sized, err := c.Number("Size", 1, maxVolumeSize, "InvalidParameterValue")
	if err != nil {
		return err
	}
	if !sized {
		return wire.Fail("MissingParameter", "The request must contain the parameter size or snapshotId")
	}
	v.Size = size
	if t := c.Params["VolumeType"]; t != "" {
		v.Type = t
	}
	if !slices.Contains(volumeTypes, v.Type) {
		return wire.Fail("InvalidParameterValue", "Value (%s) for parameter volumeType is invalid.", v.Type)
	}
	if c.Params["MultiAttachEnabled"] == "true" {
		return wire.Fail("InvalidParameterValue", "MultiAttach is not supported for this volume type: %s.", v.Type)
	}
	if v.IOPS, _, err = c.Number("Iops", 100, 80000, "InvalidParameterValue"); err != nil {
		return err
	}
	v.Throughput, _, err = c.Number("Throughput", 125, 2000, "InvalidParameterValue")
	if v.Type == "gp3" && v.IOPS == 0 { // what a gp3 volume has without being asked for more
		v.IOPS = 3000
	}
	if v.Type == "gp3" && v.Throughput == 0 {
		v.Throughput = 125
	}
	return err
}

// specifiedTags are those that a call gives to what it makes.
func specifiedTags(c *wire.Call, kind string) (map[string]string, error) {
	tags := map[string]string{}
	for _, specification := range c.Structs("TagSpecification") {
		if specification["ResourceType"] != kind {
			return nil, wire.Fail(
				"InvalidParameterValue",
				"'%s' is not a valid taggable resource type for this operation.",
				specification["ResourceType"],
			)
		}
		for _, tag := range specification.Structs("Tag") {
			tags[tag["Key"]] = tag["Value"]
		}
	}
	return tags, nil
}

func (r *Region) describeVolumes(c *wire.Call) ([]wire.Node, error) {
	for _, id := range c.List("VolumeId") {
		if !volumeID.MatchString(id) {
			return nil, wire.Fail(
				"InvalidParameterValue",
				"Value (%s) for parameter volumes is invalid. Expected: 'vol-...'.",
				id,
			)
		}
	}
	list, named, err := ids(c, "VolumeId", r.Volumes, unknownVolume)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(id string) bool {
		v := r.Volumes[id]
		attributes := map[string][]string{"volume-id": {id}, "status": {v.state()}, "availability-zone": {v.Zone}}
		if v.Attachment != nil {
			attributes["attachment.instance-id"], attributes["attachment.device"] = []string{
				v.Attachment.Instance,
			}, []string{
				v.Attachment.Device,
			}
		}
		return !selected(c, attributes, v.Tags)
	})
	cut, next, err := page(c, list, named)
	if err != nil {
		return nil, err
	}
	set := wire.El("volumeSet")
	for _, id := range cut {
		set.Children = append(set.Children, r.volumeNode(r.Volumes[id], r.Volumes[id].state()))
	}
	return []wire.Node{set, wire.Opt("nextToken", next)}, nil
}

func (r *Region) volumeNode(v *Volume, state string) wire.Node {
	attachments := wire.El("attachmentSet")
	if v.Attachment != nil {
		attachments.Children = append(attachments.Children, wire.El("item", v.attachmentNodes("attached")...))
	}
	return wire.El(
		"item",
		wire.Text(
			"volumeId",
			v.ID,
		),
		wire.Int("size", v.Size),
		wire.Text("snapshotId", ""),
		wire.Text("availabilityZone", v.Zone),
		wire.Text("status", state),
		created(),
		attachments,
		wire.Text("volumeType", v.Type),
		wire.Bool("encrypted", v.Encrypted),
		wire.Bool("multiAttachEnabled", false),
		optNumber(
			"iops",
			v.IOPS,
		),
		optNumber("throughput", v.Throughput),
		wire.TagNodes("tagSet", "item", "key", "value", v.Tags),
	)
}

func optNumber(name string, n int) wire.Node {
	if n == 0 {
		return wire.Node{}
	}
	return wire.Int(name, n)
}

// created is when every volume was: the time is of no use to anybody, and answers stay comparable.
func created() wire.Node { return wire.Time("createTime", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) }

func (v *Volume) attachmentNodes(state string) []wire.Node {
	attached := wire.Time("attachTime", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	return []wire.Node{
		wire.Text(
			"volumeId",
			v.ID,
		),
		wire.Text("instanceId", v.Attachment.Instance),
		wire.Text("device", v.Attachment.Device),
		wire.Text("status", state),
		attached,
		wire.Bool("deleteOnTermination", false),
	}
}

func (r *Region) deleteVolume(c *wire.Call) ([]wire.Node, error) {
	v, err := r.volume(c)
	if err != nil {
		return nil, err
	}
	if v.Attachment != nil {
		return nil, wire.Fail("VolumeInUse", "Volume %s is currently attached to %s", v.ID, v.Attachment.Instance)
	}
	delete(r.Volumes, v.ID)
	return done(), nil
}

func (r *Region) attachVolume(c *wire.Call) ([]wire.Node, error) {
	v, err := r.volume(c)
	if err != nil {
		return nil, err
	}
	device, err := required(c, "Device")
	if err != nil {
		return nil, err
	}
	id, err := required(c, "InstanceId")
	if err != nil {
		return nil, err
	}
	i, err := r.instance(id)
	switch {
	case err != nil:
		return nil, err
	case v.Attachment != nil:
		return nil, wire.Fail("VolumeInUse", "%s is already attached to an instance", v.ID)
	case i.State != "running" && i.State != "stopped":
		return nil, wire.Fail("IncorrectState", "Instance '%s' is not 'running'.", id)
	case i.Zone != v.Zone:
		return nil, wire.Fail(
			"InvalidVolume.ZoneMismatch",
			"The volume '%s' is not in the same availability zone as instance '%s'",
			v.ID,
			id,
		)
	}
	for _, other := range r.attachedTo(id) {
		if other.Attachment.Device == device {
			return nil, wire.Fail(
				"InvalidParameterValue",
				"Invalid value '%s' for unixDevice. Attachment point %s is already in use",
				device,
				device,
			)
		}
	}
	v.Attachment = &VolumeAttachment{Instance: id, Device: device}
	return v.attachmentNodes("attaching"), nil
}

// attachedTo are the volumes of an instance, by device.
func (r *Region) attachedTo(instance string) []*Volume {
	var out []*Volume
	for _, v := range r.Volumes {
		if v.Attachment != nil && v.Attachment.Instance == instance {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b *Volume) int { return strings.Compare(a.Attachment.Device, b.Attachment.Device) })
	return out
}

// devicesNode are an instance's volumes in DescribeInstances.
func (r *Region) devicesNode(instance string) wire.Node {
	set := wire.El("blockDeviceMapping")
	for _, v := range r.attachedTo(instance) {
		set.Children = append(set.Children, wire.El(
			"item",
			wire.Text("deviceName", v.Attachment.Device),
			wire.El(
				"ebs",
				wire.Text("volumeId", v.ID),
				wire.Text("status", "attached"),
				wire.Bool("deleteOnTermination", false),
			),
		))
	}
	return set
}

func (r *Region) detachVolume(c *wire.Call) ([]wire.Node, error) {
	v, err := r.volume(c)
	if err != nil {
		return nil, err
	}
	if v.Attachment == nil {
		return nil, wire.Fail("IncorrectState", "Volume '%s' is in the 'available' state.", v.ID)
	}
	if id := c.Params["InstanceId"]; id != "" && id != v.Attachment.Instance {
		return nil, wire.Fail("InvalidAttachment.NotFound", "The volume '%s' is not attached to instance '%s'.", v.ID, id)
	}
	answer := v.attachmentNodes("detaching")
	v.Attachment = nil
	return answer, nil
}

// settleVolumes takes the volumes from instances that are gone.
func (r *Region) settleVolumes() {
	for _, v := range r.Volumes {
		if v.Attachment == nil {
			continue
		}
		if i := r.Instances[v.Attachment.Instance]; i == nil || i.State == "terminated" {
			v.Attachment = nil
		}
	}
}

func (r *Region) modifyVolume(c *wire.Call) ([]wire.Node, error) {
	v, err := r.volume(c)
	if err != nil {
		return nil, err
	}
	size, sized, err := c.Number("Size", 1, maxVolumeSize, "InvalidParameterValue")
	switch {
	case err != nil:
		return nil, err
	case !sized:
		return nil, wire.Fail("MissingParameter", "The request must contain the parameter size")
	case size < v.Size:
		return nil, wire.Fail("InvalidParameterValue", "New size cannot be smaller than existing size")
	}
	v.OriginalSize, v.Size = v.Size, size
	return []wire.Node{wire.El("volumeModification", v.modificationNodes("modifying")...)}, nil
}

func (v *Volume) modificationNodes(state string) []wire.Node {
	return []wire.Node{
		wire.Text(
			"volumeId",
			v.ID,
		),
		wire.Text("modificationState", state),
		wire.Int("targetSize", v.Size),
		wire.Int("originalSize", v.OriginalSize),
		wire.Text(
			"targetVolumeType",
			v.Type,
		),
		wire.Text("originalVolumeType", v.Type),
		wire.Text("progress", strconv.Itoa(map[string]int{"completed": 100}[state])),
	}
}

func (r *Region) describeVolumesModifications(c *wire.Call) ([]wire.Node, error) {
	list, named, err := ids(c, "VolumeId", r.Volumes, unknownVolume)
	if err != nil {
		return nil, err
	}
	set := wire.El("volumeModificationSet")
	for _, id := range list {
		v := r.Volumes[id]
		if v.OriginalSize > 0 {
			set.Children = append(set.Children, wire.El("item", v.modificationNodes("completed")...))
		} else if named {
			return nil, wire.Fail("InvalidVolumeModification.NotFound", "Modification for volume '%s' does not exist.", id)
		}
	}
	return []wire.Node{set}, nil
}

func (r *Region) describeInstanceTypes(c *wire.Call) ([]wire.Node, error) {
	known := map[string]bool{}
	for _, i := range r.Instances {
		known[i.Type] = true
	}
	list, _, err := ids(c, "InstanceType", known, func(t string) error {
		return wire.Fail("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", t)
	})
	if err != nil {
		return nil, err
	}
	set := wire.El("instanceTypeSet")
	for _, t := range list {
		set.Children = append(
			set.Children,
			wire.El("item", wire.Text("instanceType", t), wire.El("ebsInfo", wire.Text("nvmeSupport", "required"))),
		)
	}
	return []wire.Node{set}, nil
}
