package snapshot

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/host"
)

const credentialConfig = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: ecr-credential-provider
  matchImages: ["*.dkr.ecr.*.amazonaws.com", "public.ecr.aws"]
  defaultCacheDuration: 12h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [get-credentials]
  env:
  - {name: AWS_PROFILE, value: ` + planted + `}
`

// answering is a provider that gives credentials, and puts down what it was asked.
const answering = `#!/bin/sh
read -r request
echo "$1 $request" >asked
[ "$AWS_PROFILE" = ` + planted + ` ] || exit 9
echo '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse","cacheKeyType":"Registry","auth":{"r":{"username":"AWS","password":"` + planted + `"}}}'
echo ` + planted + ` >&2
`

// writeProvider lays out a worker with an image credential provider.
func writeProvider(t *testing.T, config, program string) string {
	t.Helper()
	dir := t.TempDir()
	write(
		t,
		dir,
		"w-1/var/lib/kubelet/kubeadm-flags.env",
		`KUBELET_KUBEADM_ARGS="--image-credential-provider-config=/etc/kubernetes/cred.yaml --image-credential-provider-bin-dir=/opt/bin"`,
	)
	write(t, dir, "w-1/etc/kubernetes/cred.yaml", config)
	if program != "" {
		write(t, dir, "w-1/opt/bin/ecr-credential-provider", program)
		chmod(t, dir, "w-1/opt/bin/ecr-credential-provider", 0o755)
	}
	return dir
}

func TestCredentialProvidersAreLookedAt(t *testing.T) {
	dir := writeProvider(t, credentialConfig, answering)
	s, h := gatherHosts(t, dir, "w-1", collect.Options{})
	want := &v1.CredentialProviders{
		ConfigPath: "/etc/kubernetes/cred.yaml", BinDir: "/opt/bin", APIVersion: "kubelet.config.k8s.io/v1", SHA256: hostaccess.SHA256([]byte(credentialConfig)),
		Providers: []v1.CredentialProvider{{
			Name: "ecr-credential-provider", APIVersion: "credentialprovider.kubelet.k8s.io/v1", MatchImages: []string{"*.dkr.ecr.*.amazonaws.com", "public.ecr.aws"},
			Present: true, SHA256: hostaccess.SHA256([]byte(answering)),
		}},
	}
	if diff := cmp.Diff(want, h.Kubelet.Credentials); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if strings.Contains(saved(t, s), planted) {
		t.Error("the snapshot holds a secret")
	}
	if names, err := open(t, dir)[0].List(t.Context(), "/"); err != nil || len(names) != 0 {
		t.Errorf("the provider was run without being asked for: %v, %v", names, err)
	}
}

func TestCredentialProvidersThatAKubeletCouldNotUse(t *testing.T) {
	dir := writeProvider(t, credentialConfig, "")
	_, h := gatherHosts(t, dir, "w-1", collect.Options{AskCredentialProviders: true})
	if p := h.Kubelet.Credentials.Providers[0]; p.Present || p.Error != "there is no /opt/bin/ecr-credential-provider" || p.Asked != "" {
		t.Errorf("got %+v", p)
	}
	write(t, dir, "w-1/opt/bin/ecr-credential-provider", answering)
	_, h = gatherHosts(t, dir, "w-1", collect.Options{AskCredentialProviders: true})
	if p := h.Kubelet.Credentials.Providers[0]; p.Present || p.Error != "/opt/bin/ecr-credential-provider may not be executed (mode 0600)" {
		t.Errorf("got %+v", p)
	}
	for config, want := range map[string]string{
		"kind: Pod":             `/etc/kubernetes/cred.yaml: it is no CredentialProviderConfig: its kind is "Pod"`,
		"a: " + planted + ": [": "/etc/kubernetes/cred.yaml: it is no CredentialProviderConfig: it cannot be read as YAML of that kind",
		"kind: CredentialProviderConfig\nproviders: [" + strings.Repeat("{name: a}, ", 51) + "]\n": "/etc/kubernetes/cred.yaml: it is no CredentialProviderConfig: " +
			"it has 51 providers, and no host needs more than 50",
	} {
		write(t, dir, "w-1/etc/kubernetes/cred.yaml", config)
		if _, h = gatherHosts(t, dir, "w-1", collect.Options{}); h.Kubelet.Credentials.Error != want {
			t.Errorf("got %q, want %q", h.Kubelet.Credentials.Error, want)
		}
	}
	write(t, dir, "w-1/etc/kubernetes/cred.yaml", "kind: CredentialProviderConfig\nproviders: [{name: ../../bin/sh}, {}, {name: "+strings.Repeat("x", 1<<20)+"}]\n")
	_, h = gatherHosts(t, dir, "w-1", collect.Options{AskCredentialProviders: true})
	for _, p := range h.Kubelet.Credentials.Providers {
		if p.Present || len(p.Name)+len(p.Error) > 1000 || !strings.Contains(p.Error, "is no name of a program") {
			t.Errorf("got %+v", p)
		}
	}
	write(t, dir, "w-1/var/lib/kubelet/kubeadm-flags.env", `KUBELET_KUBEADM_ARGS="--image-credential-provider-config=/etc/kubernetes/cred.yaml"`)
	if _, h = gatherHosts(t, dir, "w-1", collect.Options{}); !strings.Contains(h.Kubelet.Credentials.Error, "names only one of") {
		t.Errorf("got %+v", h.Kubelet.Credentials)
	}
}

// askOne takes a snapshot of a worker whose node is in a region, with its providers asked.
func askOne(t *testing.T, dir string, registries ...string) (*v1.Snapshot, v1.CredentialProvider) {
	t.Helper()
	g := &collect.Collector{
		Sources: collect.Sources{
			Hosts: open(t, dir),
			Now:   func() time.Time { return now },
		},
		Options: collect.Options{AskCredentialProviders: true, Timeout: time.Second},
		Snap:    &v1.Snapshot{},
	}
	host.GatherHosts(t.Context(), g)
	g.Snap.Nodes = []v1.Node{
		{Name: "n-1", Labels: map[string]string{"topology.kubernetes.io/region": "eu-west-1"}, Registries: []string{"111111111111.dkr.ecr.us-east-1.amazonaws.com"}},
		{Name: "n-2", Registries: registries},
	}
	g.Snap.Hosts[0].NodeName = "n-2"
	host.GatherCredentials(t.Context(), g)
	g.Snap.Errors = g.Errors
	return g.Snap, g.Snap.Hosts[0].Kubelet.Credentials.Providers[0]
}

func TestACredentialProviderIsAskedAndNothingOfItsAnswerIsKept(t *testing.T) {
	dir := writeProvider(t, credentialConfig, answering)
	s, p := askOne(t, dir, "222222222222.dkr.ecr.us-east-1.amazonaws.com")
	const image = "222222222222.dkr.ecr.us-east-1.amazonaws.com/probe:latest"
	if !p.Answered || p.Asked != image || p.Error != "" {
		t.Errorf("got %+v", p)
	}
	file, err := open(t, dir)[0].ReadFile(t.Context(), "/asked")
	if err != nil {
		t.Fatal(err)
	}
	want := `get-credentials {"apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"` + image + `","kind":"CredentialProviderRequest"}` + "\n"
	if diff := cmp.Diff(want, string(file.Data)); diff != "" {
		t.Errorf("it was asked, -want +got:\n%s", diff)
	}
	if strings.Contains(saved(t, s), planted) {
		t.Error("the snapshot holds a secret")
	}
}

