package service

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/record"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/klog/v2"
)

const (
	// After a takeover, a load balancer that is believed to be in line is read within this time. What was changed while no
	// manager led is found soon, and not all at once.
	adoptedCheckFrom = 30 * time.Second
	adoptedCheckTo   = 3 * time.Minute
	// maxNotFound is how often a load balancer that a check does not find is ensured for it, when that changes nothing. A
	// provider may not implement GetLoadBalancer: it would be ensured 50 times a day.
	maxNotFound = 2
	// notFoundLooks is after how many more looks its Service has the event again: with the default period, twice a day.
	notFoundLooks = 24
	// grantFor is for how long a load balancer that was sent to be looked at is not sent again, while it waits for a
	// worker.
	grantFor = time.Minute
)

// schedule sets when the load balancer is looked at and ensured next, spread so that many that were made together are
// not due together.
func (c *Controller) schedule(lb *lbState) {
	now := c.clock.Now()
	lb.check, lb.resync = after(now, c.config.Options.DriftPeriod), after(now, c.config.Options.ResyncPeriod)
}

func after(now time.Time, period time.Duration) time.Time {
	if period == 0 {
		return time.Time{}
	}
	return now.Add(time.Duration((0.75 + rand.Float64()/2) * float64(period)))
}

// scheduleAdopted is schedule for a load balancer that the last leader had in line.
func (c *Controller) scheduleAdopted(lb *lbState) {
	now := c.clock.Now()
	if period := c.config.Options.DriftPeriod; period > 0 {
		from, to := min(adoptedCheckFrom, period), min(adoptedCheckTo, period)
		lb.check = now.Add(from + time.Duration(rand.Float64()*float64(to-from)))
	}
	if period := c.config.Options.ResyncPeriod; period > 0 {
		// Not in the first twelfth: a planned restart changes nothing in the cloud. When it was ensured last is not known.
		lb.resync = now.Add(time.Duration((1 + 11*rand.Float64()) / 12 * float64(period)))
	}
}

// findDrift sends load balancers that are due to be looked at, no faster than allowed.
func (c *Controller) findDrift(ctx context.Context) {
	grants := map[string]time.Time{}
	budget, last := 0.0, c.clock.Now()
	for wait := time.Second; ; {
		timer := c.clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		now := c.clock.Now()
		maps.DeleteFunc(grants, func(_ string, at time.Time) bool { return now.Sub(at) >= grantFor })
		budget = min(budget+c.config.Options.DriftQPS*now.Sub(last).Seconds(), max(1, c.config.Options.DriftQPS))
		last = now
		keys, next := c.store.dueKeys(now, grants)
		for len(keys) > 0 && budget >= 1 {
			budget--
			grants[keys[0]] = now
			c.queue.Add(keys[0])
			keys = keys[1:]
		}
		wait = max(time.Second, min(next.Sub(now), c.soonest()))
		if len(keys) > 0 {
			wait = time.Second
		}
	}
}

// soonest is after what time, at the least, a load balancer is due that has just been looked at or ensured.
func (c *Controller) soonest() time.Duration {
	wait := time.Minute
	for _, period := range []time.Duration{c.config.Options.DriftPeriod, c.config.Options.ResyncPeriod} {
		if period > 0 {
			wait = min(wait, period/2)
		}
	}
	return wait
}

// dueKeys returns the keys of load balancers that are in line and due to be read or ensured, and when the next will be.
// Those that have waited longest come first. One that is being deleted waits for its next try.
func (k *store) dueKeys(now time.Time, except map[string]time.Time) (keys []string, next time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next = now.Add(time.Hour)
	for key, b := range k.states {
		if !b.isInSync() || b.gone || b.cleaning || b.implementedElsewhere {
			continue
		}
		if isDue(b.check, now) || isDue(b.resync, now) {
			if _, granted := except[key]; !granted {
				keys = append(keys, key)
			}
			continue
		}
		for _, at := range []time.Time{b.check, b.resync} {
			if !at.IsZero() && at.Before(next) {
				next = at
			}
		}
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(k.states[a].since(now).Compare(k.states[b].since(now)), cmp.Compare(a, b))
	})
	return keys, next
}

