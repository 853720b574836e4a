package report

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/cdproto/emulation"

	"github.com/transplant-dev/transplant/internal/browsertest"
)

// tooWide are the parts of a page of which something is cut off at the right edge of paper.
const tooWide = `[...document.querySelectorAll("main, .scroll, .figure, .card")].filter((e) => e.scrollWidth > e.clientWidth + 1)
  .map((e) => e.className + " needs " + e.scrollWidth + " of " + e.clientWidth + ": " + e.textContent.slice(0, 60))`

func TestInABrowserEveryColumnIsOnPaper(t *testing.T) {
	for name, in := range map[string]Input{"one that went wrong": worst(), "node IPAM stays": ipamStays()} {
		t.Run(name, func(t *testing.T) {
			page := rendered(t, Build(in), "html")
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) }))
			t.Cleanup(server.Close)
			b := browsertest.Open(t, server.URL)
			b.Until(`document.querySelector("main .lead")`)
			b.Do(emulation.SetEmulatedMedia().WithMedia("print"))
			for _, width := range []int64{718, 680} { // A4 and Letter in portrait, with a browser's own margins
				b.Do(emulation.SetDeviceMetricsOverride(width, 1000, 1, false))
				for _, cut := range browsertest.Eval[[]string](b, tooWide) {
					t.Errorf("%d pixels: %s", width, cut)
				}
			}
			b.Shot("report-print")
			if n := browsertest.Eval[int](b, `document.querySelectorAll("thead th").length`); n < 30 {
				t.Errorf("the page has %d columns", n)
			}
		})
	}
}
