package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cloudconfig"
	"github.com/transplant-dev/transplant/internal/controlplane/kubeletfile"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/kubeconfig"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// WriteFile writes a file, or derives it on the host.
type WriteFile struct{ Env *step.Env }

// Done reports whether the file on the host has its content.
func (x WriteFile) Done(ctx context.Context, s v1.Step) (bool, error) {
	if planstep.IsToken(s) {
		return x.hasToken(ctx, s)
	}
	want, err := x.content(ctx, s)
	if err != nil {
		return false, err
	}
	if want == nil {
		return false, step.PendingError(noToken)
	}
	f, sum, err := x.Env.ReadFile(ctx, s.Host, s.Path)
	if err != nil {
		return false, err
	}
	if sum == step.Absent {
		return false, step.Pending("%s is not on host %s", s.Path, s.Host)
	}
	if sum != hostaccess.SHA256(want) {
		return false, step.Pending("%s on host %s has another content than this step gives it", s.Path, s.Host)
	}
	mode, err := step.FileMode(s)
	if err == nil && s.Derive != layout.DeriveCredentialConfig && step.IsWider(f.Mode, mode) {
		err = step.Pending("%s on host %s has mode %04o, not %04o", s.Path, s.Host, f.Mode.Perm(), mode)
	}
	return err == nil, err
}

// noToken is what a file waits for that is derived from a token of an earlier version.
const noToken = object.NoToken

// Do writes the file after its old content was backed up.
func (x WriteFile) Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	if err := x.Env.BackUp(ctx, s, rec); err != nil {
		return err
	}
	if planstep.IsToken(s) {
		return x.writeToken(ctx, s, rec)
	}
	var data []byte
	reason := func() string { return noToken }
	look := func(ctx context.Context) (bool, error) {
		var err error
		data, err = x.content(ctx, s)
		return data != nil, err
	}
	err := x.Env.WaitFor(ctx, s, step.TimeoutOf(s), step.SettleInterval, reason, look)
	if errors.Is(err, step.ErrTimedOut) {
		return &step.VerifyError{Waited: step.TimeoutOf(s), Reason: noToken}
	} else if err != nil {
		return err
	}
	mode, err := x.mode(ctx, s)
	if err != nil {
		return err
	}
	return x.Env.WriteFile(ctx, s, rec, data, mode)
}

// mode is that of the step, or that of a file to which something is added. Its owner may have closed it, and others may
// have to read it.
func (x WriteFile) mode(ctx context.Context, s v1.Step) (fs.FileMode, error) {
	if s.Derive != layout.DeriveCredentialConfig {
		return step.FileMode(s)
	}
	f, _, err := x.Env.ReadFile(ctx, s.Host, s.Path)
	return f.Mode.Perm(), err
}

// content is what the file shall hold; nil while it cannot be known yet.
func (x WriteFile) content(ctx context.Context, s v1.Step) ([]byte, error) {
	if s.Derive == "" {
		return []byte(s.Content), nil
	}
	src, sum, err := x.Env.ReadFile(ctx, s.Host, s.Source)
	if err != nil {
		return nil, err
	}
	if sum == step.Absent {
		return nil, fmt.Errorf("%s on host %s is gone: %s cannot be derived from it", s.Source, s.Host, s.Path)
	}
	switch s.Derive {
	case layout.DeriveCloudConfig:
		out, err := cloudconfig.Derive(x.Env.CloudProvider(), src.Data)
		if err == nil && len(out.Problems) > 0 {
			err = errors.New(strings.Join(out.Problems, "; "))
		}
		if err != nil {
			return nil, fmt.Errorf("deriving %s from %s on host %s: %w", s.Path, s.Source, s.Host, err)
		}
		return out.Data, nil
	case layout.DeriveKubeconfig, layout.OlderKubeconfig:
		return x.kubeconfig(ctx, s, src.Data)
	case layout.DeriveCredentialConfig:
		out, err := kubeletfile.AddCredentialProvider(src.Data, []byte(s.Content))
		if err != nil {
			return nil, fmt.Errorf("adding an image credential provider to %s on host %s: %w", s.Path, s.Host, err)
		}
		return out, nil
	}
	return nil, fmt.Errorf("derivation %q is not known to this version of transplant", s.Derive)
}

// kubeconfig takes server and CA from the kube-controller-manager's, so that the cloud-controller-manager depends on
// the same API server. It names the file with the token; that of a plan of an earlier version holds one.
func (x WriteFile) kubeconfig(ctx context.Context, s v1.Step, source []byte) ([]byte, error) {
	server, err := kubeconfig.Server(source)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s on host %s: %w", s.Source, s.Host, err)
	}
	user := &clientcmdapi.AuthInfo{TokenFile: tokenNextToKubeconfig}
	if s.Derive == layout.OlderKubeconfig {
		token, err := object.OlderToken(ctx, x.Env)
		if err != nil || token == "" {
			return nil, err
		}
		user = &clientcmdapi.AuthInfo{Token: token}
	}
	data, err := object.ManagerKubeconfig(server, user)
	if err != nil {
		return nil, fmt.Errorf("rendering %s for host %s: %w", s.Path, s.Host, err)
	}
	return data, nil
}

// removeFile takes away what a step wrote, or puts back what was there before it.
type removeFile struct{ env *step.Env }

func (x removeFile) Done(ctx context.Context, s v1.Step) (bool, error) {
	sum, _, err := x.env.DigestFile(ctx, s.Host, s.Path)
	if err == nil && !step.IsRestored(x.env.Journal.Record(s.Restore), sum) {
		err = step.Pending("%s on host %s is not as it was before step %s", s.Path, s.Host, s.Restore)
	}
	return err == nil, err
}

func (x removeFile) Do(ctx context.Context, s v1.Step, rec *v1.StepRecord) error {
	data, mode, sum, err := x.env.ReadBackupOf(ctx, s.Restore, s.Host)
	if err != nil {
		return err
	}
	is, now, err := x.env.DigestFile(ctx, s.Host, s.Path)
	if err != nil {
		return err
	}
	if is != step.Absent && s.Path != layout.CCMToken { // which the manager, or an operator, has renewed since
		if err := x.env.CheckUnchanged(s, is); err != nil {
			return err
		}
	}
	if there, known := x.env.StepByID(s.Restore); known && there.Derive == layout.DeriveCredentialConfig {
		if sum == step.Absent {
			return fmt.Errorf(
				"%s on host %s is another owner's, and was not absent before step %s: it is not removed",
				s.Path, s.Host, s.Restore,
			)
		}
		// Its arguments and variables may be secret. The mode is in the journal, and the owner's is on the file.
		if mode &= 0o600; is != step.Absent {
			mode = now
		}
	}
	if sum != step.Absent {
		closed := trust.RestoredMode(s.Path, mode)
		note := fmt.Sprintf("put back with mode %04o instead of %04o: it holds credentials", closed, mode)
		if closed != mode && !slices.Contains(rec.Notes, note) {
			rec.Notes = append(rec.Notes, note)
		}
		return x.env.WriteFile(ctx, s, rec, data, closed)
	}
	rec.AfterSHA256 = step.Absent
	if err := x.env.Journal.Save(ctx, *rec); err != nil {
		return err
	}
	x.env.Hook("during", s.ID)
	h, err := x.env.Host(s.Host)
	if err != nil {
		return err
	}
	return h.Remove(ctx, s.Path)
}
