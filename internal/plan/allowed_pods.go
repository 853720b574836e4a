package plan

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// managerEnv are the variables of the options, and those that name the API server and the node.
func (j judge) managerEnv(c object, rules podRules) error {
	given := map[string]string{}
	for _, e := range j.options.Env {
		name, value, _ := strings.Cut(e, "=")
		given[name] = strings.ReplaceAll(value, "{host}", rules.host)
	}
	env, _ := c["env"].([]any)
	for _, e := range env {
		e, _ := e.(object)
		name, _ := e["name"].(string)
		value, _ := e["value"].(string)
		from, _ := e["valueFrom"].(object)
		field, _ := from["fieldRef"].(object)
		own, isGiven := given[name]
		switch {
		case len(from) > 0 && (len(from) != 1 || field == nil):
			return fmt.Errorf("variable %s comes from %v, which no manager's does", name, slices.Sorted(maps.Keys(from)))
		case field != nil:
			if field["fieldPath"] != map[string]any{envNodeName: nodeNameField, envAPIHost: "status.hostIP"}[name] {
				return fmt.Errorf("variable %s is the pod's %v, which no manager's is", name, field["fieldPath"])
			}
		case name == envAPIHost && j.isEndpoint(value), name == envAPIPort && j.isAPIPort(value):
		case strings.HasPrefix(name, "LD_"), name == envAPIHost, name == envAPIPort:
			return fmt.Errorf("variable %s=%s lets the manager load other code or ask another API server", name, value)
		case !isGiven || value != own:
			return fmt.Errorf("variable %s is not among the options", name)
		}
	}
	return nil
}

// Variables by which a pod finds the API server.
const (
	envAPIHost = "KUBERNETES_SERVICE_HOST"
	envAPIPort = "KUBERNETES_SERVICE_PORT"
)

// isEndpoint reports whether an address is the control plane's, as far as the cluster is in view.
func (j judge) isEndpoint(value string) bool {
	return j.live == nil || j.endpoint(envAPIHost) == value && value != ""
}

// isAPIPort reports whether an API server of the cluster in view serves on a port.
func (j judge) isAPIPort(value string) bool {
	if j.live == nil || j.endpoint(envAPIPort) == value && value != "" {
		return true
	}
	known := false
	for _, h := range j.live.Hosts {
		if component(h, KAS) != nil {
			if known = true; apiAddress(h) == value {
				return true
			}
		}
	}
	return !known && value == fmt.Sprint(defaultAPIPort)
}

// endpoint is what a pod on any node gets for a variable.
func (j judge) endpoint(name string) string {
	b := builder{snap: j.live}
	for _, e := range b.endpointEnv() {
		if e, _ := e.(object); e["name"] == name {
			value, _ := e["value"].(string)
			return value
		}
	}
	return ""
}

// hostFile returns why a pod must not see a file of its host; nil for those that this program mounts: the manager's own, those that the variables of the
// options name, and those that the cloud config names.
func (j judge) hostFile(at string, rules podRules) error {
	switch {
	case slices.Contains([]string{CCMCloudConf, CCMKubeconfig, CCMMigration}, at):
		return nil
	case guarded(at) && !j.isOwnKey(at):
		return fmt.Errorf("%s is a key, or a file of others, which no manager needs", at)
	case j.named(at, rules.host), j.mountedNow(at):
		return nil
	}
	return fmt.Errorf("%s is neither the manager's own nor named by the options or by the cloud config", at)
}

// named reports whether the options or a cloud config name a file. Without the cluster in view no cloud config is known.
func (j judge) named(at, host string) bool {
	for _, e := range j.options.Env {
		if _, value, _ := strings.Cut(e, "="); strings.HasPrefix(value, "/etc/") && strings.ReplaceAll(value, "{host}", host) == at {
			return true
		}
	}
	if j.live == nil {
		return strings.HasPrefix(at, "/etc/")
	}
	return j.configured(at)
}

