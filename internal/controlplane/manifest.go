// Package controlplane decides what the flags of a control-plane component are, from the manifest of its static pod, and how such a manifest
// changes. Bytes that need no change are kept: comments, order and style belong to the operator.
package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// ManifestDir is where kubeadm and most installers put the manifests of static pods.
const ManifestDir = "/etc/kubernetes/manifests"

// ports are the components' default secure ports.
var ports = map[string]string{
	"kube-apiserver": "6443", "kube-controller-manager": "10257", "kube-scheduler": "10259", "cloud-controller-manager": "10258",
}

// NotYAMLError says that a manifest is not YAML; the kubelet ends the pod of a file that stays so.
type NotYAMLError struct{ Err error }

func (e *NotYAMLError) Error() string { return fmt.Sprintf("it is not YAML: %v", e.Err) }

func (e *NotYAMLError) Unwrap() error { return e.Err }

// NotPodError says that a manifest is YAML and no Pod.
type NotPodError struct{ Kind string }

func (e *NotPodError) Error() string { return fmt.Sprintf("it is a %q, not a v1 Pod", e.Kind) }

// Manifest is the manifest of a static pod.
type Manifest struct {
	data      []byte
	root      *yaml.Node // the mapping of the document
	container *yaml.Node
	name      string
	namespace string
	image     string
	command   []string
}

// Parse reads a manifest. The errors are a NotYAMLError, a NotPodError, or say what is missing.
func Parse(data []byte) (*Manifest, error) {
	root, err := document(data)
	if err != nil {
		return nil, err
	}
	if kind, version := text(child(root, "kind")), text(child(root, "apiVersion")); kind != "Pod" || version != "v1" {
		return nil, &NotPodError{Kind: strings.TrimSpace(version + " " + kind)}
	}
	m := &Manifest{data: data, root: root, name: text(child(child(root, "metadata"), "name")), namespace: text(child(child(root, "metadata"), "namespace"))}
	if m.name == "" {
		return nil, errors.New("it has no metadata.name")
	}
	if m.namespace == "" {
		m.namespace = "default"
	}
	containers := child(child(root, "spec"), "containers")
	if containers == nil || containers.Kind != yaml.SequenceNode || len(containers.Content) == 0 {
		return nil, errors.New("it has no spec.containers")
	}
	m.container = resolve(containers.Content[0])
	for _, c := range containers.Content {
		if _, known := ports[componentOf(commandOf(resolve(c)))]; known {
			m.container = resolve(c)
			break
		}
	}
	m.command, m.image = commandOf(m.container), text(child(m.container, "image"))
	return m, nil
}

// document returns the one mapping that the file consists of.
func document(data []byte) (*yaml.Node, error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, &NotYAMLError{Err: errors.New("the file is empty")}
	} else if err != nil {
		return nil, &NotYAMLError{Err: err}
	}
	var second yaml.Node
	if err := d.Decode(&second); err == nil {
		return nil, errors.New("it has several YAML documents; a kubelet reads the first one only")
	} else if !errors.Is(err, io.EOF) {
		return nil, &NotYAMLError{Err: err}
	}
	if len(doc.Content) != 1 || resolve(doc.Content[0]).Kind != yaml.MappingNode {
		return nil, &NotPodError{}
	}
	return resolve(doc.Content[0]), nil
}

func resolve(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// child returns the value of a key; nil when there is none.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return resolve(n.Content[i+1])
		}
	}
	return nil
}

func text(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode {
		return ""
	}
	return n.Value
}

func commandOf(container *yaml.Node) []string {
	var out []string
	for _, key := range []string{"command", "args"} {
		if list := child(container, key); list != nil {
			for _, item := range list.Content {
				out = append(out, text(resolve(item)))
			}
		}
	}
	return out
}

// componentOf is the program's base name. Where the image's entry point is the program and only args are given, it is not known.
func componentOf(command []string) string {
	if len(command) == 0 || strings.HasPrefix(command[0], "-") {
		return ""
	}
	return path.Base(command[0])
}

// Name is metadata.name; the mirror pod's name is this and the node's, joined by a dash.
func (m *Manifest) Name() string { return m.name }

// Namespace is metadata.namespace.
func (m *Manifest) Namespace() string { return m.namespace }

// Component is the program that the pod runs, e.g. kube-apiserver; a provider's cloud controller manager is cloud-controller-manager.
func (m *Manifest) Component() string {
	c := componentOf(m.command)
	if c == "" {
		if _, known := ports[m.name]; known {
			return m.name
		}
	}
	return c
}

// Image is the component's image.
func (m *Manifest) Image() string { return m.image }

// Command is command and args of the component's container.
func (m *Manifest) Command() []string { return append([]string(nil), m.command...) }

// Flags are the component's flags by name; see FlagsOf.
func (m *Manifest) Flags() map[string]string { return FlagsOf(m.command) }

// Address is where the component serves its metrics: the bind address (or loopback where it listens everywhere) and the secure port.
func (m *Manifest) Address() string {
	flags := m.Flags()
	host := flags["bind-address"]
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	port := flags["secure-port"]
	if port == "" {
		port = ports[m.Component()]
	}
	return net.JoinHostPort(host, port)
}

// EnvNames are the names of the component's environment variables; their values are nobody's business here.
func (m *Manifest) EnvNames() []string {
	var out []string
	if env := child(m.container, "env"); env != nil {
		for _, e := range env.Content {
			if name := text(child(resolve(e), "name")); name != "" {
				out = append(out, name)
			}
		}
	}
	return out
}

// HostPaths maps the component's mount paths to paths on the host.
func (m *Manifest) HostPaths() map[string]string {
	volumes := map[string]string{}
	if list := child(child(m.root, "spec"), "volumes"); list != nil {
		for _, v := range list.Content {
			v = resolve(v)
			if p := text(child(child(v, "hostPath"), "path")); p != "" {
				volumes[text(child(v, "name"))] = p
			}
		}
	}
	out := map[string]string{}
	if list := child(m.container, "volumeMounts"); list != nil {
		for _, v := range list.Content {
			v = resolve(v)
			if p, ok := volumes[text(child(v, "name"))]; ok {
				out[text(child(v, "mountPath"))] = p
			}
		}
	}
	return out
}
