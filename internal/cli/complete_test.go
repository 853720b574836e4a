package cli

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/cli/complete"
)

// offered are the words that the shell is given at the end of a command line, without their descriptions.
func offered(t *testing.T, args ...string) []string {
	t.Helper()
	r := transplant(t, append([]string{"__complete"}, args...)...)
	var out []string
	for line := range strings.Lines(r.out) {
		word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !strings.HasPrefix(word, ":") {
			out = append(out, word)
		}
	}
	if errs := strings.TrimSpace(r.errOut); errs != "" && !strings.HasPrefix(errs, "Completion ended with directive") {
		t.Errorf("completing %v says %q", args, errs)
	}
	return out
}

func TestWhatTheShellIsOffered(t *testing.T) {
	o := newOnlooker(t)
	o.doc.Plan.Steps[2].ID = "create/$(reboot)" // which others may have written
	o.begin()
	here := "--kubeconfig=" + o.kubeconfig
	plan := file(t, "plan.yaml", planOfLab(t, "cp-1", "cp-2", "cp-3", "worker-1", "worker-2", "worker-3", "worker-4", "worker-5"))
	for _, c := range []struct {
		args    []string
		want    []string
		without []string
	}{
		{[]string{"explain", ""}, []string{"LM-001", "NODE-001"}, nil},
		{[]string{"explain", "LM-001", ""}, nil, []string{"LM-001"}},
		{[]string{"check", "--accept", "NODE-"}, []string{"NODE-001="}, []string{"LM-001="}},
		{[]string{"apply", "--accept", ""}, []string{"NODE-001="}, nil},
		{[]string{"plan", "--accept", ""}, []string{"NODE-001="}, nil},
		{[]string{"check", "-o", ""}, []string{"table", "wide", "json", "yaml", "junit"}, nil},
		{[]string{"apply", "-o", ""}, []string{"text", "jsonl"}, []string{"json"}},
		{[]string{"status", "--details", ""}, []string{"none", "nodes"}, nil},
		{[]string{"status", "-o", ""}, []string{"text", "json", "yaml", "prometheus"}, nil},
		{[]string{"fleet", "apply", "-o", ""}, []string{"text", "jsonl"}, []string{"json"}},
		{[]string{"fleet", "plan", "--details", ""}, []string{"none", "short", "whole"}, nil},
		{[]string{"check", "--color", ""}, []string{"auto", "always", "never"}, nil},
		{[]string{"check", "--strategy", ""}, []string{"leader-migration", "downtime"}, nil},
		{[]string{"check", here, "--context", ""}, []string{"test"}, nil},
		{[]string{"check", here, "--cluster", ""}, []string{"test"}, nil},
		{[]string{"check", here, "--user", ""}, []string{"tester"}, nil},
		{[]string{"plan", "--image", ""}, []string{"official", "ours"}, nil},
		{[]string{"check", "--seed-kubeconfig=" + o.kubeconfig, "--seed-context", ""}, []string{"test"}, nil},
		{[]string{"apply", here, "--until", ""}, []string{"prepare", "kubelets", "leader-migration/kube-controller-manager@cp-2"}, []string{"create/$(reboot)"}},
		{[]string{"apply", here, "--until", "kube"}, []string{"kubelets"}, []string{"prepare"}},
		{[]string{"apply", here, "--node", ""}, []string{"worker-1", "worker-2"}, []string{"cp-1", "worker-5"}},
		{[]string{"apply", here, "--without-host", ""}, []string{"cp-1", "worker-1"}, nil},
		{[]string{"apply", plan, "--until", ""}, []string{"kubelets", "external/kubelet@worker-5"}, nil},
		{[]string{"diff", plan, "--until", ""}, []string{"kubelets", "external/kubelet@worker-5"}, nil},
		{[]string{"plan", "--refresh", plan, "--until", ""}, []string{"kubelets", "external/kubelet@worker-5"}, nil},
		{[]string{"apply", plan, "--node", ""}, []string{"worker-5"}, []string{"cp-1"}},
	} {
		have := offered(t, c.args...)
		for _, want := range c.want {
			if !slices.Contains(have, want) {
				t.Errorf("completing %v does not offer %q: %q", c.args, want, have)
			}
		}
		for _, not := range c.without {
			if slices.Contains(have, not) {
				t.Errorf("completing %v offers %q: %q", c.args, not, have)
			}
		}
	}
	if r := transplant(t, "__complete", "status", ""); r.out != ":4\n" {
		t.Errorf("files are offered to a command that takes none: %q", r.out)
	}
	if r := transplant(t, "__complete", "apply", ""); r.out != ":0\n" {
		t.Errorf("no files are offered to a command that takes a plan: %q", r.out)
	}
}

