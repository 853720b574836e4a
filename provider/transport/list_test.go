package transport

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestAListIsBoundedOverItsPages: a proxy that says in each page that there is another one would take the manager's memory.
func TestAListIsBoundedOverItsPages(t *testing.T) {
	for name, c := range map[string]struct {
		size, pages int // of each page, and how many are read
		first       bool
	}{
		"too many pages":         {1, 5, false},
		"too many bytes":         {40, 3, false},
		"a list that is no page": {40, 50, true},
	} {
		t.Run(name, func(t *testing.T) {
			next := &wire{status: http.StatusOK, size: c.size}
			transport := New(Options{
				Next: next, Gate: &Gate{}, Describe: describe, MaxAnswer: 1000, List: List{NextPage: "marker", MaxBytes: 100, MaxPages: 5},
			})
			client := &http.Client{Transport: transport}
			read := func(url string) error {
				answer, err := client.Get(url)
				if err != nil {
					return err
				}
				defer func() { _ = answer.Body.Close() }()
				_, err = io.Copy(io.Discard, answer.Body)
				return err
			}
			var failed error
			url := "http://cloud/servers?limit=2"
			for failed == nil && next.sent < 50 {
				if failed = read(url); !c.first {
					url = "http://cloud/servers?limit=2&marker=" + strings.Repeat("m", next.sent)
				}
			}
			if next.sent != c.pages || (failed == nil) != c.first || failed != nil && !strings.Contains(failed.Error(), "more than 5 pages or 100 bytes") {
				t.Errorf("%d pages were read: %v", next.sent, failed)
			}
			if err := read("http://cloud/servers?limit=2"); err != nil {
				t.Errorf("the list cannot be read again: %v", err)
			}
		})
	}
}

// TestAReadingIsBoundedWhateverElseIsRead: another reader of such a list does not have the count begin again.
func TestAReadingIsBoundedWhateverElseIsRead(t *testing.T) {
	bound := List{MaxBytes: 100, MaxPages: 5}
	for name, c := range map[string]struct{ size, pages int }{"too many pages": {1, 5}, "too many bytes": {40, 3}} {
		t.Run(name, func(t *testing.T) {
			client := &http.Client{Transport: New(Options{Next: &wire{status: http.StatusOK, size: c.size}, Gate: &Gate{}, Describe: describe, MaxAnswer: 1000})}
			ctx, list := bound.Read(t.Context(), "machines", "vc.test")
			pages := 0
			var failed error
			for failed == nil && pages < 50 {
				if failed = list.Page(); failed != nil {
					break
				}
				pages++
				_, other := bound.Read(t.Context(), "machines", "vc.test")
				if err := other.Page(); err != nil {
					t.Fatal(err)
				}
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://vc.test/sdk", nil)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := client.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, answer.Body); err != nil {
					t.Fatal(err)
				}
				_ = answer.Body.Close()
			}
			const want = "reading the list of machines: it has more than 5 pages or 100 bytes, and is not read on: look at what answers at vc.test"
			if pages != c.pages || failed == nil || failed.Error() != want {
				t.Errorf("%d pages were read: %v", pages, failed)
			}
		})
	}
}
