package userclusters

import (
	"fmt"
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
)

// Bounds of a list, over all of its pages: an API server says itself whether another page comes. And of what is being
// read at the same time: each answer is in memory until its end has come.
const (
	maxList  = 512 << 20
	maxPages = 2000
	maxOpen  = 96 << 20

	// maxOwnList and maxOwnPages are those of a cluster that an administrator migrates by command.
	maxOwnList  = 2 << 30
	maxOwnPages = 4000
)

// BoundLists bounds the lists of a configuration's clients, over all of their pages. How large one answer is stays
// open.
func BoundLists(c *rest.Config) {
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return &bounded{rt: rt, lists: newLists(maxOwnList, maxOwnPages)}
	})
}

// listLedger counts what was read of each list since its first page, and what is being read of all answers.
type listLedger struct {
	most, pages int

	mu   sync.Mutex
	read map[string]*listCount
	open int
}

type listCount struct{ bytes, pages int }

func newLists(most, pages int) *listLedger {
	return &listLedger{most: most, pages: pages, read: map[string]*listCount{}}
}

// keptLists is for how many lists it is known how far they are. Their number is the client's doing: which lists it asks
// for, and in which namespaces.
const keptLists = 4096

// page counts the page of a list that is asked for; nil where a request asks for none. Two callers that read one list
// at the same time are counted together.
func (l *listLedger) page(req *http.Request) (*listCount, error) {
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
			listOf(req),
			l.pages,
		)
	}
	return count, nil
}

func listOf(req *http.Request) string {
	return fmt.Sprintf("the list of %s at GET %s", req.URL.Host, req.URL.Path)
}

// add counts bytes of a list, and reports whether that is too much.
func (l *listLedger) add(count *listCount, n int) (isTooMuch bool) {
	if count == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	count.bytes += n
	return count.bytes > l.most
}

// hold counts bytes of an answer that are in memory now, and returns how many there are of all answers.
func (l *listLedger) hold(b *boundedBody, n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !b.isFree {
		b.held += n
		l.open += n
	}
	return l.open
}

// free takes an answer that was closed out of the count. It may still be read by another goroutine.
func (l *listLedger) free(b *boundedBody) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open -= b.held
	b.held, b.isFree = 0, true
}
