package migrate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

const (
	ownProviders = "/etc/kubernetes/own-providers.yaml"
	ownConfig    = "# by hand\napiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders: # in order\n" +
		"- {name: own, matchImages: [a.example], defaultCacheDuration: 1m, apiVersion: credentialprovider.kubelet.k8s.io/v1, args: [planted-secret]}\n"
)

func addProviderStep(t *testing.T) v1.Step {
	t.Helper()
	content, err := catalogue.CredentialConfig("aws", 26)
	if err != nil {
		t.Fatal(err)
	}
	return v1.Step{
		ID: "write/" + ownProviders + "@cp-1", Phase: planstep.PhasePrepare, Kind: v1.StepWriteFile, Host: "cp-1", Path: ownProviders,
		Source: ownProviders, Derive: layout.DeriveCredentialConfig, Content: string(content), Mode: layout.CredentialConfigMode,
	}
}

// modeOf is the mode of a file of a host.
func (w *world) modeOf(host, at string) os.FileMode {
	w.t.Helper()
	info, err := os.Stat(filepath.Join(w.dir, host, at))
	if err != nil {
		w.t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestAProviderIsAddedToThoseOfAKubeletAndAllIsAsBeforeOnTheWayBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.write("cp-1", ownProviders, ownConfig, 0o640)
	files := w.files()
	if deaths := w.afterEveryDeath(w.given(addProviderStep(t))); deaths < 3 {
		t.Errorf("the engine died %d times", deaths)
	}
	have := w.read("cp-1", ownProviders)
	if added, found := strings.CutPrefix(have, ownConfig); !found || !strings.HasPrefix(added, "- apiVersion: credentialprovider.kubelet.k8s.io/v1\n") ||
		!strings.HasSuffix(added, "  name: ecr-credential-provider\n") {
		t.Errorf("the configuration is now\n%s", have)
	}
	if mode := w.modeOf("cp-1", ownProviders); mode != 0o640 {
		t.Errorf("it has mode %o", mode)
	}
	w.backAfterEveryDeath()
	w.same(files)
	if mode := w.modeOf("cp-1", ownProviders); mode != 0o640 {
		t.Errorf("after the way back it has mode %o", mode)
	}
}

func TestAProviderIsNotAddedNextToAnotherOfItsName(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"another of its name": {strings.ReplaceAll(ownConfig, "name: own", "name: ecr-credential-provider"), "another provider with the name ecr-credential-provider"},
		"no configuration":    {"kind: Pod\n", "it is no CredentialProviderConfig"},
		"written elsewhere":   {"x: &all [{name: own}]\n" + ownConfig[:strings.Index(ownConfig, "providers:")] + "providers: *all\n", "add the provider to it by hand"},
	} {
		w := newWorld(t, 1)
		w.write("cp-1", ownProviders, c.text, 0o640)
		files := w.files()
		_, err := w.run(w.given(addProviderStep(t)))
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), ownProviders+" on host cp-1") ||
			strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %v", name, err)
		}
		w.same(files)
	}
}

// A record in the journal, which others may have changed, says that there was no file, or that all could read it.
func TestAPlantedRecordRemovesNoConfigurationOfAKubelet(t *testing.T) {
	t.Parallel()
	added := addProviderStep(t)
	for name, c := range map[string]struct {
		plant func(r *v1.StepRecord)
		says  string
	}{
		"it was not there":  {func(r *v1.StepRecord) { r.Backup, r.BackupSHA256, r.BackupMode = "", step.Absent, "" }, "it is not removed"},
		"all could read it": {func(r *v1.StepRecord) { r.BackupMode = "0644" }, ""},
	} {
		w := newWorld(t, 1)
		w.write("cp-1", ownProviders, ownConfig, 0o600)
		if _, err := w.run(w.given(added)); err != nil {
			t.Fatal(err)
		}
		e := w.engine()
		rec := e.env.Journal.Record(added.ID)
		c.plant(&rec)
		if err := e.env.Journal.Save(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
		back := v1.Step{ID: "undo/" + added.ID, Kind: v1.StepRemoveFile, Host: "cp-1", Path: ownProviders, Restore: added.ID}
		err := executors()[v1.StepRemoveFile](e.env).Do(t.Context(), back, &v1.StepRecord{ID: back.ID})
		if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: the way back says %v", name, err)
		}
		have, mode := w.read("cp-1", ownProviders), w.modeOf("cp-1", ownProviders)
		if !strings.HasPrefix(have, ownConfig) || (have == ownConfig) != (c.says == "") || mode != 0o600 {
			t.Errorf("%s: it has mode %o now, and holds\n%s", name, mode, have)
		}
	}
}
