package fold

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// Hidden says how what is folded can be read.
const Hidden = " (-v shows them)"

// WithoutHost returns a step without the name of its host, which is a new flag's value or stands in the path of a file.
// With it each worker would change something else.
func WithoutHost(s v1.Step) v1.Step {
	if s.Host == "" {
		return s
	}
	s.Changes, s.Edits, s.Files = slices.Clone(s.Changes), slices.Clone(s.Edits), slices.Clone(s.Files)
	for i, c := range s.Changes {
		if c.After == s.Host {
			s.Changes[i].After = planstep.AnyHost
		}
	}
	for i, e := range s.Edits {
		if e.Value == s.Host {
			s.Edits[i].Value = planstep.AnyHost
		}
		s.Edits[i].Path = planstep.WithoutHostName(e.Path, s.Host)
	}
	for i, at := range s.Files {
		s.Files[i] = planstep.WithoutHostName(at, s.Host)
	}
	s.Path = planstep.WithoutHostName(s.Path, s.Host)
	return s
}

// DescribeWorkers says how many workers are changed by steps, and how many of them at a time.
func DescribeWorkers(steps []v1.Step) string {
	most, batches := 0, map[string]int{}
	for _, s := range steps {
		name := cmp.Or(s.Batch, s.ID) // a step without a batch is executed alone
		batches[name]++
		most = max(most, batches[name])
	}
	workers := english.Count(len(steps), "worker")
	switch {
	case most < 2:
		return workers + ", one at a time"
	case len(batches) == 1:
		return workers + " in one batch"
	}
	return fmt.Sprintf("%s in %d batches of up to %d", workers, len(batches), most)
}

// DescribePreparation says in one line what steps do.
func DescribePreparation(steps []v1.Step) string {
	objects, files, others := 0, 0, 0
	var hosts []string
	for _, s := range steps {
		switch s.Kind {
		case v1.StepEnsureObject:
			objects++
		case v1.StepWriteFile, v1.StepCopyFile:
			files++
		default:
			others++
		}
		if s.Host != "" && !slices.Contains(hosts, s.Host) {
			hosts = append(hosts, s.Host)
		}
	}
	var parts []string
	if objects > 0 {
		parts = append(parts, "create "+english.Count(objects, "object"))
	}
	if files > 0 {
		parts = append(parts, "write "+english.Count(files, "file")+" on "+english.Count(len(hosts), "host"))
	}
	if others > 0 {
		parts = append(parts, english.Count(others, "other change"))
	}
	return english.Count(len(steps), "step") + ": " + strings.Join(parts, ", ") + Hidden
}
