package field

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// captured is where the rules' tests find the snapshots.
const captured = "../../internal/check/testdata/captured"

// TestCapturedSnapshots takes snapshots of real API servers and holds those that the rules are tested with to them: a fact that is gathered otherwise
// than the rules believe shows here. make captures writes them. Without -field.all it takes the first one: a second version takes minutes to compile.
func TestCapturedSnapshots(t *testing.T) {
	versions := []Options{{Version: "v1.26.0", Provider: "aws"}, {Version: "v1.30.14", Provider: "gce"}}
	if !*whole {
		versions = versions[:1]
	}
	for _, o := range versions {
		t.Run(o.Provider+" "+o.Version, func(t *testing.T) {
			f := start(t, o)
			r := f.transplant(t, "snapshot", "-q")
			if r.code != 0 {
				t.Fatalf("exit %d: %s", r.code, r.errOut)
			}
			if strings.Contains(r.out, "never-to-be-seen") {
				t.Error("a secret is in the snapshot")
			}
			have := f.settled(r.out)
			path := filepath.Join(captured, o.Provider+"-"+o.Version+".yaml")
			if *update {
				if err := os.MkdirAll(captured, 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(have), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(have, "\n")); diff != "" {
				t.Errorf("the captured snapshot is not what a look gives now; review it and run go test ./field -update (-captured +now):\n%s", diff)
			}
		})
	}
}

var (
	uuid      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	sum       = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	mirror    = regexp.MustCompile(`hash: "?[0-9a-f]{32}"?`)
	balancer  = regexp.MustCompile(`\ba[0-9a-f]{31}\b`)
	elastic   = regexp.MustCompile(`\b(a[0-9a-f]{31}|balancer-\d+)-\d+\.`)
	moment    = regexp.MustCompile(`"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`)
	volatiles = []struct {
		pattern *regexp.Regexp
		becomes string
	}{
		{regexp.MustCompile(`(pid|startTicks): \d+`), "$1: 1000"},
		{regexp.MustCompile(`@20\d\d-\d\d-\d\dT[0-9:.]+Z`), "@2026-05-04T10:00:00Z"}, // of a load balancer's id
		{regexp.MustCompile(`resourceVersion: "\d+"`), `resourceVersion: "1"`},
		{regexp.MustCompile(`(offsetMillis|uncertaintyMillis): -?\d+`), "$1: 0"},
		{regexp.MustCompile(`state: [RSD]\b`), "state: S"},
		{regexp.MustCompile(`toolVersion: .*`), "toolVersion: v0.1.0"},
		{regexp.MustCompile(`server: https://\S+`), "server: https://api.prod.example.com:6443"},
		{regexp.MustCompile(`(attempts|calls|get|list|create): \d+`), "$1: 1"},
	}
)

// settled is a snapshot with what differs from run to run made the same: ids by the order in which they come, times, processes and addresses.
func (f *Field) settled(text string) string {
	text = numbered(text, uuid, "00000000-0000-4000-8000-%012d")
	text = mirror.ReplaceAllString(text, "hash: mirror") // before names of load balancers, which look alike
	text = elastic.ReplaceAllString(text, "$1.")
	text = numbered(text, balancer, "balancer-%d")
	text = numbered(text, sum, "hash-%d") // of files that name addresses of this run
	for i := range f.Hosts() {
		text = strings.ReplaceAll(text, f.loopback(i), fmt.Sprintf("127.0.0.%d", 11+i))
	}
	text = strings.ReplaceAll(text, f.options.Dir, "/field")
	// Only what is of today: the seeds' own times stay.
	text = moment.ReplaceAllStringFunc(text, func(at string) string {
		if strings.HasPrefix(at, `"2026-05-0`) {
			return at
		}
		return `"2026-05-04T10:00:00Z"`
	})
	text = strings.ReplaceAll(text, `acquireTime: "2026-05-04`, `acquireTime: "2026-05-01`)
	for _, v := range volatiles {
		text = v.pattern.ReplaceAllString(text, v.becomes)
	}
	return text
}

// numbered replaces each different match by its number, in the order in which they come first.
func numbered(text string, pattern *regexp.Regexp, format string) string {
	var seen []string
	return pattern.ReplaceAllStringFunc(text, func(match string) string {
		i := slices.Index(seen, match)
		if i < 0 {
			i, seen = len(seen), append(seen, match)
		}
		return fmt.Sprintf(format, i+1)
	})
}
