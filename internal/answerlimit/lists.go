package answerlimit

import (
	"fmt"
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
)

// Bounds of a list, over all of its pages: an API server says itself whether another page comes.
const (
	maxList  = 512 << 20
	maxPages = 2000

	// maxOwnList and maxOwnPages are those of a cluster that an administrator migrates by command.
	maxOwnList  = 2 << 30
	maxOwnPages = 4000
)

// Lists bounds the lists of a configuration's clients, over all of their pages. How large one answer is stays open.
func Lists(c *rest.Config) {
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return &bounded{rt: rt, lists: newLists(maxOwnList, maxOwnPages)}
	})
}

// lists counts what was read of each list since its first page.
type lists struct {
	most, pages int

	mu   sync.Mutex
	read map[string]*listCount
}

type listCount struct{ bytes, pages int }

func newLists(most, pages int) *lists {
	return &lists{most: most, pages: pages, read: map[string]*listCount{}}
}

// keptLists is for how many lists it is known how far they are. Their number is the client's doing: which lists it asks
// for, and in which namespaces.
const keptLists = 4096

// page counts the page of a list that is asked for; nil where a request asks for none. Two callers that read one list
// at the same time are counted together.
func (l *lists) page(req *http.Request) (*listCount, error) {
	query := req.URL.Query()
	isNext := query.Get("continue") != ""
	if l == nil || req.Method != http.MethodGet || query.Has("watch") || !isNext && !query.Has("limit") {
		return nil, nil //nolint:nilnil // what is no page is not counted
	}
	query.Del("continue")
	key := req.URL.Host + req.URL.Path + "?" + query.Encode()
	l.mu.Lock()
	defer l.mu.Unlock()
	count := l.read[key]
	if count == nil || !isNext {
		if len(l.read) >= keptLists {
			clear(l.read)
		}
		count = &listCount{}
		l.read[key] = count
	}
	if count.pages++; count.pages > l.pages {
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

// add counts bytes of a list, and reports whether that is too much.
func (l *lists) add(count *listCount, n int) (isTooMuch bool) {
	if count == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	count.bytes += n
	return count.bytes > l.most
}
