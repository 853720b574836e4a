package step

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/hostproof"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/snapshot/objects"
)

// announceBudget is for how long a step waits for a control plane's host whose API server announces no address. It has
// just been restarted, or is about to be counted as gone.
const announceBudget = 60 * time.Second

// ProvesControlPlane refuses to give a host that is no control plane what only the control plane has. It is asked of
// the API right before: what the host itself says, and a snapshot of some time ago, may be a worker's. A DaemonSet
// finds its hosts by a label, so each Node with the label is asked about: its root reads the manager's token.
func (e *Env) ProvesControlPlane(ctx context.Context, s v1.Step) error {
	known := controlPlane(e)
	label := roleOf(s)
	var judge func(ctx context.Context) (objects.Verdict, error)
	what := "host " + s.Host
	switch {
	case s.Derive == layout.DeriveCredentialConfig:
		return nil // each kubelet has it: the plan's own text next to what the host's file says
	case s.Host != "" && (s.Derive != "" || s.Kind == v1.StepAddManifest):
		judge = func(ctx context.Context) (objects.Verdict, error) { return known.Judge(ctx, e.Kube, s.Host) }
	case label != "" && e.Seed == nil:
		what = "each Node with the label " + label
		doc := e.Journal.Doc()
		isExcluded := func(node string) bool { return journal.IsExcluded(doc, node) }
		judge = func(ctx context.Context) (objects.Verdict, error) {
			return known.JudgeLabelled(ctx, e.Kube, label, isExcluded)
		}
	default:
		return nil
	}
	var verdict objects.Verdict
	err := e.WaitFor(
		ctx,
		s,
		announceBudget,
		SettleInterval,
		func() string { return verdict.Why },
		func(ctx context.Context) (bool, error) {
			var err error
			verdict, err = judge(ctx)
			return !verdict.MayPass, err
		},
	)
	if err != nil && !errors.Is(err, ErrTimedOut) {
		return err
	}
	if verdict.Why != "" {
		return &trust.UntrustedError{
			What: "step " + s.ID,
			Err:  fmt.Errorf("%s would get what only the control plane has, and %s", what, verdict.Why),
		}
	}
	return nil
}

// controlPlane is what is known of the control plane's hosts without the API.
func controlPlane(e *Env) objects.ControlPlane {
	known := objects.ControlPlane{HostsAreNodes: e.HostsAreNodes, Named: e.NamedHosts}
	if now := cmp.Or(e.Live, e.Before); now != nil {
		known.Before = hostproof.OfSnapshot(now)
	}
	return known
}

// WhyNoControlPlane says why a host is not taken for one of the control plane; empty where it is.
func (e *Env) WhyNoControlPlane(ctx context.Context, host string) (string, error) {
	verdict, err := controlPlane(e).Judge(ctx, e.Kube, host)
	return verdict.Why, err
}

// ControlPlaneNodes returns what says why a pod on a Node does not count as one of the control plane; empty where it
// does. A kubelet may write pods of its own node with any flags, so that those of a worker prove nothing.
func (e *Env) ControlPlaneNodes(ctx context.Context) (func(node string) string, error) {
	known := map[string]bool{}
	for _, h := range trust.BeforeHosts(e.Before) {
		known[h.NodeName] = known[h.NodeName] || h.ControlPlane
	}
	return controlPlane(e).Nodes(ctx, e.Kube, known)
}

// roleOf is the label of the control plane by which a DaemonSet that a step makes finds its hosts; empty for none. A
// Deployment goes where that of the kube-controller-manager has been.
func roleOf(s v1.Step) string {
	if s.Kind != v1.StepEnsureObject || s.Component != component.CCM || !strings.HasPrefix(s.Ref, "DaemonSet/") {
		return ""
	}
	var o struct {
		Spec struct{ Template corev1.PodTemplateSpec }
	}
	if json.Unmarshal([]byte(s.Object), &o) != nil {
		return ""
	}
	for label := range o.Spec.Template.Spec.NodeSelector {
		if component.HasControlPlaneRole(map[string]string{label: ""}) {
			return label
		}
	}
	return ""
}

// Host returns a host of the plan by its name; an unreachable one when there is no access to it.
func (e *Env) Host(name string) (hostaccess.Host, error) {
	h, ok := e.HostsByName[name]
	if !ok {
		return nil, &hostaccess.UnreachableError{
			Host: name,
			Err:  errors.New("it is in the plan and not in --host-access: name it there"),
		}
	}
	return h, nil
}

