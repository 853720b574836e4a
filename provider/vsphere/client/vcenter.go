// Package client decides how a vCenter is spoken to: who asks, how its certificate is judged, when a session is opened,
// and what is counted.
//
//	provider --> VCenter --one session, one view--> govmomi --tries--> transport --fence, metrics--> vCenter
//
// There is one session for each vCenter, however many nodes are asked for: a vCenter has room for some 2,000. It is
// opened with the first call, kept alive between calls, and closed when the manager ends.
package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/provider/transport"
	"github.com/transplant-dev/transplant/provider/vsphere/cloudconf"
)

// Options are the settings of a VCenter.
type Options struct {
	Config cloudconf.VCenter
	// Credentials are asked for before each login, so that changed ones are used.
	Credentials Credentials
	// Gate says whether requests that change something may be sent. This package sends none.
	Gate *transport.Gate
	// RequestTimeout bounds one request; 0 for DefaultRequestTimeout.
	RequestTimeout time.Duration
	// RefusedFor is how long a login is not tried again with the same credentials after it was refused; 0 for
	// DefaultRefusedFor.
	RefusedFor time.Duration
	// Sent counts the requests that are sent; nil for none.
	Sent *atomic.Int64
	// Clock is nil for the machine's.
	Clock clock.PassiveClock
}

const (
	// DefaultRequestTimeout bounds one request.
	DefaultRequestTimeout = 60 * time.Second
	// DefaultRefusedFor is how long a login is not tried again with credentials that vCenter has refused. Each is a failed
	// attempt that counts towards locking the account.
	DefaultRefusedFor = 30 * time.Second
	// KeepAlivePeriod is how often a session without calls is used. A REST session ends after five minutes without.
	KeepAlivePeriod = 2 * time.Minute
)

// VCenter has one session with one vCenter.
type VCenter struct {
	options Options
	busy    chan struct{} // holds one value while a call is made

	session *opened
	tags    map[string]Tag // by ID, of tags and of categories; emptied at times
	read    time.Time      // when tags was emptied
	used    time.Time      // when the session was last used
	tagged  time.Time      // when its REST session was
	refusal error          // of the last login that vCenter refused
	refused time.Time
	of      *url.Userinfo // the credentials that it refused
}

// opened is a session.
type opened struct {
	soap    *vim25.Client
	manager *session.Manager
	user    *url.Userinfo
	view    *types.ManagedObjectReference // of all machines; nil until it is made
	rest    *tags.Manager                 // nil until tags are asked for
	close   func()                        // idle connections
}

