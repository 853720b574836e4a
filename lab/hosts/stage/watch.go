package stage

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"sync"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/ownership"
	"github.com/transplant-dev/transplant/internal/ownership/recorder"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/hosts"
	"github.com/transplant-dev/transplant/lab/trial"
)

// ports are where managers serve their metrics, on the host's loopback.
var ports = map[string]string{
	cluster.ControllerManager:      "127.0.0.1:10257",
	cluster.CloudControllerManager: "127.0.0.1:10258",
}

// Watch is a recorder that looks at the hosts from the machine that they are on.
type Watch struct {
	stage  *Stage
	cancel context.CancelFunc
	done   chan struct{}
	mu     sync.Mutex
	events []v1.OwnershipEvent
}

// Watch starts to record who owns the loops.
func (s *Stage) Watch(ctx context.Context) *Watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &Watch{stage: s, cancel: cancel, done: make(chan struct{})}
	clients := map[string]*http.Client{}
	for _, h := range s.controlPlanes() {
		clients[h.NodeName] = &http.Client{Transport: &http.Transport{
			// a manager's certificate is self-signed
			DialContext: h.DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		}}
	}
	r := recorder.NewRecorder(recorder.RecorderOptions{
		Client:    s.Client,
		Namespace: "kube-system",
		Leases:    []string{cluster.ControllerManager, cluster.CloudControllerManager, trial.MigrationLease},
		Targets:   func() []recorder.Target { return s.targets(ctx) },
		Scrape: func(ctx context.Context, t recorder.Target) (v1.Manager, error) {
			return recorder.Scrape(ctx, clients[t.Host], t.Address, s.token)
		},
		Processes: func(ctx context.Context, host, component string) ([]v1.Process, error) {
			h, err := s.Host(host)
			if err != nil {
				return nil, err
			}
			return h.Processes(ctx, component)
		},
		Sink: func(e v1.OwnershipEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		},
	})
	go func() {
		defer close(w.done)
		r.Run(ctx)
		for _, c := range clients {
			c.CloseIdleConnections()
		}
	}()
	return w
}

// targets are the managers whose processes run.
func (s *Stage) targets(ctx context.Context) []recorder.Target {
	var out []recorder.Target
	for _, h := range s.controlPlanes() {
		for _, component := range []string{cluster.ControllerManager, cluster.CloudControllerManager} {
			if found, err := h.Processes(ctx, component); err == nil && len(found) > 0 {
				out = append(out, recorder.Target{Component: component, Host: h.NodeName, Address: ports[component]})
			}
		}
	}
	return out
}

// Judge ends the recording and judges it together with the cloud's audit log.
func (w *Watch) Judge() (ownership.Judgement, error) {
	w.cancel()
	<-w.done
	file, err := os.Open(w.stage.AuditFile())
	if err != nil {
		return ownership.Judgement{}, err
	}
	defer file.Close() //nolint:errcheck // opened for reading
	calls, err := ownership.ReadCalls(file)
	if err != nil {
		return ownership.Judgement{}, err
	}
	return ownership.Judge(w.events, calls, w.stage.Keys(), ownership.Options{}), nil
}

// Arguments are the command lines of a component on every host that should run it, by node name; an error where one
// does not run exactly one.
func (s *Stage) Arguments(ctx context.Context, component string, on ...*hosts.Host) (map[string][]string, error) {
	out := map[string][]string{}
	for _, h := range on {
		found, err := h.Processes(ctx, component)
		if err != nil {
			return nil, err
		}
		if len(found) != 1 {
			return nil, fmt.Errorf("host %s runs %d processes of %s, not 1", h.Name, len(found), component)
		}
		out[h.NodeName] = found[0].Args
	}
	return out, nil
}
