package controlplane

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/yamltext"
)

// CCM is the static pod of a cloud-controller-manager.
type CCM struct {
	// Name of the pod and its container, e.g. cloud-controller-manager.
	Name string
	// Program in the image, e.g. /bin/aws-cloud-controller-manager; Name when it is empty.
	Program string
	Image   string
	// Host is the machine that the manifest is for.
	Host string
	// BindAddress is where the manager serves its health; unspecified addresses are probed on loopback. The flag is not
	// added: it is one of Flags.
	BindAddress string
	// Flags in the order of the command line.
	Flags []Flag
	Env   []Env
	// ReadyPath is what the readiness probe asks for; "" leaves the probe out. Only our own manager has such a path.
	ReadyPath string
	// GraceSeconds is how long the kubelet lets the manager end before it kills it; "" leaves that to the API server.
	GraceSeconds string
	// HostPaths are mounted, each once.
	HostPaths []HostPath
}

// Flag is a flag without dashes and its value.
type Flag struct{ Name, Value string }

// Env is an environment variable. Manifests are printed, so its value is never a secret. With FieldPath the kubelet
// takes the value from that field of the pod.
type Env struct{ Name, Value, FieldPath string }

// HostPath is a path of the host that the container sees under the same path. Type is File, Directory, FileOrCreate or
// DirectoryOrCreate; Name is the volume's, one is made up when it is empty. It is mounted read-only unless it is
// Writable.
type HostPath struct {
	Path, Type, Name string
	Writable         bool
}

// probe is a health check of a container. Times are in seconds.
type probe struct{ name, path, delay, period, failures string }

var (
	// kubeadm's: ends a manager that has hung for 80 s.
	livenessProbe = probe{"livenessProbe", "/healthz", "10", "10", "8"}
	// The probe is frequent, since the next step of a migration waits for the pod to be ready. Two minutes to start are as
	// much as kubeadm allows.
	startupProbe = probe{"startupProbe", "/healthz", "1", "2", "60"}
)

// RenderCCM renders the manifest, in the shape and the order of kubeadm's. It is on the host's network and with its
// resolver, since the manager makes other nodes usable. It has the priority of a critical pod. The same input gives the
// same bytes.
func RenderCCM(c CCM) []byte {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	paths := distinct(c.HostPaths)

	line("apiVersion: v1\nkind: Pod\nmetadata:")
	if c.Host != "" {
		line("  annotations:\n    transplant.dev/host: %s", yamltext.QuoteDouble(c.Host))
	}
	line(
		"  labels:\n    app.kubernetes.io/managed-by: transplant\n    component: %s\n    tier: control-plane",
		quoteYAML(c.Name),
	)
	line("  name: %s\n  namespace: kube-system", quoteYAML(c.Name))
	line("spec:\n  containers:\n  - command:\n    - %s", quoteYAML(cmp.Or(c.Program, c.Name)))
	for _, f := range c.Flags {
		line("    - %s", quoteYAML("--"+f.Name+"="+f.Value))
	}
	if len(c.Env) > 0 {
		line("    env:")
	}
	for _, e := range c.Env {
		if e.FieldPath != "" {
			line("    - name: %s\n      valueFrom:\n        fieldRef:\n          fieldPath: %s", quoteYAML(e.Name), quoteYAML(e.FieldPath))
			continue
		}
		line("    - name: %s\n      value: %s", quoteYAML(e.Name), yamltext.QuoteDouble(e.Value))
	}
	line("    image: %s\n    imagePullPolicy: IfNotPresent", quoteYAML(c.Image))
	c.probe(line, livenessProbe)
	line("    name: %s", quoteYAML(c.Name))
	if c.ReadyPath != "" {
		// a standby is ready too, once its caches are full and its cloud has answered
		c.probe(line, probe{"readinessProbe", c.ReadyPath, "0", "2", "3"})
	}
	line("    resources:\n      requests:\n        cpu: 100m\n        memory: 64Mi")
	c.probe(line, startupProbe)
	if len(paths) > 0 {
		line("    volumeMounts:")
	}
	for _, p := range paths {
		line("    - mountPath: %s\n      name: %s", quoteYAML(p.Path), quoteYAML(p.Name))
		if !p.Writable {
			line("      readOnly: true")
		}
	}
	line("  dnsPolicy: Default\n  hostNetwork: true\n  priority: 2000001000\n  priorityClassName: system-node-critical")
	line("  securityContext:\n    seccompProfile:\n      type: RuntimeDefault")
	if c.GraceSeconds != "" {
		line("  terminationGracePeriodSeconds: %s", c.GraceSeconds)
	}
	if len(paths) > 0 {
		line("  volumes:")
	}
	for _, p := range paths {
		line("  - hostPath:\n      path: %s", quoteYAML(p.Path))
		if p.Type != "" {
			line("      type: %s", quoteYAML(p.Type))
		}
		line("    name: %s", quoteYAML(p.Name))
	}
	return []byte(b.String())
}

// probe writes a health check of the secure port.
func (c CCM) probe(line func(string, ...any), p probe) {
	port := component.PortCCM
	for _, f := range c.Flags {
		if f.Name == "secure-port" {
			port = f.Value
		}
	}
	line(
		"    %s:\n      failureThreshold: %s\n      httpGet:\n        host: %s\n        path: %s\n        port: %s\n        scheme: HTTPS",
		p.name,
		p.failures,
		quoteYAML(commandline.LoopbackAddress(c.BindAddress)),
		p.path,
		port,
	)
	line("      initialDelaySeconds: %s\n      periodSeconds: %s\n      timeoutSeconds: 15", p.delay, p.period)
}

// quoteYAML is a YAML string with quotes where it needs them.
func quoteYAML(value string) string { return yamltext.QuoteScalar(value, 0, false) }

// distinct leaves out paths that are named twice, which a kubelet would refuse, and gives every volume a name.
func distinct(paths []HostPath) []HostPath {
	var out []HostPath
	seen := map[string]bool{}
	for _, p := range paths {
		if seen[p.Path] {
			continue
		}
		seen[p.Path] = true
		if p.Name == "" {
			p.Name = fmt.Sprintf("file-%d", len(out))
		}
		out = append(out, p)
	}
	return out
}
