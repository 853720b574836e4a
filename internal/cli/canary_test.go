package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/mask/canary"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
)

// withCanaries is a cluster whose managers, kubelets, Nodes and cloud configs hold secrets, and in which the API server
// and managers repeat some in their errors.
func withCanaries(t *testing.T) (*live, canary.Secrets) {
	t.Helper()
	secrets, texts := canary.Plant()
	var flags []string
	for i, text := range texts {
		flags = append(flags, fmt.Sprintf("--note-%d=%s", i, text))
	}
	next := "CanaryOfTheNextArgument7hunter2"
	secrets[next] = "the next argument"
	kubelet := "CanaryOfTheKubelet7hunter2"
	secrets[kubelet] = "a flag of the kubelet"
	c := newLiveWith(t, " --api_key="+kubelet, append(flags, "--db-pass", next)...)
	comments := strings.ReplaceAll(strings.Join(texts, "\n"), "\n", "\n# ") // a key has several lines
	for i := 1; i <= 2; i++ {
		c.write(fmt.Sprintf("cp-%d", i), "/etc/kubernetes/cloud.conf", "[Global]\nVPC = vpc-1\n# "+comments+"\n")
	}
	said := strings.Join(texts, "\n")
	c.api.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/poddisruptionbudgets") && !strings.HasSuffix(r.URL.Path, "/certificatesigningrequests") {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": said, "code": 500})
		return true
	}
	return c, secrets
}

func TestNoOutputShowsASecretOfTheCluster(t *testing.T) {
	c, secrets := withCanaries(t)
	file := filepath.Join(t.TempDir(), "plan.yaml")
	accept := []string{"--accept", "CLOUD-001=none", "--accept", "KUBELET-008=none", "--accept", "SCHED-003=none"}
	for command, formats := range map[string][]string{
		"snapshot": {"yaml", "json"}, "check": {"table", "wide", "json", "yaml", "junit"}, "plan": {"text", "wide", "markdown", "json", "yaml"},
	} {
		for _, format := range formats {
			args := []string{command, "-o", format}
			if command == "plan" {
				args = append(args, accept...)
			}
			noSecret(t, c.run(args...), secrets)
		}
	}
	r := c.run(append([]string{"plan", "--out", file}, accept...)...)
	noSecret(t, r, secrets)
	if r.code != exitcode.OK {
		t.Fatal(r.text(nil))
	}
	saved, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if found := secrets.In(string(saved)); len(found) > 0 {
		t.Errorf("the plan's file holds the secret of %q", found)
	}
	for _, format := range []string{"text", "json", "yaml"} {
		noSecret(t, c.run("diff", file, "-o", format), secrets)
	}
	for _, format := range []string{"text", "jsonl"} {
		noSecret(t, c.run("apply", file, "--dry-run", "-o", format), secrets)
	}
	if masked := c.run("snapshot").out; !strings.Contains(masked, "(masked)") {
		t.Error("nothing is said to be masked, so that nothing is proven")
	}
}

func TestNothingSaidOfAMigrationShowsASecret(t *testing.T) {
	c := newLive(t)
	p, err := client.ReadPlan(c.plan())
	if err != nil {
		t.Fatal(err)
	}
	before := c.snapshot()
	secrets, planted := canary.PlantError()
	doc := v1.Journal{Run: "20261121-120000", Started: client.Now(), Phase: v1.RunApplying, User: "ops", Plan: *p}
	for i, s := range p.Steps {
		r := v1.StepRecord{ID: s.ID, Started: client.Now(), Result: v1.StepResultDone, Notes: []string{planted.Error()}}
		if i == len(p.Steps)-1 {
			r.Result, r.Error, r.Notes = v1.StepResultFailed, planted.Error(), nil
		}
		doc.Records = append(doc.Records, r)
	}
	kube, _ := c.api.Clients(t)
	if _, err := journal.Create(t.Context(), kube, doc, before); err != nil { // as earlier versions wrote it
		t.Fatal(err)
	}
	shown := ""
	for command, formats := range map[string][]string{
		"status": {"text", "wide", "json", "yaml", "prometheus"}, "report": {"markdown", "html", "json", "yaml", "junit"},
		"verify": {"text", "wide", "json", "yaml", "junit"}, "timeline": {"text", "wide", "markdown", "json", "yaml"},
	} {
		for _, format := range formats {
			r := c.run(command, "-o", format)
			noSecret(t, r, secrets)
			shown += r.out
		}
	}
	for _, format := range []string{"text", "jsonl"} {
		noSecret(t, c.run("apply", "--dry-run", "-o", format), secrets)
		noSecret(t, c.run("rollback", "--dry-run", "-o", format), secrets)
	}
	if !strings.Contains(shown, "(masked)") {
		t.Error("nothing is said to be masked, so that nothing is proven")
	}
}

// TestTheJournalsConfigMapsHoldNoSecret looks into what is kept, and not only into what is read of it.
func TestTheJournalsConfigMapsHoldNoSecret(t *testing.T) {
	c, secrets := withCanaries(t)
	_, planted := canary.PlantError()
	accept := []string{"--accept", "CLOUD-001=none", "--accept", "KUBELET-008=none", "--accept", "SCHED-003=none"}
	file := filepath.Join(t.TempDir(), "plan.yaml")
	if r := c.run(append([]string{"plan", "--out", file}, accept...)...); r.code != exitcode.OK {
		t.Fatal(r.text(nil))
	}
	p, err := client.ReadPlan(file)
	if err != nil {
		t.Fatal(err)
	}
	kube, _ := c.api.Clients(t)
	doc := v1.Journal{Run: "20261121-120000", Started: client.Now(), Phase: v1.RunApplying, User: "ops", Plan: *p}
	j, err := journal.Create(t.Context(), kube, doc, c.snapshot())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Steps[:3] {
		r := v1.StepRecord{ID: s.ID, Started: client.Now(), Result: v1.StepResultFailed, Error: planted.Error(), Notes: []string{planted.Error()}}
		if err := j.Save(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	masked := 0
	for path := range c.api.Objects() {
		var kept corev1.ConfigMap
		if !strings.Contains(path, "/configmaps/transplant-") || !c.api.Get(t, path, &kept) {
			continue
		}
		for key, packed := range kept.BinaryData {
			z, err := gzip.NewReader(bytes.NewReader(packed))
			if err != nil {
				t.Fatalf("%s, key %s: %v", path, key, err)
			}
			text, err := io.ReadAll(z)
			if err != nil {
				t.Fatalf("%s, key %s: %v", path, key, err)
			}
			masked += strings.Count(string(text), "(masked)")
			if found := secrets.In(string(text)); len(found) > 0 {
				t.Errorf("%s, key %s: it holds the secret of %q", path, key, found)
			}
		}
	}
	if masked == 0 {
		t.Error("nothing is said to be masked, so that nothing is proven")
	}
}

func noSecret(t *testing.T, r result, secrets canary.Secrets) {
	t.Helper()
	if r.out+r.errOut == "" {
		t.Errorf("%v says nothing", r.args)
	}
	for where, text := range map[string]string{"standard output": r.out, "standard error": r.errOut} {
		if found := secrets.In(text); len(found) > 0 {
			t.Errorf("%v shows the secret of %q on %s", r.args, found, where)
		}
	}
}
