package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/ccmlab"
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

// preparing bounds what comes before a measurement, and waits for what every manager does within seconds. A large
// cluster takes longer: a manager with the defaults of upstream makes 20 requests a second.
func (w *world) preparing() time.Duration {
	return 5*time.Minute + time.Duration(w.nodes)*50*time.Millisecond + time.Duration(w.services)*300*time.Millisecond
}

func (w *world) connect() (disconnect func(), err error) {
	config, err := w.server.Config("bench")
	if err != nil {
		return nil, err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	w.client, disconnect, err = apiserver.Connect(config)
	return disconnect, err
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

// manager is a process that is measured. Its user of the API, and the caller of its calls, is its name.
type manager struct {
	*ccmlab.Manager
	started time.Time
}

// start starts a manager.
func (w *world) start() (*manager, error) {
	name := fmt.Sprintf("%s-%d", w.implementation.name, len(w.managers)+1)
	config := filepath.Join(w.dir, "cloud.yaml") // the same for every process: one that takes over finds nothing changed
	if err := (provider.Config{Endpoint: w.cloud.URL()}).WriteFile(config); err != nil {
		return nil, err
	}
	flags := []string{
		"--implementation=" + w.implementation.code, "--cloud-provider=" + provider.Name, "--cloud-config=" + config,
		"--configure-cloud-routes=false",
	}
	p, err := ccmlab.Start(ccmlab.Options{
		API: w.server, Name: name, Program: w.options.Manager, Dir: w.dir, Env: []string{provider.CallerVariable + "=" + name},
		Flags: slices.Concat(flags, w.implementation.flags, w.flags, w.options.flags),
	})
	if err != nil {
		return nil, err
	}
	m := &manager{Manager: p, started: time.Now()}
	w.managers = append(w.managers, m)
	return m, nil
}

func (w *world) killManagers() {
	for _, m := range w.managers {
		m.Kill()
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
	return i.world.cloud.Calls(simcloud.Filter{After: i.calls, Callers: []string{i.manager.Name()}})
}

// apiWrites are the manager's writes in the interval, without those of leases.
func (i *interval) apiWrites() ([]apiserver.Write, error) {
	all, err := i.world.server.Audit()
	if err != nil {
		return nil, err
	}
	var out []apiserver.Write
	for _, write := range all[i.writes:] {
		if write.User == i.manager.Name() && !write.Lease() {
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
	r.CPUSeconds, r.MaxRSSBytes, r.OwnBytes = (usage.CPU - i.cpu).Seconds(), usage.MaxRSSBytes, usage.OwnBytes
	return nil
}
