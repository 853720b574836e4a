package allowed

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/kubeadm"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/safeyaml"
)

// made are the objects that this program makes whole: what a plan says of one is byte for byte what stands here. The
// Secrets that the manager may read are those that its Role names, or all where it is not ours.
func (j Judge) made(secrets layout.Secrets) []layout.Object {
	secrets.Followed = secrets.Name == "" && !proven.Ours(j.Options.Image)
	out := slices.Concat(
		layout.ObserverObjects(),
		layout.MigrationObjects(j.Options.LeaseName),
		layout.StateObjects(j.provider(), j.cluster.UID),
		layout.NodeManagerObjects(),
		[]layout.Object{layout.OlderRole(j.provider()), layout.OlderTokenSecret()},
	)
	for _, m := range []layout.Manager{{Secrets: secrets}, {Secrets: secrets, RenewsToken: true}, {}} {
		out = append(out, layout.IdentityObjects(j.provider(), m)...) // earlier versions gave these rights to ours, too
		m.Ours = true
		out = append(out, layout.IdentityObjects(j.provider(), m)...)
		m.Deaf = true
		out = append(out, layout.IdentityObjects(j.provider(), m)...)
	}
	for api := range 2 { // policy/v1beta1 up to 1.20
		out = append(out, ccm.DisruptionBudget(20+api))
	}
	if j.cluster.Seed == "" {
		return append(out, layout.CloudConfigSecret())
	}
	for _, name := range []string{layout.SeedKubeconfig, layout.SeedCloudConfig} {
		out = append(
			out,
			layout.Object{
				"apiVersion": "v1",
				"kind":       "Secret",
				"type":       "Opaque",
				"metadata":   layout.Metadata(name, j.cluster.Seed),
			},
		)
	}
	return out
}

// deletable are the objects that a migration or its rollback deletes. They are those that it makes, and the leases and
// the state of the managers that go.
func (j Judge) deletable() map[string]bool {
	out := map[string]bool{
		layout.CCMDaemonSet:         true,
		layout.NodeManagerDaemonSet: true,
		"Deployment/" + component.Namespace + "/" + component.CCM:                 true,
		"Lease/" + component.Namespace + "/" + component.CCM:                      true,
		"Lease/" + component.Namespace + "/" + j.Options.LeaseName:                true,
		"ConfigMap/" + component.Namespace + "/" + layout.StateName(j.provider()): true,
	}
	if j.cluster.Seed != "" {
		out["ConfigMap/"+j.cluster.Seed+"/"+layout.SeedMigration] = true
		out["Deployment/"+j.cluster.Seed+"/"+layout.SeedDeploymentName(j.provider())] = true
	}
	for _, o := range j.made(layout.Secrets{}) {
		out[layout.Ref(o)] = layout.Ref(o) != layout.CloudIdentity
	}
	return out
}

// othersLeases are leases that a migration must not take for its own.
var othersLeases = []string{component.KCM, component.CCM, component.Scheduler, "transplant-lock"}

func (j Judge) isSeedObject(ref, kind string) bool {
	parts := strings.Split(ref, "/")
	return j.cluster.Seed != "" && len(parts) == 3 && parts[0] == kind && parts[1] == j.cluster.Seed && parts[2] != ""
}

// CheckObject says what is wrong with what a step does to an object of the API.
func (j Judge) CheckObject(s v1.Step) error {
	if slices.Contains(othersLeases, j.Options.LeaseName) {
		return fmt.Errorf("lease %s is not the migration's own", j.Options.LeaseName)
	}
	switch s.Kind {
	case v1.StepEnsureObject:
		return j.ensured(s)
	case v1.StepDeleteObject:
		if !j.deletable()[s.Ref] {
			return fmt.Errorf("%s is no object of a migration: it is not deleted", s.Ref)
		}
	case v1.StepPatchObject, v1.StepUnpatchObject:
		return j.patched(s)
	case v1.StepScale, v1.StepEditWorkload, v1.StepReplacePod:
		return j.workload(s)
	case v1.StepInitializeNode:
		if kind, name, _ := strings.Cut(s.Ref, "/"); kind != "Node" || name == "" || strings.Contains(name, "/") {
			return fmt.Errorf("%s is no Node", s.Ref)
		}
	case v1.StepVerify:
	default:
		if s.Ref != "" {
			return fmt.Errorf("a step of kind %s changes no object, and names %s", s.Kind, s.Ref)
		}
	}
	if s.Object != "" || s.Patch != "" {
		return fmt.Errorf("a step of kind %s makes and patches no object", s.Kind)
	}
	return nil
}

