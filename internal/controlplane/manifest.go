// Package controlplane decides what a component's flags are and how they change. The flags are in static pod manifests
// and in pod templates. They are also in the units, drop-ins and environment files from which systemd starts a kubelet
// or a control plane. Everything here is pure. An edit changes the bytes it must change and no others. So a diff shows
// the edit, and undoing it gives back the same bytes.
package controlplane

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/yamltext"
)

// ManifestDir is where kubeadm puts the static pods of a control plane. Every file in there is a pod but those that
// begin with a dot.
const ManifestDir = "/etc/kubernetes/manifests"

// Manifest is a static pod manifest.
type Manifest struct {
	doc *yamltext.Document
	pod pod
	// main is the index of the component's container.
	main int
}

// pod is as much of a Pod as is looked at.
type pod struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name      string `yaml:"name"`
		Namespace string `yaml:"namespace"`
	} `yaml:"metadata"`
	Spec struct {
		Containers     []container `yaml:"containers"`
		InitContainers []container `yaml:"initContainers"`
		Volumes        []volume    `yaml:"volumes"`
	} `yaml:"spec"`
}

type container struct {
	Name    string   `yaml:"name"`
	Image   string   `yaml:"image"`
	Command []string `yaml:"command"`
	Args    []string `yaml:"args"`
	Env     []struct {
		Name      string `yaml:"name"`
		Value     string `yaml:"value"`
		ValueFrom any    `yaml:"valueFrom"`
	} `yaml:"env"`
	VolumeMounts []mount `yaml:"volumeMounts"`
}

type mount struct {
	Name      string `yaml:"name"`
	MountPath string `yaml:"mountPath"`
	SubPath   string `yaml:"subPath"`
}

type volume struct {
	Name     string `yaml:"name"`
	HostPath *struct {
		Path string `yaml:"path"`
	} `yaml:"hostPath"`
}

func (v volume) hostPath() string {
	if v.HostPath == nil {
		return ""
	}
	return v.HostPath.Path
}

func (c container) arguments() []string {
	return append(slices.Clone(c.Command), c.Args...)
}

// Parse reads a manifest. The error is a *NotYAMLError, a *NotPodError or a *ShellCommandError.
func Parse(data []byte) (*Manifest, error) {
	doc, err := yamltext.NewDocument(data)
	if err != nil {
		return nil, err
	}
	m := &Manifest{doc: doc}
	if m.pod, err = decodePod(doc.Root); err != nil {
		return nil, err
	}
	m.main = mainContainer(m.pod.Spec.Containers)
	if err := commandline.RefuseShell(m.Command()); err != nil {
		return nil, err
	}
	return m, nil
}

func decodePod(root *yaml.Node) (p pod, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &yamltext.NotYAMLError{Reason: fmt.Sprintf("it cannot be read (%v)", r)}
		}
	}()
	var head struct {
		APIVersion any `yaml:"apiVersion"`
		Kind       any `yaml:"kind"`
	}
	if err := root.Decode(&head); err != nil {
		return p, yamltext.NotYAML(err)
	}
	if kind, _ := head.Kind.(string); kind != "Pod" || head.APIVersion != "v1" {
		return p, &yamltext.NotPodError{Kind: kind}
	}
	if err := root.Decode(&p); err != nil {
		reason := yamltext.NotYAML(err).(*yamltext.NotYAMLError) //nolint:errorlint,forcetypeassert // made one line above
		return p, &yamltext.NotPodError{Kind: "Pod", Reason: fmt.Sprintf("line %d: %s", reason.Line, reason.Reason)}
	}
	if len(p.Spec.Containers) == 0 {
		return p, &yamltext.NotPodError{Kind: "Pod", Reason: "it has no containers"}
	}
	return p, nil
}

// mainContainer is the container that runs a known component, else the first.
func mainContainer(containers []container) int {
	for i, c := range containers {
		args := c.arguments()
		if p := commandline.ProgramIndex(args); p >= 0 && commandline.IsComponent(path.Base(args[p])) {
			return i
		}
	}
	for i, c := range containers {
		if commandline.RefuseShell(c.arguments()) != nil || len(c.Command) == 0 && commandline.IsComponent(componentOf(c)) {
			return i
		}
	}
	return 0
}

// componentOf is the base name of the program; of the container or its image when the image's own program is used.
func componentOf(c container) string {
	if args := c.arguments(); commandline.ProgramIndex(args) >= 0 {
		return path.Base(args[commandline.ProgramIndex(args)])
	}
	image, _, _ := strings.Cut(c.Image, "@")
	image, _, _ = strings.Cut(path.Base(image), ":")
	if commandline.IsComponent(image) {
		return image
	}
	return c.Name
}

func (m *Manifest) container() container { return m.pod.Spec.Containers[m.main] }

// Name of the pod; its mirror pod's name ends in a dash and the Node's name.
func (m *Manifest) Name() string { return m.pod.Metadata.Name }

// Namespace of the pod. A kubelet puts a pod that names none into "default".
func (m *Manifest) Namespace() string {
	if m.pod.Metadata.Namespace == "" {
		return "default"
	}
	return m.pod.Metadata.Namespace
}

// Component is the base name of the program that the component's container runs, e.g. kube-apiserver. A cloud's own
// manager, such as aws-cloud-controller-manager, is a cloud-controller-manager.
func (m *Manifest) Component() string { return commandline.GenericName(componentOf(m.container())) }

// Image of the component's container.
func (m *Manifest) Image() string { return m.container().Image }

// Command is the command and then the arguments of the component's container, as they are written.
func (m *Manifest) Command() []string { return m.container().arguments() }

// Flags are the flags of Command, as FlagsOf reads them, with $(NAME) replaced as the kubelet does. What the manifest
// does not say, or what by its name may be secret, stays as it is written.
func (m *Manifest) Flags() map[string]string { return commandline.FlagsOf(m.expanded()) }

// EnvNames are the names of the environment variables of the component's container, sorted. Their values may be secret
// and are not returned.
func (m *Manifest) EnvNames() []string {
	var out []string
	for _, e := range m.container().Env {
		out = append(out, e.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// HostPaths maps the mount paths of the component's container to paths on the host.
func (m *Manifest) HostPaths() map[string]string {
	out := map[string]string{}
	for _, mt := range m.container().VolumeMounts {
		for _, v := range m.pod.Spec.Volumes {
			if v.Name == mt.Name && v.HostPath != nil {
				out[mt.MountPath] = path.Join(v.HostPath.Path, mt.SubPath)
			}
		}
	}
	return out
}

// Address is host:port where the component serves /metrics, as seen from its host; empty when it serves none or when
// that is not known.
func (m *Manifest) Address() string { return commandline.ServingAddress(m.Component(), m.Flags()) }