func TestACredentialProviderThatDoesNotAnswerRight(t *testing.T) {
	reply := func(text string) string { return "#!/bin/sh\ncat >/dev/null\necho '" + text + "'\n" }
	const kind = `"kind":"CredentialProviderResponse"`
	tests := map[string]struct{ program, want string }{
		"ends with an error":  {"#!/bin/sh\necho " + planted + "\nexit 1\n", "running /opt/bin/ecr-credential-provider on host w-1: exit status 1: run it by hand"},
		"says nothing":        {reply(""), "answered something that is no JSON"},
		"says something else": {reply(`{"password":"` + planted + `"}`), "answered something that is no CredentialProviderResponse"},
		"speaks an old version": {
			reply(`{"apiVersion":"credentialprovider.kubelet.k8s.io/v1alpha1",` + kind + `,"auth":{"a":{"password":"` + planted + `"}}}`),
			"answered in credentialprovider.kubelet.k8s.io/v1alpha1, and its configuration names credentialprovider.kubelet.k8s.io/v1: the kubelet refuses that",
		},
		"has no credentials": {
			reply(`{"apiVersion":"credentialprovider.kubelet.k8s.io/v1",` + kind + `,"auth":{}}`),
			"gave no credentials for 111111111111.dkr.ecr.us-east-1.amazonaws.com/probe:latest",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s, p := askOne(t, writeProvider(t, credentialConfig, tt.program))
			if p.Answered || !strings.Contains(p.Error, tt.want) {
				t.Errorf("got %+v, want %q", p, tt.want)
			}
			if strings.Contains(saved(t, s), planted) {
				t.Error("the snapshot holds a secret")
			}
		})
	}
}