// configured reports whether a cloud config of a control-plane host in view names a file. A worker's is the word of its root.
func (j judge) configured(at string) bool {
	for _, h := range j.live.Hosts {
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

// isOwnKey reports whether a file with the name of a key is one for the cloud: a cloud config names it, or a cloud-controller-manager sees it by now. Without
// the cluster in view this is not known, and asked again before a host is touched.
func (j judge) isOwnKey(at string) bool {
	if isGuardedPlace(at) {
		return false
	}
	if j.live == nil || j.configured(at) {
		return true
	}
	for i := range j.live.Hosts {
		if ccm := component(j.live.Hosts[i], CCM); ccm != nil && slices.Contains(slices.Collect(maps.Values(ccm.HostPaths)), at) {
			return true
		}
	}
	return false
}

// mountedNow reports whether a manager of the cluster in view sees a file. Once the in-tree provider is out, nothing names its cloud config any longer.
func (j judge) mountedNow(at string) bool {
	if j.live == nil {
		return false
	}
	for i := range j.live.Hosts {
		for _, c := range j.live.Hosts[i].Components {
			if c.Name != KCM && c.Name != CCM {
				continue
			}
			if c.Name == KCM && c.Runs == v1.RunsSystemd && c.Flags["cloud-provider"] == externalProvider {
				return true // a unit sees its host's
			}
			for _, of := range c.HostPaths {
				if at == of || c.Name == KCM && strings.HasPrefix(at, strings.TrimSuffix(of, "/")+"/") {
					return true
				}
			}
		}
	}
	return false
}

const externalProvider = "external"

func (j judge) managerVolumes(pod, c object, rules podRules) error {
	volumes, _ := pod["volumes"].([]any)
	ofHost := map[any]any{}
	for _, v := range volumes {
		v, _ := v.(object)
		if err := j.managerVolume(v, rules); err != nil {
			return err
		}
		if h, ok := v["hostPath"].(object); ok {
			ofHost[v["name"]] = h["path"]
		}
	}
	mounts, _ := c["volumeMounts"].([]any)
	for _, m := range mounts {
		m, _ := m.(object)
		if err := only("a mount", m, "name", "mountPath", "readOnly"); err != nil {
			return err
		}
		writable := rules.files && ofHost[m["name"]] == CCMTokenDir // where a manager renews its token
		if m["readOnly"] != true && !writable {
			return fmt.Errorf("the mount at %v is not read-only", m["mountPath"])
		}
		if at, ok := ofHost[m["name"]]; ok && at != m["mountPath"] {
			return fmt.Errorf("%v of the host is mounted at %v, not at its own place", at, m["mountPath"])
		}
	}
	return nil
}

func (j judge) managerVolume(v object, rules podRules) error {
	name := fmt.Sprint(v["name"])
	if err := only("volume "+name, v, "name", "hostPath", "secret", "configMap"); err != nil {
		return err
	}
	if h, ok := v["hostPath"].(object); ok {
		if err := j.hostVolume(h, rules); err != nil {
			return fmt.Errorf("volume %s: %w", name, err)
		}
		return nil
	}
	if !rules.holds(v) {
		return fmt.Errorf("volume %s is none that a manager has", name)
	}
	return nil
}

// holds tells whether a volume is one of the Secrets and ConfigMaps that a manager mounts.
func (r podRules) holds(v object) bool {
	if config, _ := v["configMap"].(object); len(config) == 1 {
		return r.seed && config["name"] == SeedMigration
	}
	secret, _ := v["secret"].(object)
	if len(secret) != 1 {
		return false
	}
	switch secret["secretName"] {
	case SeedCloudConfig:
		return r.seed || r.config
	case SeedKubeconfig:
		return r.seed
	}
	return false
}

// hostVolume returns why a pod must not have a volume of its host.
func (j judge) hostVolume(h object, rules podRules) error {
	at, _ := h["path"].(string)
	kind, _ := h["type"].(string)
	switch {
	case rules.files && kind == "DirectoryOrCreate" && slices.Contains(trustDirs, at):
		return nil
	case rules.files && kind == "Directory" && at == CCMTokenDir:
		return nil
	case !rules.files || kind != "File":
		return fmt.Errorf("it shows the pod %s of its host, which no manager needs", at)
	}
	return j.hostFile(at, rules)
}

// derivedFrom returns why a file of a host must not be what another one is derived from: it is the one that the kube-controller-manager reads there.
func (j judge) derivedFrom(s v1.Step) error {
	if !plainPath.MatchString(s.Source) || path.Clean(s.Source) != s.Source || ofKernel(s.Source) {
		return fmt.Errorf("source %q is no plain path of a file on the host", s.Source)
	}
	h := j.host(s.Host)
	if h == nil {
		return nil // nothing is derived there: the engine asks with the host in view
	}
	var reads []string
	m := component(*h, KCM)
	switch s.Derive {
	case DeriveKubeconfig, OlderKubeconfig:
		if reads = []string{KCMKubeconfig}; m != nil && m.Flags["kubeconfig"] != "" {
			reads = append(reads, m.Flags["kubeconfig"])
		}
	case DeriveCloudConfig:
		if h.CloudConfig == nil { // it is external by now
			if guarded(s.Source) || s.Source == CCMKubeconfig || strings.Contains(s.Source, "/pki/") {
				return fmt.Errorf("source %s is no cloud config", s.Source)
			}
			return nil
		}
		reads = []string{h.CloudConfig.Path}
	}
	if !slices.Contains(reads, s.Source) {
		return fmt.Errorf("source %s is not what %s on host %s reads (%s)", s.Source, KCM, s.Host, strings.Join(reads, ", "))
	}
	return nil
}
