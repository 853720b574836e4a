package transport

import (
	"fmt"
	"net/http"
	"sync"
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

// keptLists is for how many lists it is known how far they are. The program chooses which lists it asks for.
const keptLists = 1024

// lists counts what was read of each list since its first page.
type lists struct {
	List

	mu   sync.Mutex
	read map[string]*listCount
}

// listCount is of one list; the lock of the lists guards it.
type listCount struct {
	bytes int64
	pages int
}

// page counts the page that is asked for; nil where a request asks for none. Callers that read one list at the same
// time are counted together.
func (l *lists) page(in *http.Request, request Request) (*listCount, error) {
	if l.NextPage == "" || in.Method != http.MethodGet {
		return nil, nil //nolint:nilnil // what is no page is not counted
	}
	query := in.URL.Query()
	isNext := query.Get(l.NextPage) != ""
	query.Del(l.NextPage)
	key := in.URL.Host + in.URL.Path + "?" + query.Encode()
	l.mu.Lock()
	defer l.mu.Unlock()
	count := l.read[key]
	if count == nil || !isNext {
		if l.read == nil || len(l.read) >= keptLists {
			l.read = map[string]*listCount{}
		}
		count = &listCount{}
		l.read[key] = count
	}
	if count.pages++; count.pages > l.MaxPages || count.bytes > l.MaxBytes {
		return nil, fmt.Errorf("reading the list of %s %s: it has more than %d pages or %d bytes, and is not read on: "+
			"look at what answers at %s", request.Service, request.Operation, l.MaxPages, l.MaxBytes, in.URL.Host)
	}
	return count, nil
}

// add counts bytes of a page.
func (l *lists) add(count *listCount, n int) {
	if count != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		count.bytes += int64(n)
	}
}
