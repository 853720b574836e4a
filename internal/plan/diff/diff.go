// Package diff shows what a plan changes in all: each file and object before and after it.
package diff

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"strings"

	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/cloudconfig"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/kubeletfile"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
	"github.com/transplant-dev/transplant/internal/kubeadmconfig"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// Difference is what a plan changes in one file or object. Equal texts are no difference; an empty one is a file or
// object that is not there.
type Difference struct {
	// Name is HOST/path of a file, or Kind/namespace/name of an object.
	Name          string
	Before, After string
}

// Differences are what a plan would change in all, in the order in which it begins to. What it makes and takes away
// again is left out. Edits go through the editors that apply uses. Nodes are shown as managers and kubelets write them
// because of the plan, as far as the snapshot determines that.
//
// files reads a host's files; nil shows what a snapshot knows: flags, one argument a line. Values of secrets are
// masked.
func Differences(p *v1.Plan, snap *v1.Snapshot, files func(host string) systemdunit.Files) ([]Difference, error) {
	d := differ{
		plan:  p,
		snap:  snap,
		files: files,
		nodes: newNodeStates(snap),
		at:    map[string]*Difference{},
	}
	for _, s := range p.Steps {
		err := d.step(s)
		if err == nil {
			err = d.changeNodes(s)
		}
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", s.ID, err)
		}
	}
	var out []Difference
	for _, c := range d.all {
		if c.Before != c.After {
			c.Before, c.After = d.mask(c.Name, c.Before), d.mask(c.Name, c.After)
			out = append(out, *c)
		}
	}
	return out, nil
}

type differ struct {
	plan  *v1.Plan
	snap  *v1.Snapshot
	files func(host string) systemdunit.Files
	nodes nodeStates
	// managed reports whether the plan has started a manager that initialises Nodes.
	managed bool
	at      map[string]*Difference
	all     []*Difference
}

// differenceAt returns what is changed at a place; before is asked for at the first time only.
func (d *differ) differenceAt(name string, before func() (string, error)) (*Difference, error) {
	if c, ok := d.at[name]; ok {
		return c, nil
	}
	text, err := before()
	if err != nil {
		return nil, err
	}
	c := &Difference{Name: name, Before: text, After: text}
	d.at[name] = c
	d.all = append(d.all, c)
	return c, nil
}

func (d *differ) step(s v1.Step) error {
	if s.Path != "" {
		return d.fileStep(s)
	}
	if s.Ref == "" || s.Kind == v1.StepInitializeNode || s.Kind == v1.StepReplacePod {
		return nil // nothing that has a text, or a Node: changeNodes shows those
	}
	c, err := d.differenceAt(s.Ref, func() (string, error) { return d.object(s) })
	if err != nil {
		return err
	}
	c.After, err = d.changedObject(s, c.After)
	return err
}

func (d *differ) fileStep(s v1.Step) error {
	if s.Kind == v1.StepKubelet && len(s.Files) > 0 {
		return d.kubeletStep(s)
	}
	c, err := d.differenceAt(s.Host+s.Path, func() (string, error) { return d.file(s) })
	if err != nil {
		return err
	}
	switch s.Kind {
	case v1.StepWriteFile:
		c.After, err = d.written(s)
	case v1.StepAddManifest:
		c.After = s.Content
		if d.files == nil {
			c.After, err = commandOf(s.Content)
		}
	case v1.StepCopyFile:
		c.After = "(a file of SHA-256 " + s.Content + ", from " + s.Source + ")\n"
	case v1.StepRemoveFile, v1.StepRemoveManifest:
		c.After = ""
		if s.Kind == v1.StepRemoveFile {
			c.After = c.Before // what was there before this plan wrote it
		}
	case v1.StepRestoreManifest:
		c.After, err = d.edited(s, c.Before)
	default:
		c.After, err = d.edited(s, c.After)
	}
	return err
}

