package transport

import (
	"fmt"
	"net/http"

	"github.com/transplant-dev/transplant/internal/listcount"
)

// List bounds lists that come in pages, over all of their pages. The answer itself says whether another page comes, so
// that a proxy could send pages without end, each of them short.
type List struct {
	// NextPage is the parameter of a query that asks for a page after the first; empty for no bound.
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
	if count.Pages.Load() > int64(l.MaxPages) || count.Bytes.Load() > l.MaxBytes {
		return nil, fmt.Errorf("reading the list of %s %s: it has more than %d pages or %d bytes, and is not read on: "+
			"look at what answers at %s", request.Service, request.Operation, l.MaxPages, l.MaxBytes, in.URL.Host)
	}
	return count, nil
}
