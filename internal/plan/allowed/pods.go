package allowed

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/layout"
)

// managerEnv are the variables of the options, and those that name the API server and the node.
func managerEnv(j Judge, c layout.Object, rules PodRules) error {
	given := map[string]string{}
	for _, e := range j.Options.Env {
		name, value, _ := strings.Cut(e, "=")
		given[name] = strings.ReplaceAll(value, "{host}", rules.Host)
	}
	env, _ := c["env"].([]any)
	for _, e := range env {
		e, _ := e.(layout.Object)
		name, _ := e["name"].(string)
		value, _ := e["value"].(string)
		from, _ := e["valueFrom"].(layout.Object)
		field, _ := from["fieldRef"].(layout.Object)
		own, isGiven := given[name]
		switch {
		case len(from) > 0 && (len(from) != 1 || field == nil):
			return fmt.Errorf("variable %s comes from %v, which no manager's does", name, slices.Sorted(maps.Keys(from)))
		case field != nil:
			if !isOwnField(name, field["fieldPath"]) {
				return fmt.Errorf("variable %s is the pod's %v, which no manager's is", name, field["fieldPath"])
			}
		case name == envAPIHost && isEndpoint(j, value), name == envAPIPort && isAPIPort(j, value):
		case name == envAPIHost:
			return fmt.Errorf(
				"variable %s=%s names another API server than those of the cluster: if it is this cluster's own address, "+
					"name it as the server in your kubeconfig and try again", name, value)
		case strings.HasPrefix(name, "LD_"), name == envAPIPort:
			return fmt.Errorf("variable %s=%s lets the manager load other code or ask another API server", name, value)
		case !isGiven || value != own:
			return fmt.Errorf("variable %s is not among the options", name)
		}
	}
	return nil
}

// isOwnField reports whether a variable of the manager has this field of its pod.
func isOwnField(name string, path any) bool {
	if name == envAPIHost {
		return path == "status.hostIP"
	}
	own, known := ccm.OwnFields[name]
	return known && path == own
}

// Variables by which a pod finds the API server.
const (
	envAPIHost = "KUBERNETES_SERVICE_HOST"
	envAPIPort = "KUBERNETES_SERVICE_PORT"
)

// isEndpoint reports whether an address is the control plane's, as far as the cluster is in view.
func isEndpoint(j Judge, value string) bool {
	return j.Live == nil || endpoint(j, envAPIHost) == value && value != ""
}

// isAPIPort reports whether an API server of the cluster in view serves on a port.
func isAPIPort(j Judge, value string) bool {
	if j.Live == nil || endpoint(j, envAPIPort) == value && value != "" {
		return true
	}
	known := false
	for _, h := range j.Live.Hosts {
		if clusterview.FindComponent(h, component.KAS) != nil {
			if known = true; clusterview.APIPort(h) == value {
				return true
			}
		}
	}
	return !known && value == component.PortKAS
}

// endpoint is what a pod on any node gets for a variable.
func endpoint(j Judge, name string) string {
	d := draft.Draft{Snapshot: j.Live}
	for _, e := range ccm.EndpointEnv(&d) {
		if e, _ := e.(layout.Object); e["name"] == name {
			value, _ := e["value"].(string)
			return value
		}
	}
	return ""
}

// HostFile returns why a pod must not see a file of its host. It is nil for those that this program mounts. These are
// the manager's own, those that the variables of the options name, and those that the cloud config names.
func HostFile(j Judge, at string, rules PodRules) error {
	switch {
	case slices.Contains([]string{layout.CCMCloudConf, layout.CCMKubeconfig, layout.CCMMigration}, at):
		return nil
	case layout.IsGuarded(at) && !isOwnKey(j, at):
		return fmt.Errorf("%s is a key, or a file of others, which no manager needs", at)
	case isReferenced(j, at, rules.Host), isMountedNow(j, at):
		return nil
	}
	return fmt.Errorf("%s is neither the manager's own nor named by the options or by the cloud config", at)
}

// isReferenced reports whether the options or a cloud config name a file. Without the cluster in view no cloud config
// is known.
func isReferenced(j Judge, at, host string) bool {
	for _, e := range j.Options.Env {
		if _, value, _ := strings.Cut(
			e,
			"=",
		); strings.HasPrefix(value, "/etc/") &&
			strings.ReplaceAll(value, "{host}", host) == at {
			return true
		}
	}
	if j.Live == nil {
		return strings.HasPrefix(at, "/etc/")
	}
	return isInCloudConfig(j, at)
}

// isInCloudConfig reports whether a cloud config of a control-plane host in view names a file. A worker's is the word
// of its root.
func isInCloudConfig(j Judge, at string) bool {
	for _, h := range j.Live.Hosts {
		if len(h.Components) == 0 {
			continue
		}
		configs := h.CloudConfigs
		if h.CloudConfig != nil {
			configs = append(slices.Clone(configs), *h.CloudConfig)
		}
		for i := range configs {
			if slices.Contains(slices.Collect(maps.Values(configs[i].Settings)), at) {
				return true
			}
		}
	}
	return false
}

// isOwnKey reports whether a file with the name of a key is one for the cloud. A cloud config names it, or a
// cloud-controller-manager sees it by now. Without the cluster in view this is not known, and asked again before a host
// is touched.
func isOwnKey(j Judge, at string) bool {
	if layout.IsGuardedPlace(at) {
		return false
	}
	if j.Live == nil || isInCloudConfig(j, at) {
		return true
	}
	for i := range j.Live.Hosts {
		if ccm := clusterview.FindComponent(
			j.Live.Hosts[i],
			component.CCM,
		); ccm != nil &&
			slices.Contains(slices.Collect(maps.Values(ccm.HostPaths)), at) {
			return true
		}
	}
	return false
}