func TestAHostThatCannotRunProgramsLeavesTheProvidersUnknown(t *testing.T) {
	dir := writeProvider(t, credentialConfig, answering)
	s := Gather(t.Context(), collect.Sources{Hosts: []hostaccess.Host{struct{ hostaccess.Host }{open(t, dir)[0]}}}, collect.Options{AskCredentialProviders: true})
	if got := unknownsOf(s, "hosts/w-1/credential-providers"); len(got) != 1 || !strings.Contains(got[0], "cannot run its programs") {
		t.Errorf("unknown: %q", got)
	}
}

func TestTheImageThatAProviderIsAskedAbout(t *testing.T) {
	tests := map[string]struct {
		patterns []string
		node     string
		want     string
	}{
		"of the node's own registry":             {[]string{"*.dkr.ecr.*.amazonaws.com"}, "n-1", "1.dkr.ecr.eu-west-1.amazonaws.com/probe:latest"},
		"of another node's":                      {[]string{"*.azurecr.io"}, "n-1", "team.azurecr.io/probe:latest"},
		"with the pattern's path":                {[]string{"https://*.azurecr.io/team/"}, "n-1", "team.azurecr.io/team/probe:latest"},
		"an example of an account and a region":  {[]string{"*.dkr.ecr.*.amazonaws.com.cn"}, "n-2", "000000000000.dkr.ecr.eu-west-1.amazonaws.com.cn/probe:latest"},
		"a pattern that names one registry":      {[]string{"*.pkg.dev", "gcr.io"}, "n-1", "gcr.io/probe:latest"},
		"none, where no registry can be guessed": {[]string{"*.pkg.dev"}, "n-1", ""},
	}
	g := &collect.Collector{Snap: &v1.Snapshot{Nodes: []v1.Node{
		{Name: "n-1", Labels: map[string]string{"topology.kubernetes.io/region": "eu-west-1"}, Registries: []string{"1.dkr.ecr.eu-west-1.amazonaws.com"}},
		{Name: "n-2", Registries: []string{"team.azurecr.io"}},
	}}}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := host.ImageFor(g, tt.node, tt.patterns); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	if got := host.ImageFor((&collect.Collector{Snap: &v1.Snapshot{}}), "n", []string{"*.dkr.ecr.*.amazonaws.com"}); got != "" {
		t.Error(fmt.Sprint("without a region it is ", got))
	}
}
