package migrate

import (
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
	p.Saw(step.Event{Kind: "waiting", Step: v1.Step{ID: "a"}, Time: noon, Message: "its command is kubelet --token=" + secret + " --v=2"})
	p.Disrupted("probe of https://ops:" + secret + "@example.com failed")
	for _, part := range []string{"kubelet --token=", "--v=2", "example.com failed"} {
		if !strings.Contains(said, part) {
			t.Errorf("%q is not said: %s", part, said)
		}
	}
	if strings.Contains(said, secret) {
		t.Errorf("the secret is on the lock: %s", said)
	}
	read := lock.ReadProgress(`{"run":"run","disruption":"--password=` + secret + `","steps":[{"id":"a","waiting":"--token=` + secret + `"}]}`)
	if read == nil || len(read.Steps) != 1 || read.Steps[0].ID != "a" || !strings.HasPrefix(read.Steps[0].Waiting, "--token=") {
		t.Fatalf("%+v", read)
	}
	if all := read.Disruption + read.Steps[0].Waiting; strings.Contains(all, secret) {
		t.Errorf("the secret is shown: %s", all)
	}
}
