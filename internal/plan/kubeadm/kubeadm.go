// Package kubeadm decides what kubeadm has to be told, so that its next upgrade does not bring the in-tree provider
// back.
package kubeadm

import (
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/kubeadmconfig"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/kubelet"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/volume"
)

// Components are the components whose flags kubeadm writes, in the order of its configuration.
var Components = []string{component.KAS, component.KCM, component.Scheduler}

// UpdateConfig changes what "kubeadm upgrade" will write into the manifests. So the upgrade does not bring the in-tree
// provider back: each flag gets there the value that the plan leaves behind in the manifests.
func UpdateConfig(d *draft.Draft) {
	if k := d.Snapshot.Kubeadm; k != nil && k.Error == "" {
		for _, name := range Components {
			updateComponent(d, name, k)
		}
		updateVersion(d, k)
		d.Note(
			"to do for new machines: in nodeRegistration.kubeletExtraArgs of the JoinConfiguration, set cloud-provider: external and remove cloud-config",
		)
	}
	updateKubeletDefaults(d)
}

func updateComponent(d *draft.Draft, name string, k *v1.KubeadmConfig) {
	edits := componentEdits(d, name, k)
	if len(edits) == 0 {
		return
	}
	section := Sections[name]
	d.Add(v1.Step{
		ID:        "patch/" + layout.KubeadmConfigRef + "/" + section,
		Phase:     planstep.PhaseKubeadm,
		Kind:      v1.StepPatchObject,
		Title:     "update the flags of " + name + " in kubeadm-config",
		Why:       "kubeadm upgrade writes the manifests again from this: without it the next upgrade brings the in-tree provider back",
		Ref:       layout.KubeadmConfigRef,
		Component: name,
		Derive:    layout.DeriveKubeadm,
		Edits:     edits,
		Requires:  []string{"cluster:uid", d.AddFact(planstep.KubeadmFact, k.SHA256, "")},
		Changes: planstep.DescribeFlagEdits(
			edits,
			k.ExtraArgs[section],
		),
		Undo:            "put back what the record has",
		EstimateSeconds: 0.1,
		Manual:          []string{"kubectl -n " + component.Namespace + " edit configmap " + kubeadmconfig.Name},
	})
}

// Sections are what the ClusterConfiguration calls the components.
var Sections = map[string]string{
	component.KAS:       "apiServer",
	component.KCM:       "controllerManager",
	component.Scheduler: "scheduler",
}

// componentEdits are the flags of a component that the plan changes for good and that kubeadm would write otherwise.
// The mount of the in-tree cloud config is among them where nothing reads it any longer. A host that joins has no such
// file, and its static pod would not start.
func componentEdits(d *draft.Draft, name string, k *v1.KubeadmConfig) []v1.Edit {
	h := d.Hosts[0]
	was := clusterview.FindComponent(h, name)
	if was == nil || !clusterview.IsStaticPod(*was) {
		return nil
	}
	after, changed := d.FlagsAfter(h, name), changedFlags(d, h, name)
	var edits []v1.Edit
	for _, flag := range changed {
		value, set := after[flag]
		before, had := was.Flags[flag]
		now, told := k.ExtraArgs[Sections[name]][flag]
		switch {
		case told && set && now == value, !told && !set, !told && set == had && value == before:
		case set:
			edits = append(edits, v1.Edit{Op: v1.EditSetFlag, Name: flag, Value: value})
		default:
			edits = append(edits, v1.Edit{Op: v1.EditUnsetFlag, Name: flag})
		}
	}
	if _, still := after[flagvalue.FlagCloudConfig]; !still && slices.Contains(changed, flagvalue.FlagCloudConfig) {
		edits = append(edits, volumeEdits(name, was.Flags[flagvalue.FlagCloudConfig], k)...)
	}
	return edits
}

