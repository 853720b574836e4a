package service

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/transplant-dev/transplant/ccm/election"
	"github.com/transplant-dev/transplant/internal/jsonweight"
	"github.com/transplant-dev/transplant/internal/schematest"
)

const stateName = "transplant-service-state-fake"

// crash ends a controller that writes nothing any more.
func (r *running) crash() {
	r.w.mu.Lock()
	r.w.refuse = func(_, resource, name string) error {
		return fmt.Errorf("%s %s: %w", resource, name, election.ErrFenced)
	}
	r.w.mu.Unlock()
	r.fence.Revoke("it crashed")
	r.stop()
	r.w.mu.Lock()
	r.w.refuse = nil
	r.w.mu.Unlock()
	r.w.epoch++
}

// leave ends a controller in order.
func (r *running) leave() {
	r.stop()
	r.w.epoch++
}

// led is a world that a controller has led, with Services s0 to s2, and nothing left to do.
func led(w *world) *running {
	w.t.Helper()
	w.add(node("n1"), node("n2"))
	for i := range 3 {
		w.add(service(fmt.Sprintf("s%d", i)))
	}
	r := w.start()
	w.settle(10 * time.Second)
	w.took()
	return r
}

func TestTakingOverUnchangedServicesCallsNothing(t *testing.T) {
	const services = 200
	for name, end := range map[string]func(*running){"from one that left": (*running).leave, "from one that crashed": (*running).crash} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.cloud.slow(50 * time.Millisecond)
				w.add(node("n1"), node("n2"))
				for i := range services {
					w.add(service(fmt.Sprintf("s%03d", i)))
				}
				first := w.start()
				w.settle(time.Minute)
				if got := w.cloud.count("ensure"); got != services {
					t.Fatalf("%d load balancers were ensured, want %d", got, services)
				}
				end(first)
				w.took()

				second := w.start()
				if second.controller.store.pending != 0 {
					t.Errorf("%d Services are pending right after the takeover", second.controller.store.pending)
				}
				w.settle(29 * time.Second)
				w.want(activity{})
				// What is believed is looked at soon, and not all at once.
				for range 4 {
					w.settle(time.Minute)
					got := w.took()
					if len(got.Calls) > 122 || len(got.Writes)+len(got.Events) > 0 {
						t.Errorf("a minute of looking made %d calls, %d writes, %d events", len(got.Calls), len(got.Writes), len(got.Events))
					}
					for _, call := range got.Calls {
						if !strings.HasPrefix(call, "get ") {
							t.Fatalf("looking made the call %q", call)
						}
					}
				}
			})
		})
	}
}

