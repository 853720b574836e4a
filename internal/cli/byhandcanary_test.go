package cli

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/mask/canary"
	planlayout "github.com/transplant-dev/transplant/internal/plan/layout"
)

// operator is standard error with a person who reads it and runs the commands that are printed, word for word: ssh runs
// them in a host's directory, in which it moves the paths. The kubelet of that host then starts what its manifests say.
type operator struct {
	c      *live
	bin    string
	text   bytes.Buffer
	blocks []string
}

func (c *live) operator() *operator {
	c.t.Helper()
	o := &operator{c: c, bin: c.t.TempDir()}
	for name, text := range map[string]string{
		"ssh": "cd \"$HOSTS/$1\" || exit 255\nhost=$1; shift\n" +
			"exec sh -c \"$(printf '%s' \"$*\" | sed \"s#\\(^\\|[ \\\"(=']\\)/\\(etc\\|var\\)/#\\1$HOSTS/$host/\\2/#g\")\"\n",
		"sudo": "exec \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(o.bin, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			c.t.Fatal(err)
		}
	}
	return o
}

// Write implements io.Writer.
func (o *operator) Write(p []byte) (int, error) {
	o.text.Write(p)
	if !strings.Contains(string(p), "# run this on host ") {
		return len(p), nil
	}
	o.blocks = append(o.blocks, string(p))
	cmd := exec.Command("sh", "-c", string(p))
	cmd.Env = []string{"PATH=" + o.bin + ":" + os.Getenv("PATH"), "HOSTS=" + o.c.dir}
	if out, err := cmd.CombinedOutput(); err != nil {
		o.c.t.Errorf("running\n%s\n%v: %s", p, err, out)
	}
	o.c.restartChanged()
	return len(p), nil
}

// run executes a command line on the cluster; what is to be changed on hosts is changed by the operator.
func (o *operator) run(state string, args ...string) result {
	o.c.t.Helper()
	args = append(args, "--kubeconfig", o.c.kubeconfig, "--host-access", "manual:local:"+o.c.dir, "--state-dir", state)
	var out bytes.Buffer
	before := o.text.Len()
	code := Run(o.c.t.Context(), args, console.Streams{In: strings.NewReader(""), Out: &out, Err: o})
	return result{args, code, out.String(), o.text.String()[before:]}
}

// restartChanged starts the components again whose manifests say something else than what runs, as kubelets do.
func (c *live) restartChanged() {
	c.t.Helper()
	for key, r := range c.running {
		host, name, _ := strings.Cut(key, "/")
		data, err := os.ReadFile(filepath.Join(c.dir, host, manifestPath(name)))
		if err != nil {
			c.t.Error(err)
			return
		}
		m, err := controlplane.Parse(data)
		if err != nil {
			c.t.Error(err)
			return
		}
		if !slices.Equal(m.Command(), r.cmd.Args) {
			r.stop(c.t)
			c.start(host, r, m.Command())
		}
	}
}

// plantInFiles puts secrets into annotations and the environment of static pods, and into a kubeconfig.
func (c *live) plantInFiles(texts []string) {
	c.t.Helper()
	for key := range c.running {
		host, name, _ := strings.Cut(key, "/")
		at := filepath.Join(c.dir, host, manifestPath(name))
		data, err := os.ReadFile(at)
		if err != nil {
			c.t.Fatal(err)
		}
		annotations, env := "  annotations:\n", "    env:\n"
		for i, text := range texts {
			annotations += fmt.Sprintf("    example.com/note-%d: %q\n", i, text)
			env += fmt.Sprintf("    - name: NOTE_%d\n      value: %q\n", i, text)
		}
		manifest := strings.Replace(string(data), "  namespace: kube-system\n", "  namespace: kube-system\n"+annotations, 1)
		c.write(host, manifestPath(name), strings.Replace(manifest, "    volumeMounts:\n", env+"    volumeMounts:\n", 1))
	}
}

