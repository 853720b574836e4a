package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/run"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/compare"
)

// withEnv plants a journal whose managers get a variable, in its options and in what its steps write.
func (c *live) withEnv(name, value string) {
	c.t.Helper()
	c.plant(func(p *v1.Plan, _ *v1.Journal) {
		path := filepath.Join(c.t.TempDir(), "plan.yaml")
		made := c.run("plan", "--out", path, "--accept", "CLOUD-001=no cloud in this test", "--ccm-env", name+"="+value)
		if made.code != exitcode.OK {
			c.t.Fatal(made.text(nil))
		}
		with, err := client.ReadPlan(path)
		if err != nil {
			c.t.Fatal(err)
		}
		*p = *with
	})
}

// TestAPlantedEnvironmentIsShownAndRefused: a proxy that the journal names would see where the manager sends the cloud's credentials.
func TestAPlantedEnvironmentIsShownAndRefused(t *testing.T) {
	const value = "http://ops:hunter2hunter2@proxy.example.com"
	c := newLive(t)
	c.withEnv("HTTPS_PROXY", value)
	writes := len(c.api.Writes())
	for _, args := range [][]string{{"apply"}, {"apply", "--yes"}} {
		r := c.run(args...)
		fails(t, r, exitcode.NotApproved, "gives the cloud-controller-manager HTTPS_PROXY")
		fails(t, r, exitcode.NotApproved, "--ccm-env='HTTPS_PROXY=")
		for _, part := range []string{"environment of the cloud-controller-manager: HTTPS_PROXY=", "proxy.example.com", "arguments of the cloud-controller-manager: ", "--cloud-provider=aws"} {
			if !strings.Contains(r.errOut, part) {
				t.Errorf("%v: %q is not shown:\n%s", args, part, r.errOut)
			}
		}
		if strings.Contains(r.text(nil), "hunter2") {
			t.Errorf("%v shows the password:\n%s", args, r.text(nil))
		}
	}
	if after := c.api.Writes(); len(after) != writes {
		t.Errorf("something was written: %v", after[writes:])
	}
	// Named by this command it is a question as any other, which --yes does not answer for a journal that nobody has seen here.
	r := c.run("apply", "--ccm-env", "HTTPS_PROXY="+value)
	fails(t, r, exitcode.NotApproved, "there is no terminal on which to ask")
}

// TestAPlanFileWithoutALookerIsAskedAboutItsEnvironment: its steps are made again and compared, its options are not.
func TestAPlanFileWithoutALookerIsAskedAboutItsEnvironment(t *testing.T) {
	const env = "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://169.254.170.9/x"
	c := newLive(t)
	file := filepath.Join(t.TempDir(), "plan.yaml")
	if made := c.run("plan", "--out", file, "--accept", "CLOUD-001=no cloud in this test", "--ccm-env", env); made.code != exitcode.OK {
		t.Fatal(made.text(nil))
	}
	p, err := client.ReadPlan(file)
	if err != nil {
		t.Fatal(err)
	}
	fails(t, c.run("apply", file, "--yes"), exitcode.NotApproved, "with --yes no operator reads plan "+file,
		"AWS_CONTAINER_CREDENTIALS_FULL_URI, which may decide", "--plan-sha256 "+compare.Digest(p))
	fails(t, c.run("apply", file), exitcode.NotApproved, "there is no terminal on which to ask") // a person looks at the review
	if r := c.run("apply", file, "--dry-run"); r.code != exitcode.OK {
		t.Error(r.text(nil))
	}
	c.unchanged()
	own := run.Options{EnvGiven: true, Yes: true}
	if err := own.CheckEnv("the plan", p); err != nil {
		t.Error(err)
	}
	if err := (&run.Options{Pinned: client.Pin{Sha256: compare.Digest(p)}}).CheckEnv("the plan", p); err != nil {
		t.Error(err)
	}
}

// TestAPlantedJournalIsJudgedBeforeItsOptionsAreFollowed: they name files of hosts that are looked at, and objects.
func TestAPlantedJournalIsJudgedBeforeItsOptionsAreFollowed(t *testing.T) {
	c := newLive(t)
	c.plant(func(p *v1.Plan, _ *v1.Journal) { p.Steps = append([]v1.Step{cron(p)}, p.Steps...) })
	var mu sync.Mutex
	var gathered []string
	c.api.Intercept = func(_ http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(r.URL.Path, "leases/"+component.KCM) || strings.HasSuffix(r.URL.Path, "/daemonsets") || strings.HasSuffix(r.URL.Path, "/services") {
			gathered = append(gathered, r.Method+" "+r.URL.Path)
		}
		return false
	}
	for _, args := range [][]string{{"rollback", "--yes"}, {"report"}, {"verify"}} {
		r := c.run(args...)
		if r.code == exitcode.OK || !strings.Contains(r.text(nil), "rule P-42") {
			t.Errorf("%v is not refused (code %d):\n%s", args, r.code, r.text(nil))
		}
		if len(gathered) > 0 {
			t.Errorf("%v has looked at the cluster first: %v", args, gathered)
		}
		gathered = nil
	}
}

// showsManagers fails where a review does not show a proxy of the managers, or shows its password.
func showsManagers(t *testing.T, r result) {
	t.Helper()
	if said := r.out + r.errOut; !strings.Contains(said, "environment of the cloud-controller-manager: HTTPS_PROXY=") ||
		!strings.Contains(said, "proxy.example.com") || strings.Contains(said, "hunter2") {
		t.Errorf("the variable of the managers is not shown, or its password is:\n%s", said)
	}
}

