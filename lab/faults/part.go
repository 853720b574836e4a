package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Part is what one campaign found of one command. A matrix is made of many, which are kept each in a file of its own, so that it can be made in pieces, by
// several processes at a time, and gone on with when it was interrupted.
type Part struct {
	// Name is the part's own among those of its matrix, and its file's.
	Name string
	// Campaign that it is of, and the commit of what was tried; "+" behind it says that the tree was not as committed.
	Campaign, Commit string
	Began            time.Time
	// Ended tells that the command came to its end, Passed that besides nothing was wrong.
	Ended, Passed bool
	Table
}

// Try runs a campaign with the cluster's watch beside it. An error says all that was wrong; the part has it, too. Whoever keeps the part is told of every
// fault that is over.
func (p *Part) Try(ctx context.Context, c *Campaign, keep func(*Part) error) error {
	p.Began = time.Now()
	judge, err := c.Cluster.Watch(ctx)
	if err != nil {
		return err
	}
	var keepErr error
	c.Seen = func(r Result) {
		p.Steps, p.Outcomes = r.Steps, r.Outcomes
		keepErr = errors.Join(keepErr, keep(p))
	}
	r, runErr := c.Run(ctx)
	problems, err := judge()
	if err != nil {
		return errors.Join(runErr, err)
	}
	rest := Blame(r.Outcomes, problems)
	p.Steps, p.Outcomes, p.Ended = r.Steps, r.Outcomes, runErr == nil
	p.Notes = append(p.Notes, fmt.Sprintf("%s: %s with %d faults took %s", p.Campaign, c.Args[0], len(r.Outcomes), r.Took.Round(time.Second)))
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
		return fmt.Errorf("%w (- is missing, + is there instead):\n%s", p.fail("files, objects or the cloud are not as after an undisturbed run"), diff)
	}
	p.Notes = append(p.Notes, fmt.Sprintf("%s: files, objects and the cloud are as after an undisturbed run: %d facts", p.Campaign, len(have)))
	return nil
}

func (p *Part) fail(text string) error {
	p.Notes = append(p.Notes, fmt.Sprintf("%s: **FAIL** %s", p.Campaign, text))
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
	file := filepath.Join(string(s), p.Name+".json")
	if err := os.WriteFile(file+".new", data, 0o644); err != nil {
		return fmt.Errorf("keeping %s: %w", p.Name, err)
	}
	if err := os.Rename(file+".new", file); err != nil { // whoever reads at the same time reads the one or the other
		return fmt.Errorf("keeping %s: %w", p.Name, err)
	}
	return nil
}

// Parts are all that are kept, by name.
func (s Store) Parts() ([]*Part, error) {
	files, err := filepath.Glob(filepath.Join(string(s), "*.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	var out []*Part
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		p := &Part{}
		if err := json.Unmarshal(data, p); err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		out = append(out, p)
	}
	return out, nil
}
