package invariant

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

func inTreeConfigKept(r *planView) error {
	kept := map[string]bool{}
	for _, s := range r.Steps {
		if s.Derive == layout.DeriveCloudConfig {
			kept[s.Host+":"+s.Source] = true
		}
	}
	if r.snap != nil {
		for _, h := range r.snap.Hosts {
			for _, c := range h.Components {
				if f := c.Flags[flagvalue.FlagCloudConfig]; f != "" {
					kept[h.Name+":"+f] = true
				}
			}
		}
	}
	for _, s := range r.Steps {
		switch s.Kind {
		case v1.StepWriteFile, v1.StepCopyFile, v1.StepRemoveFile:
			if kept[s.Host+":"+s.Path] {
				return fmt.Errorf("step %s changes %s", s.ID, s.Path)
			}
		default:
		}
	}
	return nil
}

func boundToFacts(r *planView) error {
	for _, s := range r.Steps {
		switch s.Kind {
		case v1.StepEnsureObject, v1.StepDeleteObject, v1.StepVerify:
			continue // they look at the object itself before they act
		default:
		}
		if !slices.Contains(s.Requires, "cluster:uid") {
			return fmt.Errorf("step %s does not require the cluster's uid", s.ID)
		}
		if at := unboundFile(s); at != "" {
			return fmt.Errorf("step %s does not require what %s holds now", s.ID, at)
		}
		if s.Kind == v1.StepWriteFile && s.Source != "" && !planstep.IsToken(s) &&
			!slices.Contains(s.Requires, planstep.FileFact(s.Host, s.Source)) {
			return fmt.Errorf("step %s does not require what %s holds, which it derives from", s.ID, s.Source)
		}
		if (s.Kind == v1.StepPatchObject || s.Kind == v1.StepCopyFile || s.Kind == v1.StepInitializeNode) &&
			len(s.Requires) < 2 {
			return fmt.Errorf("step %s requires nothing of what it changes", s.ID)
		}
	}
	return nil
}

// unboundFile is a file that a step changes and whose content it does not require.
func unboundFile(s v1.Step) string {
	changed := s.Files
	if s.Host != "" && s.Path != "" {
		changed = append([]string{s.Path}, changed...)
	}
	for _, at := range changed {
		if !slices.Contains(s.Requires, planstep.FileFact(s.Host, at)) {
			return at
		}
	}
	return ""
}

// secretText is what credentials look like: AWS access keys, PEM private keys, JSON web tokens, and settings whose name
// says it.
var secretText = regexp.MustCompile(
	`\bA[KS]IA[A-Z0-9]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY|\beyJ[A-Za-z0-9_-]{10,}\.|(?i)(secret_access_key|aadclientsecret|password|session_token|application-credential-secret)["']?\s*[:=]\s*["']?[^\s"'*,}]`,
)

func noSecret(r *planView) error {
	for _, s := range r.Steps {
		texts := []string{s.Content, s.Object, s.Patch}
		for _, e := range s.Edits {
			texts = append(texts, "--"+e.Name+"="+e.Value)
		}
		for _, t := range texts {
			if secretText.MatchString(t) {
				return fmt.Errorf("step %s holds what looks like one", s.ID)
			}
		}
		if what := planstep.WritesMask(s); what != "" {
			return fmt.Errorf(
				"step %s would write %s where a secret was: give the value in a file or a Secret that the component reads",
				s.ID,
				what,
			)
		}
	}
	for _, s := range r.starts {
		if name := secretVariable(s.Spec); name != "" {
			return fmt.Errorf("step %s gives the manager the variable %s, which is one", r.Steps[s.Index].ID, name)
		}
	}
	for _, e := range r.Options.Env {
		if name, _, _ := strings.Cut(e, "="); options.IsSecretName(name) {
			return fmt.Errorf("variable %s is one", name)
		}
	}
	return nil
}

// secretVariable is the variable of a pod whose name says that it is a secret and whose value stands in the plan.
func secretVariable(spec map[string]any) string {
	containers, _ := spec["containers"].([]any)
	for _, c := range containers {
		c, _ := c.(map[string]any)
		env, _ := c["env"].([]any)
		for _, e := range env {
			e, _ := e.(map[string]any)
			name, _ := e["name"].(string)
			if value, _ := e["value"].(string); value != "" && options.IsSecretName(name) {
				return name
			}
		}
	}
	return ""
}

func undoTold(r *planView) error {
	for _, s := range r.Steps {
		if s.Kind != v1.StepVerify && s.Undo == "" {
			return fmt.Errorf("step %s does not", s.ID)
		}
	}
	return nil
}

