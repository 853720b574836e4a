package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/mo"

	"github.com/transplant-dev/transplant/provider/transport"
)

// Tag is a tag's name with its category's.
type Tag struct{ Category, Name string }

// Tags are what is attached to objects.
type Tags map[Ref][]Tag

const (
	// objectsPerCall is how many objects are asked for in one call; vCenter takes 2,000.
	objectsPerCall = 1000
	// tagAge is how long the name of a tag is kept.
	tagAge = time.Hour
)

// tagLists bound what is asked about the tags of one list of objects: 1,000 of them, or one tag, each.
var tagLists = transport.List{MaxBytes: 512 << 20, MaxPages: 20_000}

// Places are the objects whose tags may say where machines are.
func (l *Listing) Places(machines []*Machine) (all []Ref) {
	seen := map[Ref]bool{}
	for _, m := range machines {
		for _, chain := range l.chains(m) {
			for _, ref := range chain {
				if !seen[ref] {
					seen[ref] = true
					all = append(all, ref)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b Ref) int { return strings.Compare(a.Type+a.Value, b.Type+b.Value) })
	return all
}

// chains are the ways up from a machine: from its host, from its resource pool, and from the machine itself. The
// external provider has the same order.
func (l *Listing) chains(m *Machine) [][]Ref {
	return [][]Ref{l.above(m.host), l.above(m.pool), l.above(&m.Ref)}
}

// Zone finds the zone and the region of a machine: the nearest tags of both categories on one way up.
func (l *Listing) Zone(m *Machine, attached Tags, zoneCategory, regionCategory string) (zone, region string, _ error) {
	for _, chain := range l.chains(m) {
		zone, region = "", ""
		for _, ref := range chain {
			for _, tag := range attached[ref] {
				if tag.Category == zoneCategory && zone == "" {
					zone = tag.Name
				}
				if tag.Category == regionCategory && region == "" {
					region = tag.Name
				}
			}
		}
		if zone != "" && region != "" {
			return zone, region, nil
		}
	}
	return "", "", fmt.Errorf("virtual machine %q of vCenter %s has no zone: no host, cluster, resource pool, folder or "+
		"datacenter above it has tags of both categories %q and %q; attach them, or remove labels from the cloud config",
		m.Name, m.VCenter, zoneCategory, regionCategory)
}

// AttachedTags reads the tags of objects: one call for each 1,000 of them, and one for each tag that is not known yet.
func (v *VCenter) AttachedTags(ctx context.Context, objects []Ref) (Tags, error) {
	out := Tags{}
	err := v.callInSession(ctx, func(ctx context.Context, s *opened) error {
		manager, err := v.restSession(ctx, s)
		if err != nil {
			return err
		}
		ctx, list := tagLists.Read(ctx, "tags", "vCenter "+v.Name())
		if v.tags == nil || v.options.Clock.Since(v.read) > tagAge {
			v.tags, v.read = map[string]Tag{}, v.options.Clock.Now()
		}
		for chunk := range slices.Chunk(objects, objectsPerCall) {
			if err := list.Page(); err != nil {
				return err
			}
			refs := make([]mo.Reference, len(chunk))
			for i, ref := range chunk {
				refs[i] = ref
			}
			attached, err := manager.ListAttachedTagsOnObjects(ctx, refs)
			if err != nil {
				return err
			}
			for _, a := range attached {
				for _, id := range a.TagIDs {
					tag, err := v.tag(ctx, manager, list, id)
					if err != nil {
						return err
					}
					ref := a.ObjectID.Reference()
					out[Ref{Type: ref.Type, Value: ref.Value}] = append(out[Ref{Type: ref.Type, Value: ref.Value}], tag)
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading tags: %w", err)
	}
	return out, nil
}

// tag reads the name of a tag, and of its category, once.
func (v *VCenter) tag(ctx context.Context, manager *tags.Manager, list *transport.Reading, id string) (Tag, error) {
	if known, ok := v.tags[id]; ok {
		return known, nil
	}
	if err := list.Page(); err != nil {
		return Tag{}, err
	}
	tag, err := manager.GetTag(ctx, id)
	if err != nil {
		return Tag{}, err
	}
	category, ok := v.tags[tag.CategoryID]
	if !ok {
		found, err := manager.GetCategory(ctx, tag.CategoryID)
		if err != nil {
			return Tag{}, err
		}
		category = Tag{Category: found.Name}
		v.tags[tag.CategoryID] = category
	}
	v.tags[id] = Tag{Category: category.Category, Name: tag.Name}
	return v.tags[id], nil
}
