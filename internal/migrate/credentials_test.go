package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/kubelet"
)

const (
	providerConfig = "/etc/kubernetes/transplant/credentials.yaml"
	providerDir    = "/etc/kubernetes/transplant/bin"
)

// asking is a host that runs programs as somebody says.
type asking struct {
	host
	answer func(c hostaccess.Command) ([]byte, error)
}

func (h asking) Run(_ context.Context, c hostaccess.Command) ([]byte, error) { return h.answer(c) }

// mute is a host that cannot run its programs.
type mute struct{ hostaccess.Host }

func credentialStep() v1.Step {
	s := plainStep("cp-1")
	s.Edits = append(
		s.Edits,
		v1.Edit{Op: v1.EditSetFlag, Name: kubelet.FlagCredentialConfig, Value: providerConfig},
		v1.Edit{Op: v1.EditSetFlag, Name: kubelet.FlagCredentialDir, Value: providerDir},
	)
	return s
}

func TestAKubeletIsChangedWhenItsImageCredentialProviderHasAnswered(t *testing.T) {
	t.Parallel()
	const image = `"image":"123456789012.dkr.ecr.us-east-1.amazonaws.com`
	answers := func(text string, err error) func(hostaccess.Command) ([]byte, error) {
		return func(c hostaccess.Command) ([]byte, error) {
			var request map[string]string
			if strings.HasSuffix(c.Path, "ctl") {
				return nil, errors.New("no log")
			}
			if json.Unmarshal(c.Stdin, &request) != nil || request["kind"] != "CredentialProviderRequest" || !strings.Contains(string(c.Stdin), image) {
				return nil, errors.New("asked for something else: " + string(c.Stdin))
			}
			return []byte(text), err
		}
	}
	const good = `{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","auth":{"x":{"username":"AWS","password":"planted"}}}`
	for _, c := range []struct {
		name, config string
		binary       bool
		open         func(host) hostaccess.Host
		want, note   string // of the error, of the record
	}{
		{"it answers", "", true, func(h host) hostaccess.Host { return asking{h, answers(good, nil)} }, "", ""},
		{"it fails", "", true, func(h host) hostaccess.Host { return asking{h, answers("", errors.New("exit status 1"))} },
			"image credential provider ecr-credential-provider on host cp-1 does not give credentials", ""},
		{"it gives none", "", true, func(h host) hostaccess.Host {
			return asking{h, answers(strings.Replace(good, `"x":{"username":"AWS","password":"planted"}`, "", 1), nil)}
		},
			"gave no credentials for 123456789012.dkr.ecr.us-east-1.amazonaws.com", ""},
		{"it is not there", "", false, func(h host) hostaccess.Host { return asking{h, answers(good, nil)} }, "there is no " + providerDir + "/ecr-credential-provider", ""},
		{"its configuration is another kind", "kind: Pod\n", true, func(h host) hostaccess.Host { return asking{h, answers(good, nil)} }, "it is no CredentialProviderConfig", ""},
		{"the access cannot ask", "", true, func(h host) hostaccess.Host { return mute{h} }, "", "not proven: the host's image credential providers were not asked: this way to host cp-1 cannot run its programs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.kubeletRuns("cp-1")
			config := c.config
			if config == "" {
				config = "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- name: ecr-credential-provider\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n" +
					"  matchImages: [\"*.dkr.ecr.*.amazonaws.com\"]\n  defaultCacheDuration: 12h\n"
			}
			w.write("cp-1", providerConfig, config, 0o644)
			if c.binary {
				w.write("cp-1", providerDir+"/ecr-credential-provider", "#!/bin/sh\n", 0o755)
			}
			before := w.read("cp-1", flagsFile)
			_, err := w.run(w.given(credentialStep()), func(o *step.Options) {
				o.Hosts = []hostaccess.Host{c.open(w.hosts[0].(host))}
				o.Before.Nodes[0].Registries = []string{"123456789012.dkr.ecr.us-east-1.amazonaws.com"}
			})
			rec := w.engine().env.Journal.Record("external/kubelet@cp-1")
			if c.want != "" {
				says(t, err, c.want, "othing was changed")
				if w.read("cp-1", flagsFile) != before || w.restarts["kubelet@cp-1"] != 0 || strings.Contains(err.Error(), "planted") {
					t.Errorf("it was changed, or the error holds credentials: %v", err)
				}
				return
			}
			if err != nil || rec.Result != v1.StepResultDone {
				t.Fatalf("result %s: %v", rec.Result, err)
			}
			if c.note != "" && !slices.Contains(rec.Notes, c.note) {
				t.Errorf("notes: %q", rec.Notes)
			}
		})
	}
}

// TestTheLastWordsAreInTheReasonOfARegression asks the host for its log.
func TestTheLastWordsAreInTheReasonOfARegression(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.kubeletRuns("cp-1")
	w.fate = func(_ string, flags map[string]string) *start {
		if external(flags) {
			return &start{err: errors.New("exit status 1")}
		}
		return nil
	}
	_, err := w.run(w.given(plainStep("cp-1")), func(o *step.Options) {
		o.Hosts = []hostaccess.Host{asking{w.hosts[0].(host), func(c hostaccess.Command) ([]byte, error) {
			if c.Path != "/usr/bin/journalctl" || !slices.Contains(c.Args, "--unit=kubelet") {
				return nil, errors.New("no such program")
			}
			return []byte("I1121 10:00:00 starting\nE1121 10:00:01 run.go:74] \"command failed\" err=\"unknown flag: --x\"\n"), nil
		}}}
	})
	says(t, err, `its last words: E1121 10:00:01 run.go:74] "command failed" err="unknown flag: --x"`)
}