func (j Judge) ensured(s v1.Step) error {
	if s.Patch != "" {
		return errors.New("an object that is made is not patched")
	}
	var o layout.Object
	if err := json.Unmarshal([]byte(s.Object), &o); err != nil {
		return fmt.Errorf("the object is no JSON: %w", err)
	}
	if err := planstep.CheckObjectRef(s); err != nil {
		return err
	}
	if j.isSeedObject(s.Ref, "ConfigMap") && path.Base(s.Ref) == layout.SeedMigration {
		return j.seedConfig(s, o)
	}
	manager, want := j.rulesOf(s.Ref)
	if s.Derive != want && (want != layout.DeriveSeedKubeconfig || s.Derive != layout.OlderSeedKubeconfig) {
		return fmt.Errorf("%s is derived by %q, not by %q", s.Ref, want, s.Derive)
	}
	if manager.image != "" {
		return managerWorkload(j, o, manager)
	}
	return j.madeHere(s, layout.SecretsOf(o))
}

// rulesOf are what holds for the pods of a manager; their image is empty for another object. derive is what the object
// is derived by, and "" for one that is not.
func (j Judge) rulesOf(ref string) (manager PodRules, derive string) {
	switch {
	case j.cluster.Seed == "" && ref == layout.Ref(layout.CloudConfigSecret()):
		return PodRules{}, layout.DeriveDeployedCloudConfig
	case ref == "Secret/"+j.cluster.Seed+"/"+layout.SeedKubeconfig:
		return PodRules{}, layout.DeriveSeedKubeconfig
	case ref == "Secret/"+j.cluster.Seed+"/"+layout.SeedCloudConfig:
		return PodRules{}, layout.DeriveSeedCloudConfig
	case ref == layout.CCMDaemonSet:
		roles := []layout.Object{{layout.LabelControlPlane: ""}, {layout.LabelMaster: ""}}
		return PodRules{
			account: layout.CCMAccount,
			image:   j.Options.Image,
			files:   true,
			nodes:   roles,
		}, ""
	case ref == layout.NodeManagerDaemonSet:
		linux := []layout.Object{{"kubernetes.io/os": "linux"}}
		return PodRules{account: layout.NodeManager, image: j.nodeManagerImage(), nodes: linux}, ""
	case ref == "Deployment/"+component.Namespace+"/"+component.CCM:
		return PodRules{
			account: layout.CCMAccount,
			image:   j.Options.Image,
			files:   true,
			config:  true,
			nodes:   j.nodesOfOld(),
			anyNode: j.Live == nil,
		}, ""
	case j.isSeedObject(ref, "Deployment") && path.Base(ref) == layout.SeedDeploymentName(j.provider()):
		return PodRules{image: j.Options.Image, seed: true}, layout.DeriveSeedManager
	}
	return PodRules{}, ""
}

// madeHere holds an object to those that this program makes, byte for byte.
func (j Judge) madeHere(s v1.Step, secrets layout.Secrets) error {
	known := false
	for _, m := range j.made(secrets) {
		if layout.Ref(m) != s.Ref {
			continue
		}
		if known = true; layout.EncodeObject(m) == s.Object {
			return nil
		}
	}
	if known {
		return fmt.Errorf(
			"%s is not byte for byte the object that this program makes under that name: it could give rights that no migration needs",
			s.Ref,
		)
	}
	return fmt.Errorf("%s is no object that a migration makes", s.Ref)
}

