package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/transplant-dev/transplant/internal/wholefile"
)

// Part is what one campaign found of one command. A matrix is made of many, which are kept each in a file of its own,
// so that it can be made in pieces, by several processes at a time, and gone on with when it was interrupted.
type Part struct {
	// Name is the part's own among those of its matrix, and its file's.
	Name string
	// Campaign that it is of, and the commit of what was tried; "+" behind it says that the tree was not as committed.
	Campaign, Commit string
	Began            time.Time
	Took             time.Duration
	// Ended reports whether the command came to its end, Passed that nothing was wrong in all that was looked at.
	Ended, Passed bool
	// Wrong is what must not have happened, of the whole command.
	Wrong []string
	Table
}

// Try runs a campaign with the cluster's watch next to it. An error says all that was wrong; the part has it, too.
// Whoever keeps the part is told of every fault that is over.
func (p *Part) Try(ctx context.Context, c *Campaign, keep func(*Part) error) error {
	p.Began = time.Now()
	judge, err := c.Cluster.Watch(ctx)
	if err != nil {
		return err
	}
	var keepErr error
	c.Seen = func(r Result) {
		p.Steps, p.Outcomes, p.Took = r.Steps, r.Outcomes, r.Took
		keepErr = errors.Join(keepErr, keep(p))
	}
	r, runErr := c.Run(ctx)
	problems, err := judge()
	if err != nil {
		return errors.Join(runErr, err)
	}
	rest := Blame(r.Outcomes, problems)
	p.Steps, p.Outcomes, p.Took, p.Ended = r.Steps, r.Outcomes, r.Took, runErr == nil
	p.Notes = append(
		p.Notes,
		fmt.Sprintf("%s: %s with %d faults took %s", p.Campaign, c.Args[0], len(r.Outcomes), r.Took.Round(time.Second)),
	)
	errs := []error{keepErr}
	for _, problem := range rest {
		errs = append(errs, p.fail(problem.Text))
	}
	for _, o := range p.Failed() {
		errs = append(errs, fmt.Errorf("%s at %s:%s: %s", o.Kind, o.Point, o.Step, o.Problem))
	}
	if runErr != nil {
		_ = p.fail(strings.SplitN(runErr.Error(), "\n", 2)[0]) // the whole of it is returned
		errs = append(errs, runErr)
	}
	return errors.Join(errs...)
}

// Alike finds out whether what there is now is what an undisturbed run leaves.
func (p *Part) Alike(ctx context.Context, c Cluster, want []string) error {
	have, err := c.Facts(ctx)
	if err != nil {
		return err
	}
	if diff := Different(want, have); diff != "" {
		return fmt.Errorf(
			"%w (- is missing, + is there instead):\n%s",
			p.fail("files, objects or the cloud are not as after an undisturbed run"),
			diff,
		)
	}
	p.Notes = append(
		p.Notes,
		fmt.Sprintf("%s: files, objects and the cloud are as after an undisturbed run: %d facts", p.Campaign, len(have)),
	)
	return nil
}

// Verified runs transplant verify until it passes: what the last outages did to the managers takes a while, for one
// that loses its lease ends, and its kubelet waits longer each time before it starts it again. Verify says meanwhile
// that nobody runs the loops.
func (p *Part) Verified(ctx context.Context, verify func(context.Context) (code int, said string, err error)) error {
	return p.verified(ctx, verify, 2*time.Second, 5*time.Minute)
}

