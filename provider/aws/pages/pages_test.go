package pages

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/provider/transport"
)

// TestAListOfAWSEnds: a proxy that names a next page in each would take the manager's memory, or hold a pass for ever.
func TestAListOfAWSEnds(t *testing.T) {
	for name, c := range map[string]struct {
		size  int // of each page
		pages int // that are asked for
	}{
		"too many pages": {1, 5000},
		"too many bytes": {maxAnswer, 9},
	} {
		t.Run(name, func(t *testing.T) {
			page := strings.Repeat(" ", c.size)
			read := 0
			all, err := Read(t.Context(), "EC2 DescribeInstances", func() bool { return read < 10_000 },
				func(ctx context.Context, _ ...func()) (int, error) {
					read++
					body := transport.Bound(ctx, io.NopCloser(strings.NewReader(page)), transport.Request{}, maxAnswer)
					_, err := io.Copy(io.Discard, body)
					return read, err
				}, func(page int) []int { return []int{page} })
			const want = "the list of EC2 DescribeInstances: it has more than 5000 pages or 536870912 bytes, and is not read on"
			if err == nil || all != nil || read != c.pages || !strings.Contains(err.Error(), want) {
				t.Errorf("%d pages were read: %v", read, err)
			}
		})
	}
}

// TestNothingElseReadsPages: a loop of its own around a paginator would have no bound.
func TestNothingElseReadsPages(t *testing.T) {
	paginators := 0
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		paginators += strings.Count(string(text), "Paginator(")
		for _, loop := range []string{"HasMorePages()", "NextPage(", "NextToken", "NextMarker"} {
			if strings.Contains(string(text), loop) {
				t.Errorf("%s has %s: read the list with pages.Read", path, loop)
			}
		}
		return err
	})
	if err != nil || paginators < 10 {
		t.Errorf("%d paginators were found: %v", paginators, err)
	}
}