// TestEachReviewShowsWhatTheManagersGet: of a plan that is made now, of one from a file and of a rollback.
func TestEachReviewShowsWhatTheManagersGet(t *testing.T) {
	const value = "http://ops:hunter2hunter2@proxy.example.com"
	c := newLive(t)
	file := filepath.Join(t.TempDir(), "plan.yaml")
	with := []string{"--accept", "CLOUD-001=no cloud in this test", "--ccm-env", "HTTPS_PROXY=" + value}
	if made := c.run(append([]string{"plan", "--out", file}, with...)...); made.code != exitcode.OK {
		t.Fatal(made.text(nil))
	}
	for _, output := range []string{"text", "wide", "markdown"} {
		showsManagers(t, c.run(append([]string{"plan", "-o", output}, with...)...))
	}
	for _, args := range [][]string{append([]string{"apply"}, with...), {"apply", file}} {
		for _, r := range []result{c.run(append(slices.Clone(args), "--dry-run")...), c.run(args...)} {
			showsManagers(t, r)
			if !strings.Contains(r.text(nil), "arguments of the cloud-controller-manager: ") {
				t.Errorf("%v does not show the arguments of the managers:\n%s", args, r.text(nil))
			}
		}
	}
	p, err := client.ReadPlan(file)
	if err != nil {
		t.Fatal(err)
	}
	c.plant(func(planted *v1.Plan, doc *v1.Journal) {
		*planted = *p
		doc.Records = []v1.StepRecord{{ID: p.Steps[0].ID, Result: v1.StepResultDone, Created: true}}
	})
	for _, args := range [][]string{{"rollback", "--dry-run"}, {"rollback"}, {"apply", "--dry-run"}} {
		showsManagers(t, c.run(args...))
	}
}

// TestAPlanFileWithoutALookerIsAskedAboutItsImage: the manager reads the cloud's credentials, whoever built it.
func TestAPlanFileWithoutALookerIsAskedAboutItsImage(t *testing.T) {
	const image = "registry.example.com/aws-cloud-controller-manager:v1.26.0"
	c := newLive(t)
	file := filepath.Join(t.TempDir(), "plan.yaml")
	if made := c.run("plan", "--out", file, "--accept", "CLOUD-001=no cloud in this test", "--image", image); made.code != exitcode.OK {
		t.Fatal(made.text(nil))
	}
	p, err := client.ReadPlan(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := compare.Digest(p)
	fails(t, c.run("apply", file, "--yes"), exitcode.NotApproved, "with --yes no operator reads plan "+file,
		"starts the image "+image, "(--image="+image+")", "--plan-sha256 "+sum)
	fails(t, c.run("apply", file), exitcode.NotApproved, "there is no terminal on which to ask") // a person looks at the review
	c.unchanged()
	for _, own := range [][]string{{"--image", image}, {"--plan-sha256", sum}} {
		if r := c.run(append([]string{"apply", file, "--yes"}, own...)...); r.code == exitcode.NotApproved {
			t.Errorf("%v is not enough:\n%s", own, r.text(nil))
		}
	}
}

// TestAPlanFileWithoutALookerIsAskedAboutItsProgram: kubelets run it as root on each node, and others may have put it on this machine.
func TestAPlanFileWithoutALookerIsAskedAboutItsProgram(t *testing.T) {
	c := newLive(t)
	dir := t.TempDir()
	program, file := filepath.Join(dir, "ecr-credential-provider"), filepath.Join(dir, "plan.yaml")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	made := c.run("plan", "--out", file, "--accept", "CLOUD-001=no cloud in this test", "--credential-provider", program)
	if made.code != exitcode.OK {
		t.Fatal(made.text(nil))
	}
	p, err := client.ReadPlan(file)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(p.Steps, func(s v1.Step) bool { return s.Kind == v1.StepCopyFile }) {
		t.Fatal("no step of the plan copies the program")
	}
	sum := compare.Digest(p)
	fails(t, c.run("apply", file, "--yes"), exitcode.NotApproved, "with --yes no operator reads plan "+file,
		"has the kubelets run "+program+" of this machine (SHA-256 "+p.Options.CredentialProviderSHA256+") as root",
		"(--credential-provider="+program+")", "--plan-sha256 "+sum)
	r := c.run("apply", file) // a person looks at the review, in which each step of a file is shown
	fails(t, r, exitcode.NotApproved, "there is no terminal on which to ask")
	for _, want := range []string{
		"program that kubelets run as root: " + program + " of this machine, SHA-256 " + p.Options.CredentialProviderSHA256, "put ecr-credential-provider on ",
	} {
		if !strings.Contains(unwrapped(r.text(nil)), want) {
			t.Errorf("the review does not say %q:\n%s", want, r.text(nil))
		}
	}
	if strings.Contains(r.text(nil), "(-v shows them)") {
		t.Errorf("the review of a file leaves steps out:\n%s", r.text(nil))
	}
	c.unchanged()
	for _, own := range [][]string{{"--credential-provider", program}, {"--plan-sha256", sum}} {
		if r := c.run(append([]string{"apply", file, "--yes"}, own...)...); r.code == exitcode.NotApproved {
			t.Errorf("%v is not enough:\n%s", own, r.text(nil))
		}
	}
}