// changedFlags are the flags of a component on a host that some step changes, sorted.
func changedFlags(d *draft.Draft, h v1.Host, name string) []string {
	changed := map[string]bool{}
	for _, s := range d.Steps {
		if s.Component != name || s.Host != h.Name {
			continue
		}
		for _, e := range s.Edits {
			if e.Op == v1.EditSetFlag || e.Op == v1.EditUnsetFlag {
				changed[e.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

// volumeEdits removes the mounts of a file from a component's extraVolumes. Their names are in the text alone.
func volumeEdits(name, file string, k *v1.KubeadmConfig) []v1.Edit {
	if !slices.Contains(k.ExtraVolumes[Sections[name]], file) {
		return nil
	}
	var all map[string]yaml.Node
	if err := yaml.Unmarshal([]byte(k.ClusterConfiguration), &all); err != nil {
		return nil // kubeadm would not read it either
	}
	var out struct {
		ExtraVolumes []struct {
			Name     string `yaml:"name"`
			HostPath string `yaml:"hostPath"`
		} `yaml:"extraVolumes"`
	}
	section := all[Sections[name]]
	if err := section.Decode(&out); err != nil {
		return nil
	}
	var edits []v1.Edit
	for _, v := range out.ExtraVolumes {
		if v.HostPath == file {
			edits = append(edits, v1.Edit{Op: v1.EditRemoveHostPath, Name: v.Name, Value: file})
		}
	}
	return edits
}

// updateKubeletDefaults removes the gates that keep in-tree code in the kubelets from what joining kubelets get, and
// switches volumes over to CSI there.
func updateKubeletDefaults(b *draft.Draft) {
	d := b.Snapshot.KubeletDefaults
	if d == nil {
		return
	}
	gates := map[string]any{}
	for _, g := range []string{catalogue.DisableCloudProviders, catalogue.DisableKubeletCloudCredentialProviders} {
		if on, said := d.FeatureGates[g]; said && !on {
			gates[g] = nil
		}
	}
	if kubelet.DescribeCredentials(b) != "" {
		delete(gates, catalogue.DisableKubeletCloudCredentialProviders)
	}
	for _, c := range volume.CSIGates(b) {
		if on, said := d.FeatureGates[c.Name]; said && !on {
			gates[c.Name] = true
		}
	}
	if len(gates) == 0 {
		return
	}
	text, err := WholeText(d.Text, d.SHA256)
	if err == nil {
		text, err = EditGates(text, gates)
	}
	ref := "ConfigMap/" + component.Namespace + "/" + d.Name
	if err != nil {
		b.Note(
			fmt.Sprintf(
				"to do by hand: %s gives joining kubelets the gates %s, which keep in-tree code in; it could not be edited (%v): kubectl -n %s edit configmap %s",
				ref,
				formatNames(gates),
				err,
				component.Namespace,
				d.Name,
			),
		)
		return
	}
	s := v1.Step{
		ID:    "patch/" + ref,
		Phase: planstep.PhaseKubeadm,
		Kind:  v1.StepPatchObject,
		Title: "change the gates of kubelets to come",
		Why:   "kubeadm upgrade node writes every kubelet's configuration again from this",
		Ref:   ref,
		Patch: layout.EncodeObject(layout.Object{"data": layout.Object{component.Kubelet: text}}),
		Requires: []string{
			"cluster:uid",
			b.AddFact(planstep.KubeletConfigFact(d.Name), d.SHA256, ""),
		},
		Undo:            "put back what the record has",
		EstimateSeconds: 0.1,
		Manual:          []string{"kubectl -n " + component.Namespace + " edit configmap " + d.Name},
	}
	for _, g := range slices.Sorted(maps.Keys(gates)) {
		c := v1.Change{Field: "featureGates." + g, Before: fmt.Sprint(d.FeatureGates[g])}
		if gates[g] != nil {
			c.After = fmt.Sprint(gates[g])
		}
		s.Changes = append(s.Changes, c)
	}
	b.Add(s)
}

func formatNames(m map[string]any) string {
	return fmt.Sprint(slices.Sorted(maps.Keys(m)))
}

// updateVersion tells kubeadm the version, so that a host that joins gets it, and that the next upgrade begins with it.
func updateVersion(d *draft.Draft, k *v1.KubeadmConfig) {
	if !d.Upgrade.IsWanted() || k.KubernetesVersion == d.Upgrade.Version {
		return
	}
	edits := []v1.Edit{{Op: v1.EditSetVersion, Name: layout.FieldKubernetesVersion, Value: d.Upgrade.Version}}
	d.Add(v1.Step{
		ID:              "patch/" + layout.KubeadmConfigRef + "/" + layout.FieldKubernetesVersion,
		Phase:           planstep.PhaseKubeadm,
		Kind:            v1.StepPatchObject,
		Title:           "tell kubeadm that the control plane is " + d.Upgrade.Version,
		Why:             "a control-plane host that joins gets images of this version, and kubeadm upgrade goes on from it: join with a kubeadm of the same minor",
		Ref:             layout.KubeadmConfigRef,
		Derive:          layout.DeriveKubeadm,
		Edits:           edits,
		Requires:        []string{"cluster:uid", d.AddFact(planstep.KubeadmFact, k.SHA256, "")},
		Undo:            "put back what the record has",
		EstimateSeconds: 0.1,
		Changes: []v1.Change{
			{Field: layout.FieldKubernetesVersion, Before: k.KubernetesVersion, After: d.Upgrade.Version},
		},
		Manual: []string{"kubectl -n " + component.Namespace + " edit configmap kubeadm-config"},
	})
}
