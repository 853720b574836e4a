package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/lostnode"
	"github.com/transplant-dev/transplant/internal/migrate/manager"
	"github.com/transplant-dev/transplant/internal/migrate/trust"
	"github.com/transplant-dev/transplant/internal/ownership"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/report"
	"github.com/transplant-dev/transplant/internal/snapshot/blame"
	"github.com/transplant-dev/transplant/internal/status"
	"github.com/transplant-dev/transplant/internal/timeline"
)

// Evidence name the evidence next to the journal.
type Evidence struct {
	Log, Audit, Keys, Probes string
	// Accept are reasons for living with a difference that nothing explains; see report.Input.
	Accept map[string]string
}

// OpenMigrated connects to the cluster, and to its hosts and its cloud only if there is a migration. Without one no pod
// is started.
func (c *Client) OpenMigrated(ctx context.Context) error {
	if err := c.Connect(); err != nil {
		return err
	}
	j, err := journal.Open(ctx, c.Kube)
	if err != nil {
		return err
	}
	doc := j.Doc()
	c.NameCluster(c.DescribeCluster(ctx, &doc))
	return c.OpenHostsAndCloud(ctx)
}

type built struct {
	Report  v1.Report
	journal v1.Journal
	before  *v1.Snapshot
	after   *v1.Snapshot
}

// BuildReport gathers the evidence of the last migration and judges it.
func (c *Client) BuildReport(ctx context.Context, f Evidence) (*built, error) {
	j, err := journal.Open(ctx, c.Kube)
	if err != nil {
		return nil, err
	}
	doc := j.Doc()
	if err := trust.CheckJournal(doc, nil); err != nil { // its options say which files of hosts are looked at
		return nil, err
	}
	before, err := journal.Before(ctx, c.Kube)
	if err != nil {
		return nil, err
	}
	after := c.Gather(ctx, doc.Plan.Options)
	in := report.Input{
		Journal:     plan.Retitled(doc, before, after),
		Before:      before,
		After:       after,
		Now:         Now(),
		ToolVersion: Version,
		Accept:      f.Accept,
	}
	if in.Events, err = c.readEvents(f.Log, doc); err != nil {
		return nil, err
	}
	if in.Probes, err = c.readDisruption(f.Probes, doc); err != nil {
		return nil, err
	}
	if f.Audit != "" {
		if in.Calls, err = readCalls(f.Audit); err != nil {
			return nil, err
		}
		if in.Keys, err = readKeys(f.Keys); err != nil {
			return nil, err
		}
	}
	r := report.Build(in)
	for _, key := range slices.Sorted(maps.Keys(f.Accept)) {
		if !report.IsMet(key, r.Inventory.Differences) {
			c.Narrate("--accept %s is not needed: there is no such difference; take it back", key)
		}
	}
	return &built{
		Report:  r,
		journal: doc,
		before:  before,
		after:   in.After,
	}, nil
}

func (c *Client) readEvents(path string, doc v1.Journal) ([]v1.OwnershipEvent, error) {
	if path == "" {
		var err error
		if path, err = c.LogPath(doc.Plan.Cluster.UID, doc.Run); err != nil {
			return nil, err
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			c.Narrate(
				"no ownership log of migration %s on this machine (%s): gaps and owners during the run are unknown. "+
					"The log is on the machine that executed the run, and transplant report takes it with --ownership-log",
				doc.Run,
				path,
			)
			return nil, nil
		}
	}
	return OwnershipEvents(path, false)
}

func readCalls(path string) ([]v1.CloudCall, error) {
	return readLog(path, "cloud audit log", false, ownership.ReadCalls)
}

// readLog reads a log of this machine; with optional, one that is not there holds nothing.
func readLog[T any](path, name string, optional bool, read func(io.Reader) ([]T, error)) ([]T, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) && optional {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading the %s: %w", name, err)
	}
	defer file.Close()
	lines, err := read(file)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", name, path, err)
	}
	return lines, nil
}

func readKeys(path string) (map[string]ownership.Owner, error) {
	if path == "" {
		return nil, errors.New("--cloud-audit needs --cloud-keys: who has which access key")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading who has which access key: %w", err)
	}
	var raw map[string]string
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("access keys %s: %w", path, err)
	}
	out := map[string]ownership.Owner{}
	for key, who := range raw {
		component, host, _ := strings.Cut(who, "@")
		out[key] = ownership.Owner{Component: component, Host: host}
	}
	return out, nil
}

