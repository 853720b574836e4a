package events

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/mask/canary"
)

// TestNoEventShowsASecret: neither when it is first written, nor when it is counted once more, nor when many of one kind
// are written as one.
func TestNoEventShowsASecret(t *testing.T) {
	secrets, planted := canary.PlantError()
	api := fake.NewClientset()
	broadcaster := record.NewBroadcaster()
	wrote := make(chan string, 100)
	api.PrependReactor("*", "events", func(action clienttesting.Action) (bool, runtime.Object, error) {
		switch a := action.(type) {
		case clienttesting.CreateAction:
			wrote <- "create " + a.GetObject().(*corev1.Event).Message
		case clienttesting.PatchAction:
			wrote <- "patch " + string(a.GetPatch())
		}
		return false, nil, nil
	})
	broadcaster.StartRecordingToSink(Sink(api.CoreV1()))
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "test"})
	object := &corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: "web", UID: "1"}
	const events = 14 // the 10th and all behind it are combined
	recorder.Eventf(object, corev1.EventTypeWarning, "Failed", "asking the cloud: %v", planted)
	for i := range events - 1 {
		recorder.Eventf(object, corev1.EventTypeWarning, "Failed", "try %d: %v", i, planted)
	}
	recorder.Eventf(object, corev1.EventTypeWarning, "Failed", "asking the cloud: %v", planted)
	var all []string
	for range events + 1 {
		select {
		case text := <-wrote:
			all = append(all, text)
		case <-time.After(30 * time.Second):
			t.Fatalf("only %d events are written: %q", len(all), secretless(all))
		}
	}
	broadcaster.Shutdown()
	if found := secrets.In(strings.Join(all, "\n")); len(found) > 0 {
		t.Errorf("the secrets of %q are written", found)
	}
	for _, kind := range []string{"create ", "patch ", "combined from similar events"} {
		if !slices.ContainsFunc(all, func(text string) bool { return strings.Contains(text, kind) && strings.Contains(text, mask.Masked) }) {
			t.Errorf("no masked event of %q: %q", kind, secretless(all))
		}
	}
}

func secretless(all []string) string { return mask.Text(strings.Join(all, "\n")) }

// TestAnEventWithoutASecretIsWrittenAsItIs, and so is a patch without a message.
func TestAnEventWithoutASecretIsWrittenAsItIs(t *testing.T) {
	const text = `Error syncing load balancer: failed to ensure load balancer: asking for 2 nodes <a & b>: "x"`
	event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, Message: text}
	if got := masked(event); got.Message != text || got == event {
		t.Errorf("%q is written", got.Message)
	}
	for in, want := range map[string]string{
		`{"count":2}`: `{"count":2}`,
		fmt.Sprintf(`{"count":3,"message":%q}`, "plain"): `{"count":3,"message":"plain"}`,
		`{"message":7}`: "", `[]`: "", ``: "",
	} {
		got, err := maskPatch([]byte(in))
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s becomes %s (%v)", in, got, err)
		}
	}
	failing := sink{failingSink{}}
	if _, err := failing.Patch(event, []byte(`[]`)); err == nil || errors.Is(err, errReached) {
		t.Errorf("a patch that is none: %v", err)
	}
	if _, err := failing.Update(event); !errors.Is(err, errReached) {
		t.Errorf("an update: %v", err)
	}
}

var errReached = errors.New("the API was asked")

type failingSink struct{ record.EventSink }

func (failingSink) Update(*corev1.Event) (*corev1.Event, error) { return nil, errReached }

func (failingSink) Patch(*corev1.Event, []byte) (*corev1.Event, error) { return nil, errReached }
