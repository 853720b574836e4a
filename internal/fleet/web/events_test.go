package web

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/fleet/view"
)

// listening is a stream of events that a test reads.
type listening struct {
	t      *testing.T
	lines  *bufio.Scanner
	answer *http.Response
}

func (b *browser) listen() *listening {
	t, ok := b.w.t.(*testing.T)
	if !ok {
		b.w.t.Fatal("only tests listen")
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.w.page.URL+"/api/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(b.cookie)
	answer, err := b.w.page.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 8<<20)
	return &listening{t, lines, answer}
}

// next is the next event; an empty name for the end of the stream.
func (l *listening) next(into any) string {
	l.t.Helper()
	name := ""
	for l.lines.Scan() {
		line := l.lines.Text()
		if event, ok := strings.CutPrefix(line, "event: "); ok {
			name = event
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(data), into); err != nil {
				l.t.Fatalf("%v: %s", err, data)
			}
		}
		if line == "" && name != "" {
			return name
		}
	}
	return ""
}

func TestALivePageGetsWhatChangedAndNothingElse(t *testing.T) {
	w := newWorld(t)
	w.put(cluster("c1", "", ""), cluster("c2", "", ""))
	l := w.signIn("vera").listen()
	var all v1.FleetStatus
	if name := l.next(&all); name != "fleet" || len(all.Clusters) != 2 || l.answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s: %+v", name, all)
	}
	w.put(cluster("c2", kubermaticv1.PhaseHandover, "step 1 of 9"))
	var d delta
	if name := l.next(&d); name != "rows" || len(d.Rows) != 1 || d.Rows[0].Name != "c2" || d.Summary.Standings[v1.StandingMigrating] != 1 {
		t.Errorf("%s: %+v", name, d)
	}
	w.mu.Lock()
	w.objects = w.objects[1:]
	w.mu.Unlock()
	w.put()
	d = delta{}
	if name := l.next(&d); name != "rows" || len(d.Gone) != 1 || d.Gone[0] != kubermaticv1.GroupName+"/c1" || len(d.Rows) != 0 {
		t.Errorf("%s: %+v", name, d)
	}
}

func TestALivePageGetsTheProgressOfTheWholeFleet(t *testing.T) {
	w := newWorld(t)
	started := cluster("c2", kubermaticv1.PhaseMachines, "1 of 3 machines")
	started.Cluster.Annotations[kubermaticv1.AnnotationWave] = view.Place(1, 2, 1, v1.FleetOptions{Until: view.UntilCompleted})
	w.put(cluster("c1", "", ""), started)
	l := w.signIn("vera").listen()
	var all whole
	l.next(&all)
	if o := all.Overall; o.Total != 2 || o.Sentence != view.ProgressSentence(o.FleetProgress) || len(o.Waves) != 2 || o.Waves[0].State != view.WaveUnderWay {
		t.Errorf("the first event says of the whole fleet %+v", o)
	}
	w.put(cluster("c2", kubermaticv1.PhaseCompleted, "done"))
	var d delta
	if l.next(&d); d.Overall.Done != 1 || !strings.HasPrefix(d.Overall.Sentence, "1 of 2 clusters done (50 %)") {
		t.Errorf("the next event says of the whole fleet %+v", d.Overall)
	}
}

func TestWhoMaySeeOneClusterIsToldOfNoWave(t *testing.T) {
	w := newWorld(t)
	started := cluster("c1", kubermaticv1.PhaseMachines, "1 of 3 machines")
	started.Cluster.Annotations[kubermaticv1.AnnotationWave] = view.Place(1, 2, 40, v1.FleetOptions{Until: view.UntilCompleted})
	w.put(started, cluster("c2", "", ""))
	var all whole
	w.signIn("otto").listen().next(&all)
	if o := all.Overall; o.Total != 1 || len(o.Waves) != 0 || len(o.Rollouts) != 0 {
		t.Errorf("the whole fleet of a user who sees one cluster is %+v", o)
	}
}

func TestALivePageEndsWithItsSessionAndWithItsToken(t *testing.T) {
	for name, end := range map[string]func(w *world, b *browser){
		"signed out elsewhere": func(_ *world, b *browser) { b.ask("DELETE", "/api/session", nil) },
		"token revoked": func(w *world, _ *browser) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.revoked["token-of-vera"] = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Now())
			w := newWorld(t, aClock(clock))
			w.put(cluster("c1", "", ""))
			b := w.signIn("vera")
			l := b.listen()
			l.next(&v1.FleetStatus{})
			end(w, b)
			stop := make(chan struct{})
			defer close(stop)
			go func() { // time passes
				tick := time.NewTicker(20 * time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-stop:
						return
					case <-tick.C:
						clock.Step(beating)
					}
				}
			}()
			for {
				var over map[string]any
				switch event := l.next(&over); event {
				case "beat":
				case "over":
					if l.next(&over) != "" {
						t.Error("something comes after the end")
					}
					return
				default:
					t.Fatalf("%q: %v", event, over)
				}
			}
		})
	}
}

func TestOnlySoManyPagesAreLive(t *testing.T) {
	w := newWorld(t)
	w.put(cluster("c1", "", ""))
	s, ok := w.page.Config.Handler.(*server)
	if !ok {
		t.Fatal("the page is another one")
	}
	for range maxStreams {
		s.streams <- struct{}{}
	}
	if r := w.as("vera").ask("GET", "/api/events", nil); r.code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", r.code, r.body)
	}
}
