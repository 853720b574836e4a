package migrate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// TestProgressShowsNoSecret, neither in what is written on the lock nor in what is read of it: an error may quote a command line.
func TestProgressShowsNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter2"
	var said string
	p := lock.NewProgress("run", func(doc string) { said = doc })
	p.Saw(step.Event{Kind: step.EventWaiting, Step: v1.Step{ID: "a"}, Time: noon, Message: "its command is kubelet --token=" + secret + " --v=2"})
	p.Disrupted("probe of https://ops:"+secret+"@example.com failed", nil)
	for _, part := range []string{"kubelet --token=", "--v=2", "example.com failed"} {
		if !strings.Contains(said, part) {
			t.Errorf("%q is not said: %s", part, said)
		}
	}
	if strings.Contains(said, secret) {
		t.Errorf("the secret is on the lock: %s", said)
	}
	read := lock.ReadProgress(`{"run":"run","disruption":"--password=` + secret + `","steps":[{"id":"a","waiting":"--token=` + secret + `"}],` +
		`"probes":{"kinds":[{"kind":"` + secret + `"},{"kind":"tcp","paths":2},{"kind":"tcp","paths":3}]}}`)
	if read == nil || len(read.Steps) != 1 || read.Steps[0].ID != "a" || !strings.HasPrefix(read.Steps[0].Waiting, "--token=") {
		t.Fatalf("%+v", read)
	}
	if all := read.Disruption + read.Steps[0].Waiting; strings.Contains(all, secret) {
		t.Errorf("the secret is shown: %s", all)
	}
	if len(read.Probes.Kinds) != 1 || read.Probes.Kinds[0].Kind != v1.PathTCP || read.Probes.Kinds[0].Paths != 2 {
		t.Errorf("kinds of paths that there are not, or twice: %+v", read.Probes)
	}
}

// TestProgressFitsOntoTheLock: an API server takes 256 KiB of annotations, and a lock that is not renewed is lost.
func TestProgressFitsOntoTheLock(t *testing.T) {
	t.Parallel()
	var said string
	p := lock.NewProgress("run", func(doc string) { said = doc })
	const steps = 500
	for i := range steps {
		s := v1.Step{ID: fmt.Sprintf("kubelet/ip-10-0-%d-%d.eu-central-1.compute.internal", i/256, i%256)}
		p.Saw(step.Event{Kind: step.EventWaiting, Step: s, Time: noon, Message: strings.Repeat("a pod ends slowly; ", 100)})
		if len(said) > 128<<10 {
			t.Fatalf("%d steps are said in %d bytes", i+1, len(said))
		}
	}
	read := lock.ReadProgress(said)
	if read == nil || len(read.Steps) != steps {
		t.Fatalf("not every step is named: %.200s", said)
	}
	for _, s := range read.Steps[:steps-20] {
		p.Saw(step.Event{Kind: step.EventDone, Step: v1.Step{ID: s.ID}, Time: noon})
	}
	var last v1.Progress
	if err := json.Unmarshal([]byte(said), &last); err != nil || len(last.Steps) != 20 || !strings.HasPrefix(last.Steps[0].Waiting, "a pod ends slowly") {
		t.Errorf("what fewer steps wait for is not said again: %v, %.300s", err, said)
	}
}
