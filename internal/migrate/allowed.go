package migrate

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/snapshot"
)

// UntrustedError says that a plan or a record would do what no migration does. Whoever may write the ConfigMap of a journal is not thereby root on the control
// plane: nothing of such a journal is carried out.
type UntrustedError struct {
	// What is the step or the record.
	What string
	Err  error
}

func (e *UntrustedError) Error() string {
	return fmt.Sprintf("%s is not what a migration does, and is not carried out: %v\nfind out who wrote it (the journal is a ConfigMap), and whether this is the version of transplant that made it", e.What, e.Err)
}

func (e *UntrustedError) Unwrap() error { return e.Err }

// plainRun is a name of a run that is one element of a path.
var plainRun = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Judge says why a journal must not be gone on with, or back from: its plans break the rules, or its records name what no migration writes. live is how the cluster
// is now; nil where no host is touched.
func Judge(doc v1.Journal, live *v1.Snapshot) error {
	if !plainRun.MatchString(doc.Run) {
		return &UntrustedError{What: "the journal", Err: fmt.Errorf("its run is called %q, and directories on hosts are named by that", doc.Run)}
	}
	if live != nil {
		if err := judgeSeed(&doc.Plan, live.Cluster.Seed); err != nil {
			return err
		}
	}
	if uid := doc.Plan.Cluster.UID; uid != "" && !plainRun.MatchString(uid) {
		return &UntrustedError{What: "the journal", Err: fmt.Errorf("its cluster has the uid %q, and a directory of the machine of who goes on with it is named by that", uid)}
	}
	if err := plan.Journaled(&doc.Plan, live); err != nil {
		return &UntrustedError{What: "the plan in the journal of migration " + doc.Run, Err: err}
	}
	if doc.Rollback != nil {
		if err := judgeSeed(doc.Rollback, doc.Plan.Cluster.Seed); err != nil {
			return err
		}
		if doc.Rollback.Cluster.UID != doc.Plan.Cluster.UID || doc.Rollback.Direction != plan.Rollback {
			return &UntrustedError{What: "the rollback in the journal of migration " + doc.Run, Err: errors.New("it is no rollback of this cluster")}
		}
		if err := judgeOptions(&doc); err != nil {
			return &UntrustedError{What: "the rollback in the journal of migration " + doc.Run, Err: err}
		}
		if err := plan.Journaled(doc.Rollback, live); err != nil {
			return &UntrustedError{What: "the rollback in the journal of migration " + doc.Run, Err: err}
		}
	}
	return judgeRecords(doc, live)
}

// judgeOptions holds a rollback to what its plan was made with. The rules allow images, variables and files of hosts because the options of a plan name them,
// and those of a rollback are its plan's.
func judgeOptions(doc *v1.Journal) error {
	if doc.Rollback.Strategy != doc.Plan.Strategy {
		return fmt.Errorf("its strategy is %q, and that of the plan is %q", doc.Rollback.Strategy, doc.Plan.Strategy)
	}
	of, back := doc.Plan.Cluster.Provider, doc.Rollback.Cluster.Provider
	if back != of && back != "" { // nothing in the cluster says it any longer
		return fmt.Errorf("its provider is %q, and that of the plan is %q", back, of)
	}
	if differences := plan.OptionsThatDiffer(doc.Rollback, &doc.Plan); len(differences) > 0 {
		return fmt.Errorf("its options are not those of the plan: %s", strings.Join(differences, "; "))
	}
	return nil
}

// GoesOnBack tells that a rollback stands in the journal that was begun, as it says.
func GoesOnBack(doc *v1.Journal) bool { return doc.Phase == v1.RunRollingBack && doc.Rollback != nil }

func backupDir(run string) string { return plan.Dir + "/backup/" + run }

func isBackup(run, at string) bool {
	return plainRun.MatchString(run) && path.Dir(at) == backupDir(run) && path.Clean(at) == at && !strings.HasPrefix(path.Base(at), ".")
}

// allowed asks before a step is carried out whether it does what a migration does; the plan was judged as a whole before, and here each step is on its own.
func (e *Engine) allowed(s v1.Step) error {
	if e.unjudged {
		return nil
	}
	if err := plan.AllowedStep(e.plan, s, e.seen()); err != nil {
		return &UntrustedError{What: "step " + s.ID, Err: err}
	}
	return nil
}

// provesControlPlane refuses to give a host that is no control plane what only the control plane has. It is asked of the API right before: what the host itself
// says, and a snapshot of some time ago, may be a worker's.
func (e *Engine) provesControlPlane(ctx context.Context, s v1.Step) error {
	if s.Host == "" || s.Derive == "" && s.Kind != v1.StepAddManifest {
		return nil
	}
	proven, err := snapshot.IsControlPlaneHost(ctx, e.Kube, s.Host, e.HostsAreNodes)
	if err != nil {
		return err
	}
	if !proven {
		return &UntrustedError{What: "step " + s.ID, Err: fmt.Errorf("host %s would get what only the control plane has, and %s", s.Host, plan.Unproven(s.Host))}
	}
	return nil
}

func isUntrusted(err error) bool { _, is := errors.AsType[*UntrustedError](err); return is }

// allowedOn asks right before a step edits a component whether it changes only what a migration changes of the flags with which the component is started now.
func (e *Engine) allowedOn(s v1.Step, command []string) error {
	if e.unjudged || len(s.Edits) == 0 {
		return nil
	}
	if err := plan.AllowedOn(e.plan, s, command); err != nil {
		return &UntrustedError{What: "step " + s.ID, Err: err}
	}
	return nil
}

// seen is how the cluster is, as far as somebody has looked; how it was before where nobody has.
func (e *Engine) seen() *v1.Snapshot {
	if e.Live != nil {
		return e.Live
	}
	return e.Before
}
