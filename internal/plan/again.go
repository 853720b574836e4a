package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Unlike makes a plan again, of the cluster as it is now and with the options of the plan, and says in which steps and fields the plan differs from what is made: nil
// when it does not. Plans are deterministic, so whatever differs was changed in the plan, or has changed in the cluster. An error says that no plan can be made.
//
// Two things may have changed since without making another plan of it: which host owns the loops, since the engine asks that again, and which nodes have volumes of the
// in-tree plugins mounted, as long as no node has them that the plan does not drain.
func Unlike(p *v1.Plan, snap *v1.Snapshot) (made *v1.Plan, differences []string, err error) {
	drained := withDrains(p, snap)
	if made, err = Make(drained, p.Options, nil, time.Time{}); err != nil {
		return nil, nil, err
	}
	if differences = between(p, made); len(differences) == 0 {
		return made, nil, nil
	}
	for _, h := range snap.Hosts {
		if component(h, KCM) == nil {
			continue
		}
		if other, err := Make(ownedBy(drained, h.Name), p.Options, nil, time.Time{}); err == nil && len(between(p, other)) == 0 {
			return other, nil, nil
		}
	}
	return made, differences, nil
}

// UnlikeRollback makes the rollback that stands in a journal again, of the plan and the records in it, and says in which steps and fields it differs from what is made.
// Words for readers may differ.
func UnlikeRollback(doc *v1.Journal, snap *v1.Snapshot) ([]string, error) {
	before, stored := *doc, *doc.Rollback
	before.Rollback = nil
	back := map[string]bool{}
	for _, s := range stored.Steps {
		back[s.ID] = true
	}
	before.Records = slices.DeleteFunc(slices.Clone(doc.Records), func(r v1.StepRecord) bool { return back[r.ID] })
	made, err := MakeRollback(&before, snap, time.Time{})
	if err != nil {
		return nil, err
	}
	stored.Steps, made.Steps = bare(stored.Steps), bare(made.Steps)
	return between(&stored, made), nil
}

// ownedBy is a snapshot in which the manager on a host leads.
func ownedBy(snap *v1.Snapshot, host string) *v1.Snapshot {
	out := *snap
	out.Managers = slices.Clone(snap.Managers)
	found := false
	for i := range out.Managers {
		m := &out.Managers[i]
		if m.Component != KCM {
			continue
		}
		m.Leads = slices.DeleteFunc(slices.Clone(m.Leads), func(l string) bool { return l == KCM })
		if m.Host == host {
			m.Leads, m.Error, found = append(m.Leads, KCM), "", true
		}
	}
	if !found {
		out.Managers = append(out.Managers, v1.Manager{Component: KCM, Host: host, Leads: []string{KCM}})
	}
	return &out
}

// withDrains is a snapshot in which the nodes that a plan drains have a volume of an in-tree plugin mounted: they had one when it was made.
func withDrains(p *v1.Plan, snap *v1.Snapshot) *v1.Snapshot {
	known, err := supported(p.Cluster.Provider)
	if err != nil || len(known.Plugins) == 0 {
		return snap
	}
	drains := map[string]bool{}
	for _, s := range p.Steps {
		if s.Kind == v1.StepKubelet && s.Drain {
			drains[s.Host] = true
		}
	}
	out := *snap
	out.Nodes = slices.Clone(snap.Nodes)
	for _, h := range snap.Hosts {
		for i := range out.Nodes {
			n := &out.Nodes[i]
			if !drains[h.Name] || n.Name != h.NodeName {
				continue
			}
			n.VolumesInUse = slices.Clone(n.VolumesInUse)
			for _, plugin := range known.Plugins {
				n.VolumesInUse = append(n.VolumesInUse, plugin.Name+"/mounted-when-planned")
			}
		}
	}
	return &out
}

// between says in which steps and options two plans differ.
func between(have, made *v1.Plan) []string {
	var out []string
	if have.Strategy != made.Strategy {
		out = append(out, fmt.Sprintf("strategy: %q instead of %q", have.Strategy, made.Strategy))
	}
	for _, field := range fieldsThatDiffer(have.Options, made.Options) {
		out = append(out, "options."+field)
	}
	index := map[string]int{}
	for i, s := range made.Steps {
		index[s.ID] = i
	}
	seen := map[string]bool{}
	last, turned := -1, ""
	for _, s := range have.Steps {
		at, there := index[s.ID]
		seen[s.ID] = true
		if !there {
			out = append(out, fmt.Sprintf("step %s (%s %s) is not made again", s.ID, s.Kind, strings.Trim(s.Host+s.Path+s.Ref, " ")))
			continue
		}
		if at < last && turned == "" {
			turned = s.ID
		}
		last = at
		for _, field := range fieldsThatDiffer(s, made.Steps[at]) {
			out = append(out, fmt.Sprintf("step %s: %s", s.ID, field))
		}
	}
	for _, s := range made.Steps {
		if !seen[s.ID] {
			out = append(out, fmt.Sprintf("step %s is missing", s.ID))
		}
	}
	if turned != "" {
		out = append(out, fmt.Sprintf("step %s comes at another place", turned))
	}
	return out
}

// OptionsThatDiffer are the options in which two plans are not the same, with both values.
func OptionsThatDiffer(have, of *v1.Plan) []string { return fieldsThatDiffer(have.Options, of.Options) }

// fieldsThatDiffer are the fields of two documents that are not the same, with both values as far as a line has room for them.
func fieldsThatDiffer(have, made any) []string {
	a, b := fieldsOf(have), fieldsOf(made)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(withKeys(a, b))) {
		if string(a[name]) != string(b[name]) {
			out = append(out, fmt.Sprintf("%s: %s instead of %s", name, shortened(a[name]), shortened(b[name])))
		}
	}
	return out
}

func withKeys(a, b map[string]json.RawMessage) map[string]json.RawMessage {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func fieldsOf(doc any) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	data, err := json.Marshal(doc)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		panic(err) // a struct of texts, numbers and maps of texts
	}
	return out
}

// shortened is a value as a line has room for it.
func shortened(value json.RawMessage) string {
	const enough = 120
	if len(value) == 0 {
		return "nothing"
	}
	if runes := []rune(string(value)); len(runes) > enough {
		return string(runes[:enough]) + "…"
	}
	return string(value)
}
