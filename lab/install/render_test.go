package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/transplant-dev/transplant/internal/manifests"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/cluster"
)

const (
	helmVersion   = "v4.3.1"
	olderHelm     = "v3.22.0" // of the major that many users still have
	operatorChart = "deploy/charts/transplant-operator"
	newestServer  = "v1.37.2"
)

var whole = flag.Bool("install.all", false, "have Helm render and install the charts, too, and the newest API server take what is rendered, which compiles both (make e2e)")

// tools are the programs of a user of the repository, and where it is.
type tools struct {
	kubectl string
	helm    string // only with -install.all, as the next one
	helm3   string
	root    string
	// env is the environment of both programs.
	env []string
}

func theTools(t *testing.T) tools {
	t.Helper()
	if testing.Short() {
		t.Skip("needs kubectl; run without -short")
	}
	sets := slices.Clone(build.DefaultSets)
	if *whole {
		sets = append(sets, "helm-"+helmVersion, "helm-"+olderHelm)
	}
	bins, err := build.Ensure(t.Context(), build.Options{Progress: os.Stderr, Sets: sets})
	if err != nil {
		t.Fatal(err)
	}
	out := tools{env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}} // helm keeps nothing of this user's
	if out.kubectl, err = bins.Path("kubectl", cluster.Version); err != nil {
		t.Fatal(err)
	}
	if *whole {
		if out.helm, err = bins.Path("helm", helmVersion); err != nil {
			t.Fatal(err)
		}
		if out.helm3, err = bins.Path("helm", olderHelm); err != nil {
			t.Fatal(err)
		}
	}
	if out.root, err = build.FindRoot(); err != nil {
		t.Fatal(err)
	}
	return out
}

// withHelm are the tools of a test of charts.
func withHelm(t *testing.T) tools {
	t.Helper()
	if !*whole {
		t.Skip("compiles Helm: make e2e, or -install.all")
	}
	return theTools(t)
}

// run runs a program in the repository, and returns what it prints and what it complains about.
func (o tools) run(ctx context.Context, program string, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = o.root, o.env, &out, &errs
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, errs.String())
	}
	return out.String(), errs.String(), err
}

// must runs a program that has to succeed.
func (o tools) must(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, _, err := o.run(t.Context(), program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// as are the tools of a user of a cluster.
func (o tools) as(kubeconfig string) tools {
	o.env = append(slices.Clone(o.env), "KUBECONFIG="+kubeconfig)
	return o
}

// objects reads documents, by kind, namespace and name. Labels that say who installed an object are left out.
func objects(t *testing.T, documents string) map[string]any {
	t.Helper()
	out := map[string]any{}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(documents), 4096)
	for {
		var o map[string]any
		if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, documents)
		}
		if len(o) == 0 {
			continue
		}
		meta := o["metadata"].(map[string]any)
		ref := fmt.Sprint(o["kind"], "/", meta["namespace"], "/", meta["name"])
		if _, twice := out[ref]; twice {
			t.Errorf("%s is rendered twice", ref)
		}
		delete(meta, "labels")
		out[ref] = o
	}
}

// withoutHelm are objects without what only Helm has a use for.
func withoutHelm(all map[string]any) map[string]any {
	for _, o := range all {
		meta := o.(map[string]any)["metadata"].(map[string]any)
		if notes, ok := meta["annotations"].(map[string]any); ok {
			delete(notes, "helm.sh/resource-policy")
			if len(notes) == 0 {
				delete(meta, "annotations")
			}
		}
	}
	return all
}

// fromCode are the objects of a provider's manager, and further ones, as the code renders them.
func fromCode(t *testing.T, provider string, more ...layout.Object) map[string]any {
	t.Helper()
	rendered, err := manifests.Manager(provider)
	if err != nil {
		t.Fatal(err)
	}
	var documents bytes.Buffer
	for _, o := range append(rendered, more...) {
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		documents.WriteString("---\n" + string(data) + "\n")
	}
	return objects(t, documents.String())
}

func overlay(provider string) string {
	return filepath.Join(manifests.KustomizeDir, "overlays", provider)
}