// nodeManagerImage is that of the cloud-node-manager next to the manager's image.
func (j Judge) nodeManagerImage() string {
	p, err := clusterview.LookupSupported(j.provider())
	if err != nil {
		return ""
	}
	d := draft.Draft{Target: draft.Target{Provider: p}, Options: j.Options}
	if err := ccm.ChooseImage(&d); err != nil {
		return ""
	}
	return ccm.NodeManagerImage(&d)
}

func (j Judge) seedConfig(s v1.Step, o layout.Object) error {
	data, _ := o["data"].(layout.Object)
	if len(data) != 2 || s.Derive != "" ||
		!reflect.DeepEqual(o["metadata"], any(layout.Metadata(layout.SeedMigration, j.cluster.Seed))) ||
		len(o) != 4 {
		return fmt.Errorf("%s is not the ConfigMap with the two leader migration configs", s.Ref)
	}
	for key, of := range map[string]controllernames.Component{
		layout.SeedMigrationKCM: controllernames.KubeControllerManager,
		layout.SeedMigrationCCM: controllernames.CloudControllerManager,
	} {
		if text, ok := data[key].(string); !ok || !j.matchesMigrationConfig(of, "", text) {
			return fmt.Errorf(
				"%s of %s is no leader migration config that this program makes for lease %s",
				key,
				s.Ref,
				j.Options.LeaseName,
			)
		}
	}
	return nil
}

// kubeletConfigRef is kubeadm's ConfigMap with the configuration of kubelets to come; its name had the version in it up
// to 1.23.
var kubeletConfigRef = regexp.MustCompile(`^ConfigMap/` + component.Namespace + `/kubelet-config(-1\.[0-9]+)?$`)

func (j Judge) patched(s v1.Step) error {
	if s.Object != "" {
		return errors.New("an object that is patched is not made")
	}
	switch {
	case s.Ref == layout.KubeadmConfigRef && s.Derive == layout.DeriveKubeadm && s.Patch == "":
		return nil // by its edits
	case !kubeletConfigRef.MatchString(s.Ref) || s.Derive != "" || len(s.Edits) > 0:
		return fmt.Errorf(
			"%s is not patched by a migration: kubeadm's ClusterConfiguration is, and the feature gates of kubelets to come",
			s.Ref,
		)
	case s.Kind == v1.StepUnpatchObject:
		return nil // by its record
	}
	var patch map[string]map[string]string
	if err := json.Unmarshal(
		[]byte(s.Patch),
		&patch,
	); err != nil || len(patch) != 1 || len(patch["data"]) != 1 ||
		patch["data"][component.Kubelet] == "" {
		return fmt.Errorf("the patch of %s changes more than the kubelets' configuration", s.Ref)
	}
	if d := j.defaults(s.Ref); d != nil {
		return onlyGates(j, d.Text, patch["data"][component.Kubelet])
	}
	return nil
}

func (j Judge) defaults(ref string) *v1.KubeletDefaults {
	if j.Live == nil || j.Live.KubeletDefaults == nil || path.Base(ref) != j.Live.KubeletDefaults.Name {
		return nil
	}
	d := j.Live.KubeletDefaults
	if _, err := kubeadm.WholeText(d.Text, d.SHA256); err != nil || d.Text == "" {
		return nil // its secrets are masked, and a patch compares with the object
	}
	return d
}

// CheckOnlyGates says what two kubelet configurations differ in next to feature gates that have to do with in-tree
// providers; nil for nothing.
func CheckOnlyGates(p *v1.Plan, before, after string) error {
	return onlyGates(Judge{Options: p.Options, cluster: p.Cluster}, before, after)
}

func onlyGates(j Judge, before, after string) error {
	was, err := kubeadm.ParseTree(before)
	if err != nil {
		return err
	}
	is, err := kubeadm.ParseTree(after)
	if err != nil {
		return err
	}
	had, _ := was["featureGates"].(map[string]any)
	has, _ := is["featureGates"].(map[string]any)
	delete(was, "featureGates")
	delete(is, "featureGates")
	if !reflect.DeepEqual(was, is) {
		return errors.New("more than feature gates would change in the configuration of kubelets to come")
	}
	for _, gates := range []map[string]any{had, has} {
		for name := range gates {
			if !reflect.DeepEqual(had[name], has[name]) && !j.isInTreeGate(name) {
				return fmt.Errorf("feature gate %s of kubelets to come has nothing to do with in-tree providers", name)
			}
		}
	}
	return nil
}