// New makes a VCenter. It sends nothing.
func New(o Options) *VCenter {
	if o.RequestTimeout == 0 {
		o.RequestTimeout = DefaultRequestTimeout
	}
	if o.RefusedFor == 0 {
		o.RefusedFor = DefaultRefusedFor
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &VCenter{options: o, busy: make(chan struct{}, 1)}
}

// Name is what the cloud config calls the vCenter.
func (v *VCenter) Name() string { return v.options.Config.Name }

// Config is the vCenter's part of the cloud config.
func (v *VCenter) Config() cloudconf.VCenter { return v.options.Config }

// Ping logs in if that was not done, and asks for the time.
func (v *VCenter) Ping(ctx context.Context) error {
	return v.callInSession(ctx, func(ctx context.Context, s *opened) error {
		_, err := methods.GetCurrentTime(ctx, s.soap)
		return err
	})
}

// KeepAlive uses a session that no call has used of late. It opens none. Lists of machines do not use the REST session:
// it has a time of its own.
func (v *VCenter) KeepAlive(ctx context.Context) {
	if err := v.acquire(ctx); err != nil {
		return
	}
	isIdle := func(since time.Time) bool { return v.options.Clock.Since(since) >= KeepAlivePeriod/2 }
	idle := v.session != nil && (isIdle(v.used) || v.session.rest != nil && isIdle(v.tagged))
	v.release()
	if !idle {
		return
	}
	err := v.callInSession(ctx, func(ctx context.Context, s *opened) error {
		if s.rest != nil {
			if current, err := s.rest.Session(ctx); err != nil || current == nil {
				s.rest = nil // the next call for tags opens another
			}
			v.tagged = v.options.Clock.Now()
		}
		_, err := methods.GetCurrentTime(ctx, s.soap)
		return err
	})
	if err != nil {
		klog.V(2).InfoS("A session with a vCenter cannot be kept", "vCenter", v.Name(), "err", err)
	}
}

// Close ends the session, as far as vCenter answers.
func (v *VCenter) Close(ctx context.Context) {
	if err := v.acquire(ctx); err != nil {
		return
	}
	defer v.release()
	if v.session == nil {
		return
	}
	if v.session.rest != nil {
		_ = v.session.rest.Logout(ctx) // it ends by itself
	}
	if err := v.session.manager.Logout(ctx); err != nil {
		klog.V(2).InfoS("A session with a vCenter was not ended, and ends by itself", "vCenter", v.Name(), "err", err)
	}
	v.dropSession()
}

func (v *VCenter) acquire(ctx context.Context) error {
	select {
	case v.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for another call to vCenter %s: %w", v.Name(), context.Cause(ctx))
	}
}

func (v *VCenter) release() { <-v.busy }

// callInSession makes a call in the session. One that finds the session ended is made again, once, in another.
func (v *VCenter) callInSession(ctx context.Context, call func(context.Context, *opened) error) error {
	if err := v.acquire(ctx); err != nil {
		return err
	}
	defer v.release()
	for again := true; ; again = false {
		s, err := v.open(ctx)
		if err != nil {
			return err
		}
		err = call(ctx, s)
		if again && isSessionLost(err) {
			klog.V(2).InfoS("The session with a vCenter has ended; logging in again", "vCenter", v.Name())
			if isRESTSessionLost(err) {
				s.rest = nil // the other one may be there
			} else {
				v.dropSession()
			}
			continue
		}
		if err != nil {
			return v.explain(err)
		}
		v.used = v.options.Clock.Now()
		return nil
	}
}

func (v *VCenter) dropSession() {
	if v.session != nil {
		v.session.close()
		v.session = nil
	}
}

// open returns the session, after logging in if there is none.
func (v *VCenter) open(ctx context.Context) (*opened, error) {
	if v.session != nil {
		return v.session, nil
	}
	user, err := v.options.Credentials(ctx)
	if err != nil {
		return nil, fmt.Errorf("vCenter %s: %w", v.Name(), err)
	}
	if v.refusal != nil && v.options.Clock.Since(v.refused) < v.options.RefusedFor && *user == *v.of {
		return nil, v.refusal
	}
	v.refusal = nil
	s, err := v.login(ctx, user)
	if err == nil {
		v.session = s
		return s, nil
	}
	err = fmt.Errorf("logging in to %w", v.explain(err))
	if Refused(err) {
		v.refusal, v.refused, v.of = err, v.options.Clock.Now(), user
	}
	return nil, err
}

func (v *VCenter) login(ctx context.Context, user *url.Userinfo) (*opened, error) {
	conf := v.options.Config
	address := &url.URL{
		Scheme: "https", Host: net.JoinHostPort(conf.Server, strconv.FormatUint(uint64(conf.Port), 10)), Path: vim25.Path,
	}
	client := soap.NewClient(address, conf.Insecure)
	if err := v.prepare(client); err != nil {
		return nil, err
	}
	made, err := vim25.NewClient(withOperation(ctx, "RetrieveServiceContent"), client)
	if err == nil && !made.IsVC() {
		err = errors.New("it is no vCenter but a single host: name the vCenter that manages it")
	}
	if err != nil {
		client.CloseIdleConnections()
		return nil, err
	}
	made.RoundTripper = &caller{next: client, tries: conf.Tries}
	s := &opened{
		soap:    made,
		manager: session.NewManager(made),
		user:    user,
		close:   client.CloseIdleConnections,
	}
	if err := s.manager.Login(ctx, user); err != nil {
		client.CloseIdleConnections()
		return nil, err
	}
	return s, nil
}

// restSession is the manager of tags, after logging in to vCenter's REST API if that was not done.
func (v *VCenter) restSession(ctx context.Context, s *opened) (*tags.Manager, error) {
	v.tagged = v.options.Clock.Now()
	if s.rest != nil {
		return s.rest, nil
	}
	client := rest.NewClient(s.soap)
	v.wrap(client.Client)
	if err := client.Login(ctx, s.user); err != nil {
		return nil, err
	}
	s.rest = tags.NewManager(client)
	return s.rest, nil
}
