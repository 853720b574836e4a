package migrate

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess/manual"
	planted "github.com/transplant-dev/transplant/internal/mask/canary"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// plantSecrets puts secrets into the annotations, the environment and the arguments of static pods, and into cloud configs.
func plantSecrets(w *world, texts []string) {
	for _, h := range w.hosts {
		for _, name := range []string{component.KAS, component.KCM} {
			manifest := w.read(h.Name(), manifests+name+".yaml")
			annotations, env, args := "  annotations:\n", "    env:\n", ""
			for i, text := range texts {
				annotations += fmt.Sprintf("    example.com/note-%d: %q\n", i, text)
				env += fmt.Sprintf("    - name: NOTE_%d\n      value: %q\n", i, text)
				args += fmt.Sprintf("    - %q\n", fmt.Sprintf("--note-%d=%s", i, text))
			}
			manifest = strings.Replace(manifest, "  namespace: kube-system\n", "  namespace: kube-system\n"+annotations, 1)
			manifest = strings.Replace(manifest, "    volumeMounts:\n", args+env+"    volumeMounts:\n", 1)
			w.write(h.Name(), manifests+name+".yaml", manifest, 0o600)
		}
		comments := strings.ReplaceAll(strings.Join(texts, "\n"), "\n", "\n# ")
		w.write(h.Name(), "/etc/kubernetes/cloud.conf", "[Global]\nVPC = vpc-1\n# "+comments+"\n", 0o644)
	}
}

func TestAMigrationByHandShowsNoSecret(t *testing.T) {
	t.Parallel()
	secrets, texts := planted.Plant()
	w := newWorld(t, 1, func(w *world) { plantSecrets(w, texts) })
	if text := w.read("cp-1", manifests+component.KCM+".yaml"); len(secrets.In(text)) != len(secrets) {
		t.Fatalf("not every secret is planted:\n%s", text)
	}
	o, state := w.operator(), t.TempDir()
	byHand := func(options *step.Options) {
		options.Hosts = manual.New(w.hosts, manual.Options{Out: o, StateDir: state, Clock: w.clock})
	}
	p, _ := w.begin()
	if err := w.engine(byHand).Run(t.Context(), p, nil); err != nil {
		t.Fatal(err)
	}
	w.migrated(p)
	kept := w.keptTexts()
	w.rollBack(byHand)
	for path, text := range w.keptTexts() {
		kept[path+" after the way back"] = text
	}
	planned, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	kept["the plan"], kept["what is printed to be executed"] = string(planned), strings.Join(o.blocks, "\n")
	masked := 0
	for where, text := range kept {
		masked += strings.Count(text, "(masked)")
		if found := secrets.In(text); len(found) > 0 {
			t.Errorf("%s: it holds the secret of %q", where, found)
		}
	}
	if masked == 0 || len(o.blocks) == 0 || len(kept) < 4 {
		t.Errorf("%d texts with %d masks and %d blocks prove nothing", len(kept), masked, len(o.blocks))
	}
}

// keptTexts are the journal and the snapshot as they are kept in the cluster.
func (w *world) keptTexts() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for path := range w.api.Objects() {
		var kept corev1.ConfigMap
		if !strings.Contains(path, "/configmaps/transplant-") || !w.api.Get(w.t, path, &kept) {
			continue
		}
		for key, packed := range kept.BinaryData {
			z, err := gzip.NewReader(bytes.NewReader(packed))
			if err != nil {
				w.t.Fatalf("%s, key %s: %v", path, key, err)
			}
			text, err := io.ReadAll(z)
			if err != nil {
				w.t.Fatalf("%s, key %s: %v", path, key, err)
			}
			out[path+" "+key] = string(text)
		}
	}
	return out
}