func isDue(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// since is since when a state has been due.
func (b lbState) since(now time.Time) time.Time {
	if isDue(b.check, now) && (!isDue(b.resync, now) || b.check.Before(b.resync)) {
		return b.check
	}
	return b.resync
}

// resync ensures a load balancer that ought to be in line. It says nothing when it was: a Service does not get events
// for nothing.
func (c *Controller) resync(ctx context.Context, key string, service *corev1.Service, lb lbState) error {
	err := c.ensured(ctx, key, service, lb, true)
	// the provider failed, and may have done half of it
	if after, ok := c.store.get(key); err != nil && ok && after.resync.Equal(lb.resync) {
		after.spec = ""
		c.store.putLBState(key, after)
		c.state.withdraw(ctx, key)
	}
	return err
}

// check looks whether a load balancer is still there and at its address. A look that fails says nothing of the load
// balancer: the next is at its time.
func (c *Controller) check(ctx context.Context, key string, service *corev1.Service, lb lbState) error {
	status, exists, err := c.cloud.get(ctx, service)
	logger := klog.FromContext(ctx).WithValues("service", key)
	lb.check = after(c.clock.Now(), c.config.Options.DriftPeriod)
	result := "in_line"
	switch {
	case isFinal(ctx, err):
		return err
	case isElsewhere(err):
	case err != nil:
		result = "error"
		logger.V(1).Info("Looking at the load balancer failed", "err", err)
	case !exists && lb.notFound >= maxNotFound:
		result = "not_found"
		recordNotFound(c.recorder, service, lb.notFound)
		lb.notFound++
	case !exists:
		result, lb.spec = "gone", ""
		lb.notFound++
		logger.Info("The load balancer is gone from the cloud; it is made again")
	case len(status.Ingress) > 0 && !hasSameAddresses(status, lb.stored) &&
		(lb.seen == nil || !hasSameAddresses(status, lb.seen)):
		// A provider whose two answers never agree is believed once: what it said is remembered below, and ensuring is not
		// repeated for it.
		result, lb.spec = "moved", ""
		logger.Info("The load balancer is not at its address any more; it is ensured", "addresses", status.Ingress)
	}
	if err == nil && exists {
		lb.seen, lb.notFound = status, 0
	}
	driftChecks.WithLabelValues(result).Inc()
	c.store.putLBState(key, lb)
	if lb.spec == "" {
		return c.sync(ctx, key)
	}
	return nil
}

// recordNotFound makes an event now and then: a provider that finds no load balancer never finds any.
func recordNotFound(recorder record.EventRecorder, service *corev1.Service, looks int) {
	if (looks-maxNotFound)%notFoundLooks != 0 {
		return
	}
	recorder.Eventf(
		service,
		corev1.EventTypeWarning,
		reasonNotFound,
		"The cloud provider does not find the load balancer. "+
			"Ensuring it %d times has changed nothing. It is ensured again when the Service changes, or after --%s",
		maxNotFound,
		flagResyncPeriod,
	)
}

// fingerprintVersion changes when what a fingerprint covers does. A leader does not believe those of another version.
const fingerprintVersion = "1"

// wantsLoadBalancer is whether a Service asks for a load balancer of the cloud provider. One with a class is for
// another controller.
func wantsLoadBalancer(service *corev1.Service) bool {
	return service.Spec.Type == corev1.ServiceTypeLoadBalancer && service.Spec.LoadBalancerClass == nil
}

// needsCleanup reports whether a Service carries the finalizer of a load balancer that it no longer needs. Its class
// does not matter: the finalizer is what keeps the Service from going, and no other controller may remove it.
func needsCleanup(service *corev1.Service) bool {
	return servicehelper.HasLBFinalizer(service) &&
		(service.DeletionTimestamp != nil || service.Spec.Type != corev1.ServiceTypeLoadBalancer)
}

// determining is what of a Service determines its load balancer, by upstream's rules of when one needs an update. An
// absent list is an empty one.
type determining struct {
	UID            string
	Annotations    map[string]string
	Ports          []determiningPort
	Affinity       corev1.ServiceAffinity
	AffinityConfig *corev1.SessionAffinityConfig
	Address        string
	SourceRanges   []string `json:",omitempty"`
	ExternalIPs    []string `json:",omitempty"`
	TrafficPolicy  corev1.ServiceExternalTrafficPolicy
	HealthPort     int32
	Families       int // which they are cannot change, how many can
}

type determiningPort struct {
	Name           string
	Protocol       corev1.Protocol
	Port, NodePort int32
	TargetPort     string
	AppProtocol    *string
}

// specPrint is the fingerprint of what a Service asks of its load balancer.
func specPrint(service *corev1.Service) string {
	d := determining{
		UID:            string(service.UID),
		Annotations:    map[string]string{},
		Affinity:       service.Spec.SessionAffinity,
		AffinityConfig: service.Spec.SessionAffinityConfig,
		Address:        service.Spec.LoadBalancerIP,
		SourceRanges:   service.Spec.LoadBalancerSourceRanges,
		ExternalIPs:    service.Spec.ExternalIPs,
		TrafficPolicy:  service.Spec.ExternalTrafficPolicy,
		HealthPort:     service.Spec.HealthCheckNodePort,
		Families:       len(service.Spec.IPFamilies),
	}
	for key, value := range service.Annotations {
		// a copy of the rest of the object, by kubectl: a changed label is in it too
		if key != corev1.LastAppliedConfigAnnotation {
			d.Annotations[key] = value
		}
	}
	for _, p := range service.Spec.Ports {
		target := fmt.Sprintf("%d %s", p.TargetPort.Type, p.TargetPort.String())
		d.Ports = append(d.Ports, determiningPort{p.Name, p.Protocol, p.Port, p.NodePort, target, p.AppProtocol})
	}
	return digest(d)
}

// needsUpdate reports whether a change of a Service is one that its load balancer has to follow.
func needsUpdate(before, now *corev1.Service) bool {
	if wantsLoadBalancer(before) != wantsLoadBalancer(now) {
		return true
	}
	return wantsLoadBalancer(now) && specPrint(before) != specPrint(now)
}

// digest is a short fingerprint of a value. encoding/json writes the keys of maps in order.
func digest(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("%T cannot be marshalled: %v", value, err)) // it holds texts and numbers
	}
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// normal is a status as the API server would give it back: an address without a mode has mode VIP. Without this, a
// provider that leaves the mode out would make every look at the Service see a change, and every change a patch.
func normal(status *corev1.LoadBalancerStatus) *corev1.LoadBalancerStatus {
	out := status.DeepCopy()
	for i := range out.Ingress {
		if in := &out.Ingress[i]; in.IP != "" && in.IPMode == nil {
			vip := corev1.LoadBalancerIPModeVIP
			in.IPMode = &vip
		}
	}
	return out
}