func (p *Part) verified(
	ctx context.Context,
	verify func(context.Context) (int, string, error),
	every, within time.Duration,
) error {
	begin := time.Now()
	for {
		code, said, err := verify(ctx)
		if err != nil {
			return err
		}
		took := time.Since(begin).Round(time.Second)
		if code == 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("%s: verify passes after %s", p.Campaign, took))
			return nil
		}
		if took > within {
			return fmt.Errorf("%w\n%s", p.fail(fmt.Sprintf("verify still ends with exit code %d after %s", code, took)), said)
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (p *Part) fail(text string) error {
	p.Wrong = append(p.Wrong, text)
	return errors.New(text)
}

// Store is a directory with the parts of a matrix.
type Store string

// Keep writes a part as it is by now, in place of what there was of it.
func (s Store) Keep(p *Part) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("keeping %s: %w", p.Name, err)
	}
	if err := os.MkdirAll(string(s), 0o755); err != nil {
		return fmt.Errorf("keeping %s: %w", p.Name, err)
	}
	return wholefile.Write(filepath.Join(string(s), p.Name+".json"), data, 0o644)
}

// Parts are all that are kept, by name.
func (s Store) Parts() (map[string]*Part, error) {
	files, err := filepath.Glob(filepath.Join(string(s), "*.json"))
	if err != nil {
		return nil, err
	}
	out := map[string]*Part{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		p := &Part{}
		if err := json.Unmarshal(data, p); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		out[p.Name] = p
	}
	return out, nil
}

// Clear takes all parts away.
func (s Store) Clear() error {
	if err := os.RemoveAll(string(s)); err != nil {
		return fmt.Errorf("taking the parts of another matrix away: %w", err)
	}
	return nil
}

// Commit is that of the tree in which the process runs, with "+" behind it when the tree is not as committed; empty
// when that cannot be told.
func Commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// Still reports whether a part passed and that the same would be tried again.
func (p *Part) Still(commit string) bool {
	return p != nil && p.Passed && commit != "" && p.Commit == commit && !strings.HasSuffix(commit, "+")
}

// Join puts a part into a table: its rows and columns, and what was found.
func (t *Table) Join(p *Part) {
	t.Title = p.Title
	if t.How == nil {
		t.How = map[Kind]string{}
	}
	maps.Copy(t.How, p.How)
	t.Add(Result{Steps: p.Steps, Outcomes: p.Outcomes})
	t.Notes = append(t.Notes, p.Notes...)
	for _, wrong := range p.Wrong {
		t.Notes = append(t.Notes, p.Campaign+": **FAIL** "+wrong)
	}
}

// Group is a table to be: the parts that it is made of, by name, in the order of its columns.
type Group struct {
	Title string
	Names []string
}

// Write writes a matrix into a file: which parts there are, of which commit, and which are missing; then the tables.
func (s Store) Write(file string, groups []Group) error {
	parts, err := s.Parts()
	if err != nil {
		return err
	}
	var overview, tables strings.Builder
	for _, g := range groups {
		table := &Table{}
		for _, name := range g.Names {
			p := parts[name]
			if p == nil {
				fmt.Fprintf(&overview, "| %s | %s | not run | | | | |\n", g.Title, name)
				continue
			}
			table.Join(p)
			overview.WriteString(p.row(g.Title))
		}
		if table.Title != "" {
			if err := table.Write(&tables); err != nil {
				return err
			}
		}
	}
	return wholefile.Write(
		file,
		[]byte("# What goes wrong at each step, and what comes of it\n\nHow to read it: docs/reference/faults.md.\n\n"+
			"| command | campaign | result | faults | took | begun | commit |\n|---|---|---|---|---|---|---|\n"+overview.String()+"\n"+tables.String()),
		0o644,
	)
}

// row is a part's in the overview.
func (p *Part) row(group string) string {
	made := 0
	for _, o := range p.Outcomes {
		if !o.Missed {
			made++
		}
	}
	result := "not ended"
	switch {
	case p.Passed:
		result = "passed"
	case len(p.Failed())+len(p.Wrong) > 0:
		result = "**FAIL**"
	}
	return fmt.Sprintf("| %s | %s | %s | %d | %s | %s | %s |\n",
		group, p.Campaign, result, made, p.Took.Round(time.Second), p.Began.UTC().Format("2006-01-02 15:04"), p.Commit)
}