func TestWhatIsNotBelievedOnTakingOver(t *testing.T) {
	ensureAll := []string{"ensure s0 [n1 n2]", "ensure s1 [n1 n2]", "ensure s2 [n1 n2]"}
	for _, tc := range []struct {
		name   string
		change func(w *world)
		want   []string
	}{
		{"everything, when another manager has led in between", func(w *world) { w.adoptedAt = w.adoptedAt.Add(time.Hour) }, ensureAll},
		{"everything, when the lease does not say since when it is ours", func(w *world) { w.adoptedAt = time.Time{} }, ensureAll},
		{"everything, when the controller runs under another lease", func(w *world) { w.lease = "cloud-provider-extraction-migration" }, ensureAll},
		{"everything, when the cloud config has changed", func(w *world) { w.environment = "[Global]\nZone=b" }, ensureAll},
		{"everything, when what was noted is not readable", func(w *world) {
			w.changeState(func(cm *corev1.ConfigMap) { cm.BinaryData[stateKey] = []byte("?") })
		}, ensureAll},
		{"everything, when what was noted is gone", func(w *world) {
			if err := w.tracker.Delete(configMapsResource, "kube-system", stateName); err != nil {
				w.t.Fatal(err)
			}
		}, ensureAll},
		{"nothing, when the time of the adoption lost its fraction", func(w *world) { w.adoptedAt = w.adoptedAt.Truncate(time.Second) }, nil},
		{"the Service that changed", func(w *world) { w.changeService("s1", withPort(81)) }, []string{"ensure s1 [n1 n2]"}},
		{"the Service whose status was taken away", func(w *world) {
			w.changeService("s1", func(s *corev1.Service) { s.Status = corev1.ServiceStatus{} })
		}, []string{"ensure s1 [n1 n2]"}},
		{"the Service that is new", func(w *world) { w.add(service("s3")) }, []string{"ensure s3 [n1 n2]"}},
		{"the Service that was deleted", func(w *world) { w.deleteService("s1") }, []string{"get s1", "delete s1"}},
		{"the Service that wants no load balancer any more", func(w *world) { w.changeService("s1", withType(corev1.ServiceTypeClusterIP)) },
			[]string{"get s1", "delete s1"}},
		{"the members, when a node joined", func(w *world) { w.add(node("n3")) },
			[]string{"update s0 [n1 n2 n3]", "update s1 [n1 n2 n3]", "update s2 [n1 n2 n3]"}},
		{"nothing, when a node is only leaving", func(w *world) { w.changeNode("n2", withTaint(taintToBeDeleted)) }, nil},
		{"nothing, when a label changed", func(w *world) {
			w.changeService("s1", func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} })
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.workers = 1 // in the order of the queue
				led(w).leave()
				w.took()
				tc.change(w)
				w.start()
				w.settle(20 * time.Second)
				got := w.took().Calls
				if diff := cmp.Diff(tc.want, got, inAnyOrder); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestAChangeTakenBackAfterACrashInTheMiddleOfACallIsNotBelieved(t *testing.T) {
	inWorld(t, func(w *world) {
		r := led(w)
		reached := make(chan struct{})
		w.cloud.on(func(ctx context.Context, _, _ string) error {
			close(reached)
			<-ctx.Done()
			return ctx.Err()
		})
		w.changeService("s1", withPort(81))
		<-reached
		r.crash()
		w.cloud.on(nil)
		w.changeService("s1", withPort(80)) // as it was noted
		w.took()
		w.start()
		w.settle(20 * time.Second)
		if diff := cmp.Diff([]string{"ensure s1 [n1 n2]"}, w.took().Calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestAnEntryIsWithdrawnBeforeTheCallThatMakesItUntrue(t *testing.T) {
	inWorld(t, func(w *world) {
		led(w)
		var mu sync.Mutex // two workers may be in the cloud at once
		var believed []string
		w.cloud.on(func(_ context.Context, call, name string) error {
			cm, err := w.client.CoreV1().ConfigMaps("kube-system").Get(context.Background(), stateName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			d := decodeDocument(cm.BinaryData[stateKey])
			if d == nil {
				return errors.New("there is no document")
			}
			if _, ok := d.Services["default/"+name]; ok {
				mu.Lock()
				defer mu.Unlock()
				believed = append(believed, call+" "+name)
			}
			return nil
		})
		w.changeService("s1", withPort(81))
		w.settle(5 * time.Second)
		w.add(node("n3"))
		w.settle(5 * time.Second)
		w.deleteService("s2")
		w.settle(5 * time.Second)
		want := []string{"get s2"} // which changes nothing
		if diff := cmp.Diff(want, believed); diff != "" {
			t.Errorf("a leader that comes now would believe (-want +got):\n%s", diff)
		}
		if calls := w.took().Calls; len(calls) != 1+3+2 {
			t.Errorf("calls %q, want 6", calls)
		}
	})
}

func TestABatchOfNodesCostsFewWritesOfTheState(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cloud.slow(50 * time.Millisecond)
		w.add(node("n1"))
		for i := range 200 {
			w.add(service(fmt.Sprintf("s%03d", i)))
		}
		w.start()
		w.settle(time.Minute)
		before := w.stateWrites()
		w.add(node("n2"))
		w.settle(time.Minute)
		if got := w.stateWrites() - before; got > 3 {
			t.Errorf("%d writes of the ConfigMap for 200 load balancers that got a node, want at most 3", got)
		}
		if before > 8 {
			t.Errorf("%d writes of the ConfigMap for 200 load balancers that were made, want at most 8", before)
		}
	})
}

func TestWithoutPermissionForTheConfigMapEverythingIsEnsuredOnTakingOver(t *testing.T) {
	inWorld(t, func(w *world) {
		w.refuse = func(_, resource, name string) error {
			if resource == "configmaps" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New("no RBAC"))
			}
			return nil
		}
		r := led(w)
		w.changeService("s1", withPort(81))
		w.settle(time.Minute)
		w.want(activity{Calls: []string{"ensure s1 [n1 n2]"}, Events: []string{"Normal EnsuringLoadBalancer s1", "Normal EnsuredLoadBalancer s1"}})
		r.leave()
		w.workers = 1
		w.start()
		w.settle(10 * time.Second)
		if got := w.cloud.count("ensure"); got != 3 {
			t.Errorf("%d load balancers were ensured, want 3", got)
		}
	})
}

// tellsTheNextLeader fails the test where the next leader asks the cloud for a load balancer that is in line.
func tellsTheNextLeader(w *world) {
	w.t.Helper()
	led(w).leave()
	w.start()
	w.settle(10 * time.Second)
	if got := w.took().Calls; len(got) > 0 {
		w.t.Errorf("the next leader was not told which load balancers are in line: %v", got)
	}
}

// TestAConfigMapThatIsThereNeedsNoRightToCreateAny: the plan has made it, empty, and its role gives get and update by its name alone.
func TestAConfigMapThatIsThereNeedsNoRightToCreateAny(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: stateName}})
		w.refuse = func(verb, resource, name string) error {
			if resource == "configmaps" && verb != "get" && verb != "update" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New("no RBAC"))
			}
			return nil
		}
		tellsTheNextLeader(w)
	})
}

