package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestAReportSurvivesJSONAndYAML(t *testing.T) {
	for _, in := range []Input{migration(), worst()} {
		want := Build(in)
		var fromJSON, fromYAML v1.Report
		if err := json.Unmarshal(rendered(t, want, "json"), &fromJSON); err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(rendered(t, want, "yaml"), &fromYAML); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, fromJSON); diff != "" {
			t.Errorf("through JSON (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, fromYAML); diff != "" {
			t.Errorf("through YAML (-want +got):\n%s", diff)
		}
		if got, again := rendered(t, want, "html"), rendered(t, fromJSON, "html"); !bytes.Equal(got, again) {
			t.Error("a stored report gives another page")
		}
	}
}

func TestTheDocumentHasWhatIsPromised(t *testing.T) {
	var doc map[string]any
	if err := json.Unmarshal(rendered(t, Build(migration()), "json"), &doc); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"result", "gaps.0.loop", "gaps.0.from", "gaps.0.to", "gaps.0.cause", "gaps.0.seconds", "handover.gapSeconds", "handover.overlappingWrites", "handover.lateEffects",
		"inventory.loadBalancers.before", "inventory.loadBalancers.after", "inventory.loadBalancers.recreated", "inventory.loadBalancers.addressChanged",
		"inventory.routes.before", "inventory.routes.after", "inventory.nodes.before", "inventory.nodes.after", "inventory.nodes.changedProviderID", "durationSeconds",
		"steps.0.id", "steps.0.result", "steps.0.durationSeconds",
	} {
		var at any = doc
		for _, key := range strings.Split(path, ".") {
			if list, ok := at.([]any); ok {
				at = list[0]
				continue
			}
			at = at.(map[string]any)[key]
		}
		if at == nil {
			t.Errorf("%s is missing", path)
		}
	}
}

func TestAnUnknownFormatIsRefused(t *testing.T) {
	if err := Write(io.Discard, v1.Report{}, "pdf"); err == nil || !strings.Contains(err.Error(), "html, json, markdown, svg, yaml") {
		t.Errorf("error is %v", err)
	}
}

// full is a writer that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestAFullDiskIsAnError(t *testing.T) {
	for _, format := range Formats {
		if err := Write(full{}, Build(migration()), format); err == nil || !strings.Contains(err.Error(), "no space left") || !strings.Contains(err.Error(), format) {
			t.Errorf("%s: error is %v", format, err)
		}
	}
}

// hostile is in every text of a report that comes from a cluster.
const hostile = `</style></script><script>alert(1)</script><img src=x onerror=alert(1)>"'|` + "`" + `](javascript:alert(1)) {{.}} ${x}` + "\n# heading\n- [x](http://evil)"

func hostileReport() v1.Report {
	in := worst()
	in.Journal.Plan.Cluster = v1.Cluster{Name: hostile, UID: hostile, Server: hostile, Context: hostile, Version: hostile}
	in.Journal.Run, in.ToolVersion, in.Journal.Plan.Strategy = hostile, hostile, hostile
	in.Journal.Plan.Findings = []v1.Finding{{Code: hostile, Outcome: v1.Outcome(hostile), Summary: hostile, Accepted: hostile}}
	in.Journal.User = hostile
	in.Journal.Pauses = []v1.PauseRecord{{Pause: v1.Pause{By: hostile, Reason: hostile}, From: at(1)}}
	in.Journal.Stops = []v1.StopRecord{{From: at(1), To: at(2), By: hostile}}
	for i := range in.Journal.Records {
		in.Journal.Records[i].Error = hostile
	}
	for i := range in.Journal.Plan.Steps {
		in.Journal.Plan.Steps[i].Title, in.Journal.Plan.Steps[i].Phase = hostile, hostile+fmt.Sprint(i/9)
	}
	for i := range in.Events {
		if in.Events[i].Host != "" {
			in.Events[i].Host += hostile
		}
		in.Events[i].Loops = slices.Clone(in.Events[i].Loops)
		for n := range in.Events[i].Loops {
			in.Events[i].Loops[n] += hostile
		}
		if in.Events[i].Error != "" {
			in.Events[i].Error = hostile
		}
	}
	for i := range in.After.Nodes {
		in.After.Nodes[i].Labels[hostile] = hostile
		in.After.Nodes[i].Name += hostile
	}
	in.After.Errors = []v1.GatherError{{Fact: "nodes", Error: hostile}}
	for i := range in.Probes {
		if in.Probes[i].Kind == v1.PathTCP {
			in.Probes[i].Path += hostile
		}
		if in.Probes[i].Error != "" {
			in.Probes[i].Error += hostile
		}
	}
	return Build(in)
}

