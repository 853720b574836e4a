// Package wording has the words that messages share: counts, names, durations.
package wording

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/visible"
)

// OrDash returns a text, or a dash for none.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Short returns the beginning of a UID.
func Short(uid string) string {
	if len(uid) > 8 {
		return uid[:8] + "…"
	}
	return OrDash(uid)
}

// StateWords returns a state as a sentence has it.
func StateWords(state string) string { return strings.ReplaceAll(state, "-", " ") }

// HolderWords describes the holder of a lock.
func HolderWords(l v1.LockStatus) string {
	who := l.Holder
	if l.Host != "" {
		who = fmt.Sprintf("%s@%s, pid %d", l.User, l.Host, l.PID)
	}
	return fmt.Sprintf("%s · lock renewed %s ago", who, CompactDuration(l.AgeSeconds))
}

// QuoteWord returns a word as a shell takes it.
func QuoteWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// plainWord is what a shell takes as it stands.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// CompactDuration writes seconds with at most two units: 12s, 5m, 1h12m, 3d4h.
func CompactDuration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0fs", max(0, d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

// LoopNames are the loops that this tool speaks of, by metric name.
var LoopNames = map[string]bool{
	"service":              true,
	"route":                true,
	"cloud-node-lifecycle": true,
	"nodeipam":             true,
	"cloud-node":           true,
}

// OneLine keeps a foreign text to its line, and all of it: what is behind a line break is not hidden.
func OneLine(text string) string { return strings.Join(strings.Fields(visible.Line(text)), " ") }

// FleetPhase returns the phase of a cluster in words.
func FleetPhase(r v1.FleetCluster) string {
	if r.Phase == "" {
		return "-"
	}
	return r.Phase
}
