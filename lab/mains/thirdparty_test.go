package mains

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/poll"
)

const (
	// secret is why the program's health check fails.
	secret = "the password is swordfish"
	region = "atlantis"
)

// seen is what two replicas of the third party's program were seen to do.
type seen struct {
	TypeAsserted  bool // its controller has found its own type, and runs
	Equipped      bool // it could set up the shared informers, and its transform was applied
	LoopsRun      bool // the provider's and the controller's, in the leader
	NodeInRegion  bool // its flag has been read, and the node was initialised
	StandbyWrites int  // of what is not leader election
	StandbyServes int  // code of /healthz on standby
	BrokenHealth  int  // code of /healthz while the check fails
	ReasonTold    bool // to somebody who has not said who they are
	LateWrites    int  // that were accepted of a leader which was frozen, after its successor's first
	SuccessorRuns bool // both loops of the successor
	EndsWith      int  // exit code on SIGTERM; -1 is the signal's own end
	Released      bool // the lease has no holder after SIGTERM
}

// TestAThirdPartysProgramBehavesAsItsAuthorMeant runs two replicas of a program whose provider writes, starts loops and asserts types, against a real API
// server. With -mains.all it runs the same program with upstream's library too, and compares what is not meant to differ.
func TestAThirdPartysProgramBehavesAsItsAuthorMeant(t *testing.T) {
	want := seen{
		TypeAsserted: true, Equipped: true, LoopsRun: true, NodeInRegion: true,
		StandbyServes: http.StatusOK, BrokenHealth: http.StatusInternalServerError, SuccessorRuns: true,
	}
	for _, c := range []struct {
		name, to string
		meant    func(*seen) // what is to differ
		long     bool
	}{
		{"ours", OurImport, func(s *seen) { s.Released = true }, false},
		{"upstream", "", func(s *seen) { s.EndsWith = -1 }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long && !*all {
				t.Skip("the same program with upstream's library is for comparison: make e2e")
			}
			w := newWorld(t)
			got := w.observe(t, built(t, ThirdParty, c.to).Program)
			t.Logf("%+v", got)
			want := want
			c.meant(&want)
			if c.name == "upstream" {
				want.LateWrites = got.LateWrites // nothing holds them back, and none has to happen
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// observe lets two replicas of a program run, breaks the leader's health, freezes it until the standby has taken over, and ends that one.
func (w *world) observe(t *testing.T, program string) seen {
	t.Helper()
	var s seen
	broken := filepath.Join(w.dir, "broken")
	flags := []string{
		"--cloud-provider=thirdparty", "--region=" + region, "--broken-when=" + broken,
		"--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=5s", "--leader-elect-retry-period=1s",
	}
	leader := w.start(t, "replica-a", program, nil, flags...)
	first := w.leads(t, leader, "")
	w.works(t, leader, time.Time{})
	s.LoopsRun, s.TypeAsserted = true, true
	leader.answers(t, "/healthz", http.StatusOK)

	standby := w.start(t, "replica-b", program, nil, flags...)
	standby.answers(t, "/healthz", http.StatusOK)
	s.StandbyServes = http.StatusOK

	w.register(t, "thirdparty-node", "", "")
	node := w.initialised(t, "thirdparty-node", "thirdparty:///", "10.0.0.21")
	s.NodeInRegion = node.Labels[corev1.LabelTopologyRegion] == region
	s.Equipped = w.event(t, "thirdparty-node") == "with 0 managed fields"

	write(t, broken, secret)
	text := leader.answers(t, "/healthz", http.StatusInternalServerError)
	s.BrokenHealth, s.ReasonTold = http.StatusInternalServerError, strings.Contains(text, secret)
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	leader.answers(t, "/healthz", http.StatusOK)
	w.works(t, leader, time.Now()) // for as long as this takes, the standby has to be quiet
	s.StandbyWrites = len(w.writes(t, standby.Name()))

	s.LateWrites = w.freeze(t, leader, standby, first)
	s.SuccessorRuns = true

	if err := standby.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	standby.ends(t)
	s.EndsWith = standby.ExitCode()
	holder, err := w.holder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Released = holder == ""
	return s
}

// freeze stops the leader until the standby is at work, continues it, waits for its end, and returns how many of its writes were accepted too late.
func (w *world) freeze(t *testing.T, leader, standby *manager, first string) int {
	t.Helper()
	began := time.Now()
	if err := leader.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.leads(t, standby, first)
	w.works(t, standby, began)
	if err := leader.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	leader.ends(t)
	if leader.ExitCode() == 0 {
		t.Errorf("%s has lost its lease, and ends with 0", leader.Name())
	}
	w.works(t, standby, time.Now()) // what the leader had sent has arrived before this
	from := w.writes(t, standby.Name())[0].Received
	late := 0
	for _, write := range w.writes(t, leader.Name()) {
		if write.Received.After(from) && write.Accepted() {
			late++
		}
	}
	return late
}

// works waits until the provider's start, its loop, and the controller's loop have written as a manager, since a moment.
func (w *world) works(t *testing.T, m *manager, since time.Time) {
	t.Helper()
	names := []string{"thirdparty-loop", "thirdparty-controller-" + region}
	if since.IsZero() {
		names = append(names, "thirdparty-initialized")
	}
	poll.Eventually(t, m.Name()+" to run its loops", func(context.Context) error {
		missing := map[string]bool{}
		for _, name := range names {
			missing[name] = true
		}
		for _, write := range w.writes(t, m.Name()) {
			if write.Received.After(since) && write.Accepted() {
				delete(missing, write.Name)
			}
		}
		if len(missing) > 0 {
			return errors.Join(fmt.Errorf("no writes of %v", missing), m.Alive())
		}
		return nil
	})
}

// writes are what a manager has written, without leader election and questions about who asks it.
func (w *world) writes(t *testing.T, user string) []apiserver.Write {
	t.Helper()
	all, err := w.api.Audit()
	if err != nil {
		t.Fatal(err)
	}
	var out []apiserver.Write
	for _, write := range all {
		switch {
		case write.User != user, write.Lease(), write.Resource == "tokenreviews", write.Resource == "subjectaccessreviews":
		case write.Resource == "events" && strings.HasPrefix(write.Name, lease+"."):
		default:
			out = append(out, write)
		}
	}
	return out
}

// event waits for the event that the program records for a node, and returns its message.
func (w *world) event(t *testing.T, node string) string {
	t.Helper()
	message := ""
	poll.Eventually(t, "the event of "+node, func(ctx context.Context) error {
		events, err := w.admin.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{FieldSelector: "reason=Seen,involvedObject.name=" + node})
		if err != nil {
			return err
		}
		if len(events.Items) == 0 {
			return apierrors.NewNotFound(corev1.Resource("events"), node)
		}
		message = events.Items[0].Message
		return nil
	})
	return message
}
