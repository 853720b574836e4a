package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

const unitDir = "/etc/systemd/system/"

// asUnits makes systemd units of the static pods of a world: their flags stand in environment files.
func (w *world) asUnits() {
	w.t.Helper()
	for _, name := range w.hostNames() {
		kubelet := "/var/lib/kubelet/kubeadm-flags.env"
		w.write(name, kubelet, strings.Replace(w.read(name, kubelet), "--cloud", "--pod-manifest-path=/etc/kubernetes/manifests --cloud", 1), 0o644)
		for _, component := range []string{component.KCM, component.KAS} {
			path := manifests + component + ".yaml"
			m, err := controlplane.Parse([]byte(w.read(name, path)))
			if err != nil {
				w.t.Fatal(err)
			}
			w.remove(name, path)
			w.write(name, "/etc/default/"+component, "ARGS=\""+strings.Join(m.Command()[1:], " ")+"\"\n", 0o640)
			w.write(name, unitDir+component+".service", "[Service]\nEnvironmentFile=/etc/default/"+component+"\nExecStart=/usr/bin/"+component+" $ARGS\n", 0o644)
		}
	}
	w.mu.Lock()
	w.catchUp() // the kubelets end the pods
	w.mu.Unlock()
	for _, h := range w.hosts {
		for _, component := range []string{component.KCM, component.KAS} {
			if err := h.(host).Start(w.t.Context(), component+".service"); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock.Step(16e9)
	w.catchUp() // the units take over what the pods held
	w.told, w.restarts, w.expired = nil, map[string]int{}, 0
}

// startUnit starts what a unit's files say now.
func (h host) startUnit(ctx context.Context, name string) error {
	u, err := systemdunit.ReadUnit(hostaccess.Reading(ctx, h), name)
	if err != nil {
		return err
	}
	w := h.w
	w.mu.Lock()
	defer w.mu.Unlock()
	key := u.Component() + "@" + h.Name()
	if u.Component() == component.KAS {
		for _, p := range w.procs {
			if p.host == h.Name() && w.holds(p, p.component) {
				w.t.Errorf("the API server of %s was restarted under %s, which leads", h.Name(), p.component)
			}
		}
	}
	w.lastPID++
	w.restarts[key]++
	w.procs[key] = &process{pid: w.lastPID, args: u.Command(), flags: u.Flags(), component: u.Component(), host: h.Name(), unit: true}
	w.catchUp()
	return nil
}

func (h host) log(verb, unit string) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.w.told = append(h.w.told, verb+" "+unit+"@"+h.Name())
}

func (h host) DaemonReload(context.Context) error { h.log("daemon-reload", ""); return nil }

func (h host) Restart(ctx context.Context, unit string) error {
	h.log("restart", unit)
	return h.startUnit(ctx, unit)
}

func (h host) Start(ctx context.Context, unit string) error {
	h.log("start", unit)
	return h.startUnit(ctx, unit)
}

func (h host) Stop(_ context.Context, unit string) error {
	h.log("stop", unit)
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	delete(h.w.procs, strings.TrimSuffix(unit, ".service")+"@"+h.Name())
	h.w.catchUp()
	return nil
}

func (h host) Active(_ context.Context, unit string) (bool, error) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	_, ok := h.w.procs[strings.TrimSuffix(unit, ".service")+"@"+h.Name()]
	return ok, nil
}

func TestAControlPlaneOfUnitsThereAndBack(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{planstep.LeaderMigration, planstep.Downtime} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			w.asUnits()
			files := w.files()
			p := w.beginWith(v1.Options{Strategy: strategy})
			kinds := map[v1.StepKind]bool{}
			for _, s := range p.Steps {
				kinds[s.Kind] = true
			}
			if !kinds[v1.StepEditUnit] && !kinds[v1.StepStartUnit] || kinds[v1.StepRemoveManifest] {
				t.Fatalf("kinds of steps: %v", kinds)
			}
			w.afterEveryDeath(p)
			w.migrated(p)
			for _, h := range []string{"cp-1", "cp-2"} {
				if have := w.read(h, "/etc/default/"+component.KCM); !strings.Contains(have, "--cloud-provider=external") || strings.Contains(have, "cloud-config") {
					t.Errorf("flags of %s: %s", h, have)
				}
			}
			w.backAfterEveryDeath()
			w.rolledBack(files)
		})
	}
}