// file is the text of a file before the plan: its bytes, or the flags that a snapshot knows, one a line.
func (d *differ) file(s v1.Step) (string, error) {
	if d.files != nil {
		data, err := d.files(s.Host).Read(s.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return string(data), err
	}
	for _, h := range d.snap.Hosts {
		if h.Name != s.Host {
			continue
		}
		if c := clusterview.FindComponent(h, s.Component); c != nil && c.Name != component.CCM {
			return imageLine(d.plan.Steps, c, h.Name) + joinLines(c.Command), nil
		}
		if h.Kubelet != nil && s.Kind == v1.StepKubelet {
			return kubeletLines(h.Kubelet, s), nil
		}
		for _, f := range h.Files {
			if f.Path == s.Path && f.Present {
				return "(a file of SHA-256 " + f.SHA256 + ")\n", nil
			}
		}
	}
	return "", nil
}

func joinLines(command []string) string {
	if len(command) == 0 {
		return ""
	}
	return strings.Join(command, "\n") + "\n"
}

func flagLines(flags map[string]string) string {
	var out []string
	for k, v := range flags {
		out = append(out, "--"+k+"="+v)
	}
	sort.Strings(out)
	return joinLines(out)
}

func commandOf(manifest string) (string, error) {
	m, err := controlplane.Parse([]byte(manifest))
	if err != nil {
		return "", err
	}
	return joinLines(m.Command()), nil
}

// edited applies a step's edits to a text.
func (d *differ) edited(s v1.Step, text string) (string, error) {
	if len(s.Edits) == 0 {
		return text, nil
	}
	if d.files == nil && isConfig(s) {
		out, err := kubeletfile.ApplyKubeletConfig([]byte(text), s.Edits)
		return string(out), err
	}
	if d.files == nil {
		image, text := retagged(text, s.Edits)
		command, _, err := commandline.ApplyArguments(
			strings.Split(strings.TrimSuffix(text, "\n"), "\n"),
			nil,
			flagsOnly(s.Edits),
		)
		return image + joinLines(command), err
	}
	var out []byte
	var err error
	switch s.Kind {
	case v1.StepKubelet:
		used, unread := kubeletfile.KubeletVariables(d.files(s.Host), s.Path)
		if unread != nil {
			return "", unread
		}
		out, err = kubeletfile.ApplyKubeletFile([]byte(text), s.Edits, used...)
	case v1.StepEditUnit, v1.StepStartUnit:
		return d.editedUnit(s, text)
	default:
		out, err = controlplane.Apply([]byte(text), s.Edits)
	}
	return string(out), err
}

// editedUnit edits a unit with the file as the plan has left it so far.
func (d *differ) editedUnit(s v1.Step, text string) (string, error) {
	u, err := systemdunit.ReadUnit(overlaid{d.files(s.Host), s.Path, text}, s.Unit)
	if err != nil {
		return "", err
	}
	changed, err := systemdunit.ApplyUnit(u, s.Edits)
	if err != nil {
		return "", err
	}
	if data, ok := changed[s.Path]; ok {
		return string(data), nil
	}
	return text, nil
}

type overlaid struct {
	systemdunit.Files
	path, text string
}

func (o overlaid) Read(path string) ([]byte, error) {
	if path == o.path {
		return []byte(o.text), nil
	}
	return o.Files.Read(path)
}

func flagsOnly(in []v1.Edit) []v1.Edit {
	return slices.DeleteFunc(planstep.WithoutHostPaths(in), func(e v1.Edit) bool { return e.Op == v1.EditSetImage })
}

// written is what a step puts into a file; what would hold a token is described.
func (d *differ) written(s v1.Step) (string, error) {
	switch s.Derive {
	case "":
		return s.Content, nil
	case layout.DeriveCloudConfig:
		if d.files == nil {
			break
		}
		source, err := d.files(s.Host).Read(s.Source)
		if err != nil {
			return "", err
		}
		out, err := cloudconfig.Derive(d.provider(), source)
		return string(out.Data), err
	case layout.DeriveCredentialConfig:
		if d.files == nil {
			break
		}
		source, err := d.files(s.Host).Read(s.Source)
		if err != nil {
			return "", err
		}
		out, err := kubeletfile.AddCredentialProvider(source, []byte(s.Content))
		return string(out), err
	}
	out := "(derived from " + s.Source + ")\n"
	for _, c := range s.Changes {
		out += c.After + "\n"
	}
	return out, nil
}

func (d *differ) provider() string {
	if d.plan.Cluster.Provider != "" {
		return d.plan.Cluster.Provider
	}
	return cloudprovider.AWS
}

// object is the text of an object before the plan, as far as a snapshot knows it.
func (d *differ) object(s v1.Step) (string, error) {
	switch {
	case s.Ref == layout.KubeadmConfigRef && d.snap.Kubeadm != nil:
		return d.snap.Kubeadm.ClusterConfiguration, nil
	case d.snap.KubeletDefaults != nil && s.Ref == "ConfigMap/"+component.Namespace+"/"+d.snap.KubeletDefaults.Name:
		return d.snap.KubeletDefaults.Text, nil
	case s.Kind == v1.StepEnsureObject:
		for _, o := range d.snap.Objects {
			if o.Ref == s.Ref && o.Present {
				return objectText(s) // apply refuses one of another content
			}
		}
	case s.Kind == v1.StepScale || s.Kind == v1.StepEditWorkload:
		for _, c := range d.snap.Hosted {
			if c.Manifest == s.Ref {
				return joinLines(c.Command), nil
			}
		}
	}
	return "", nil
}

func (d *differ) changedObject(s v1.Step, text string) (string, error) {
	switch s.Kind {
	case v1.StepEnsureObject:
		return objectText(s)
	case v1.StepDeleteObject:
		return "", nil
	case v1.StepPatchObject:
		if s.Derive == layout.DeriveKubeadm {
			out, err := kubeadmconfig.Apply([]byte(text), s.Component, s.Edits)
			return string(out), err
		}
		return patchedText(s, text)
	case v1.StepScale, v1.StepEditWorkload:
		return d.editedWorkload(s, text)
	default:
		return text, nil
	}
}

// editedWorkload shows the arguments of a workload; one that this plan makes is a whole object, and its arguments are
// in there.
func (d *differ) editedWorkload(s v1.Step, text string) (string, error) {
	if !strings.HasPrefix(text, "apiVersion:") {
		command, _, err := commandline.ApplyArguments(
			strings.Split(strings.TrimSuffix(text, "\n"), "\n"),
			nil,
			flagsOnly(s.Edits),
		)
		return joinLines(command), err
	}
	for _, e := range s.Edits {
		var out []string
		for _, line := range strings.Split(text, "\n") {
			trimmed := strings.TrimPrefix(strings.TrimSpace(line), "- ")
			if !strings.HasPrefix(trimmed, "--"+e.Name+"=") && trimmed != "--"+e.Name {
				out = append(out, line)
			} else if e.Op == v1.EditSetFlag {
				out = append(out, strings.Replace(line, trimmed, "--"+e.Name+"="+e.Value, 1))
			}
		}
		text = strings.Join(out, "\n")
	}
	return text, nil
}

func objectText(s v1.Step) (string, error) {
	out, err := yaml.JSONToYAML([]byte(s.Object))
	return string(out), err
}

// patchedText is the text of an object that holds one, as the patch has it; of any other, the fields of the patch.
func patchedText(s v1.Step, text string) (string, error) {
	var patch struct {
		Data map[string]*string `json:"data"`
	}
	if err := json.Unmarshal([]byte(s.Patch), &patch); err == nil && text != "" && len(patch.Data) == 1 {
		for _, value := range patch.Data {
			if value != nil {
				return *value, nil
			}
		}
	}
	out, err := yaml.JSONToYAML([]byte(s.Patch))
	return string(out), err
}

const masked = mask.Masked

// mask hides values of secrets: those of keys of a cloud config that hold one, and of environment variables by their
// names.
func (d *differ) mask(name, text string) string {
	secret := map[string]bool{}
	if strings.HasSuffix(name, layout.CCMCloudConf) && d.files != nil {
		about, err := cloudconfig.Describe(d.provider(), []byte(text))
		if err != nil && text != "" {
			return masked + "\n"
		}
		for _, key := range about.Secrets {
			secret[strings.ToLower(key[strings.LastIndex(key, ".")+1:])] = true
		}
	}
	all := strings.Split(text, "\n")
	env := ""
	for i, line := range all {
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			key, value, ok = strings.Cut(line, ":")
		}
		word := strings.ToLower(strings.Trim(strings.TrimSpace(key), `"- `))
		switch {
		case ok && (secret[word] || word == "value" && options.IsSecretName(env) || word == "token"):
			all[i] = line[:len(line)-len(value)] + " " + masked
		case word == "name":
			env = strings.TrimSpace(value)
		}
	}
	return mask.Lines(strings.Join(all, "\n"))
}