// isMountedNow reports whether a manager of the cluster in view sees a file. Once the in-tree provider is out, nothing
// names its cloud config any longer.
func isMountedNow(j Judge, at string) bool {
	if j.Live == nil {
		return false
	}
	for i := range j.Live.Hosts {
		for _, c := range j.Live.Hosts[i].Components {
			if c.Name != component.KCM && c.Name != component.CCM {
				continue
			}
			if c.Name == component.KCM && c.Runs == v1.RunsSystemd && c.Flags["cloud-provider"] == externalProvider {
				return true // a unit sees its host's
			}
			for _, of := range c.HostPaths {
				if at == of || c.Name == component.KCM && strings.HasPrefix(at, strings.TrimSuffix(of, "/")+"/") {
					return true
				}
			}
		}
	}
	return false
}

const externalProvider = "external"

func managerVolumes(j Judge, pod, c layout.Object, rules PodRules) error {
	volumes, _ := pod["volumes"].([]any)
	ofHost := map[any]any{}
	for _, v := range volumes {
		v, _ := v.(layout.Object)
		if err := managerVolume(j, v, rules); err != nil {
			return err
		}
		if h, ok := v["hostPath"].(layout.Object); ok {
			ofHost[v["name"]] = h["path"]
		}
	}
	mounts, _ := c["volumeMounts"].([]any)
	for _, m := range mounts {
		m, _ := m.(layout.Object)
		if err := only("a mount", m, "name", "mountPath", "readOnly"); err != nil {
			return err
		}
		writable := rules.files && ofHost[m["name"]] == layout.CCMTokenDir // where a manager renews its token
		if m["readOnly"] != true && !writable {
			return fmt.Errorf("the mount at %v is not read-only", m["mountPath"])
		}
		if at, ok := ofHost[m["name"]]; ok && at != m["mountPath"] {
			return fmt.Errorf("%v of the host is mounted at %v, not at its own place", at, m["mountPath"])
		}
	}
	return nil
}

func managerVolume(j Judge, v layout.Object, rules PodRules) error {
	name := fmt.Sprint(v["name"])
	if err := only("volume "+name, v, "name", "hostPath", "secret", "configMap"); err != nil {
		return err
	}
	if h, ok := v["hostPath"].(layout.Object); ok {
		if err := hostVolume(j, h, rules); err != nil {
			return fmt.Errorf("volume %s: %w", name, err)
		}
		return nil
	}
	if !rules.holds(v) {
		return fmt.Errorf("volume %s is none that a manager has", name)
	}
	return nil
}

// holds reports whether a volume is one of the Secrets and ConfigMaps that a manager mounts.
func (r PodRules) holds(v layout.Object) bool {
	if config, _ := v["configMap"].(layout.Object); len(config) == 1 {
		return r.seed && config["name"] == layout.SeedMigration
	}
	secret, _ := v["secret"].(layout.Object)
	if len(secret) != 1 {
		return false
	}
	switch secret["secretName"] {
	case layout.SeedCloudConfig:
		return r.seed || r.config
	case layout.SeedKubeconfig:
		return r.seed
	}
	return false
}

// hostVolume returns why a pod must not have a volume of its host.
func hostVolume(j Judge, h layout.Object, rules PodRules) error {
	at, _ := h["path"].(string)
	kind, _ := h["type"].(string)
	switch {
	case rules.files && kind == "DirectoryOrCreate" && slices.Contains(clusterview.TrustDirs, at):
		return nil
	case rules.files && kind == "Directory" && at == layout.CCMTokenDir:
		return nil
	case !rules.files || kind != "File":
		return fmt.Errorf("it shows the pod %s of its host, which no manager needs", at)
	}
	return HostFile(j, at, rules)
}

// derivedFrom returns why a file of a host must not be what another one is derived from. It has to be the one that the
// kube-controller-manager reads there.
func derivedFrom(j Judge, s v1.Step) error {
	if !plainPath.MatchString(s.Source) || path.Clean(s.Source) != s.Source || isKernelPath(s.Source) {
		return fmt.Errorf("source %q is no plain path of a file on the host", s.Source)
	}
	h := j.host(s.Host)
	if h == nil {
		return nil // nothing is derived there: the engine asks with the host in view
	}
	var reads []string
	m := clusterview.FindComponent(*h, component.KCM)
	switch s.Derive {
	case layout.DeriveKubeconfig, layout.OlderKubeconfig:
		if reads = []string{layout.KCMKubeconfig}; m != nil && m.Flags["kubeconfig"] != "" {
			reads = append(reads, m.Flags["kubeconfig"])
		}
	case layout.DeriveCloudConfig:
		if h.CloudConfig == nil { // it is external by now
			if layout.IsGuarded(s.Source) || s.Source == layout.CCMKubeconfig || strings.Contains(s.Source, "/pki/") {
				return fmt.Errorf("source %s is no cloud config", s.Source)
			}
			return nil
		}
		reads = []string{h.CloudConfig.Path}
	}
	if !slices.Contains(reads, s.Source) {
		return fmt.Errorf(
			"source %s is not what %s on host %s reads (%s)",
			s.Source,
			component.KCM,
			s.Host,
			strings.Join(reads, ", "),
		)
	}
	return nil
}