func TestHostileNamesAreOnlyText(t *testing.T) {
	r := hostileReport()
	page := string(rendered(t, r, "html"))
	for _, bad := range []string{"<script", "<img", "onerror=alert(1)>", "</style></", "javascript:alert(1))</a"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	if !strings.Contains(page, "&lt;script&gt;alert(1)") {
		t.Error("the hostile text was lost; it must be shown")
	}
	image := string(rendered(t, r, "svg"))
	for _, bad := range []string{"<script", "<img", "onerror=alert(1)>", "</style></", "<a "} {
		if strings.Contains(image, bad) {
			t.Errorf("the picture holds %q", bad)
		}
	}
	text := strings.ReplaceAll(string(rendered(t, r, "markdown")), `\]`, "")
	for _, bad := range []string{"<script", "<img", "\n# heading", "](javascript", "](http://evil"} {
		if strings.Contains(text, bad) {
			t.Errorf("the Markdown holds %q", bad)
		}
	}
	for n, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "|") && !strings.HasSuffix(line, "|") {
			t.Errorf("line %d is half a row: %s", n, line)
		}
	}
}

var network = regexp.MustCompile(`(?i)(src|href|action|data|srcset)\s*=|@import|url\(\s*['"]?(https?:|//)|<(script|link|iframe|object|embed|base)\b`)

func TestThePageNeedsNoNetwork(t *testing.T) {
	for _, in := range []Input{migration(), worst(), {Now: t0}} {
		page := string(rendered(t, Build(in), "html"))
		if found := network.FindString(page); found != "" {
			t.Errorf("the page holds %q", found)
		}
		if !strings.Contains(page, `content="default-src 'none'; style-src 'unsafe-inline'"`) {
			t.Error("the page does not forbid the network to its own parts")
		}
	}
}

func TestTheDrawingsAreWellFormedAndNamed(t *testing.T) {
	for _, in := range []Input{migration(), worst()} {
		page := string(rendered(t, Build(in), "html"))
		for rest := page; ; {
			start := strings.Index(rest, `<svg class="plot"`)
			if start < 0 {
				break
			}
			rest = rest[start:]
			d := xml.NewDecoder(strings.NewReader(rest))
			depth, named := 0, false
			for {
				token, err := d.Token()
				if err != nil {
					t.Fatalf("drawing is not well-formed: %v in %.200s", err, rest)
				}
				if e, ok := token.(xml.StartElement); ok {
					depth++
					for _, a := range e.Attr {
						named = named || depth == 1 && a.Name.Local == "aria-label" && a.Value != ""
						if (a.Name.Local == "width" || a.Name.Local == "height") && strings.HasPrefix(a.Value, "-") {
							t.Errorf("<%s %s=%q>", e.Name.Local, a.Name.Local, a.Value)
						}
						if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
							t.Errorf("<%s %s=%q>", e.Name.Local, a.Name.Local, a.Value)
						}
					}
				}
				if _, ok := token.(xml.EndElement); ok {
					if depth--; depth == 0 {
						break
					}
				}
			}
			if !named {
				t.Errorf("drawing has no aria-label: %.120s", rest)
			}
			rest = rest[d.InputOffset():]
		}
	}
}

// wellFormed fails where a text is no XML document, or holds a number that no browser draws.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("the picture is not well-formed at %d: %v in %s", d.InputOffset(), err, text[max(0, d.InputOffset()-120):d.InputOffset()])
		}
		if e, ok := token.(xml.StartElement); ok {
			for _, a := range e.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") || a.Name.Local == "width" && strings.HasPrefix(a.Value, "-") {
					t.Errorf("<%s %s=%q>", e.Name.Local, a.Name.Local, a.Value)
				}
			}
		}
	}
}

