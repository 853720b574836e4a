// Package listcount decides which requests ask for pages of one list, and counts what was read of it. What is too much
// is the caller's to say.
package listcount

import (
	"net/url"
	"sync"
	"sync/atomic"
)

// Count is what was read of one list since its first page.
type Count struct{ Bytes, Weight, Pages atomic.Int64 }

// Lists are the lists that a client reads.
type Lists struct {
	// Next is the parameter of a query that asks for a page after the first.
	Next string
	// Keep is for how many lists it is known how far they are. Their number is the client's doing: it chooses which
	// lists it asks for.
	Keep int

	mu   sync.Mutex
	read map[string]*Count
}

// Page returns the count of the list that a request asks a page of, with this page. It begins again with each first
// page. Callers that read one list at the same time are counted together.
func (l *Lists) Page(u *url.URL) *Count {
	query := u.Query()
	isNext := query.Get(l.Next) != ""
	query.Del(l.Next)
	key := u.Host + u.Path + "?" + query.Encode()
	l.mu.Lock()
	defer l.mu.Unlock()
	count := l.read[key]
	if count == nil || !isNext {
		if l.read == nil || len(l.read) >= l.Keep {
			l.read = map[string]*Count{}
		}
		count = &Count{}
		l.read[key] = count
	}
	count.Pages.Add(1)
	return count
}
