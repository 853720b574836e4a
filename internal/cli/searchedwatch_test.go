package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kubermaticv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/mask/canary"
	"github.com/transplant-dev/transplant/internal/migrate/lock"
)

// watchedCommand is how a command with --watch is searched: what it shows at first, and what happens then.
type watchedCommand struct {
	on    string
	first string
	// change makes something happen that holds a secret, and returns words next to it that are no secret.
	change func(s *search, mode string) string
}

// watchedCommands are all commands with --watch. One that is missing here fails the test.
var watchedCommands = map[string]watchedCommand{
	"status": {on: "begun", first: "applying", change: func(s *search, mode string) string {
		what := "the wait of " + mode
		s.begun.lockWaiting(s.step, what+": password="+s.secret(what))
		return what
	}},
	"timeline": {on: "begun", first: "20261121-120000", change: func(s *search, mode string) string {
		what := "the event of " + mode
		s.begun.api.Put(s.begun.t, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "later-" + mode}, Type: "Warning", Reason: "Later", Message: what + ": password=" + s.secret(what),
			LastTimestamp: metav1.NewTime(time.Now()), InvolvedObject: corev1.ObjectReference{Kind: "Node", Namespace: "", Name: "node-cp-1"},
		})
		return what
	}},
	"fleet status": {on: "fleet", first: "Failed", change: func(s *search, mode string) string {
		what := "the failure of " + mode
		s.fleet.phase(s.fleet.names()[0], kubermaticv1.PhaseFailed, what+": password="+s.secret(what))
		return what
	}},
}

// lockWaiting has a run hold the lock, and say what its step waits for.
func (c *live) lockWaiting(step, what string) {
	c.t.Helper()
	at := time.Now()
	renewed, written := metav1.NewMicroTime(at), metav1.NewTime(at)
	l := leaseObject(lock.LeaseName, "ops@desk (pid 4711, run 20261121-120000)", 0)
	l.Spec.RenewTime, l.ManagedFields[0].Time = &renewed, &written
	progress := v1.Progress{Run: "20261121-120000", Steps: []v1.StepProgress{{ID: step, Since: at, Waiting: what, WaitingSince: at}}}
	data, err := json.Marshal(progress)
	if err != nil {
		c.t.Fatal(err)
	}
	l.Annotations = map[string]string{lock.ProgressAnnotation: string(data)}
	c.api.Put(c.t, l)
}

// watches runs the commands with --watch, into a pipe, as JSON and on a terminal, and searches what they show at first and
// after a change.
func (s *search) watches(t *testing.T) {
	s.begun.lockWaiting(s.step, "nothing yet")
	t.Cleanup(func() {
		s.begun.api.Delete("/apis/coordination.k8s.io/v1/namespaces/" + component.Namespace + "/leases/" + lock.LeaseName)
	})
	known := map[string]bool{}
	var all func(cmd *cobra.Command)
	all = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			all(sub)
		}
		name := strings.TrimPrefix(cmd.CommandPath(), "transplant ")
		if cmd.Flags().Lookup("watch") == nil {
			return
		}
		how, found := watchedCommands[name]
		if known[name] = true; !found {
			t.Errorf("%s --watch is searched for no secret: add it to the table", name)
			return
		}
		for _, mode := range []string{"a pipe", "json", "a terminal"} {
			s.watch(t, name, how, mode)
		}
	}
	all(newRoot(console.Streams{}, "transplant"))
	for name := range watchedCommands {
		if !known[name] {
			t.Errorf("there is no %s --watch: take it off the table", name)
		}
	}
}

func (s *search) watch(t *testing.T, name string, how watchedCommand, mode string) {
	t.Helper()
	args := append(strings.Fields(name), "--watch", "--state-dir", t.TempDir(), "--kubeconfig")
	if how.on == "fleet" {
		args = append(args, s.fleet.kubeconfig)
	} else {
		args = append(args, s.begun.kubeconfig, "--host-access", "local:"+s.begun.dir)
	}
	if mode == "json" {
		args = append(args, "-o", "json")
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w := &watched{code: make(chan int, 1)}
	streams := console.Streams{In: strings.NewReader(""), Out: &w.out, Err: &w.errOut}
	end := func() {}
	if mode == "a terminal" {
		streams.Out, end = screen(t, &w.out)
	}
	go func() { w.code <- Run(ctx, args, streams) }()
	w.out.shows(t, how.first)
	w.out.shows(t, how.change(s, mode))
	stop()
	<-w.code
	end()
	noSecret(t, result{args: args, out: w.out.String(), errOut: w.errOut.String()}, s.secrets)
	s.shown.WriteString(w.out.String() + w.errOut.String())
}

// screen is a large terminal, and what ends it. All that is written to it is kept.
func screen(t *testing.T, kept io.Writer) (*os.File, func()) {
	t.Helper()
	t.Setenv("TERM", "xterm")
	keyboard, terminal := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 900, Col: 900}); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(kept, keyboard) // it ends with an error when the terminal is closed
	}()
	return terminal, func() {
		_ = terminal.Close()
		<-read
	}
}

// TestNoProofShowsASecret has the cloud and the API server repeat secrets when they are asked for a proof.
func TestNoProofShowsASecret(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "CanaryOfTheCloud7hunter2", "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
	} {
		t.Setenv(name, value)
	}
	c, secrets := withCanaries(t)
	c.plantEverywhere(secrets)
	secrets["CanaryOfTheCloud7hunter2"] = "the administrator's key of the cloud"
	_, texts := canary.Plant()
	said := strings.Join(texts, "\n")
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		w.WriteHeader(http.StatusForbidden)
		message := "the cloud refuses " + r.Form.Get("Action") + ": " + strings.NewReplacer("&", "&amp;", "<", "&lt;").Replace(said)
		_, _ = io.WriteString(w, "<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>"+message+
			"</Message></Error></Errors><RequestID>r</RequestID></Response>")
	}))
	defer cloud.Close()
	refuse := c.api.Intercept
	c.api.Intercept = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("dryRun") != "All" {
			return refuse(w, r)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "message": "the API server refuses: " + said, "code": 403,
		})
		return true
	}
	installAWSProgram(t)
	good, bad := filepath.Join(t.TempDir(), "cloud.conf"), filepath.Join(t.TempDir(), "bad.conf")
	for path, config := range map[string]string{
		good: "[Global]\nKubernetesClusterID = test\nRegion = us-east-1\n[ServiceOverride \"1\"]\n" +
			"Service = EC2\nRegion = us-east-1\nURL = " + cloud.URL + "\nSigningRegion = us-east-1\n",
		bad: "[Global\npassword = " + plant(secrets, "a cloud config that is wrong") + "\n",
	} {
		if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shown, commands := "", 0
	var all func(cmd *cobra.Command)
	all = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			all(sub)
		}
		if cmd.Flags().Lookup("prove") == nil {
			return
		}
		commands++
		for _, format := range formatsOf(t, cmd) {
			for _, config := range []string{good, bad} {
				r := c.run(append(strings.Fields(strings.TrimPrefix(cmd.CommandPath(), "transplant ")), "--prove", "--preview-cloud-config", config, "-o", format)...)
				noSecret(t, r, secrets)
				shown += r.out + r.errOut
			}
		}
	}
	all(newRoot(console.Streams{}, "transplant"))
	for _, proof := range []string{"the cloud refuses", "the API server refuses", "reading the cloud config", "(masked)"} {
		if !strings.Contains(shown, proof) {
			t.Errorf("%q is not shown by any of %d commands, so that nothing is proven", proof, commands)
		}
	}
}
