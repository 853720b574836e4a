package main

import (
	"fmt"
	"io"
	"sort"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// loopNames are the loops that this tool speaks of, by metric name.
var loopNames = map[string]bool{"service": true, "route": true, "cloud-node-lifecycle": true, "nodeipam": true, "cloud-node": true}

func printStatus(w io.Writer, s v1.Status, l layout) error {
	var b strings.Builder
	if s.Run == "" {
		fmt.Fprintf(&b, "no migration was started on this cluster\n")
	} else {
		fmt.Fprintf(&b, "migration %s is %s: %d of %d steps done\n", s.Run, s.Phase, s.StepsDone, s.StepsTotal)
	}
	for _, step := range s.Current {
		fmt.Fprintf(&b, "step  %s was begun and is not finished\n", step.ID)
	}
	if s.Upcoming != "" {
		fmt.Fprintf(&b, "step  %s comes next\n", s.Upcoming)
	}
	if s.LastError != "" {
		fmt.Fprintf(&b, "error %s\n", s.LastError)
	}
	if s.Lock != nil {
		fmt.Fprintf(&b, "lock  %s\n", s.Lock.Holder)
	}
	loops := make([]string, 0, len(s.Owners))
	for l := range s.Owners {
		if loopNames[l] {
			loops = append(loops, l)
		}
	}
	sort.Strings(loops)
	for _, l := range loops {
		fmt.Fprintf(&b, "loop  %-21s %s\n", l, s.Owners[l])
	}
	fmt.Fprintf(&b, "next: %s\n", s.Next)
	_, err := io.WriteString(w, l.plain(b.String()))
	return err
}