func TestAHostThatStartsAnewInADowntimeBringsNoOldOwnerBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.asUnits()
	files := w.files()
	p := w.beginWith(v1.Options{Strategy: planstep.Downtime})
	w.past(p, "stop/"+component.KCM+"@cp-1")
	if w.procs[component.KCM+"@cp-1"] != nil {
		t.Fatal("it was not stopped")
	}
	if err := w.hosts[0].(host).Start(t.Context(), component.KCM+".service"); err != nil { // systemd starts what is enabled
		t.Fatal(err)
	}
	if flags := w.procs[component.KCM+"@cp-1"].flags; flags["cloud-provider"] != "external" {
		t.Errorf("it came back with %v", flags)
	}
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	w.migrated(p)
	w.backAfterEveryDeath()
	w.rolledBack(files)
}

func TestAUnitIsReloadedBeforeItIsRestarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.asUnits()
	p := w.given(
		v1.Step{
			ID:        "edit",
			Phase:     "p",
			Kind:      v1.StepEditUnit,
			Host:      "cp-1",
			Component: component.KCM,
			Unit:      component.KCM + ".service",
			Path:      "/etc/default/" + component.KCM,
			Edits:     []v1.Edit{{Op: v1.EditSetFlag, Name: "v", Value: "4"}},
		},
	)
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	want := "[daemon-reload @cp-1 restart kube-controller-manager.service@cp-1]"
	if have := fmt.Sprint(w.told); have != want {
		t.Errorf("systemd was told %s, want %s", have, want)
	}
	if have := w.read("cp-1", "/etc/default/"+component.KCM); !strings.Contains(have, " --v=4\"") {
		t.Errorf("flags: %s", have)
	}
}

func TestANewFlagGoesIntoTheFileOfTheStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.asUnits()
	dropIn := unitDir + component.KCM + ".service.d/10-cloud.conf"
	w.write("cp-1", dropIn, "[Service]\nExecStart=\nExecStart=/usr/bin/"+component.KCM+" $ARGS --feature-gates=CSIMigration=true\n", 0o644)
	p := w.given(
		v1.Step{
			ID:        "edit",
			Phase:     "p",
			Kind:      v1.StepEditUnit,
			Host:      "cp-1",
			Component: component.KCM,
			Unit:      component.KCM + ".service",
			Path:      dropIn,
			Edits:     []v1.Edit{{Op: v1.EditSetFlag, Name: "v", Value: "4"}},
		},
	)
	if _, err := w.run(p); err != nil {
		t.Fatal(err)
	}
	if have := w.read("cp-1", dropIn); !strings.Contains(have, "--feature-gates=CSIMigration=true --v=4\n") {
		t.Errorf("the drop-in:\n%s", have)
	}
}

func TestADropInOfAKubeletIsReadAgain(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		unitDir + "kubelet.service.d/10-cloud.conf": "[daemon-reload @cp-1 restart kubelet@cp-1]", "/var/lib/kubelet/kubeadm-flags.env": "[restart kubelet@cp-1]",
	} {
		w := newWorld(t, 1)
		if path != flagsFile {
			w.write("cp-1", path, "[Service]\nEnvironment=\"KUBELET_EXTRA_ARGS=--cloud-provider=aws\"\n", 0o644)
		}
		s := kubeletStep()
		s.Path, s.Drain = path, false
		if _, err := w.run(w.given(s)); err != nil {
			t.Fatal(err)
		}
		if have := fmt.Sprint(w.told); have != want {
			t.Errorf("%s: systemd was told %s, want %s", path, have, want)
		}
		if have := w.read("cp-1", path); !strings.Contains(have, "--cloud-provider=external") {
			t.Errorf("%s:\n%s", path, have)
		}
	}
}

func TestAFlagThatMovedToAnotherFileIsNotWrittenTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.asUnits()
	p := w.given(
		v1.Step{
			ID:        "edit",
			Phase:     "p",
			Kind:      v1.StepEditUnit,
			Host:      "cp-1",
			Component: component.KCM,
			Unit:      component.KCM + ".service",
			Path:      unitDir + component.KCM + ".service",
			Edits:     []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}},
		},
	)
	_, err := w.run(p)
	var stale *step.StaleError
	if !errors.As(err, &stale) {
		t.Errorf("error: %v", err)
	}
	says(t, err, "has a flag of step edit in /etc/default/"+component.KCM)
}

// filesOnly is an access that can do nothing with units.
type filesOnly struct{ hostaccess.Host }

func TestAnAccessThatCannotStopUnitsSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	p := w.given(v1.Step{ID: "stop", Phase: "p", Kind: v1.StepStopUnit, Host: "cp-1", Component: component.KCM, Unit: component.KCM + ".service"})
	_, err := w.run(p, func(o *step.Options) { o.Hosts = []hostaccess.Host{filesOnly{w.hosts[0]}} })
	says(t, err, "the access to host cp-1 cannot stop and start systemd units")
}