// A chart or a GitOps tool has made it: with its labels and annotations changed, Helm refuses the next upgrade and the next rollback.
func TestAConfigMapKeepsWhatItsMakerHasGivenIt(t *testing.T) {
	inWorld(t, func(w *world) {
		made := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: metav1.NamespaceSystem, Name: stateName,
				Labels:      map[string]string{"app.kubernetes.io/managed-by": "Helm"},
				Annotations: map[string]string{"meta.helm.sh/release-name": "ccm"},
			},
			Data: map[string]string{"note": "of the maker"},
		}
		w.add(made.DeepCopy())
		tellsTheNextLeader(w)
		w.changeState(func(cm *corev1.ConfigMap) {
			if diff := cmp.Diff(made.Labels, cm.Labels); diff != "" {
				t.Errorf("labels (-made +written):\n%s", diff)
			}
			if cm.Annotations["meta.helm.sh/release-name"] != "ccm" || cm.Annotations["kubernetes.io/description"] == "" {
				t.Errorf("annotations %v", cm.Annotations)
			}
			if diff := cmp.Diff(made.Data, cm.Data); diff != "" {
				t.Errorf("data (-made +written):\n%s", diff)
			}
		})
	})
}

func TestAConfigMapThatMayBeReadOnlyIsGivenUpAtOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		tries := 0
		w.refuse = func(verb, resource, name string) error {
			if resource == "configmaps" && verb != "get" {
				tries++
				return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, name, errors.New("no RBAC"))
			}
			return nil
		}
		led(w)
		w.changeService("s1", withPort(81))
		w.settle(time.Hour)
		w.mu.Lock()
		defer w.mu.Unlock()
		if tries != 1 {
			t.Errorf("%d writes were tried, want 1", tries)
		}
	})
}

func TestAnAPIServerThatFailsIsAskedAgainAndKeepsNoLoadBalancerWaiting(t *testing.T) {
	inWorld(t, func(w *world) {
		led(w)
		w.mu.Lock()
		w.refuse = func(_, resource, _ string) error {
			if resource == "configmaps" {
				return errors.New("etcd is slow")
			}
			return nil
		}
		w.mu.Unlock()
		w.changeService("s1", withPort(81))
		w.changeService("s2", withPort(81))
		w.settle(time.Second)
		if diff := cmp.Diff([]string{"ensure s1 [n1 n2]", "ensure s2 [n1 n2]"}, w.took().Calls, inAnyOrder); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		w.mu.Lock()
		w.refuse = nil
		w.mu.Unlock()
		w.settle(30 * time.Second)
		if got := w.stateWrites(); got != 1 {
			t.Errorf("%d writes of the ConfigMap since it can be written again, want 1", got)
		}
	})
}

func TestWithoutAnElectionNothingIsNoted(t *testing.T) {
	inWorld(t, func(w *world) {
		w.add(node("n1"), service("s0"))
		w.startWith(election.Unfenced(time.Now()))
		w.settle(time.Minute - time.Second)
		if got := w.stateWrites(); got != 0 {
			t.Errorf("%d writes of the ConfigMap", got)
		}
		if got := w.cloud.count("ensure"); got != 1 {
			t.Errorf("%d calls, want 1", got)
		}
	})
}

func TestALeaderThatWasSucceededDoesNotOverwriteWhatItsSuccessorNoted(t *testing.T) {
	inWorld(t, func(w *world) {
		old := led(w)
		w.epoch++
		successor := w.start()
		w.changeService("s1", withPort(81)) // both see it: the old one's fence is not closed here
		w.settle(10 * time.Second)
		w.changeService("s2", withPort(81))
		w.settle(10 * time.Second)
		d, err := successor.controller.state.read(context.Background())
		if err != nil || d.Epoch != 2 {
			t.Errorf("the document is of epoch %+v (%v), want 2", d, err)
		}
		old.controller.state.mu.Lock()
		defer old.controller.state.mu.Unlock()
		if !old.controller.state.off {
			t.Error("the old leader goes on writing")
		}
	})
}