// workload holds changes of workloads to those that run a manager, an API server or a scheduler.
func (j Judge) workload(s v1.Step) error {
	if !slices.Contains(managed, s.Component) {
		return fmt.Errorf(
			"component %q is none of a control plane that a migration changes (%s)",
			s.Component,
			strings.Join(managed, ", "),
		)
	}
	if s.Object != "" || s.Patch != "" {
		return fmt.Errorf("%s is edited, and neither made nor patched", s.Ref)
	}
	if s.Kind == v1.StepReplacePod && s.Ref != layout.CCMDaemonSet {
		return fmt.Errorf("%s is not the DaemonSet of the %s: its pods are left alone", s.Ref, component.CCM)
	}
	if isUsualWorkload(s) {
		return nil
	}
	if !clusterview.IsOwnDeployment(j.cluster, s.Ref) {
		return fmt.Errorf(
			"%s is no Deployment in the namespace of the control plane (%s)",
			s.Ref,
			cmp.Or(j.cluster.Seed, component.Namespace),
		)
	}
	seen := j.Live != nil &&
		slices.ContainsFunc(j.Live.Hosted, func(c v1.Component) bool { return c.Manifest == s.Ref && c.Name == s.Component })
	if !seen && j.cluster.Seed == "" && (j.strict || j.Live != nil) {
		return fmt.Errorf("%s is not seen to run %s", s.Ref, s.Component)
	}
	return nil
}

// isUsualWorkload reports whether a workload has the name that this program, or an installer, gives to one of its
// component.
func isUsualWorkload(s v1.Step) bool {
	return s.Component == component.CCM && s.Ref == layout.CCMDaemonSet ||
		s.Ref == "Deployment/"+component.Namespace+"/"+s.Component
}

// PodRules are what the pods of a manager may be.
type PodRules struct {
	account, image string
	// Host is the one of a static pod; empty for a workload.
	Host string
	// files reports whether it may mount files of its host. seed reports whether it runs in one and mounts the Secrets of
	// its namespace. config reports whether it may mount the Secret with its cloud config.
	files, seed, config bool
	// nodes are the node selectors that it may have, none for a pod that has none. anyNode lets it have any, where the
	// cluster is not in view.
	nodes   []layout.Object
	anyNode bool
}

// nodesOfOld are the node selectors of Deployments of the kube-controller-manager, next to which the new one runs.
func (j Judge) nodesOfOld() []layout.Object {
	if j.Live == nil {
		return nil
	}
	var out []layout.Object
	for _, m := range clusterview.AllHosted(j.Live, component.KCM) {
		for _, w := range j.Live.Workloads {
			if w.Ref != m.Manifest {
				continue
			}
			selector := layout.Object{}
			for label, value := range w.NodeSelector {
				selector[label] = value
			}
			out = append(out, selector)
		}
	}
	return out
}

// place holds a pod to the nodes on which a manager may run: the root of any other one would read its token.
func (j Judge) place(pod layout.Object, rules PodRules) error {
	selector, _ := pod["nodeSelector"].(layout.Object)
	isKnown := func(o layout.Object) bool {
		return maps.EqualFunc(o, selector, func(a, b any) bool { return a == b })
	}
	if rules.anyNode || len(selector) == 0 && len(rules.nodes) == 0 || slices.ContainsFunc(rules.nodes, isKnown) {
		return nil
	}
	return fmt.Errorf("the pod's node selector %v is not one by which a manager finds its nodes (%v)", selector, rules.nodes)
}

// only says which key of a map is none of those that are known.
func only(what string, o layout.Object, keys ...string) error {
	for _, k := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(keys, k) {
			return fmt.Errorf("%s has %s, which no manager of a migration has", what, k)
		}
	}
	return nil
}

