package ccmtrial

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/lab/ccmlab"
	"github.com/transplant-dev/transplant/lab/poll"
	"github.com/transplant-dev/transplant/lab/simcloud"
)

// event is what happens to a leader or its standby in a round of a random campaign.
type event string

const (
	told          event = "leader told to end"
	killed        event = "leader killed"
	frozenLeader  event = "leader frozen"
	frozenStandby event = "standby frozen"
	apiRefuses    event = "leader's connections to the API refused"
	apiSilent     event = "no byte between the leader and the API"
	apiFrozen     event = "kube-apiserver frozen"
	cloudSilent   event = "no answer of the cloud for the leader"
	leaseDeleted  event = "leases deleted"
	// The events of pods are lies or accidents: the leader lives.
	podForced     event = "leader's pod deleted by force and made again"
	containerLost event = "leader's container lost by its runtime"
	wrongWord     event = "leader's container called ended while it runs"
	// A kubelet that starts again has no status of the pod at first, and makes its mirror pod again.
	kubeletRestarted event = "kubelet of the leader restarted"
)

var (
	events = []event{
		told, killed, frozenLeader, frozenStandby, apiRefuses, apiSilent, apiFrozen, cloudSilent, leaseDeleted,
	}
	eventsOfPods = []event{podForced, containerLost, wrongWord, kubeletRestarted}
	// lies are the events of pods that may coincide with another event. The kubelet's word that a container has ended is
	// not among them: of a leader that does not answer, it is believed (docs/explanation/fence.md).
	lies = []event{podForced, containerLost, kubeletRestarted}
	// withLies are the events that lies may coincide with. While kube-apiserver is frozen, nothing is written.
	withLies = []event{frozenLeader, frozenStandby, apiRefuses, apiSilent, cloudSilent}
)

// climate is what the cloud does to all calls of a round.
type climate string

const (
	fair      climate = "fair"
	throttled climate = "throttled"
	failing   climate = "failing"
	slow      climate = "slow"
)

var climates = []climate{fair, fair, throttled, failing, slow}

// settings are those of the cloud, without the faults of an event.
func (c climate) settings() simcloud.Settings {
	s := simcloud.Settings{Latency: simcloud.DefaultLatency}
	switch c {
	case throttled:
		s.Throttles = []simcloud.Throttle{{Rate: 10, Burst: 5}}
	case failing:
		s.Faults = []simcloud.Fault{{Rate: 0.2, Code: http.StatusServiceUnavailable}}
	case slow:
		s.Latency = simcloud.Duration(400 * time.Millisecond)
	default:
	}
	return s
}

// timings are those of leader election.
type timings struct{ duration, deadline, retry time.Duration }

// allTimings are short ones, so that more rounds go into an hour, and those of our manifests.
var allTimings = []timings{
	{6 * time.Second, 4 * time.Second, time.Second},
	{9 * time.Second, 6 * time.Second, time.Second},
	{15 * time.Second, 10 * time.Second, time.Second},
}

// flags are those of managers in a random campaign. They delete nodes without waiting as long as they do elsewhere.
func (t timings) flags() []string {
	return []string{
		"--node-monitor-period=2s",
		"--node-deletion-grace-after-takeover=2s",
		"--node-deletion-limit=1000",
		"--node-deletion-limit-percent=100",
		fmt.Sprintf("--leader-elect-lease-duration=%s", t.duration),
		fmt.Sprintf("--leader-elect-renew-deadline=%s", t.deadline),
		fmt.Sprintf("--leader-elect-retry-period=%s", t.retry),
	}
}

// disturbance is an event, how long it lasts where it is healed, and what else is wrong meanwhile.
type disturbance struct {
	event event
	lasts time.Duration
	cloud climate
	// lost is whether machines are lost meanwhile.
	lost bool
	// lie is what happens to the leader's pod meanwhile; empty for nothing.
	lie event
}

func (d disturbance) String() string {
	text := fmt.Sprintf("%s (%s), the cloud %s", d.event, d.lasts.Round(time.Millisecond), d.cloud)
	if d.lost {
		text += ", machines lost"
	}
	if d.lie != "" {
		text += ", " + string(d.lie)
	}
	return text
}

// draw draws a disturbance. The lengths are from a sixth of a renew deadline to twice a lease duration, short ones as
// often as long ones.
func draw(random *rand.Rand, t timings, inPods bool) disturbance {
	all := events
	if inPods {
		all = slices.Concat(events, eventsOfPods)
	}
	d := disturbance{
		event: all[random.IntN(len(all))],
		cloud: climates[random.IntN(len(climates))],
		lost:  random.IntN(2) == 0,
	}
	least, most := float64(t.deadline)/6, 2*float64(t.duration)
	length := time.Duration(least * math.Pow(most/least, random.Float64()))
	switch d.event {
	case told, killed, leaseDeleted, podForced, containerLost, wrongWord, kubeletRestarted:
	default:
		d.lasts = length
	}
	if inPods && slices.Contains(withLies, d.event) && random.IntN(2) == 0 {
		d.lie = lies[random.IntN(len(lies))]
	}
	return d
}