func isSameStatus(a, b *corev1.LoadBalancerStatus) bool {
	return equality.Semantic.DeepEqual(normal(a).Ingress, normal(b).Ingress)
}

// hasSameAddresses reports whether two statuses name the same addresses, in any order and whatever else they say of
// them. Providers fill ports and modes in when they ensure, and not always when they are asked.
func hasSameAddresses(a, b *corev1.LoadBalancerStatus) bool {
	return slices.Equal(addresses(a), addresses(b))
}

func addresses(status *corev1.LoadBalancerStatus) []string {
	var out []string
	for _, in := range status.Ingress {
		out = append(out, in.IP+" "+in.Hostname)
	}
	slices.Sort(out)
	return out
}

// operation is what a load balancer needs.
type operation int

const (
	opNone    operation = iota
	opOrphan            // its Service is gone, and it stays; see chooseOperation
	opDelete            // its Service is gone, and it was being made or deleted
	opReplace           // its Service was deleted and made again by the same name: it goes, and another comes
	opCleanup           // its Service wants it no more
	opEnsure            // it must follow its Service
	opUpdate            // its members have changed, and nothing else
	opStatus            // its Service's status is not what was written
	opResync            // it is ensured without a reason, to find what was changed in the cloud
	opCheck             // it is looked at
)

