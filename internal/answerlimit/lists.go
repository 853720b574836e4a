package answerlimit

import (
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/transplant-dev/transplant/internal/listcount"
)

// Bounds of a list, over all of its pages: an API server says itself whether another page comes.
const (
	maxList  = 512 << 20
	maxPages = 2000

	// maxListWeight is what the pages of a list of a user cluster may take when they are decoded: its reader may keep all
	// of them. The operator's limit is 512Mi.
	maxListWeight = 96 << 20

	// maxOwnList and maxOwnPages are those of a cluster that an administrator migrates by command.
	maxOwnList  = 2 << 30
	maxOwnPages = 4000
)

// Lists bounds the lists of a configuration's clients, over all of their pages. How large one answer is stays open.
func Lists(c *rest.Config) {
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return &bounded{rt: rt, lists: newLists(maxOwnList, 0, maxOwnPages)}
	})
}

// lists bounds each list over all of its pages: in bytes, in bytes of memory (0 for none), and in pages.
type lists struct {
	most, weight, pages int64

	counts listcount.Lists
}

// keptLists is for how many lists it is known how far they are, each kind in each namespace.
const keptLists = 4096

func newLists(most, weight, pages int64) *lists {
	return &lists{
		most:   most,
		weight: weight,
		pages:  pages,
		counts: listcount.Lists{Next: "continue", Keep: keptLists},
	}
}

// page counts the page of a list that is asked for; nil where a request asks for none.
func (l *lists) page(req *http.Request) (*listcount.Count, error) {
	query := req.URL.Query()
	isNext := query.Get("continue") != ""
	if l == nil || req.Method != http.MethodGet || query.Has("watch") || !isNext && !query.Has("limit") {
		return nil, nil //nolint:nilnil // what is no page is not counted
	}
	count := l.counts.Page(req.URL)
	if count.Pages.Load() > l.pages {
		return nil, fmt.Errorf(
			"%s has more than %d pages, and is not read on: look at what that API server runs",
			listName(req.URL.Host, req.URL.Path),
			l.pages,
		)
	}
	return count, nil
}

// listName is what a list is called where it is refused.
func listName(host, path string) string { return fmt.Sprintf("the list of %s at GET %s", host, path) }

// addBytes counts bytes of a list, and reports whether that is too much.
func (l *lists) addBytes(count *listcount.Count, n int) (isTooMuch bool) {
	return count != nil && count.Bytes.Add(int64(n)) > l.most
}

// addWeight counts what a page takes when it is decoded, and reports whether that is too much.
func (l *lists) addWeight(count *listcount.Count, n int64) (isTooMuch bool) {
	return count != nil && l.weight > 0 && count.Weight.Add(n) > l.weight
}
