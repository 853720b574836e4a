// Package flagvalue reads and changes the values of flags that hold lists: feature gates, controllers, admission
// plugins. What an owner has set is merged, never replaced.
package flagvalue

import (
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/controllernames"
)

// SplitList splits a --controllers list.
func SplitList(list string) []string {
	var out []string
	for _, i := range strings.Split(list, ",") {
		if i = strings.TrimSpace(i); i != "" {
			out = append(out, i)
		}
	}
	return out
}

// IsLoopDisabled reports whether a --controllers list of a kube-controller-manager keeps a loop from running, whatever
// the dialect it is written in. An absent list is "*". A loop that is named either way is decided by that, the first
// one wins as in the manager itself; else the star decides.
func IsLoopDisabled(list string, loop controllernames.Loop) bool {
	all := SplitList(list)
	if len(all) == 0 {
		return false
	}
	for _, i := range all {
		if l, _, ok := controllernames.Lookup(strings.TrimPrefix(i, "-")); ok && l == loop {
			return strings.HasPrefix(i, "-")
		}
	}
	return !slices.Contains(all, "*")
}

// DisableLoop returns a --controllers list that says what it said and keeps a loop, under the name that the manager has
// for it, from running.
func DisableLoop(list, name string, loop controllernames.Loop) string {
	all := SplitList(list)
	if len(all) == 0 {
		all = []string{"*"}
	}
	if IsLoopDisabled(strings.Join(all, ","), loop) {
		return strings.Join(all, ",")
	}
	all = slices.DeleteFunc(all, func(i string) bool {
		l, _, ok := controllernames.Lookup(i)
		return ok && l == loop
	})
	if slices.Contains(all, "*") {
		all = append(all, "-"+name)
	}
	return strings.Join(all, ",")
}
