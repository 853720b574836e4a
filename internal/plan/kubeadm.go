package plan

import (
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/kubeadmconfig"
)

// KubeletConfigFact is the ID of the fact that the ConfigMap of a name holds the KubeletConfiguration that it held.
func KubeletConfigFact(name string) string { return "kubelet-config:" + name }

// kubeadmComponents are the components whose flags kubeadm writes, in the order of its configuration.
var kubeadmComponents = []string{KAS, KCM, Scheduler}

// kubeadm changes what "kubeadm upgrade" will write into the manifests, so that the upgrade does not bring the in-tree provider back: each flag gets
// there the value that the plan leaves behind in the manifests.
func (b *builder) kubeadm() {
	if k := b.snap.Kubeadm; k != nil && k.Error == "" {
		for _, name := range kubeadmComponents {
			b.kubeadmComponent(name, k)
		}
		b.upgradeKubeadm(k)
		b.noteOnce("to do for machines to come: kubeadm join takes the kubelet's flags from nodeRegistration.kubeletExtraArgs of the JoinConfiguration; say cloud-provider: external there, and no cloud-config")
	}
	b.kubeletDefaults()
}

func (b *builder) kubeadmComponent(name string, k *v1.KubeadmConfig) {
	edits := b.kubeadmEdits(name, k)
	if len(edits) == 0 {
		return
	}
	section := kubeadmSections[name]
	b.add(v1.Step{
		ID: "patch/" + kubeadmRef + "/" + section, Phase: PhaseKubeadm, Kind: v1.StepPatchObject, Title: "tell kubeadm of the flags of " + name,
		Why: "kubeadm upgrade writes the manifests anew from this: without it the next upgrade brings the in-tree provider back",
		Ref: kubeadmRef, Component: name, Derive: DeriveKubeadm, Edits: edits, Requires: []string{"cluster:uid", b.fact(KubeadmFact, k.SHA256, "")},
		Changes: changes(edits, k.ExtraArgs[section]), Undo: "put back what the record has", EstimateSeconds: 0.1,
		Manual: []string{"kubectl -n " + kubeadmconfig.Namespace + " edit configmap " + kubeadmconfig.Name},
	})
}

const kubeadmRef = "ConfigMap/" + kubeadmconfig.Namespace + "/" + kubeadmconfig.Name

// kubeadmSections are what the ClusterConfiguration calls the components.
var kubeadmSections = map[string]string{KAS: "apiServer", KCM: "controllerManager", Scheduler: "scheduler"}

// kubeadmEdits are the flags of a component that the plan changes for good and that kubeadm would write otherwise, and the mount of the in-tree cloud
// config where nothing reads it any longer: a host that joins has no such file, and its static pod would not start.
func (b *builder) kubeadmEdits(name string, k *v1.KubeadmConfig) []v1.Edit {
	h := b.hosts[0]
	was := component(h, name)
	if was == nil || !staticPod(*was) {
		return nil
	}
	after, changed := b.flagsOf(h, name), b.changedFlags(h, name)
	var edits []v1.Edit
	for _, flag := range changed {
		value, set := after[flag]
		before, had := was.Flags[flag]
		now, told := k.ExtraArgs[kubeadmSections[name]][flag]
		switch {
		case told && set && now == value, !told && !set, !told && set == had && value == before:
		case set:
			edits = append(edits, v1.Edit{Op: "setFlag", Name: flag, Value: value})
		default:
			edits = append(edits, v1.Edit{Op: "unsetFlag", Name: flag})
		}
	}
	if _, still := after[flagCloudConfig]; !still && slices.Contains(changed, flagCloudConfig) {
		edits = append(edits, b.kubeadmVolumes(name, was.Flags[flagCloudConfig], k)...)
	}
	return edits
}

// changedFlags are the flags of a component on a host that some step changes, sorted.
func (b *builder) changedFlags(h v1.Host, name string) []string {
	changed := map[string]bool{}
	for _, s := range b.steps {
		if s.Component != name || s.Host != h.Name {
			continue
		}
		for _, e := range s.Edits {
			if e.Op == "setFlag" || e.Op == "unsetFlag" {
				changed[e.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(changed))
}

// kubeadmVolumes takes the mounts of a file out of a component's extraVolumes. Their names are in the text alone.
func (b *builder) kubeadmVolumes(name, file string, k *v1.KubeadmConfig) []v1.Edit {
	if !slices.Contains(k.ExtraVolumes[kubeadmSections[name]], file) {
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
	section := all[kubeadmSections[name]]
	if err := section.Decode(&out); err != nil {
		return nil
	}
	var edits []v1.Edit
	for _, v := range out.ExtraVolumes {
		if v.HostPath == file {
			edits = append(edits, v1.Edit{Op: "removeHostPath", Name: v.Name, Value: file})
		}
	}
	return edits
}

// kubeletDefaults takes the gates that keep in-tree code in the kubelets out of what joining kubelets get, and switches volumes over to CSI there.
func (b *builder) kubeletDefaults() {
	d := b.snap.KubeletDefaults
	if d == nil {
		return
	}
	gates := map[string]any{}
	for _, g := range []string{gateNoProviders, gateNoCredentials} {
		if on, said := d.FeatureGates[g]; said && !on {
			gates[g] = nil
		}
	}
	if b.credentialNote() != "" {
		delete(gates, gateNoCredentials)
	}
	for _, c := range b.csiGates() {
		if on, said := d.FeatureGates[c.name]; said && !on {
			gates[c.name] = true
		}
	}
	if len(gates) == 0 {
		return
	}
	text, err := wholeText(d.Text, d.SHA256)
	if err == nil {
		text, err = editGates(text, gates)
	}
	ref := "ConfigMap/" + kubeadmconfig.Namespace + "/" + d.Name
	if err != nil {
		b.noteOnce(fmt.Sprintf("to do by hand: %s gives joining kubelets the gates %s, which keep in-tree code in; it could not be edited (%v): kubectl -n %s edit configmap %s",
			ref, names(gates), err, kubeadmconfig.Namespace, d.Name))
		return
	}
	s := v1.Step{
		ID: "patch/" + ref, Phase: PhaseKubeadm, Kind: v1.StepPatchObject, Title: "change the gates of kubelets to come",
		Why: "kubeadm upgrade node writes every kubelet's configuration anew from this", Ref: ref, Patch: mustJSON(object{"data": object{"kubelet": text}}),
		Requires: []string{"cluster:uid", b.fact(KubeletConfigFact(d.Name), d.SHA256, "")}, Undo: "put back what the record has", EstimateSeconds: 0.1,
		Manual: []string{"kubectl -n " + kubeadmconfig.Namespace + " edit configmap " + d.Name},
	}
	for _, g := range slices.Sorted(maps.Keys(gates)) {
		c := v1.Change{Field: "featureGates." + g, Before: fmt.Sprint(d.FeatureGates[g])}
		if gates[g] != nil {
			c.After = fmt.Sprint(gates[g])
		}
		s.Changes = append(s.Changes, c)
	}
	b.add(s)
}

func names(m map[string]any) string {
	return fmt.Sprint(slices.Sorted(maps.Keys(m)))
}
