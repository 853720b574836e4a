// Package rights decides whether roles grant what a program uses, no less and no more, by the audit logs of API
// servers.
package rights

import (
	"slices"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/lab/auditlog"
)

// Needed returns the rights that a user's requests took, and fails the test on each that RBAC refused.
func Needed(t testing.TB, requests []auditlog.Request, user string) []apitest.Right {
	t.Helper()
	seen := map[apitest.Right]bool{}
	for _, r := range requests {
		if r.User != user || r.Resource == "" {
			continue
		}
		right := rightOf(r)
		if r.Forbidden && !seen[right] {
			t.Errorf("%s was refused to %s (%s)", user, right, r.URI)
		}
		seen[right] = true
	}
	if len(seen) == 0 {
		t.Fatalf("the audit log has no request of %s", user)
	}
	var out []apitest.Right
	for right := range seen {
		out = append(out, right)
	}
	return out
}

// rightOf returns what the authorizer judged of a request. An object that is created has no name by then.
func rightOf(r auditlog.Request) apitest.Right {
	right := apitest.Right{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name}
	if r.Subresource != "" {
		right.Resource += "/" + r.Subresource
	} else if r.Verb == "create" {
		right.Name = ""
	}
	return right
}

// Used fails the test on rights that were granted and not needed, unless a situation that did not occur is named for
// them: by how the texts of these rights begin. A situation for which no right is granted fails it too.
func Used(t testing.TB, granted, needed []apitest.Right, situations map[string]string) {
	t.Helper()
	unused := apitest.Unused(granted, needed)
	for _, right := range unused {
		if !beginsWithOne(right, situations) {
			t.Errorf("nothing used the right to %s", right)
		}
	}
	all := apitest.Unused(granted, nil)
	for prefix, situation := range situations {
		if !slices.ContainsFunc(all, func(right string) bool { return strings.HasPrefix(right, prefix) }) {
			t.Errorf("no role grants what is explained by %q: %s", situation, prefix)
		}
	}
	t.Logf("of %d rights, %d are for situations that did not occur", len(granted), len(unused))
}

func beginsWithOne(right string, situations map[string]string) bool {
	for prefix := range situations {
		if strings.HasPrefix(right, prefix) {
			return true
		}
	}
	return false
}
