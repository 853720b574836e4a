package transport

import (
	"context"
	"fmt"
	"net/http"

	"github.com/transplant-dev/transplant/internal/listcount"
)

// List bounds lists that come in pages, over all of their pages. The answer itself says whether another page comes, so
// that a proxy could send pages without end, each of them short.
type List struct {
	// NextPage is the parameter of a query that asks for a page after the first. Where it is empty, only the lists of
	// Read are bounded.
	NextPage string
	// MaxBytes and MaxPages are of one list.
	MaxBytes int64
	MaxPages int
}

// keptLists is for how many lists it is known how far they are.
const keptLists = 1024

// lists bounds each list.
type lists struct {
	List

	counts listcount.Lists
}

func newLists(l List) *lists {
	return &lists{List: l, counts: listcount.Lists{Next: l.NextPage, Keep: keptLists}}
}

// page counts the page that is asked for; nil where a request asks for none.
func (l *lists) page(in *http.Request, request Request) (*listcount.Count, error) {
	if l.NextPage == "" || in.Method != http.MethodGet {
		return nil, nil //nolint:nilnil // what is no page is not counted
	}
	count := l.counts.Page(in.URL)
	return count, l.check(count, request.Service+" "+request.Operation, in.URL.Host)
}

// check returns an error for a list of which too much was read.
func (l List) check(count *listcount.Count, of, at string) error {
	if count.Pages.Load() <= int64(l.MaxPages) && count.Bytes.Load() <= l.MaxBytes {
		return nil
	}
	return fmt.Errorf("reading the list of %s: it has more than %d pages or %d bytes, and is not read on: "+
		"look at what answers at %s", of, l.MaxPages, l.MaxBytes, at)
}

// Reading is one list that a loop of the provider reads. The address of its requests does not show of which list they
// ask a page.
type Reading struct {
	bounds List
	of, at string
	count  listcount.Count
}

type readingKey struct{}

// Read begins a list; of and at are what is read, and from where. The answers to requests of the context count for it.
func (l List) Read(ctx context.Context, of, at string) (context.Context, *Reading) {
	r := &Reading{bounds: l, of: of, at: at}
	return context.WithValue(ctx, readingKey{}, &r.count), r
}

// Page counts a page before it is asked for. It returns an error where that is one too many.
func (r *Reading) Page() error {
	r.count.Pages.Add(1)
	return r.bounds.check(&r.count, r.of, r.at)
}