// facts are what chooseOperation looks at.
type facts struct {
	service *corev1.Service // nil when it is gone
	known   bool            // whether there is a state
	lb      lbState
	view    *view
	now     time.Time
}

// chooseOperation decides what the load balancer of one Service needs.
//
// A Service that disappears before its deletion started had lost our finalizer before. A user wants to keep the load
// balancer, and upstream keeps it. One that is being deleted and has no finalizer of ours is left alone for the same
// reason. What is half made goes, as it does upstream.
func chooseOperation(f facts) operation {
	switch {
	case f.service == nil:
		return judgeGone(f)
	case f.known && f.lb.uid != f.service.UID:
		return opReplace
	case needsCleanup(f.service), !wantsLoadBalancer(f.service) && f.known:
		return opCleanup
	case !wantsLoadBalancer(f.service), f.service.DeletionTimestamp != nil:
		return opNone
	}
	return judgeWanted(f)
}

func judgeGone(f facts) operation {
	switch {
	case !f.known, f.lb.gone:
		return opNone
	case f.lb.cleaning, f.lb.tried && !f.lb.isInSync(): // what it has in the cloud is not what anybody wants to keep
		return opDelete
	}
	return opOrphan
}

func judgeWanted(f facts) operation {
	lb := f.lb
	switch {
	case lb.spec != specPrint(f.service) || lb.cleaning || lb.gone: // a state that is not known has no fingerprint
		return opEnsure
	case lb.implementedElsewhere:
		return opNone
	case f.view.needsUpdate(lb.members):
		return opUpdate
	case lb.stored == nil, deviates(f.service, lb):
		return opStatus
	case isDue(lb.resync, f.now):
		return opResync
	case isDue(lb.check, f.now):
		return opCheck
	}
	return opNone
}

// deviates is whether a Service's status is not what this process wrote. A cache that has not seen the write yet shows
// nothing.
func deviates(service *corev1.Service, lb lbState) bool {
	return lb.stored != nil && !isOlderVersion(service.ResourceVersion, lb.version) &&
		!isSameStatus(&service.Status.LoadBalancer, lb.stored)
}

// isRelevantUpdate reports whether a changed Service is worth looking at. Others must not be: a look at one that failed
// would not wait for its back-off.
func isRelevantUpdate(before, now *corev1.Service, known bool, lb lbState) bool {
	return before.UID != now.UID ||
		needsUpdate(before, now) ||
		needsCleanup(now) && !needsCleanup(before) ||
		known && lb.spec != "" && !lb.implementedElsewhere && wantsLoadBalancer(now) && deviates(now, lb)
}

// repairDelay is how long a status that another client keeps changing is left alone. Two writers that do not agree must
// not keep the API server busy. The first repair does not wait.
func repairDelay(repairs int) time.Duration {
	if repairs == 0 {
		return 0
	}
	return min(minRetryDelay<<min(repairs-1, 10), maxRetryDelay)
}

// isOlderVersion reports whether a resource version comes before another. What cannot be compared does not.
func isOlderVersion(version, than string) bool {
	a, b := parseVersion(version), parseVersion(than)
	return a != 0 && b != 0 && a < b
}