func TestTheShellIsOfferedTheClustersOfAFleet(t *testing.T) {
	w := newSeed(t)
	w.plain("aws-east", "aws-west", "lab")
	for _, c := range []struct{ group, name string }{
		{"kubermatic.k8c.io", "twice"}, {"kubermatic.k8s.io", "twice"},
		{"kubermatic.k8s.io", "$(reboot)"}, // which others may have written
	} {
		w.put(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": c.group + "/v1", "kind": "Cluster", "metadata": map[string]any{"name": c.name},
		}})
	}
	here := "--kubeconfig=" + w.kubeconfig
	for _, c := range []struct{ args, want []string }{
		{[]string{"fleet", "plan", here, ""}, []string{"aws-east", "aws-west", "lab", "twice"}},
		{[]string{"fleet", "apply", here, "aws-"}, []string{"aws-east", "aws-west"}},
		{[]string{"fleet", "status", here, "aws-east", "aws-"}, []string{"aws-west"}},
		{[]string{"fleet", "rights", here, "l"}, []string{"lab"}},
		{[]string{"fleet", "plan", here, "--except", "t"}, []string{"twice"}},
		{[]string{"fleet", "apply", here, "--first", "lab,aws-east,"}, []string{"lab,aws-east,aws-west", "lab,aws-east,twice"}},
		{[]string{"fleet", "plan", here, "lab", "aws-east", "--first", "l"}, []string{"lab"}},
		{[]string{"fleet", "status", "--provider", "a"}, []string{"anexia", "aws", "azure"}},
		{[]string{"fleet", "status", "--provider", "aws,a"}, []string{"aws,anexia", "aws,azure"}},
		{[]string{"fleet", "plan", "--image", ""}, []string{"aws=", "azure=", "gce=", "openstack=", "vsphere="}},
		{[]string{"fleet", "plan", "--image", "aws=o"}, []string{"aws=official", "aws=ours"}},
	} {
		if diff := cmp.Diff(c.want, offered(t, c.args...)); diff != "" {
			t.Errorf("completing %v (-want +got):\n%s", c.args, diff)
		}
	}
	before := w.api.Requests()["list clusters"]
	offered(t, "fleet", "plan", here, "")
	if lists := w.api.Requests()["list clusters"] - before; lists != 2 {
		t.Errorf("%d lists, one of each group was to be read", lists)
	}
}

// A command and its completion have to ask one cluster, as one user.
func TestTheShellIsOfferedWhatTheCommandWouldSee(t *testing.T) {
	o := newOnlooker(t)
	o.begin()
	var mu sync.Mutex
	users := map[string]bool{}
	o.api.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		groups := slices.Sorted(slices.Values(r.Header.Values("Impersonate-Group")))
		groups = slices.Compact(groups) // cobra reads the flags of a completion twice, so that each group is there twice
		users[r.Header.Get("Impersonate-User")+" "+strings.Join(groups, ",")] = true
		return false
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["away"] = &clientcmdapi.Cluster{Server: "http://127.0.0.1:1"}
	config.Clusters["tunnel"] = &clientcmdapi.Cluster{Server: o.api.URL}
	config.AuthInfos["ops"] = &clientcmdapi.AuthInfo{}
	config.Contexts["prod"], config.CurrentContext = &clientcmdapi.Context{Cluster: "away", AuthInfo: "ops"}, "prod"
	here := "--kubeconfig=" + apitest.WriteKubeconfig(t, config)
	if have := offered(t, "apply", here, "--cluster", ""); !slices.Equal(have, []string{"away", "tunnel"}) {
		t.Errorf("clusters: %q", have)
	}
	if have := offered(t, "apply", here, "--until", ""); len(have) > 0 {
		t.Errorf("the context's cluster does not answer, and has %q", have)
	}
	as := []string{"--cluster=tunnel", "--as=jane", "--as-group=ops", "--as-group=on-call"}
	if have := offered(t, append(append([]string{"apply", here}, as...), "--until", "")...); !slices.Contains(have, "kubelets") {
		t.Errorf("the cluster of --cluster is not asked: %q", have)
	}
	if len(users) != 1 || !users["jane on-call,ops"] {
		t.Errorf("requests of %v", users)
	}
	if have := offered(t, "apply", here, "--cluster=tunnel", "--as-group=ops", "--until", ""); len(have) > 0 || len(users) != 1 {
		t.Errorf("--as-group without --as is refused by the command, and offers %q as %v", have, users)
	}
}

func TestTheShellIsOfferedNothingWhereNothingIsKnown(t *testing.T) {
	server := apitest.New(t)
	for _, args := range [][]string{
		{"apply", "--kubeconfig=/nonexistent", "--until", ""},
		{"apply", "--kubeconfig=/nonexistent", "--context", ""},
		{"apply", "--kubeconfig=" + file(t, "kubeconfig", "{]"), "--context", ""},
		{"apply", "--kubeconfig=" + server.Kubeconfig(t), "--node", ""},
		{"apply", "nope.yaml", "--kubeconfig=" + server.Kubeconfig(t), "--until", ""},
		{"apply", "--kubeconfig=/nonexistent", "--cluster", ""},
		{"fleet", "plan", "--kubeconfig=/nonexistent", ""},
		{"fleet", "plan", "--kubeconfig=" + server.Kubeconfig(t), ""},
		{"fleet", "apply", "--kubeconfig=" + server.Kubeconfig(t), "--except", ""},
	} {
		if have := offered(t, args...); len(have) > 0 {
			t.Errorf("completing %v: %q", args, have)
		}
	}
}

// The server answers nothing until the test ends: a completion without a limit would not come back.
func TestAClusterThatDoesNotAnswerHoldsNoShell(t *testing.T) {
	server := apitest.New(t)
	held := make(chan struct{})
	server.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		select {
		case <-held:
		case <-r.Context().Done():
		}
		return true
	}
	defer close(held)
	if complete.ShellLimit > time.Second {
		t.Errorf("a shell waits for %s", complete.ShellLimit)
	}
	was := complete.Limit
	complete.Limit = time.Millisecond
	defer func() { complete.Limit = was }()
	here := "--kubeconfig=" + server.Kubeconfig(t)
	for _, args := range [][]string{{"apply", here, "--until", ""}, {"fleet", "plan", here, "--except", ""}} {
		if have := offered(t, args...); len(have) > 0 {
			t.Errorf("%q", have)
		}
	}
}