// Verify gathers and judges.
func (c *Client) Verify(ctx context.Context, f Evidence) (v1.Verification, error) {
	b, err := c.BuildReport(ctx, f)
	if err != nil {
		return v1.Verification{}, err
	}
	remains, err := lostnode.Remaining(ctx, c.Kube, b.journal)
	if err != nil {
		return v1.Verification{}, err
	}
	blame.Blame(ctx, c.Kube, b.before.TakenAt, b.Report.Inventory.Differences)
	return report.Verify(report.VerifyInput{
		Report:      b.Report,
		Phase:       b.journal.Phase,
		Owners:      manager.CompareOwners(b.after.Managers, promised(b.journal)),
		OwnersLine:  ownersLine(b.after),
		Remains:     remains,
		Errors:      b.after.Errors,
		CloudBefore: b.before.Cloud != nil,
		CloudNow:    b.after.Cloud != nil,
	}), nil
}

// promised are the owners that the last state of a migration promises. Once the plan is applied, these are the owners
// of the whole plan; before that, those of the last done step. Once it is rolled back, the owner is
// kube-controller-manager. While a rollback goes on, each loop has one owner, any of the two.
func promised(doc v1.Journal) map[string]string {
	expect := map[string]string{}
	for _, s := range doc.Plan.Steps {
		if s.Kind == v1.StepVerify {
			expect = maps.Clone(s.Expect)
		}
	}
	if doc.Phase == v1.RunApplied {
		return expect
	}
	owner := ""
	if doc.Phase == v1.RunRolledBack {
		owner = component.KCM
	}
	for loop := range expect {
		expect[loop] = owner
	}
	if doc.Phase != v1.RunApplying {
		return expect
	}
	results := map[string]v1.StepResult{}
	for _, r := range doc.Records {
		results[r.ID] = r.Result
	}
	for _, s := range doc.Plan.Steps {
		if done := results[s.ID]; len(s.Expect) > 0 && (done == v1.StepResultDone || done == v1.StepResultAlreadyDone) {
			maps.Copy(expect, s.Expect)
		}
	}
	return expect
}

func ownersLine(s *v1.Snapshot) string {
	var out []string
	for _, m := range s.Managers {
		for _, l := range m.Loops {
			if _, known := wording.LoopNames[l]; known {
				out = append(out, l+": "+m.Component+"@"+m.Host)
			}
		}
	}
	sort.Strings(out)
	return strings.Join(out, ", ")
}

// AcceptedObjects reads the values of --accept.
func AcceptedObjects(values []string) (map[string]string, error) {
	out := map[string]string{}
	for _, a := range values {
		object, reason, _ := strings.Cut(a, "=")
		if !strings.Contains(object, "/") || strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf(`--accept %q: give an object and a reason, such as 'Node/worker-3=taken down by ops'`, a)
		}
		out[object] = strings.TrimSpace(reason)
	}
	return out, nil
}

// SplitAccepted splits the values of --accept into codes of findings and differences of a verification. The key of a
// difference names an object.
func SplitAccepted(values []string) (codes []string, objects map[string]string, err error) {
	var differences []string
	for _, a := range values {
		if key, _, _ := strings.Cut(a, "="); strings.Contains(key, "/") {
			differences = append(differences, a)
		} else {
			codes = append(codes, a)
		}
	}
	objects, err = AcceptedObjects(differences)
	return codes, objects, err
}

// OwnershipEvents reads an ownership log; with optional, one that is not there holds nothing.
func OwnershipEvents(path string, optional bool) ([]v1.OwnershipEvent, error) {
	return readLog(path, "ownership log", optional, ownership.ReadLog)
}

// Timeline makes the timeline of what the board holds, with the logs of this machine. An ownership log that is not
// named is the one that apply kept here, where it did.
func Timeline(
	c *Client,
	board *status.Board,
	since time.Time,
	ownershipLog string,
) (v1.Timeline, status.Facts, error) {
	in := timeline.Input{Facts: board.Facts(), Since: since}
	doc := in.Facts.Journal
	if doc == nil {
		return timeline.Build(in), in.Facts, nil
	}
	path := ownershipLog
	if path == "" {
		var err error
		if path, err = c.LogPath(doc.Plan.Cluster.UID, doc.Run); err != nil {
			return v1.Timeline{}, in.Facts, err
		}
	}
	var err error
	if in.Ownership, err = OwnershipEvents(path, ownershipLog == ""); err != nil {
		return v1.Timeline{}, in.Facts, err
	}
	probes, err := c.DisruptionPath(doc.Plan.Cluster.UID, doc.Run)
	if err != nil {
		return v1.Timeline{}, in.Facts, err
	}
	if in.Probes, err = ReadProbes(probes); err != nil {
		return v1.Timeline{}, in.Facts, err
	}
	if in.Ownership == nil {
		in.Facts.NotRead = append(
			in.Facts.NotRead,
			fmt.Sprintf(
				"who held the leases in between: the ownership log %s is on the machine that executed the run",
				filepath.Base(path),
			),
		)
	}
	return timeline.Build(in), in.Facts, nil
}
