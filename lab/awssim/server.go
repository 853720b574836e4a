package awssim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/awssim/ec2"
	"github.com/transplant-dev/transplant/lab/awssim/elb"
	"github.com/transplant-dev/transplant/lab/awssim/elbv2"
	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

// Server is a simulated AWS account in one region. It is an http.Handler; its methods may be called from several
// goroutines.
type Server struct {
	options  Options
	services []*service
	audit    *Audit
	faults   faults

	// mu guards the state of the services: a call's effect and every look at the state are one at a time.
	mu       sync.Mutex
	region   *ec2.Region
	balancer *elb.Balancers
	network  *elbv2.Balancers
	launched int

	// closing is closed by Close and ends every wait; ending guards that; running counts calls that still have to end.
	closing chan struct{}
	closed  bool
	ending  sync.Mutex
	running sync.WaitGroup
}

// service is one API of the endpoint.
type service struct {
	name    string
	version string
	dialect wire.Dialect
	actions []wire.Action
}

func (s *service) action(name string) (wire.Action, bool) {
	at := slices.IndexFunc(s.actions, func(a wire.Action) bool { return a.Name == name })
	if at < 0 {
		return wire.Action{}, false
	}
	return s.actions[at], true
}

var _ http.Handler = (*Server)(nil)

// New is an account as the options describe it. Close must be called.
func New(options Options) (*Server, error) {
	o, err := options.complete()
	if err != nil {
		return nil, fmt.Errorf("reading the simulated account's options: %w", err)
	}
	s := &Server{options: o, region: o.region(), closing: make(chan struct{})}
	s.balancer = elb.New(s.region, o.Clock.Now, o.Certificates)
	s.network = elbv2.New(s.region, o.Clock.Now, o.Certificates, o.ElasticIPs)
	s.services = []*service{
		{"ec2", "2016-11-15", wire.Dialect{Namespace: "http://ec2.amazonaws.com/doc/2016-11-15/"}, s.region.Actions()},
		{
			"elb",
			"2012-06-01",
			wire.Dialect{Namespace: "http://elasticloadbalancing.amazonaws.com/doc/2012-06-01/", Wrapped: true},
			s.balancer.Actions(),
		},
		{
			"elbv2",
			"2015-12-01",
			wire.Dialect{Namespace: "http://elasticloadbalancing.amazonaws.com/doc/2015-12-01/", Wrapped: true},
			s.network.Actions(),
		},
	}
	for _, i := range o.Instances {
		if err := s.launch(i); err != nil {
			return nil, err
		}
	}
	if s.audit, err = newAudit(o.AuditFile); err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends every waiting call without effect, waits for all calls to end, and closes the audit file. It returns the
// first error of writing that file, if there was one. Calls that come later are refused.
func (s *Server) Close() error {
	s.ending.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.ending.Unlock()
	s.running.Wait()
	return s.audit.close()
}

// begin registers a call, or refuses it because the server is closing.
func (s *Server) begin() bool {
	s.ending.Lock()
	defer s.ending.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	return true
}

// Audit is the log of calls.
func (s *Server) Audit() *Audit { return s.audit }

// Unknown are the calls that the simulator did not know: unknown actions, parameters, filters or metadata paths. Tests
// of the lab fail on any.
func (s *Server) Unknown() []v1alpha1.CloudCall {
	return slices.DeleteFunc(s.audit.Calls(Filter{}), func(c v1alpha1.CloudCall) bool { return !c.Unknown })
}

// Actions are the operations of a service (ec2, elb or elbv2), in the order of the reference page; nil for another
// service.
func (s *Server) Actions(service string) []wire.Action {
	for _, svc := range s.services {
		if svc.name == service {
			return slices.Clone(svc.actions)
		}
	}
	return nil
}

// State is what the account holds. Two states with the same contents have the same JSON, byte by byte.
type State struct {
	EC2   ec2.State                    `json:"ec2"`
	ELB   map[string]*elb.LoadBalancer `json:"elb"`
	ELBV2 elbv2.State                  `json:"elbv2"`
}

// State is a copy of what the account holds now.
func (s *Server) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return copyOf(State{EC2: s.region.State, ELB: s.balancer.ByName, ELBV2: s.network.State})
}

// copyOf copies a value that JSON can hold.
func copyOf[T any](v T) T {
	var out T
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		panic(fmt.Sprintf("copying a %T: %v", v, err)) // A programming error: the types are plain data.
	}
	return out
}
