package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/printer"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/component"
)

// eventful is a run of which there is something of every source.
func eventful(t *testing.T) *onlooker {
	t.Helper()
	o := newOnlooker(t)
	at := func(before time.Duration) *time.Time { at := client.Now().Add(-before); return &at }
	o.doc.Pauses = []v1.PauseRecord{
		{
			Pause:  v1.Pause{Run: o.doc.Run, By: "boss@desk", Reason: "the shop is open"},
			From:   *at(240 * time.Second),
			To:     at(30 * time.Second),
			Before: o.doc.Plan.Steps[o.current].ID,
		},
	}
	o.begin()
	o.lease(component.MigrationLease, "cp-2_77aa", 2*time.Second)
	o.event("Node", "", "cp-1", "Normal", "NodeNotReady", "Node cp-1 status is now: NodeNotReady", 260*time.Second)
	o.event("Service", "shop", "web", "Warning", "SyncLoadBalancerFailed", "Error syncing load balancer: throttled", 200*time.Second)
	o.event("Service", "shop", "web", "Normal", "Unrelated", "of no interest", 199*time.Second)
	o.event("Pod", "kube-system", "kube-controller-manager-cp-1", "Normal", "Created", "Created container \x1b[2J", 265*time.Second)
	o.event("Pod", "kube-system", "coredns-1", "Normal", "Created", "of no interest", 265*time.Second)
	o.event("Node", "", "worker-1", "Normal", "Old", "long before", time.Hour)
	return o
}

func TestTimelineOutputs(t *testing.T) {
	o := eventful(t)
	v := o.volatile()
	golden(t, "timeline", o.run("timeline"), v)
	golden(t, "timeline-markdown", o.run("timeline", "-o", "markdown"), v)
	golden(t, "timeline-json", o.run("timeline", "-o", "json"), v)
	golden(t, "timeline-since", o.run("timeline", "--since", "1m"), v)
	if r := o.run("timeline", "--since", "2026-11-21T11:59:00Z"); r.out != o.run("timeline", "--since", "1m").out {
		t.Errorf("a time and a duration: %s", r.text(nil))
	}
	fails(t, o.run("timeline", "--since", "yesterday"), exitcode.Error, `--since "yesterday": give a duration, such as 10m, or a time`)
	if short, whole := o.run("timeline", "-o", "md"), o.run("timeline", "-o", "markdown"); short.code != exitcode.OK || short.out != whole.out {
		t.Errorf("md is not markdown:\n%s", short.text(nil))
	}
	fails(t, o.run("timeline", "--watch", "-o", "markdown"), exitcode.Error, "--watch writes text or json, not markdown")
	fails(t, o.run("timeline", "--ownership-log", "/nonexistent"), exitcode.Error, "reading the ownership log: open /nonexistent")
	none := newOnlooker(t)
	golden(t, "timeline-none", none.run("timeline"), none.volatile())
	for _, verb := range []string{"get", "list", "watch"} {
		o.api.Deny(verb, "configmaps")
	}
	if r := o.run("timeline"); !strings.Contains(r.out, "whether a migration was started is unknown") || strings.Contains(r.out, "no migration was started") {
		t.Errorf("without the right to read the journal:\n%s", r.text(nil))
	}
}

func TestATimelineTakesInTheLogsOfThisMachine(t *testing.T) {
	o := eventful(t)
	dir := t.TempDir()
	logs := filepath.Join(dir, o.doc.Plan.Cluster.UID)
	if err := os.MkdirAll(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		".ownership.jsonl": `{"time":"2026-11-21T11:55:00Z","source":"lease","lease":"kube-controller-manager","holder":"cp-1_0b5e"}
{"time":"2026-11-21T11:55:30Z","source":"lease","lease":"kube-controller-manager","holder":"cp-2_77aa","transitions":1}
`,
		".disruption.jsonl": `{"time":"2026-11-21T11:55:00Z","event":"begin"}
{"time":"2026-11-21T11:55:32Z","event":"down","kind":"tcp","path":"shop/web lb:443","since":"2026-11-21T11:55:31.5Z","error":"connection refused"}
{"time":"2026-11-21T11:55:33.2Z","event":"up","kind":"tcp","path":"shop/web lb:443"}
`,
	} {
		if err := os.WriteFile(filepath.Join(logs, o.doc.Run+name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := o.run("timeline", "--state-dir", dir)
	for _, want := range []string{
		"11:55:30  +00:30.0           lease     lease kube-controller-manager: cp-1_0b5e -> cp-2_77aa",
		"11:55:31  +00:31.5  1.70s    probe     tcp shop/web lb:443 did not answer: connection refused",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("not in it: %s\n%s", want, r.text(nil))
		}
	}
	if strings.Contains(r.out, "not read") {
		t.Errorf("%s", r.text(nil))
	}
}

func TestATimelineFitsTheTerminal(t *testing.T) {
	text := printer.TimelineText(
		v1.Timeline{Entries: []v1.TimelineEntry{{Time: client.Now(), Source: v1.TimelineEvent, Level: "warning", Message: strings.Repeat("long ", 40)}}},
		printer.Layout{Width: 80},
	)
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
			t.Errorf("a line of %d: %s", n, line)
		}
	}
	for seconds, want := range map[float64]string{0: "+00:00.0", 61.26: "+01:01.3", -2: "-00:02.0", 3661: "+1:01:01"} {
		if have := printer.Offset(seconds); have != want {
			t.Errorf("offset %v: %s, want %s", seconds, have, want)
		}
	}
	for seconds, want := range map[float64]string{0.5: "0.50s", 61: "61.0s", 125: "2m05s", 3700: "1h01m"} {
		if have := printer.Took(&seconds); have != want {
			t.Errorf("%v took %s, want %s", seconds, have, want)
		}
	}
}