func TestADocumentIsBounded(t *testing.T) {
	entries := map[string]entry{}
	for i := range 40_000 {
		entries[fmt.Sprintf("namespace-%d/service-%d", i%100, i)] = entry{Print: digest(i), members: digest(i % 3)}
	}
	data, kept, err := encodeDocument(document{}, entries)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > stateLimit || len(kept) < 20_000 || len(kept) == len(entries) {
		t.Errorf("%d bytes with %d of %d entries", len(data), len(kept), len(entries))
	}
}

// changeState changes the ConfigMap as somebody else would.
func (w *world) changeState(change func(*corev1.ConfigMap)) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	o, err := w.tracker.Get(configMapsResource, "kube-system", stateName)
	if err != nil {
		w.t.Fatal(err)
	}
	cm := o.(*corev1.ConfigMap).DeepCopy()
	change(cm)
	if err := w.put(configMapsResource, cm, "", false); err != nil {
		w.t.Fatal(err)
	}
}

func TestOfADocumentOfALaterVersionOnlyItsLeaderIsBelieved(t *testing.T) {
	later := map[string]any{
		"schema": documentSchema + 1, "lease": "l", "epoch": 7, "sets": []string{"m"}, "services": map[string]any{"default/web": map[string]any{"p": "x", "m": 0}},
	}
	unknown := maps.Clone(later)
	unknown["schema"], unknown["soon"] = documentSchema, true
	known := maps.Clone(later)
	known["schema"] = documentSchema
	before := maps.Clone(later)
	delete(before, "schema")
	for name, c := range map[string]struct {
		document map[string]any
		entries  int
	}{"a later schema": {later, 0}, "a field that came later": {unknown, 0}, "its own": {known, 1}, "one from before there were numbers": {before, 1}} {
		t.Run(name, func(t *testing.T) {
			var packed bytes.Buffer
			zip := gzip.NewWriter(&packed)
			if err := errors.Join(json.NewEncoder(zip).Encode(c.document), zip.Close()); err != nil {
				t.Fatal(err)
			}
			d := decodeDocument(packed.Bytes())
			if d == nil || d.Lease != "l" || d.Epoch != 7 || len(d.entries()) != c.entries {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestTheStateChangesUnderANewNumberOnly(t *testing.T) {
	form := schematest.Form{Name: "document", Constant: "documentSchema", Number: documentSchema, Of: []any{document{}}}
	broken, err := form.Broken(os.DirFS("testdata/schemas"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range broken {
		t.Error(line)
	}
}

// TestADocumentOfNothingTakesNoGigabytes has documents of some kilobytes that were gigabytes of the next leader.
func TestADocumentOfNothingTakesNoGigabytes(t *testing.T) {
	const count, memory = 100_000, 1 << 20
	for name, text := range map[string]string{
		"sets":          `{"sets":[` + strings.Repeat("null,", count) + `null]}`,
		"empty sets":    `{"sets":[` + strings.Repeat(`"",`, count) + `""]}`,
		"spaces":        `{"lease":"l"` + strings.Repeat(" ", maxUnpacked) + `}`,
		"other letters": `{"SETS":[` + strings.Repeat("1,", count) + `1]}`,
	} {
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		_, err := zip.Write([]byte(text))
		if err := errors.Join(err, zip.Close()); err != nil {
			t.Fatal(err)
		}
		if decodeWithin(packed.Bytes(), memory) != nil {
			t.Errorf("%s: it was believed", name)
		}
		if _, err := jsonweight.Of([]byte(text), reflect.TypeFor[document](), memory); name != "spaces" && err == nil {
			t.Errorf("%s: it was decoded before it was refused", name)
		}
	}
	many := map[string]entry{}
	for i := range 30_000 {
		many[fmt.Sprintf("namespace-%d/service-%d", i%100, i)] = entry{Print: digest(i), members: digest(i % 50)}
	}
	packed, kept, err := encodeDocument(document{Lease: "l"}, many)
	if err != nil {
		t.Fatal(err)
	}
	if d := decodeDocument(packed); d == nil || len(d.entries()) != len(kept) {
		t.Errorf("the largest document that is written is not read: %d Services were kept", len(kept))
	}
}

func FuzzADocumentThatSomebodyWrote(f *testing.F) {
	good, _, err := encodeDocument(document{Epoch: 1}, map[string]entry{"default/web": {Print: "p", members: "m"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("?"))
	f.Add(good[:len(good)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		d := decodeDocument(data)
		if d == nil {
			return
		}
		for key, e := range d.entries() {
			if _, ok := d.Services[key]; !ok || e.members == "" && e.Members >= len(d.Sets) {
				t.Errorf("entry %q has members that the document does not have", key)
			}
		}
	})
}