// kept are the journal and the snapshot as they are kept in the cluster, and what is kept on this machine.
func (c *live) kept(state string) map[string]string {
	c.t.Helper()
	out := map[string]string{}
	for path := range c.api.Objects() {
		var kept corev1.ConfigMap
		if !strings.Contains(path, "/configmaps/transplant-") || !c.api.Get(c.t, path, &kept) {
			continue
		}
		for key, packed := range kept.BinaryData {
			z, err := gzip.NewReader(bytes.NewReader(packed))
			if err != nil {
				c.t.Fatalf("%s, key %s: %v", path, key, err)
			}
			text, err := io.ReadAll(z)
			if err != nil {
				c.t.Fatalf("%s, key %s: %v", path, key, err)
			}
			out[path+" "+key] = string(text)
		}
		for key, text := range kept.Data {
			out[path+" "+key] = text
		}
	}
	err := filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = string(data)
		return err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// TestAnApplyByHandAndItsRollbackShowNoSecret goes through the real commands: RBAC, files of two hosts and the manifest
// of a manager are made and taken back by a person.
func TestAnApplyByHandAndItsRollbackShowNoSecret(t *testing.T) {
	c, secrets := withCanaries(t)
	_, texts := canary.Plant()
	c.plantInFiles(texts)
	const token = "CanaryOfTheKubeconfig7hunter2"
	secrets[token] = "a token of a kubeconfig"
	for _, host := range []string{"cp-1", "cp-2"} {
		c.write(host, planlayout.KCMKubeconfig, "apiVersion: v1\nkind: Config\ncurrent-context: kcm\n"+
			"clusters: [{name: lab, cluster: {server: https://10.0.0.1:6443}}]\ncontexts: [{name: kcm, context: {cluster: lab, user: kcm}}]\n"+
			"users: [{name: kcm, user: {token: "+token+"}}]\n")
	}
	o, state, file := c.operator(), t.TempDir(), filepath.Join(t.TempDir(), "plan.yaml")
	accept := []string{"--accept", "CLOUD-001=none", "--accept", "KUBELET-008=none", "--accept", "SCHED-003=none"}
	manifest := filepath.Join(c.dir, "cp-2", manifestPath(component.KCM))
	before, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if planted := len(secrets.In(string(before))); planted < len(texts) {
		t.Fatalf("%d of %d secrets are planted in the manifest:\n%s", planted, len(texts), before)
	}
	shown := ""
	for _, args := range [][]string{
		append([]string{"plan", "--out", file}, accept...),
		{"apply", file, "--yes", "--until", "leader-migration/" + component.KCM + "@cp-2"},
		{"status", "-o", "yaml"},
		{"apply", "--dry-run"},
		{"rollback", "--dry-run"},
		{"rollback", "--yes"},
		{"report", "-o", "json"},
	} {
		r := o.run(state, args...)
		if noSecret(t, r, secrets); r.code != exitcode.OK {
			t.Fatal(r.text(nil))
		}
		kept := c.kept(state)
		if len(kept) == 0 && args[0] != "plan" {
			t.Errorf("nothing is kept after %v", args)
		}
		for where, text := range kept {
			shown += text
			if found := secrets.In(text); len(found) > 0 {
				t.Errorf("%v: %s holds the secret of %q", args, where, found)
			}
		}
		shown += r.out + r.errOut
	}
	saved, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if found := secrets.In(string(saved)); len(found) > 0 {
		t.Errorf("the plan's file holds the secret of %q", found)
	}
	after, err := os.ReadFile(manifest)
	if err != nil || !bytes.Equal(after, before) {
		t.Errorf("the manifest is not as it was, %v", err)
	}
	if masked := strings.Count(shown, "(masked)"); masked == 0 || len(o.blocks) < 11+11 {
		t.Errorf("%d masks and %d blocks prove nothing", masked, len(o.blocks))
	}
}
