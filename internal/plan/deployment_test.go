package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// managerDeployment is the cloud-controller-manager that a plan makes for a control plane of Deployments.
func managerDeployment(t *testing.T, p *v1.Plan) appsv1.Deployment {
	t.Helper()
	var d appsv1.Deployment
	if err := json.Unmarshal([]byte(find(t, p, "create/Deployment/kube-system/"+component.CCM).Object), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestTheManagerOfADeploymentIsOneThatStarts compares it with the DaemonSet's, which has run on real clusters.
func TestTheManagerOfADeploymentIsOneThatStarts(t *testing.T) {
	for image, program := range map[string]string{
		options.DefaultImage: "/aws-cloud-controller-manager",
		seedImage:            "/bin/aws-cloud-controller-manager",
		"mirror.example/provider-aws/cloud-controller-manager:v1.26.4": "/bin/aws-cloud-controller-manager",
	} {
		snap := deployedCluster()
		snap.Hosted[0].Flags["controllers"] = "*,-service"
		snap.Workloads = []v1.Workload{{Ref: "Deployment/kube-system/" + component.KCM, NodeSelector: map[string]string{layout.LabelControlPlane: ""}}}
		d := managerDeployment(t, mustMake(t, snap, v1.Options{Image: image, Env: []string{"AWS_SHARED_CREDENTIALS_FILE=/etc/kubernetes/ccm.credentials"}}))
		var set appsv1.DaemonSet
		like := aws26HA()
		for i := range like.Hosts {
			if m := kcmOf(like, i); m != nil {
				m.Flags["controllers"] = "*,-service"
			}
		}
		if err := json.Unmarshal(
			[]byte(find(t, mustMake(t, like, v1.Options{Image: image, Strategy: planstep.Downtime, Shape: v1.ShapeDaemonSet}), "start/"+component.CCM).Object),
			&set,
		); err != nil {
			t.Fatal(err)
		}
		spec := d.Spec.Template.Spec
		c, other := spec.Containers[0], set.Spec.Template.Spec.Containers[0]
		if c.Command[0] != program || other.Command[0] != program {
			t.Errorf("%s: the Deployment starts %s and the DaemonSet %s, the program is %s", image, c.Command[0], other.Command[0], program)
		}
		if !slices.Contains(c.Command, "--controllers=*,-service-lb-controller") && !slices.Contains(c.Command, "--controllers=*,-service") {
			t.Errorf("%s: what the owner of the cluster has switched off runs: %s", image, c.Command)
		}
		for name, have := range map[string][2]*corev1.Probe{
			"liveness":  {c.LivenessProbe, other.LivenessProbe},
			"readiness": {c.ReadinessProbe, other.ReadinessProbe},
			"startup":   {c.StartupProbe, other.StartupProbe},
		} {
			if have[0] == nil || have[0].HTTPGet.Port != have[1].HTTPGet.Port || have[0].HTTPGet.Path != have[1].HTTPGet.Path ||
				have[0].FailureThreshold != have[1].FailureThreshold {
				t.Errorf("%s: %s probe %+v, the DaemonSet's is %+v", image, name, have[0], have[1])
			}
		}
		if cpu, want := c.Resources.Requests.Cpu(), other.Resources.Requests.Cpu(); cpu.IsZero() || cpu.Cmp(*want) != 0 {
			t.Errorf("%s: it requests %s", image, cpu)
		}
		if !spec.HostNetwork || spec.SecurityContext == nil || spec.NodeSelector[layout.LabelControlPlane] != "" || len(spec.NodeSelector) != 1 {
			t.Errorf("%s: pod %+v", image, spec)
		}
		if len(c.Ports) != 1 || c.Ports[0].HostPort != 10258 {
			t.Errorf("%s: two replicas may come to one node: ports %+v", image, c.Ports)
		}
		if slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool { return t.Effect == corev1.TaintEffectNoExecute }) {
			t.Errorf("%s: a replica on a dead node is never replaced: %+v", image, spec.Tolerations)
		}
		if len(c.VolumeMounts) != 1 || c.VolumeMounts[0].MountPath != "/etc/kubernetes/ccm.credentials" {
			t.Errorf("%s: the file of the credentials is not mounted: %+v", image, c.VolumeMounts)
		}
	}
}

func TestAnImageThatStartsItsProgramByItselfGetsArgumentsAlone(t *testing.T) {
	const image = "registry.k8s.io/cloud-provider-gcp/cloud-controller-manager:v33.1.1"
	p := mustMake(t, gce30(), v1.Options{Image: image, Shape: v1.ShapeDaemonSet})
	var set appsv1.DaemonSet
	if err := json.Unmarshal([]byte(find(t, p, "start/"+component.CCM).Object), &set); err != nil {
		t.Fatal(err)
	}
	if c := set.Spec.Template.Spec.Containers[0]; len(c.Command) != 0 || !slices.Contains(c.Args, "--cloud-provider=gce") {
		t.Errorf("command %s, arguments %s", c.Command, c.Args)
	}
	_, err := Make(gce30(), v1.Options{Image: image}, nil, now)
	if err == nil || !strings.Contains(err.Error(), "--shape=daemonset") {
		t.Errorf("a static pod: %v", err)
	}
}

func TestADeploymentHasOneEnvironmentForAllHosts(t *testing.T) {
	_, err := Make(deployedCluster(), v1.Options{Env: []string{"WHERE={host}"}}, nil, now)
	if err == nil || !strings.Contains(err.Error(), "WHERE with {host}") {
		t.Errorf("error: %v", err)
	}
}

// configuredDeployment is a cluster whose kube-controller-manager is a Deployment with a cloud config.
func configuredDeployment() *v1.Snapshot {
	snap := deployedCluster()
	snap.Hosted[0].Flags["cloud-config"] = "/etc/cloud/config"
	snap.Hosted[0].Command = append(snap.Hosted[0].Command, "--cloud-config=/etc/cloud/config")
	return snap
}

// TestTheCloudConfigOfADeploymentIsDerivedIntoASecret has a kube-controller-manager with its cloud config on a volume, of whatever kind.
func TestTheCloudConfigOfADeploymentIsDerivedIntoASecret(t *testing.T) {
	snap := configuredDeployment()
	p := mustMake(t, snap, v1.Options{})
	if err := invariant.CheckWellFormed(p); err != nil {
		t.Error(err)
	}
	s, at := find(t, p, "create/Secret/kube-system/"+layout.SeedCloudConfig), positions(p)
	if s.Derive != layout.DeriveDeployedCloudConfig || s.Source != "Deployment/kube-system/"+component.KCM || strings.Contains(s.Object, `"data"`) {
		t.Errorf("step %+v", s)
	}
	if at[s.ID] > at["external/"+component.KCM+"@Deployment/kube-system/"+component.KCM] {
		t.Error("it is derived when no manager runs the loops any longer")
	}
	spec := managerDeployment(t, p).Spec.Template.Spec
	if !slices.Contains(spec.Containers[0].Command, "--cloud-config=/etc/kubernetes/cloud-config/config") {
		t.Errorf("it runs with %s", spec.Containers[0].Command)
	}
	if !slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == layout.SeedCloudConfig }) ||
		!slices.ContainsFunc(
			spec.Containers[0].VolumeMounts,
			func(m corev1.VolumeMount) bool { return m.MountPath == "/etc/kubernetes/cloud-config" && m.ReadOnly },
		) {
		t.Errorf("it mounts %+v at %+v", spec.Volumes, spec.Containers[0].VolumeMounts)
	}
	if effects := strings.Join(p.Effects, "\n"); strings.Contains(effects, "for about 0 s") || !strings.Contains(effects, "gap: for about ") {
		t.Errorf("it promises no gap:\n%s", effects)
	}
	external := find(t, p, "external/"+component.KCM+"@Deployment/kube-system/"+component.KCM)
	if !slices.ContainsFunc(external.Edits, func(e v1.Edit) bool { return e.Op == v1.EditUnsetFlag && e.Name == "cloud-config" }) {
		t.Errorf("an external manager keeps the flag: %+v", external.Edits)
	}
	back := rolledBackFrom(t, p, snap)
	if _, ok := positions(back)["undo/"+s.ID]; !ok {
		t.Errorf("the Secret stays: %v", positions(back))
	}
	for name, change := range map[string]func(*v1.Step){
		"another Deployment": func(s *v1.Step) { s.Source = "Deployment/tenant/" + component.KCM },
		"a path":             func(s *v1.Step) { s.Source = "/etc/shadow" },
		"another derivation": func(s *v1.Step) { s.Derive = layout.DeriveSeedKubeconfig },
		"content":            func(s *v1.Step) { s.Object = strings.Replace(s.Object, `"type"`, `"data":{"config":"YQ=="},"type"`, 1) },
	} {
		q := mustMake(t, snap, v1.Options{})
		change(find(t, q, s.ID))
		if err := invariant.Verify(q, snap); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// managerEnv returns the variables of the manager that a plan makes, by name; a field of the pod stands with a colon before it.
func managerEnv(t *testing.T, p *v1.Plan, step string) map[string]string {
	t.Helper()
	s := find(t, p, step)
	var made struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	var pod corev1.Pod
	if s.Object != "" {
		if err := json.Unmarshal([]byte(s.Object), &made); err != nil {
			t.Fatal(err)
		}
		pod.Spec = made.Spec.Template.Spec
	} else if err := yaml.UnmarshalStrict([]byte(s.Content), &pod); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for _, e := range pod.Spec.Containers[0].Env {
		if env[e.Name] = e.Value; e.ValueFrom != nil {
			env[e.Name] = ":" + e.ValueFrom.FieldRef.FieldPath
		}
	}
	return env
}

// TestOurManagerIsToldItsNode has the name by which the brake on deletions knows the manager's own instance.
func TestOurManagerIsToldItsNode(t *testing.T) {
	for _, shape := range []struct {
		name, step string
		snap       func() *v1.Snapshot
		options    v1.Options
	}{
		{"static pod", "start/" + component.CCM + "@cp-1", aws26HA, v1.Options{Strategy: planstep.LeaderMigration, Shape: v1.ShapeStaticPod}},
		{"DaemonSet", "start/" + component.CCM, aws26HA, v1.Options{Strategy: planstep.LeaderMigration, Shape: v1.ShapeDaemonSet}},
		{"Deployment", "create/Deployment/kube-system/" + component.CCM, deployedCluster, v1.Options{}},
	} {
		for _, c := range []struct {
			name, image string
			env         []string
			want        string
		}{
			{"ours", options.DefaultImage, nil, ":spec.nodeName"},
			{"ours with a name of the options", options.DefaultImage, []string{"NODE_NAME=other"}, "other"},
			{"another's", seedImage, nil, ""},
		} {
			options := shape.options
			options.Image, options.Env = c.image, c.env
			p := mustMake(t, shape.snap(), options)
			env := managerEnv(t, p, shape.step)
			if got := env["NODE_NAME"]; got != c.want {
				t.Errorf("%s, %s: NODE_NAME is %q, want %q", shape.name, c.name, got, c.want)
			}
			if got, want := env["POD_NAME"], map[bool]string{true: ":metadata.name"}[c.want != ""]; got != want { // by which its kubelet testifies
				t.Errorf("%s, %s: POD_NAME is %q, want %q", shape.name, c.name, got, want)
			}
			if err := invariant.CheckWellFormed(p); err != nil {
				t.Errorf("%s, %s: the plan is refused: %v", shape.name, c.name, err)
			}
		}
	}
}
