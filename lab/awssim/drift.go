package awssim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

// LabKey is the access key id under which the audit log keeps what the lab itself did to the cloud: drift, and the fate
// of instances.
const LabKey = "AKIALABLAB"

// Do makes an API call as the lab: past keys and faults, with the action's own guards. The error is the API's, with its
// code in front.
func (s *Server) Do(serviceName, action string, params map[string]string) error {
	at := slices.IndexFunc(s.services, func(svc *service) bool { return svc.name == serviceName })
	if at < 0 {
		return fmt.Errorf("calling %s as the lab: there is no service %q", action, serviceName)
	}
	req := &request{key: LabKey, service: s.services[at], call: wire.Call{Params: maps.Clone(params)}}
	known := false
	if req.action, known = req.service.action(action); !known {
		return fmt.Errorf("calling %s as the lab: there is no such action of %s", action, serviceName)
	}
	if err := req.action.Check(&req.call); err != nil {
		return fmt.Errorf("calling %s as the lab: %w", action, err)
	}
	req.seq = s.audit.arrive(v1alpha1.CloudCall{
		Key:       LabKey,
		Service:   serviceName,
		Action:    action,
		Mutating:  req.action.Mutating,
		Params:    params,
		Resources: req.call.Resources(),
		Arrived:   s.options.Clock.Now(),
	})
	if out := s.effect(req, strike{}); out.refusal != nil {
		return fmt.Errorf("calling %s as the lab: %w", action, out.refusal)
	}
	return nil
}

// DeregisterInstance takes an instance off a classic load balancer behind the managers' backs.
func (s *Server) DeregisterInstance(loadBalancer, instance string) error {
	return s.Do(
		"elb",
		"DeregisterInstancesFromLoadBalancer",
		map[string]string{"LoadBalancerName": loadBalancer, "Instances.member.1.InstanceId": instance},
	)
}

// DeregisterTarget takes an instance off a target group behind the managers' backs.
func (s *Server) DeregisterTarget(targetGroupARN, instance string) error {
	return s.Do(
		"elbv2",
		"DeregisterTargets",
		map[string]string{"TargetGroupArn": targetGroupARN, "Targets.member.1.Id": instance},
	)
}

// DeleteLoadBalancer deletes a classic load balancer behind the managers' backs.
func (s *Server) DeleteLoadBalancer(name string) error {
	return s.Do("elb", "DeleteLoadBalancer", map[string]string{"LoadBalancerName": name})
}

// DeleteRoute deletes a route from the account's route table behind the managers' backs.
func (s *Server) DeleteRoute(cidr string) error {
	return s.Do(
		"ec2",
		"DeleteRoute",
		map[string]string{"RouteTableId": s.options.RouteTable, "DestinationCidrBlock": cidr},
	)
}

// AddInstance launches an instance; what is left out is filled in as Options.Instances says. It returns the instance as
// it is now.
func (s *Server) AddInstance(i Instance) (Instance, error) {
	var added Instance
	err := s.fate("AddInstance", map[string]string{"PrivateIP": i.PrivateIP}, func() (string, error) {
		if err := s.launch(i); err != nil {
			return "", err
		}
		for _, known := range s.region.Instances {
			if known.PrivateIP == i.PrivateIP && (i.ID == "" || known.ID == i.ID) {
				added = copyOf(*known)
			}
		}
		return added.ID, nil
	})
	return added, err
}

// launch adds an instance with its defaults.
func (s *Server) launch(i Instance) error {
	if err := s.region.Add(s.options.instance(i, s.launched)); err != nil {
		return err
	}
	s.launched++
	return nil
}

// SetInstanceState moves an instance to a state: pending, running, shutting-down, terminated, stopping or stopped.
func (s *Server) SetInstanceState(id, state string) error {
	return s.fate("SetInstanceState", map[string]string{"InstanceId": id, "State": state}, func() (string, error) {
		return id, s.region.SetState(id, state)
	})
}

// VanishInstance makes EC2 forget an instance: InvalidInstanceID.NotFound from now on. Routes to it and its memberships
// stay.
func (s *Server) VanishInstance(id string) error {
	return s.fate("VanishInstance", map[string]string{"InstanceId": id}, func() (string, error) {
		return id, s.region.Vanish(id)
	})
}

// HideInstance makes successful answers leave an instance out, or show it again. EC2 does not: it is what a fault of
// its would look like.
func (s *Server) HideInstance(id string, hidden bool) error {
	return s.fate(
		"HideInstance",
		map[string]string{"InstanceId": id, "Hidden": strconv.FormatBool(hidden)},
		func() (string, error) {
			if s.region.Instances[id] == nil {
				return id, fmt.Errorf("hiding instance %q: there is no such instance", id)
			}
			s.region.Instances[id].Hidden = hidden
			return id, nil
		},
	)
}

// Instances are the instances that EC2 knows, by id in order.
func (s *Server) Instances() []Instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Instance{}
	for _, id := range wire.Keys(s.region.Instances) {
		out = append(out, copyOf(*s.region.Instances[id]))
	}
	return out
}

// fate changes instances and records it in the audit log, under the service "lab".
func (s *Server) fate(action string, params map[string]string, change func() (resource string, err error)) error {
	record := v1alpha1.CloudCall{
		Key:      LabKey,
		Service:  "lab",
		Action:   action,
		Mutating: true,
		Params:   params,
		Arrived:  s.options.Clock.Now(),
	}
	seq := s.audit.arrive(record)
	s.mu.Lock()
	resource, err := change()
	at := s.options.Clock.Now()
	s.mu.Unlock()
	if err != nil {
		s.audit.finish(seq, nil, &wire.Error{Code: "LabError"}, nil)
		return err
	}
	s.audit.finish(seq, &at, nil, []string{resource})
	return nil
}