// managerWorkload holds a workload that starts a manager to the shape of those that this program makes.
func managerWorkload(j Judge, o layout.Object, rules PodRules) error {
	spec, _ := o["spec"].(layout.Object)
	template, _ := spec["template"].(layout.Object)
	pod, _ := template["spec"].(layout.Object)
	metadata, _ := o["metadata"].(layout.Object)
	inTemplate, _ := template["metadata"].(layout.Object)
	if o["apiVersion"] != "apps/v1" || pod == nil {
		return errors.New("the workload has no pod template of apps/v1")
	}
	return errors.Join(
		only(
			"the workload",
			o,
			"apiVersion",
			"kind",
			"metadata",
			"spec",
		),
		only("its metadata", metadata, "name", "namespace", "labels"),
		only(
			"its spec",
			spec,
			"selector",
			"template",
			"updateStrategy",
			"strategy",
			"replicas",
		),
		only("its template", template, "metadata", "spec"),
		only("its template's metadata", inTemplate, "labels"),
		managerSpec(j, pod, rules),
	)
}

// managerPod holds the manifest of a static pod to that of the manager.
func (j Judge) managerPod(s v1.Step) error {
	var o layout.Object
	if err := safeyaml.UnmarshalStrict([]byte(s.Content), &o); err != nil {
		return fmt.Errorf("the manifest cannot be read: %w", err)
	}
	metadata, _ := o["metadata"].(layout.Object)
	pod, _ := o["spec"].(layout.Object)
	if o["apiVersion"] != "v1" || o["kind"] != "Pod" || metadata["name"] != component.CCM ||
		metadata["namespace"] != component.Namespace {
		return fmt.Errorf("the manifest is not that of the Pod %s/%s", component.Namespace, component.CCM)
	}
	notes, _ := metadata["annotations"].(layout.Object)
	return errors.Join(
		only(
			"the manifest",
			o,
			"apiVersion",
			"kind",
			"metadata",
			"spec",
		),
		only("its metadata", metadata, "name", "namespace", "labels", "annotations"),
		only(
			"its annotations",
			notes,
			"transplant.dev/host",
		),
		managerSpec(j, pod, PodRules{image: j.Options.Image, files: true, Host: s.Host}),
	)
}

// managerSpec holds a pod to what a manager needs: one container without more rights than any other, and read-only
// mounts of its own files.
func managerSpec(j Judge, pod layout.Object, rules PodRules) error {
	security, _ := pod["securityContext"].(layout.Object)
	if len(security) > 0 &&
		!reflect.DeepEqual(security, layout.Object{"seccompProfile": layout.Object{"type": "RuntimeDefault"}}) {
		return errors.New("the pod's security context is not that of a manager")
	}
	account, _ := pod["serviceAccountName"].(string)
	if account != rules.account {
		return fmt.Errorf("the pod runs under the account %q, not %q", account, rules.account)
	}
	if err := only(
		"the pod",
		pod,
		"serviceAccountName",
		"hostNetwork",
		"dnsPolicy",
		"priorityClassName",
		"priority",
		"nodeSelector",
		"tolerations",
		"volumes",
		"containers",
		"securityContext",
		"terminationGracePeriodSeconds",
	); err != nil {
		return err
	}
	if err := j.place(pod, rules); err != nil {
		return err
	}
	containers, _ := pod["containers"].([]any)
	if len(containers) != 1 {
		return fmt.Errorf("the pod has %d containers, not one", len(containers))
	}
	c, _ := containers[0].(layout.Object)
	if err := only(
		"the container",
		c,
		"name",
		"image",
		"imagePullPolicy",
		"command",
		"args",
		"env",
		"volumeMounts",
		"resources",
		"livenessProbe",
		"readinessProbe",
		"startupProbe",
		"ports",
	); err != nil {
		return err
	}
	if image, _ := c["image"].(string); image != rules.image {
		return fmt.Errorf("the container's image is %s, and the options have %s", image, rules.image)
	}
	for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		p, _ := c[probe].(layout.Object)
		if p["exec"] != nil || p["grpc"] != nil {
			return fmt.Errorf("the %s runs a program", probe)
		}
	}
	return errors.Join(managerCommand(j, c, rules), managerEnv(j, c, rules), managerVolumes(j, pod, c, rules))
}