func TestThePictureIsAnImageByItself(t *testing.T) {
	control := migration()
	control.Journal.Plan.Cluster.Name = "a\x00b\x1b[31mc"
	for name, r := range map[string]v1.Report{
		"a migration": Build(migration()), "one that went wrong": Build(worst()), "hostile names": hostileReport(), "nothing": Build(Input{Now: t0}), "control characters": Build(control),
	} {
		t.Run(name, func(t *testing.T) {
			image := string(rendered(t, r, "svg"))
			wellFormed(t, image)
			for _, part := range []string{"<svg xmlns=", `role="img"`, "<title id=", "<desc id=", html.EscapeString(figureDowntime) + ": ", figureGap + ": "} {
				if !strings.Contains(image, part) {
					t.Errorf("the picture lacks %q", part)
				}
			}
			if strings.Contains(image, "tables below") {
				t.Error("the picture speaks of tables that it has not")
			}
			if len(image) > 200_000 {
				t.Errorf("it has %d bytes", len(image))
			}
		})
	}
}

func TestTwoHundredStepsAreASmallPage(t *testing.T) {
	in := migration()
	for n := 46; n < 200; n++ {
		id := fmt.Sprintf("kubelet@worker-%03d", n)
		in.Journal.Plan.Steps = append(in.Journal.Plan.Steps, v1.Step{ID: id, Phase: "kubelets", Title: "Make the kubelet external on worker-" + fmt.Sprint(n)})
		in.Journal.Records = append(in.Journal.Records, v1.StepRecord{ID: id, Started: at(54), Ended: atp(54.5), Result: v1.StepResultDone})
	}
	if page := rendered(t, Build(in), "html"); len(page) > 300_000 {
		t.Errorf("the page has %d bytes, want at most 300,000", len(page))
	}
}

func TestManyHandoversAreDrawnInPart(t *testing.T) {
	r := Build(migration())
	r.Gaps = nil
	for n := range 20 {
		start := t0.Add(time.Duration(n) * 2 * time.Second)
		r.Gaps = append(
			r.Gaps,
			v1.Gap{Loop: "route", From: "a@b", To: "c@d", Start: start, End: start.Add(time.Duration(n+1) * 50 * time.Millisecond), Seconds: float64(n+1) / 20},
		)
	}
	drawings, left := drawCloseups(r)
	if len(drawings) != maxCloseups || left != 20-maxCloseups || !strings.Contains(drawings[0].Longest, "0.65") {
		t.Errorf("%d drawings, %d left out, first %+v; want the eight longest in order of time", len(drawings), left, drawings[0])
	}
}

func TestTicksAreRoundAndFew(t *testing.T) {
	for _, c := range []struct {
		seconds float64
		n       int
		want    string
	}{
		{54.5, 6, "0, 10 s, 20 s, 30 s, 40 s, 50 s"},
		{1.2, 5, "0, 0.5 s, 1.0 s"},
		{0.3, 5, "0, 0.1 s, 0.2 s, 0.3 s"},
		{0.04, 5, "0, 0.01 s, 0.02 s, 0.03 s, 0.04 s"},
		{200, 6, "0, 1 min, 2 min, 3 min"},
		{7200, 6, "0, 30 min, 60 min, 90 min, 120 min"},
		{200000, 6, "0, 12 h, 24 h, 36 h, 48 h"},
		{3e6, 6, ""},
		{0, 6, ""},
	} {
		s := scale{from: t0, to: t0.Add(time.Duration(c.seconds * float64(time.Second)))}
		ticks := s.ticks(t0, c.n)
		if len(ticks) > c.n+1 || len(ticks) == 0 {
			t.Errorf("%v s has %d ticks", c.seconds, len(ticks))
		}
		var labels []string
		for _, x := range ticks {
			labels = append(labels, x.Label)
		}
		if got := strings.Join(labels, ", "); c.want != "" && got != c.want {
			t.Errorf("ticks of %v s are %s, want %s", c.seconds, got, c.want)
		}
	}
}

func TestDurationsAreForPeople(t *testing.T) {
	for seconds, want := range map[float64]string{0: "0.00 s", 0.714: "0.71 s", 54.52: "54.5 s", 99.96: "1 min 40 s", 754: "12 min 34 s", 7265: "2 h 1 min", -1: "-1.00 s"} {
		if got := duration(seconds); got != want {
			t.Errorf("duration(%v) is %q, want %q", seconds, got, want)
		}
	}
}
