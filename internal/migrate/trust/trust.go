// Package trust decides what of a journal may be acted on: it is in ConfigMaps that others may write.
package trust

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// UntrustedError says that a plan or a record would do what no migration does. An account that may write the ConfigMap
// of a journal is not thereby root on the control plane: nothing of such a journal is executed.
type UntrustedError struct {
	// What is the step or the record.
	What string
	Err  error
}

func (e *UntrustedError) Error() string {
	return fmt.Sprintf(
		"%s is not what a migration does, and is not executed: %v\nfind out who wrote it (the journal is a ConfigMap), and whether this version of transplant made it",
		e.What,
		e.Err,
	)
}

func (e *UntrustedError) Unwrap() error { return e.Err }

// plainRun is a name of a run that is one element of a path.
var plainRun = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// CheckJournal says why a journal must not be continued or rolled back. Its plans break the rules, or its records name
// what no migration writes. live is how the cluster is now; nil where no host is touched.
func CheckJournal(doc v1.Journal, live *v1.Snapshot) error {
	if !plainRun.MatchString(doc.Run) {
		return &UntrustedError{
			What: "the journal",
			Err:  fmt.Errorf("its run is called %q, and directories on hosts are named by that", doc.Run),
		}
	}
	if live != nil {
		if err := CheckSeed(&doc.Plan, live.Cluster.Seed); err != nil {
			return err
		}
	}
	if uid := doc.Plan.Cluster.UID; uid != "" && !plainRun.MatchString(uid) {
		return &UntrustedError{
			What: "the journal",
			Err: fmt.Errorf(
				"its cluster has the uid %q, and a directory of the machine of who goes on with it is named by that",
				uid,
			),
		}
	}
	if d := doc.Plan.Direction; d != "" && d != planstep.Forward { // another one has no order that is judged
		return &UntrustedError{
			What: "the plan in the journal of migration " + doc.Run,
			Err:  fmt.Errorf("its direction is %q, and that of a migration is %q", d, planstep.Forward),
		}
	}
	if err := invariant.CheckJournaled(&doc.Plan, live); err != nil {
		return &UntrustedError{What: "the plan in the journal of migration " + doc.Run, Err: err}
	}
	if doc.Rollback != nil {
		if err := CheckSeed(doc.Rollback, doc.Plan.Cluster.Seed); err != nil {
			return err
		}
		if doc.Rollback.Cluster.UID != doc.Plan.Cluster.UID || doc.Rollback.Direction != planstep.Rollback {
			return &UntrustedError{
				What: "the rollback in the journal of migration " + doc.Run,
				Err:  errors.New("it is no rollback of this cluster"),
			}
		}
		if err := judgeOptions(&doc); err != nil {
			return &UntrustedError{What: "the rollback in the journal of migration " + doc.Run, Err: err}
		}
		if err := invariant.CheckJournaled(doc.Rollback, live); err != nil {
			return &UntrustedError{What: "the rollback in the journal of migration " + doc.Run, Err: err}
		}
	}
	return judgeRecords(doc, live)
}

// judgeOptions holds a rollback to what its plan was made with. The rules allow images, variables and files of hosts
// because the options of a plan name them, and those of a rollback are its plan's.
func judgeOptions(doc *v1.Journal) error {
	if doc.Rollback.Strategy != doc.Plan.Strategy {
		return fmt.Errorf("its strategy is %q, and that of the plan is %q", doc.Rollback.Strategy, doc.Plan.Strategy)
	}
	of, back := doc.Plan.Cluster.Provider, doc.Rollback.Cluster.Provider
	if back != of && back != "" { // nothing in the cluster says it any longer
		return fmt.Errorf("its provider is %q, and that of the plan is %q", back, of)
	}
	if differences := compare.ChangedOptions(doc.Rollback, &doc.Plan); len(differences) > 0 {
		return fmt.Errorf("its options are not those of the plan: %s", strings.Join(differences, "; "))
	}
	return nil
}

// IsRollingBack reports whether a rollback stands in the journal that was begun, as it says.
func IsRollingBack(doc *v1.Journal) bool {
	return doc.Phase == v1.RunRollingBack && doc.Rollback != nil
}

// BackupDir returns the directory of the backups of a run.
func BackupDir(run string) string { return layout.Dir + "/backup/" + run }

func isBackup(run, at string) bool {
	return plainRun.MatchString(run) && path.Dir(at) == BackupDir(run) && path.Clean(at) == at &&
		!strings.HasPrefix(path.Base(at), ".")
}

// IsUntrusted reports whether an error says that a plan or a record is not trusted.
func IsUntrusted(err error) bool { _, is := errors.AsType[*UntrustedError](err); return is }

// BackupName makes a file name of a step's ID; the hash keeps two IDs apart that differ in a slash only.
func BackupName(id string) string {
	out := []byte(id)
	for i, c := range out {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c == '-', c == '.':
		default:
			out[i] = '_'
		}
	}
	return string(out) + "-" + hostaccess.SHA256([]byte(id))[:8]
}

// longestHostName is what a kubelet cuts the host name of a pod to.
const longestHostName = 63

// IsHostOf reports whether the identity of a lease's holder begins with the name of a host, with or without its domain.
func IsHostOf(name, identity string) bool {
	at := strings.LastIndex(identity, "_")
	if name == "" || at <= 0 {
		return false
	}
	host := identity[:at]
	short := func(of string) string {
		before, _, _ := strings.Cut(of, ".")
		return before
	}
	cut := strings.TrimRight(name[:min(len(name), longestHostName)], "-.")
	return host == name || host == cut || host == short(name) || short(host) == name
}

// BeforeHosts returns the hosts of a snapshot; none where there is no snapshot.
func BeforeHosts(s *v1.Snapshot) []v1.Host {
	if s == nil {
		return nil
	}
	return s.Hosts
}