// keepsLeader reports whether the leader has to lead afterwards, too. A renewal may be due when it is frozen, so that
// only a part of the renew deadline is sure.
func (d disturbance) keepsLeader(t timings) bool {
	switch d.event {
	case frozenStandby, cloudSilent, podForced, containerLost, wrongWord, kubeletRestarted:
		return true
	case frozenLeader, apiRefuses, apiSilent, apiFrozen:
		return d.lasts < t.deadline/3
	default:
		return false
	}
}

// endsLeader reports whether the leader ends in any case, maybe after more work.
func (d disturbance) endsLeader() bool {
	return d.event == told || d.event == killed || d.event == leaseDeleted
}

// endsWith is the exit code with which a leader has to end if it ends.
func (d disturbance) endsWith() int {
	switch d.event {
	case told:
		return 0
	case killed:
		return -1
	default:
		return 1
	}
}

// disturb makes an event happen, and ends it after its time.
func (w *world) disturb(ctx context.Context, d disturbance, leader, standby *ccmlab.Manager) error {
	heal, err := w.begin(ctx, d, leader, standby)
	if err != nil {
		return fmt.Errorf("%s: %w", d.event, err)
	}
	lied := make(chan error, 1)
	go func() { lied <- w.lie(ctx, d.lie, leader) }() // the event does not last longer for it
	whole := poll.Pause(ctx, d.lasts)
	if err := errors.Join(heal(), <-lied); err != nil {
		return fmt.Errorf("lying and healing: %s: %w", d, err)
	}
	if !whole {
		return ctx.Err()
	}
	return nil
}

// begin makes an event happen. What is returned heals it.
func (w *world) begin(
	ctx context.Context,
	d disturbance,
	leader, standby *ccmlab.Manager,
) (heal func() error, err error) {
	none := func() error { return nil }
	switch d.event {
	case told:
		return none, leader.Signal(syscall.SIGTERM)
	case killed:
		leader.Kill()
		if w.inPods {
			err = w.testify(ctx, leader.Name())
		}
		return none, err
	case frozenLeader:
		return freezeProcess(leader)
	case frozenStandby:
		return freezeProcess(standby)
	case apiFrozen:
		_, api := w.api.Processes()
		return freezeProcess(api)
	case apiRefuses:
		way := w.ways[leader.Name()]
		way.Cut()
		return way.Heal, nil
	case apiSilent:
		return w.silence(leader) //nolint:contextcheck // its connections go on after that
	case cloudSilent:
		settings := w.cloud.Settings()
		with := settings
		with.Faults = append([]simcloud.Fault{{Caller: leader.Name(), Hang: true}}, settings.Faults...)
		return func() error { return w.cloud.Set(settings) }, w.cloud.Set(with)
	case leaseDeleted:
		return none, w.deleteLeases(ctx)
	case podForced, containerLost, kubeletRestarted:
		return none, w.lie(ctx, d.event, leader)
	case wrongWord:
		return none, w.testify(ctx, leader.Name())
	}
	return nil, fmt.Errorf("%q is no event", d.event)
}

// lie lets something happen to the pod of a leader that lives.
func (w *world) lie(ctx context.Context, what event, leader *ccmlab.Manager) error {
	switch what {
	case "":
		return nil
	case podForced:
		return errors.Join(w.deletePodByForce(ctx, leader.Name()), w.makePod(ctx, leader.Name()))
	case containerLost:
		return w.say(ctx, leader.Name(), 255, "Unknown")
	case kubeletRestarted:
		return w.restartKubelet(ctx, leader.Name())
	default:
		return fmt.Errorf("%q is nothing that happens to the pod of a living leader", what)
	}
}

// deleteLeases forces an election, as an operator does with kubectl.
func (w *world) deleteLeases(ctx context.Context) error {
	leases := w.admin.CoordinationV1().Leases(metav1.NamespaceSystem)
	err := leases.Delete(ctx, mainLease, metav1.DeleteOptions{})
	if w.migrates {
		err = errors.Join(err, leases.Delete(ctx, migrationLease, metav1.DeleteOptions{}))
	}
	return err
}

// signaled is what can be stopped and continued.
type signaled interface{ Signal(syscall.Signal) error }

func freezeProcess(p signaled) (heal func() error, err error) {
	return func() error { return p.Signal(syscall.SIGCONT) }, p.Signal(syscall.SIGSTOP)
}

// silence lets no byte pass between a leader and the API. What a process has sent that has ended meanwhile must not
// arrive later: no host sends it again.
func (w *world) silence(leader *ccmlab.Manager) (heal func() error, err error) {
	way := w.ways[leader.Name()]
	return func() error {
		select {
		case <-leader.Done():
			way.Close()
			return nil
		default:
			return way.Heal()
		}
	}, way.Blackhole()
}
