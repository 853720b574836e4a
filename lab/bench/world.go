package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/apiserver/process"
	"github.com/transplant-dev/transplant/lab/simcloud"
	"github.com/transplant-dev/transplant/lab/simcloud/provider"
)

// world is what one run happens in.
type world struct {
	setup
	options  Options
	dir      string
	server   *apiserver.Server
	cloud    *simcloud.Cloud
	client   kubernetes.Interface // of whoever makes nodes and Services
	managers []*manager
	flags    []string // of every manager of the scenario
}

// run makes a world, measures in it and removes it.
func (s setup) run(ctx context.Context, o Options) (results []Result, err error) {
	dir, err := os.MkdirTemp(o.Dir, "bench-")
	if err != nil {
		return nil, fmt.Errorf("creating directory of the run: %w", err)
	}
	w := &world{setup: s, options: o, dir: dir}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w (logs: %s)", err, dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	if w.cloud, err = simcloud.Start(ctx, ""); err != nil {
		return nil, err
	}
	defer w.cloud.Close()
	w.server, err = apiserver.Start(
		ctx,
		apiserver.Options{Dir: dir, Version: o.Version, Progress: o.Progress, Audit: true},
	)
	if err != nil {
		return nil, err
	}
	defer w.server.Stop()
	disconnect, err := w.connect()
	if err != nil {
		return nil, err
	}
	defer disconnect()
	defer w.killManagers()
	if results, err = s.scenario.measure(ctx, w); err != nil {
		return results, err
	}
	if unknown := w.cloud.Unknown(); len(unknown) > 0 {
		return results, fmt.Errorf("the simulated cloud was asked for what it does not know: %q", unknown)
	}
	return results, nil
}

// preparing bounds what comes before a measurement, and waits for what every manager does within seconds.
const preparing = 5 * time.Minute

func (w *world) connect() (disconnect func(), err error) {
	config, err := w.server.Config("bench")
	if err != nil {
		return nil, err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	if w.client, err = kubernetes.NewForConfigAndClient(config, web); err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	return web.CloseIdleConnections, nil
}

// throttle is the cloud of a throttled run, once everything is prepared.
var throttle = []simcloud.Throttle{{Rate: 20, Burst: 100}}

// quick makes the cloud answer at once, for preparations.
func (w *world) quick() error { return w.cloud.Set(simcloud.Settings{}) }

// slow makes the cloud what is measured with.
func (w *world) slow(faults ...simcloud.Fault) error {
	settings := simcloud.Settings{Latency: simcloud.DefaultLatency, Faults: faults}
	if w.throttled {
		settings.Throttles = throttle
	}
	return w.cloud.Set(settings)
}

// firstPort is where the first manager serves, away from the default ports of upstream, of which no two may be the
// same.
const firstPort = 12000

// manager is a process that is measured.
type manager struct {
	*process.Process
	name    string // its user of the API, and the caller of its calls
	port    int    // where it serves its health, at the API server's address
	started time.Time
}

// start starts a manager.
func (w *world) start() (*manager, error) {
	name, port := fmt.Sprintf("%s-%d", w.implementation.name, len(w.managers)+1), firstPort+len(w.managers)
	kubeconfig, err := w.server.Kubeconfig(name)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(w.dir, "cloud.yaml") // the same for every process: one that takes over finds nothing changed
	if err := (provider.Config{Endpoint: w.cloud.URL()}).WriteFile(config); err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(w.server.Address())
	if err != nil {
		return nil, fmt.Errorf("reading the server's address: %w", err)
	}
	flags := []string{
		"--implementation=" + w.implementation.code,
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--cloud-provider=" + provider.Name, "--cloud-config=" + config,
		"--bind-address=" + host, fmt.Sprintf("--secure-port=%d", port), "--cert-dir=" + filepath.Join(w.dir, name+"-certs"),
		"--leader-elect=true", "--configure-cloud-routes=false",
	}
	flags = slices.Concat(flags, w.implementation.flags, w.flags, w.options.flags)
	p, err := process.Start(process.Options{
		Name: name, Path: w.options.Manager, Args: flags, Dir: w.dir, Output: filepath.Join(w.dir, name+".log"),
		Env: []string{provider.CallerVariable + "=" + name},
	})
	if err != nil {
		return nil, err
	}
	m := &manager{Process: p, name: name, port: port, started: time.Now()}
	w.managers = append(w.managers, m)
	return m, nil
}

func (w *world) killManagers() {
	for _, m := range w.managers {
		m.Kill()
	}
}

// alive returns an error once a manager has ended that should be running.
func (m *manager) alive() error {
	select {
	case <-m.Done():
		return fmt.Errorf("%s ended: %w", m.name, m.Err())
	default:
		return nil
	}
}

// result is the beginning of a result of this run.
func (w *world) result(scenario string) Result {
	return Result{
		Scenario:       scenario,
		Implementation: w.implementation.name,
		Nodes:          w.nodes,
		Services:       w.services,
		Throttled:      w.throttled,
	}
}

// interval is a time over which a manager's work is counted.
type interval struct {
	manager *manager
	world   *world
	calls   int64 // the latest call before it
	writes  int   // the writes before it
	cpu     time.Duration
}

// from begins an interval now. A manager that has just been started has used nothing before.
func (w *world) from(m *manager) (*interval, error) {
	writes, err := w.server.Audit()
	if err != nil {
		return nil, err
	}
	usage, err := m.Usage()
	if err != nil {
		return nil, err
	}
	return &interval{manager: m, world: w, calls: w.cloud.Seq(), writes: len(writes), cpu: usage.CPU}, nil
}

// cloudCalls are the manager's calls in the interval.
func (i *interval) cloudCalls() []simcloud.Call {
	return i.world.cloud.Calls(simcloud.Filter{After: i.calls, Callers: []string{i.manager.name}})
}

// apiWrites are the manager's writes in the interval, without those of leases.
func (i *interval) apiWrites() ([]apiserver.Write, error) {
	all, err := i.world.server.Audit()
	if err != nil {
		return nil, err
	}
	var out []apiserver.Write
	for _, write := range all[i.writes:] {
		if write.User == i.manager.name && !write.Lease() {
			out = append(out, write)
		}
	}
	return out, nil
}

// into counts what the manager has done since the interval began.
func (i *interval) into(r *Result) error {
	perObject := map[string]int{}
	for _, call := range i.cloudCalls() {
		r.CloudCalls++
		if call.Outcome == simcloud.Throttled {
			r.ThrottledCalls++
			continue // it has cost the cloud nothing
		}
		if call.Mutating {
			r.MutatingCalls++
			perObject[call.Object]++
			r.MostPerObject = max(r.MostPerObject, perObject[call.Object])
		}
	}
	writes, err := i.apiWrites()
	if err != nil {
		return err
	}
	for _, write := range writes {
		r.APIWrites++
		if write.Resource == "events" {
			r.EventWrites++
		}
	}
	usage, err := i.manager.Usage()
	if err != nil {
		return err
	}
	r.CPUSeconds, r.MaxRSSBytes = (usage.CPU - i.cpu).Seconds(), usage.MaxRSSBytes
	return nil
}