func TestKustomizeGivesWhatTheCodeRenders(t *testing.T) {
	o := theTools(t)
	for _, provider := range manifests.Providers() {
		plain, err := os.ReadFile(filepath.Join(o.root, manifests.PlainDir, provider+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		for how, got := range map[string]string{"kubectl kustomize": o.must(t, o.kubectl, "kustomize", overlay(provider)), "the plain file": string(plain)} {
			if diff := cmp.Diff(fromCode(t, provider), objects(t, got)); diff != "" {
				t.Errorf("%s of %s (-code +rendered):\n%s", how, provider, diff)
			}
		}
	}
	guide := objects(t, o.must(t, o.kubectl, "kustomize", manifests.GuideDir))
	if diff := cmp.Diff(fromCode(t, "aws"), guide); diff != "" {
		t.Errorf("%s (-code +rendered):\n%s", manifests.GuideDir, diff)
	}
}

// Grafana's sidecar finds the dashboards by their label, and each ConfigMap holds one.
func TestKustomizeGivesTheDashboards(t *testing.T) {
	o := theTools(t)
	const dir = "deploy/monitoring/dashboards"
	got := map[string]string{}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(o.must(t, o.kubectl, "kustomize", dir)), 4096)
	for {
		var c corev1.ConfigMap
		if err := decoder.Decode(&c); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if c.Kind != "ConfigMap" || c.Namespace != "monitoring" || c.Labels["grafana_dashboard"] != "1" || len(c.Data) != 1 {
			t.Errorf("%s %s/%s with labels %v and %d files", c.Kind, c.Namespace, c.Name, c.Labels, len(c.Data))
		}
		maps.Copy(got, c.Data)
	}
	want := map[string]string{}
	files, err := filepath.Glob(filepath.Join(o.root, dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want[filepath.Base(file)] = string(data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dashboards (-files +rendered):\n%s", diff)
	}
}

func TestHelmGivesWhatTheCodeRenders(t *testing.T) {
	o := withHelm(t)
	for _, provider := range manifests.Providers() {
		if diff := cmp.Diff(fromCode(t, provider), withoutHelm(objects(t, o.must(t, o.helm, template("provider="+provider)...)))); diff != "" {
			t.Errorf("helm template of %s (-code +rendered):\n%s", provider, diff)
		}
	}
	observed := fromCode(t, "aws", append(manifests.Metrics(), manifests.ServiceMonitor())...)
	if diff := cmp.Diff(observed, objects(t, o.must(t, o.helm, template("metrics.enabled=true", "metrics.serviceMonitor.enabled=true")...))); diff != "" {
		t.Errorf("helm template with metrics (-code +rendered):\n%s", diff)
	}
}

// The chart of the operator installs what the files of deploy/operator do, but the Namespace, which Helm makes.
func TestTheChartOfTheOperatorIsItsManifests(t *testing.T) {
	o := withHelm(t)
	var documents strings.Builder
	for _, name := range []string{"operator", "rbac", "webhooks", "webhooks-strict", "networkpolicy"} {
		data, err := os.ReadFile(filepath.Join(o.root, "deploy/operator", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		documents.WriteString("---\n" + string(data) + "\n")
	}
	want := objects(t, documents.String())
	delete(want, "Namespace/<nil>/transplant-system")
	got := objects(t, o.must(t, o.helm, "template", "transplant", operatorChart, "--namespace", "transplant-system",
		"--set", "webhooks.strict=true", "--set", "networkPolicy.enabled=true", "--set", "networkPolicy.apiServerCIDRs={192.0.2.0/24}",
		"--set", "maxParallel=10"))
	container := func(of map[string]any) map[string]any {
		set := of["Deployment/transplant-system/transplant-operator"].(map[string]any)
		pod := set["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		return pod["containers"].([]any)[0].(map[string]any)
	}
	// What the chart gives a value of its own: the defaults of these flags, and the policy for pulling an image with a tag.
	for _, more := range []string{"--max-parallel=10", "--max-parallel-machines=5"} {
		container(want)["args"] = append(container(want)["args"].([]any), more)
	}
	container(want)["imagePullPolicy"] = "IfNotPresent"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("chart of the operator (-deploy/operator +chart):\n%s", diff)
	}
}

// What each value of a chart becomes.
func TestValuesOfTheManagersChart(t *testing.T) {
	o := withHelm(t)
	for _, c := range []struct {
		name string
		set  []string
		want []string
		not  []string
	}{
		{"routes", []string{"routes.enabled=true", "routes.clusterCIDR=10.244.0.0/16"}, []string{
			"--configure-cloud-routes=true", "--cluster-cidr=10.244.0.0/16", "--allocate-node-cidrs=true",
		}, []string{"--configure-cloud-routes=false"}},
		{"leader migration", []string{"leaderMigration.enabled=true"}, []string{
			"--enable-leader-migration=true", "name: transplant-leader-migration", "cloud-provider-extraction-migration", "name: system:kube-controller-manager",
		}, nil},
		{"a digest", []string{"image.digest=sha256:" + strings.Repeat("0a", 32)}, []string{
			`image: "ghcr.io/transplant-dev/aws-cloud-controller-manager:v0.1.0@sha256:` + strings.Repeat("0a", 32) + `"`,
		}, nil},
		{"a mirror", []string{"image.registry=registry.example.com:5000/transplant-dev", "imagePullSecrets[0].name=pull"}, []string{
			`image: "registry.example.com:5000/transplant-dev/aws-cloud-controller-manager:v0.1.0"`, "- name: pull",
		}, nil},
		{"a cloud config", []string{"cloudConfig.content=[Global]"}, []string{
			"name: ccm-cloud-config", "cloud.conf: W0dsb2JhbF0=", "--cloud-config=/etc/kubernetes/cloud-config/cloud.conf", "secretName: ccm-cloud-config", "checksum/cloud-config: ",
		}, nil},
		{"a Secret that is there", []string{"provider=openstack", "cloudConfig.secretName=mine", "cloudConfig.key=os.conf"}, []string{
			"secretName: mine", "--cloud-config=/etc/kubernetes/cloud-config/os.conf",
		}, []string{"kind: Secret"}},
		{"credentials of vSphere", []string{"provider=vsphere", "credentialsSecret=vcenter"}, []string{`resourceNames: ["vcenter"]`}, []string{"vsphere-cloud-secret"}},
		{"no credentials of vSphere", []string{"provider=vsphere", "credentialsSecret="}, nil, []string{"secrets"}},
		{"the host's API server", []string{"apiServer.local=true"}, []string{"fieldPath: status.hostIP", `value: "6443"`}, nil},
		{"another API server", []string{"apiServer.host=api.example.com", "apiServer.port=443"}, []string{`value: "api.example.com"`, `value: "443"`}, []string{"status.hostIP"}},
		{"another port", []string{"securePort=10270"}, []string{"--secure-port=10270", "port: 10270"}, []string{"10258"}},
		{"flags", []string{"extraArgs={--concurrent-service-syncs=5}", "clusterName=prod", "controllers=*\\,-service", "logLevel=2"}, []string{
			`- "--concurrent-service-syncs=5"`, "--cluster-name=prod", `- "--controllers=*,-service"`, "--v=2",
		}, nil},
		{"metrics", []string{"metrics.enabled=true", "metrics.serviceAccount.name=prometheus", "metrics.serviceAccount.namespace=observability", "securePort=10270"}, []string{
			"nonResourceURLs: [/metrics]", "name: prometheus\n    namespace: observability", "clusterIP: None", "targetPort: 10270",
		}, []string{"ServiceMonitor"}},
		{"a ServiceMonitor", []string{"metrics.enabled=true", "metrics.serviceMonitor.enabled=true", "metrics.serviceMonitor.interval=15s", "metrics.serviceMonitor.labels.release=kps"}, []string{
			"kind: ServiceMonitor", "interval: 15s", "release: kps",
		}, nil},
		{"roles of others", []string{"rbac.create=false", "metrics.enabled=true", "leaderMigration.enabled=true"}, []string{"kind: ServiceAccount", "clusterIP: None"}, []string{
			"rbac.authorization.k8s.io",
		}},
		{"an account of others", []string{"serviceAccount.create=false", "serviceAccount.name=mine"}, []string{"serviceAccountName: mine", "- kind: ServiceAccount\n    name: mine"}, []string{
			"kind: ServiceAccount\nmetadata",
		}},
		{"no budget", []string{"podDisruptionBudget.enabled=false"}, nil, []string{"PodDisruptionBudget"}},
		{"pods replaced by hand", []string{"updateStrategy=OnDelete"}, []string{"type: OnDelete"}, []string{"RollingUpdate"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := o.must(t, o.helm, template(c.set...)...)
			objects(t, out) // it is YAML
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in\n%s", want, out)
				}
			}
			for _, not := range c.not {
				if strings.Contains(out, not) {
					t.Errorf("%q is in\n%s", not, out)
				}
			}
		})
	}
}

// template are the arguments that render the chart with values.
func template(values ...string) []string {
	args := []string{"template", "ccm", manifests.ChartDir, "--namespace", "kube-system"}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	return args
}

func TestChartsRefuseWhatTheyDoNotKnow(t *testing.T) {
	o := withHelm(t)
	operator := []string{"template", "transplant", operatorChart, "--namespace", "transplant-system", "--set"}
	for _, c := range []struct {
		args []string
		says string
	}{
		{template("provider=cloudstack"), "provider"},
		{template("rbac.create=perhaps"), "create"},
		{template("serviceAccount.create=false", "serviceAccount.annotations.a=b"), "serviceAccount.annotations needs serviceAccount.create"},
		{template("provder=aws"), "provder"},
		{template("image.digest=sha256:1"), "digest"},
		{template("routes.enabled=true"), "routes.clusterCIDR: name the pods' addresses"},
		{template("extraArgs={v=2}"), "extraArgs"},
		{template("logLevel=-1"), "logLevel"},
		{template("metrics.serviceMonitor.enabled=true"), "metrics.serviceMonitor.enabled needs metrics.enabled"},
		{template("metrics.enabled=true", "metrics.serviceAccount.name="), "metrics"},
		{template("metrics.enabled=true", "metrics.serviceMonitor.interval=often"), "interval"},
		{append(template(), "--namespace", "default"), "add --namespace kube-system"},
		{append(template(), "--kube-version", "1.24.0"), "incompatible with Kubernetes v1.24.0"},
		{append(slices.Clone(operator), "replicas=0"), "replicas"},
		{append(slices.Clone(operator), "ccmImages.azuer=official"), "azuer"},
		{append(slices.Clone(operator), "networkPolicy.enabled=true"), "networkPolicy.apiServerCIDRs: name the addresses"},
		{append(slices.Clone(operator), "clusterNamespaces={Cluster_x}"), "clusterNamespaces"},
		{append(slices.Clone(operator), "clusterNamespaces={cluster-x},rbac.create=false"), "clusterNamespaces needs rbac.create"},
		{append(slices.Clone(operator), "webhooks.certificate.secretName=x"), "caBundle or injectCAFrom"},
		{append(slices.Clone(operator), "webhooks.certificate.injectCAFrom=a/b"), "needs secretName"},
		{append(slices.Clone(operator), "webhooks.certificate.secretName=x,webhooks.certificate.injectCAFrom=a/b,webhooks.certificate.caBundle=-----BEGIN CERTIFICATE-----"), "set one"},
	} {
		out, _, err := o.run(t.Context(), o.helm, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("helm %v is not refused with %q: %v\n%s", c.args, c.says, err, out)
		}
	}
}

func TestHelm3RendersWhatHelm4Does(t *testing.T) {
	o := withHelm(t)
	for chart, namespace := range map[string]string{manifests.ChartDir: kubeSystem, operatorChart: "transplant-system"} {
		if out := o.must(t, o.helm3, "lint", "--strict", "--namespace", namespace, chart); !strings.Contains(out, "0 chart(s) failed") {
			t.Errorf("helm lint of %s:\n%s", chart, out)
		}
		files, err := filepath.Glob(filepath.Join(snapshotDir, filepath.Base(chart), "*"+valuesSuffix))
		if err != nil || len(files) < 2 {
			t.Fatalf("values of %s: %v, %v", chart, files, err)
		}
		for _, values := range files {
			given, err := filepath.Abs(values)
			if err != nil {
				t.Fatal(err)
			}
			args := []string{"template", "snapshot", chart, "--namespace", namespace, "--values", given, "--include-crds", "--kube-version", "1.30.0"}
			if diff := cmp.Diff(objects(t, o.must(t, o.helm, args...)), objects(t, o.must(t, o.helm3, args...))); diff != "" {
				t.Errorf("%s with %s (-Helm 4 +Helm 3):\n%s", chart, values, diff)
			}
		}
	}
}

// Every value is in the schema and has a comment of its own or of its group.
func TestEveryValueIsExplained(t *testing.T) {
	o := withHelm(t)
	for _, chart := range []string{manifests.ChartDir, operatorChart} {
		if out := o.must(t, o.helm, "lint", "--strict", "--namespace", "kube-system", chart); !strings.Contains(out, "0 chart(s) failed") {
			t.Errorf("helm lint of %s:\n%s", chart, out)
		}
		text, err := os.ReadFile(filepath.Join(o.root, chart, "values.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var values, schema map[string]any
		if err := yaml.Unmarshal(text, &values); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(o.root, chart, "values.schema.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &schema); err != nil {
			t.Fatal(err)
		}
		known := schema["properties"].(map[string]any)
		delete(known, "global") // Helm's own
		if diff := cmp.Diff(slices.Sorted(maps.Keys(values)), slices.Sorted(maps.Keys(known))); diff != "" {
			t.Errorf("%s: values.yaml and values.schema.json differ (-values +schema):\n%s", chart, diff)
		}
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			if line == "" || strings.HasPrefix(line, " ") || strings.HasPrefix(line, "#") {
				continue
			}
			group := strings.HasSuffix(line, ":") && i+1 < len(lines) && strings.HasPrefix(strings.TrimSpace(lines[i+1]), "#")
			if !group && (i == 0 || !strings.HasPrefix(lines[i-1], "#")) && !slices.Contains(plainValues, strings.TrimSuffix(strings.Fields(line)[0], ":")) {
				t.Errorf("%s: %q has no comment", chart, line)
			}
		}
	}
}

// plainValues are those that every chart has, and those that go with the one before them.
var plainValues = []string{"image", "nodeSelector", "tolerations", "resources", "priorityClassName", "maxParallelMachines", "podAnnotations"}

// API servers of both ends of the range take what is rendered, field by field, and a second time nothing changes.
func TestAPIServersTakeWhatIsRendered(t *testing.T) {
	tool := theTools(t)
	servers := []string{apiserver.DefaultVersion}
	if *whole {
		servers = append(servers, newestServer)
	}
	for _, version := range servers {
		t.Run(version, func(t *testing.T) {
			server, err := apiserver.Start(t.Context(), apiserver.Options{Dir: t.TempDir(), Version: version, Progress: os.Stderr})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Stop)
			kubeconfig, err := server.Kubeconfig("installer")
			if err != nil {
				t.Fatal(err)
			}
			o := tool.as(kubeconfig)
			for _, provider := range manifests.Providers() {
				o.must(t, o.kubectl, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", overlay(provider))
			}
			o.must(t, o.kubectl, "apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", kustomization(t, tool.root))
			o.must(t, o.kubectl, "apply", "-k", manifests.GuideDir)
			// kubectl says "configured" of a budget whose selector it has sent again, so that versions are compared and not its words.
			versions := func() string {
				return o.must(t, o.kubectl, "get", "-k", manifests.GuideDir, "-o", "custom-columns=KIND:.kind,NAME:.metadata.name,VERSION:.metadata.resourceVersion")
			}
			before := versions()
			o.must(t, o.kubectl, "apply", "-k", manifests.GuideDir)
			if diff := cmp.Diff(before, versions()); diff != "" {
				t.Errorf("applied a second time, something changes (-first +second):\n%s", diff)
			}
			o.must(t, o.kubectl, "delete", "-k", manifests.GuideDir)
		})
	}
}

// kustomization is one as a user writes it: an overlay with the components that need nothing else.
func kustomization(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	relative := func(name string) string {
		path, err := filepath.Rel(dir, filepath.Join(root, manifests.KustomizeDir, name))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	text := "resources:\n- " + relative("overlays/aws") + "\ncomponents:\n"
	for _, name := range []string{"leader-migration", "local-apiserver", "metrics"} {
		text += "- " + relative("components/"+name) + "\n"
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}
