package console

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// UnknownCode is the error of a code that no check has.
func UnknownCode(code string) error {
	return fmt.Errorf("there is no check %q%s", code, codesLike(code, ": transplant check --list names them"))
}

// codesLike says which codes a mistyped one may stand for, and where all of them are; or else what is said of none.
func codesLike(code, none string) string {
	var codes []string
	for _, k := range check.List() {
		codes = append(codes, k.Code)
	}
	if near := Similar(strings.ToUpper(code), codes); len(near) > 0 {
		return "; did you mean " + strings.Join(near, " or ") + "? transplant check --list names all"
	}
	return none
}

// checkAccepted refuses values of --accept that name no check. A name with a slash is that of an object.
func checkAccepted(values []string) error {
	for _, value := range values {
		code, _, _ := strings.Cut(value, "=")
		if strings.Contains(code, "/") {
			continue
		}
		if _, ok := check.Find(code); !ok {
			like := codesLike(code, "; transplant check --list names them")
			return fmt.Errorf("accepting %q: there is no such check%s", code, like)
		}
	}
	return nil
}

// CompleteCodes returns the codes of checks that begin as the typed word does, for the shell, with what follows each.
func CompleteCodes(typed, suffix string) []string {
	var codes []string
	for _, k := range check.List() {
		if strings.HasPrefix(k.Code+suffix, strings.ToUpper(typed)) {
			codes = append(codes, k.Code+suffix+"\t"+check.Title(k))
		}
	}
	return codes
}

// completeAccepted completes --accept.
func completeAccepted(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return CompleteCodes(typed, "="), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// EndCheck is how a check ends whose report was printed. What blocked to the end of a wait may still pass by itself.
func EndCheck(report v1.CheckReport, isStillBlocked bool, wait time.Duration) error {
	switch {
	case isStillBlocked:
		return exitcode.With(
			exitcode.Timeout,
			"waited %s: what blocks may still pass by itself; run the same command again to go on waiting",
			wait,
		)
	case report.Summary.Blocked:
		return exitcode.With(exitcode.Blocked, "")
	}
	return nil
}

// SuggestNodes adds to the error of a node that a plan does not have which node may be meant.
func SuggestNodes(err error) error {
	var unknown *planstep.UnknownNodeError
	if !errors.As(err, &unknown) {
		return err
	}
	if near := Similar(unknown.Name, unknown.Workers); len(near) > 0 {
		return fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
	}
	if len(unknown.Workers) == 0 {
		return fmt.Errorf("%w, nor any other one", err)
	}
	return fmt.Errorf("%w; it changes %s", err, english.FirstOf(5, unknown.Workers))
}