func podShape(r *planView) error {
	if r.isHosted() {
		return nil // its nodes are another cluster's, where nothing waits for it
	}
	for _, s := range r.starts {
		id := r.Steps[s.Index].ID
		switch {
		case s.Spec["hostNetwork"] != true:
			return fmt.Errorf("step %s puts the manager into the pod network", id)
		case s.Spec["dnsPolicy"] != "Default":
			return fmt.Errorf("step %s makes the manager depend on the cluster's DNS", id)
		case s.Spec["priorityClassName"] == nil:
			return fmt.Errorf("step %s gives the manager no priority", id)
		case s.Managed && !toleratesUninitialized(s.Spec):
			return fmt.Errorf("step %s does not tolerate %s", id, component.TaintUninitialized)
		case s.Managed && strings.HasPrefix(r.Steps[s.Index].Ref, "DaemonSet/") && !hasAPIServerAddress(s.Spec):
			return fmt.Errorf("step %s lets the manager reach the API through kube-proxy only", id)
		}
	}
	return nil
}

func toleratesUninitialized(spec map[string]any) bool {
	list, _ := spec["tolerations"].([]any)
	return slices.ContainsFunc(list, func(t any) bool {
		t2, _ := t.(map[string]any)
		return t2["key"] == component.TaintUninitialized || t2["key"] == nil && t2["operator"] == "Exists" && t2["effect"] == nil
	})
}

func hasAPIServerAddress(spec map[string]any) bool {
	list, _ := spec["containers"].([]any)
	for _, c := range list {
		c, _ := c.(map[string]any)
		env, _ := c["env"].([]any)
		for _, e := range env {
			if e, _ := e.(map[string]any); e["name"] == "KUBERNETES_SERVICE_HOST" {
				return true
			}
		}
	}
	return false
}

func portFree(r *planView) error {
	if r.snap == nil {
		return nil
	}
	for _, s := range r.starts {
		port := s.Flags["secure-port"]
		if port == "" {
			port = component.PortCCM
		}
		for _, h := range r.snap.Hosts {
			if s.Host != "" && h.Name != s.Host {
				continue
			}
			for _, c := range h.Components {
				if _, taken, err := net.SplitHostPort(c.Address); err == nil && taken == port && c.Name != component.CCM {
					return fmt.Errorf("step %s: port %s on host %s is %s's", r.Steps[s.Index].ID, port, h.Name, c.Name)
				}
			}
		}
	}
	return nil
}

func trustKept(r *planView) error {
	for _, s := range r.starts {
		m := r.manager(s)
		if m == nil || r.snap == nil || clusterview.FindHosted(r.snap, component.KCM) != nil {
			continue
		}
		mounted := map[string]bool{}
		list, _ := s.Spec["volumes"].([]any)
		for _, v := range list {
			v, _ := v.(map[string]any)
			if path, ok := planstep.ChildOf(v, "hostPath")["path"].(string); ok {
				mounted[path] = true
			}
		}
		must := clusterview.TrustMounts(m)
		if h := r.host(s.Host); h != nil {
			must = append(must, clusterview.ConfigFileMounts(*h, m)...)
		}
		for _, p := range must {
			if !mounted[p.Path] {
				return fmt.Errorf("step %s does not mount %s, which %s reads", r.Steps[s.Index].ID, p.Path, component.KCM)
			}
		}
		for _, name := range clusterview.ProxyVariables {
			given := slices.ContainsFunc(
				r.Options.Env,
				func(e string) bool { n, _, _ := strings.Cut(e, "="); return strings.EqualFold(n, name) },
			)
			if flagvalue.HasVariable(m.EnvNames, name) && !given && !strings.Contains(strings.Join(r.Effects, "\n"), name) {
				return fmt.Errorf("%s of %s is neither carried over nor spoken of", name, component.KCM)
			}
		}
	}
	return nil
}

func initialisesNodes(r *planView) error {
	p, _ := cloudprovider.Lookup(r.providerName())
	if p.NodeManager == "" {
		return nil
	}
	managers := r.which(func(s v1.Step) bool {
		return s.Ref == layout.NodeManagerDaemonSet && s.Kind == v1.StepEnsureObject
	})
	if r.Options.Image != "" && proven.Ours(r.Options.Image) {
		return initialisedByOurs(r, managers)
	}
	if r.Options.Part == v1.PartFinish || r.Options.ReplaceHosts {
		return nil // the part before started it; a plan that replaces hosts installs nothing
	}
	for _, s := range r.starts {
		if !s.LeavesNodes() {
			return fmt.Errorf("step %s runs the node loop", r.Steps[s.Index].ID)
		}
	}
	if len(r.starts) == 0 || r.snap != nil && clusterview.OtherNodeManager(r.snap) != "" {
		return nil
	}
	if len(managers) == 0 {
		return errors.New("no step starts it")
	}
	if k := r.kubelets(); len(k) > 0 && k[0] < managers[0] {
		return fmt.Errorf("%s comes before %s", r.Steps[k[0]].ID, r.Steps[managers[0]].ID)
	}
	return nil
}

// initialisedByOurs is the rule for our manager, which initialises nodes itself. A manager on each node would be a
// second writer of the same labels and addresses.
func initialisedByOurs(r *planView, managers []int) error {
	if len(managers) > 0 {
		return fmt.Errorf("%s starts a second manager of nodes", r.Steps[managers[0]].ID)
	}
	for _, s := range r.starts {
		if s.LeavesNodes() {
			return fmt.Errorf("step %s leaves the node loop to no manager", r.Steps[s.Index].ID)
		}
	}
	return nil
}
