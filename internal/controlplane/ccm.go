package controlplane

import (
	"fmt"
	"strings"
)

// CCM is the static pod of a cloud-controller-manager.
type CCM struct {
	Name, Image string
	// Host is where it will run; it is not written, the kubelet appends the node's name to the pod's.
	Host string
	// BindAddress is where it serves its health and metrics, as the host's other managers do.
	BindAddress string
	Flags       []Flag
	Env         []Env
	HostPaths   []HostPath
}

// Flag is a flag with its value.
type Flag struct{ Name, Value string }

// Env is an environment variable; never a secret.
type Env struct{ Name, Value string }

// HostPath is a path of the host that is mounted read-only at the same path. Name is the volume's; one is made up when it is empty.
type HostPath struct{ Path, Type, Name string }

// RenderCCM renders the manifest, in the shape that kubeadm gives to its own: on the host's network, so that it needs no pod network that only it
// can make ready, and with the priority of a node's critical pods.
func RenderCCM(c CCM) []byte {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("apiVersion: v1")
	line("kind: Pod")
	line("metadata:")
	line("  labels:")
	line("    app.kubernetes.io/managed-by: transplant")
	line("    component: cloud-controller-manager")
	line("    tier: control-plane")
	line("  name: %s", c.Name)
	line("  namespace: kube-system")
	line("spec:")
	line("  containers:")
	line("  - command:")
	line("    - cloud-controller-manager")
	for _, f := range c.Flags {
		line("    - %s", scalar("--"+f.Name+"="+f.Value))
	}
	if len(c.Env) > 0 {
		line("    env:")
		for _, e := range c.Env {
			line("    - name: %s", e.Name)
			line("      value: %s", quoted(e.Value))
		}
	}
	line("    image: %s", c.Image)
	line("    imagePullPolicy: IfNotPresent")
	probe := func(name string, failures, period int) {
		line("    %s:", name)
		line("      failureThreshold: %d", failures)
		line("      httpGet:")
		line("        host: %s", scalar(c.BindAddress))
		line("        path: /healthz")
		line("        port: 10258")
		line("        scheme: HTTPS")
		line("      initialDelaySeconds: 10")
		line("      periodSeconds: %d", period)
		line("      timeoutSeconds: 15")
	}
	probe("livenessProbe", 8, 10)
	line("    name: cloud-controller-manager")
	line("    resources:")
	line("      requests:")
	line("        cpu: 100m")
	line("        memory: 64Mi")
	probe("startupProbe", 24, 10)
	line("    volumeMounts:")
	for i, h := range c.HostPaths {
		line("    - mountPath: %s", scalar(h.Path))
		line("      name: %s", volumeName(h, i))
		line("      readOnly: true")
	}
	line("  dnsPolicy: Default")
	line("  hostNetwork: true")
	line("  priorityClassName: system-node-critical")
	line("  securityContext:")
	line("    seccompProfile:")
	line("      type: RuntimeDefault")
	line("  volumes:")
	for i, h := range c.HostPaths {
		line("  - hostPath:")
		line("      path: %s", scalar(h.Path))
		line("      type: %s", h.Type)
		line("    name: %s", volumeName(h, i))
	}
	return []byte(b.String())
}

func volumeName(h HostPath, i int) string {
	if h.Name != "" {
		return h.Name
	}
	return fmt.Sprintf("file-%d", i)
}

// quoted keeps YAML from taking a value for a boolean or a number: an environment variable is a string.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