// ReadFile returns the file of a step, and "absent" as its hash when it is not there.
func (e *Env) ReadFile(ctx context.Context, host, path string) (hostaccess.File, string, error) {
	h, err := e.Host(host)
	if err != nil {
		return hostaccess.File{}, "", err
	}
	f, err := h.ReadFile(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return hostaccess.File{}, Absent, nil
	} else if err != nil {
		return hostaccess.File{}, "", err
	}
	return f, hostaccess.SHA256(f.Data), nil
}

// DigestFile returns the hash and the mode of a file of any size, and "absent" as its hash when it is not there. A
// program is larger than what is read of a host.
func (e *Env) DigestFile(ctx context.Context, host, path string) (string, fs.FileMode, error) {
	h, err := e.Host(host)
	if err != nil {
		return "", 0, err
	}
	sum, mode, err := hostaccess.Digest(ctx, h, path)
	if errors.Is(err, fs.ErrNotExist) {
		return Absent, 0, nil
	}
	return sum, mode.Perm(), err
}

// Absent is the hash of a file that is not there.
const Absent = "absent"

// IsRestored reports whether a file with this hash is as it was before the step of a record. One that was begun and
// changed nothing left it so.
func IsRestored(undone v1.StepRecord, sum string) bool {
	return undone.BackupSHA256 == "" || sum == undone.BackupSHA256
}

// SumOf returns the hash of what was read of a file, and "absent" for nil.
func SumOf(data []byte) string {
	if data == nil {
		return Absent
	}
	return hostaccess.SHA256(data)
}

// FileMode returns the mode that a step gives its file.
func FileMode(s v1.Step) (fs.FileMode, error) {
	mode, err := strconv.ParseUint(s.Mode, 8, 32)
	if err != nil {
		return 0, fmt.Errorf("mode %q: %w", s.Mode, err)
	}
	return fs.FileMode(mode), nil
}

// IsWider reports whether a file gives a right that a mode does not give: a credential that all may read is written
// again. One that an administrator has restricted further is left as it is.
func IsWider(now, mode fs.FileMode) bool { return now.Perm()&^mode.Perm() != 0 }

// WriteFile puts bytes on a host, after the record that says so was saved.
func (e *Env) WriteFile(ctx context.Context, s v1.Step, rec *v1.StepRecord, data []byte, mode fs.FileMode) error {
	h, err := e.Host(s.Host)
	if err != nil {
		return err
	}
	rec.AfterSHA256 = hostaccess.SHA256(data)
	if err := e.Journal.Save(ctx, *rec); err != nil {
		return err
	}
	e.Hook("during", s.ID)
	if sum, now, err := e.DigestFile(ctx, s.Host, s.Path); err == nil && sum == rec.AfterSHA256 && !IsWider(now, mode) {
		return nil
	}
	return h.WriteFile(ctx, s.Path, data, mode)
}

// CheckUnchanged refuses to overwrite or remove what another client wrote after this migration did. What is absent was
// taken away by a step of this migration.
func (e *Env) CheckUnchanged(s v1.Step, sum string) error {
	if sum == Absent {
		return nil
	}
	doc := e.Journal.Doc()
	for _, rec := range doc.Records {
		if rec.AfterSHA256 == sum || rec.BackupSHA256 == sum {
			return nil
		}
	}
	before := "delete it"
	if backup := e.Journal.Record(s.Restore).Backup; backup != "" {
		before = "put back what was there before this migration (" + backup + ")"
	}
	return NewStale("%s on host %s was changed outside this migration after the migration wrote it (SHA-256 %s): "+
		"put your change aside and undo it in the file, or %s, then run transplant rollback again", s.Path, s.Host, sum, before)
}

// UnitManager is a host whose units can be stopped and started.
type UnitManager interface {
	hostaccess.Host
	hostaccess.Units
}

// UnitHost returns a host by its name, if its units can be stopped and started.
func (e *Env) UnitHost(name string) (UnitManager, error) {
	h, err := e.Host(name)
	if err != nil {
		return nil, err
	}
	u, ok := h.(UnitManager)
	if !ok {
		return nil, fmt.Errorf(
			"the access to host %s cannot stop and start systemd units: use another --host-access for it",
			name,
		)
	}
	return u, nil
}

// CommitChanges has the changes of a host made that were asked for. It comes before each wait for their effect: people
// may make them, and take their time.
func (e *Env) CommitChanges(ctx context.Context, host string) error {
	if host == "" {
		return nil
	}
	h, err := e.Host(host)
	if err != nil {
		return err
	}
	return hostaccess.Commit(ctx, h)
}
