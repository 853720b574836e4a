package loadbalancer

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/shell"
)

const (
	sourceServices  = "/api/v1/services"
	sourceBalancers = "the cloud's load balancers"
	// FinalizerBalancer keeps a Service until its load balancer is gone; both service loops set and remove it.
	FinalizerBalancer = "service.kubernetes.io/load-balancer-cleanup"
)

func serviceName(s v1.Service) string { return s.Namespace + "/" + s.Name }

// eachService is the finding of a check that looks at every Service of type LoadBalancer. The judge returns what is
// wrong with one, or "".
func eachService(f facts.Facts, judge func(v1.Service) string) (findings.Problems, v1.Finding, bool) {
	var bad findings.Problems
	all, finding, ok := listServices(f)
	for _, s := range all {
		if complaint := judge(s); complaint != "" {
			bad.Add(serviceName(s), "%s: %s", serviceName(s), complaint)
		}
	}
	return bad, finding, ok
}

// services returns a check of every Service of type LoadBalancer.
func services(e rule.Each[v1.Service]) func(facts.Facts) v1.Finding {
	e.List, e.Name, e.Source = listServices, serviceName, sourceServices
	return e.Judge
}

func listServices(f facts.Facts) ([]v1.Service, v1.Finding, bool) {
	if finding, ok := f.Missing("services"); ok {
		return nil, finding, false
	}
	return f.Services, facts.None("Service of type LoadBalancer"), len(f.Services) > 0
}

// withoutLoadBalancers reports whether the cluster's provider makes no load balancers; the finding says so.
func withoutLoadBalancers(f facts.Facts) (v1.Finding, bool) {
	name := f.CloudName()
	if p, ok := cloudprovider.Lookup(name); ok && !p.LoadBalancers {
		return findings.Skip("%s had no load balancers in tree", name), true
	}
	return v1.Finding{}, false
}

// isForOtherController reports whether both service loops leave a Service to another controller.
func isForOtherController(f facts.Facts, s v1.Service) bool {
	if s.Class != "" {
		return true
	}
	return slices.ContainsFunc(
		readings(f, s),
		func(a catalogue.Annotation) bool { return a.Reading == catalogue.Elsewhere },
	)
}

// readings are the annotations of a Service that the two providers do not read in the same way.
func readings(f facts.Facts, s v1.Service) []catalogue.Annotation {
	return catalogue.AnnotationsOf(f.CloudName(), s.Annotations, f.InTreeMinor(), f.NewMinor())
}

// kubectlService names a Service from a finding's object in a command.
func kubectlService(verb, object, rest string) string {
	namespace, name, _ := strings.Cut(object, "/")
	return strings.TrimSpace(fmt.Sprintf("kubectl -n %s %s service %s %s", shell.Quote(namespace), verb, shell.Quote(name), rest))
}

var servicesServed = rule.Check{
	Code:      "LB-002",
	Reason:    "ServicePending",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "the events of the Service: why it has no address yet",
	DependsOn: rule.OnAPI,
	Retryable: true,
	Judge: services(rule.Each[v1.Service]{
		Unless:   withoutLoadBalancers,
		Concerns: func(f facts.Facts, s v1.Service) bool { return !s.Deleting && !isForOtherController(f, s) },
		Wrong: rule.Always(func(s v1.Service) string {
			if len(s.Addresses) > 0 {
				return ""
			}
			since := "no address since " + s.Created.UTC().Format("2006-01-02 15:04")
			return strings.Join(append([]string{since}, s.Conditions...), ", ")
		}),
		Outcome:  v1.Warn,
		Passes:   "# [Service has|Services have] an address from the cloud's service loop, and none waits for one",
		Fails:    "# [Service is|Services are] without an address",
		Expected: "an address in status.loadBalancer",
		Fix:      func(object string) string { return kubectlService("describe", object, "") },
	}),
}

var deletionStuck = rule.Check{
	Code:      "LB-003",
	Reason:    "ServiceDeletionStuck",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "the finalizers of the Service, and what the events say of its deletion",
	DependsOn: rule.OnAPI,
	Retryable: true,
	Judge: services(rule.Each[v1.Service]{
		Wrong: rule.Always(func(s v1.Service) string {
			if !s.Deleting {
				return ""
			}
			return "is being deleted, held by " + findings.OrElse(strings.Join(s.Finalizers, ", "), "nothing")
		}),
		Outcome:  v1.Warn,
		Passes:   "none of # [Service|Services] is being deleted",
		Fails:    "# [Service waits|Services wait] to be deleted, which the new manager would try at takeover",
		Expected: "no deletion under way",
		Fix:      func(object string) string { return kubectlService("describe", object, "") },
	}),
}

var finalizerMissing = rule.Check{
	Code:      "LB-004",
	Reason:    "FinalizerMissing",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactLoadBalancers,
	DependsOn: rule.OnAPI,
	Judge: services(rule.Each[v1.Service]{
		Unless: withoutLoadBalancers,
		Concerns: func(f facts.Facts, s v1.Service) bool {
			return !s.Deleting && len(s.Addresses) > 0 && !isForOtherController(f, s)
		},
		Wrong: rule.Always(func(s v1.Service) string {
			if slices.Contains(s.Finalizers, FinalizerBalancer) {
				return ""
			}
			return "no finalizer " + FinalizerBalancer
		}),
		Outcome:  v1.Warn,
		Passes:   "# [Service has|Services have] a load balancer and the finalizer",
		Fails:    "# [Service|Services] would leave a load balancer behind if deleted during the handover",
		Expected: FinalizerBalancer,
		Fix: func(object string) string {
			return kubectlService("annotate", object, "--overwrite transplant.dev/touched=\"$(date +%s)\"")
		},
	}),
}

var annotationsLost = rule.Check{
	Code:      "LB-005",
	Reason:    "AnnotationLost",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelError,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "the annotation that the finding names",
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := withoutLoadBalancers(f); ok {
			return finding
		}
		refused := false
		bad, finding, ok := eachService(f, func(s v1.Service) string {
			var wrong []string
			for _, a := range readings(f, s) {
				if a.Reading == catalogue.Lost || a.Reading == catalogue.Refused {
					refused = refused || a.Reading == catalogue.Refused
					wrong = append(wrong, a.Key+": "+a.Effect)
				}
			}
			if why := otherKind(f, s); why != "" {
				refused = true
				wrong = append(wrong, why)
			}
			return strings.Join(wrong, ", ")
		})
		switch {
		case !ok:
			return finding
		case bad.Empty():
			return findings.Pass(
				"the external provider obeys every annotation of %s",
				findings.Plural(len(f.Services), "Service"),
			)
		}
		outcome := v1.Warn
		if refused {
			outcome = v1.Fail
		}
		return findings.With(
			bad.Finding(
				outcome,
				"%s annotations that the external provider ignores or refuses",
				findings.Counting(len(bad), "Service", "has", "have"),
			),
			"annotations that both providers read alike",
			sourceServices,
			kubectlService("get", bad[0].Object, "-o jsonpath='{.metadata.annotations}'"),
		)
	},
}

// otherKind says that an AWS Service asks for another kind of load balancer than the one whose name it has. Names of
// classic ones end in .elb.amazonaws.com, those of network ones in .elb.<region>.amazonaws.com. The external provider
// refuses that; the in-tree one made a second one.
func otherKind(f facts.Facts, s v1.Service) string {
	provider, _ := cloudprovider.Lookup(f.CloudName())
	annotation := provider.KindAnnotation
	if annotation == "" || len(s.Addresses) == 0 || isForOtherController(f, s) || !strings.Contains(s.Addresses[0], ".elb.") {
		return ""
	}
	labels := strings.Split(strings.TrimSuffix(s.Addresses[0], ".cn"), ".")
	if len(labels) < 5 {
		return ""
	}
	// <name>.<region>.elb.amazonaws.com or <name>.elb.<region>.amazonaws.com
	network := labels[len(labels)-4] == "elb"
	switch wants := s.Annotations[annotation] == "nlb"; {
	case wants && !network:
		return annotation + ": asks for a network load balancer and has a classic one, which is refused"
	case !wants && network:
		return annotation + ": asks for a classic load balancer and has a network one, which is refused"
	}
	return ""
}

var annotationsBegin = rule.Check{
	Code:      "LB-006",
	Reason:    "AnnotationBegins",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "the annotation that the finding names, and the value that begins to count",
	DependsOn: rule.OnAPI,
	Judge: services(rule.Each[v1.Service]{
		Unless: withoutLoadBalancers,
		Wrong: func(f facts.Facts) func(v1.Service) string {
			return func(s v1.Service) string {
				if isForOtherController(f, s) {
					return ""
				}
				var begin []string
				for _, a := range readings(f, s) {
					if a.Reading == catalogue.Begins {
						begin = append(begin, fmt.Sprintf("with %s=%s it %s", a.Key, s.Annotations[a.Key], a.Effect))
					}
				}
				return strings.Join(begin, ", ")
			}
		},
		Outcome:  v1.Warn,
		Passes:   "no annotation of # [Service|Services] begins to matter",
		Fails:    "# [Service has|Services have] annotations that do nothing today and something after the handover",
		Expected: "annotations that both providers read alike",
		Fix: func(object string) string {
			return kubectlService("get", object, "-o jsonpath='{.metadata.annotations}'")
		},
	}),
}

var loadBalancerIPs = rule.Check{
	Code:      "LB-007",
	Reason:    "LoadBalancerIPIgnored",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelError,
	Impact:    findings.ImpactLoadBalancers,
	DependsOn: rule.OnAPI,
	Judge:     judgeLoadBalancerIPs,
}

func judgeLoadBalancerIPs(f facts.Facts) v1.Finding {
	if finding, ok := withoutLoadBalancers(f); ok {
		return finding
	}
	name, asked := f.CloudName(), 0
	bad, finding, ok := eachService(f, func(s v1.Service) string {
		if s.LoadBalancerIP == "" || s.Deleting || isForOtherController(f, s) {
			return ""
		}
		asked++
		switch {
		case slices.Contains(s.Addresses, s.LoadBalancerIP):
			return ""
		case !cloudprovider.TakesLoadBalancerIP(name) && len(s.Addresses) > 0:
			return ""
		case !cloudprovider.TakesLoadBalancerIP(name):
			return "asks for " + s.LoadBalancerIP + " and has no load balancer; the external provider ignores the field and makes one"
		}
		return "asks for " + s.LoadBalancerIP + " and has " + findings.OrElse(strings.Join(s.Addresses, ", "), "no address")
	})
	switch {
	case !ok:
		return finding
	case bad.Empty():
		return findings.Pass(
			"%s for an address%s",
			findings.Counting(asked, "Service", "asks", "ask"),
			findings.Also(asked, ", each for the one that it has"),
		)
	}
	return findings.With(
		bad.Finding(
			v1.Fail,
			"%s for another address than they have",
			findings.Counting(len(bad), "Service", "asks", "ask"),
		),
		"the address in status.loadBalancer, or no spec.loadBalancerIP",
		sourceServices,
		kubectlService("patch", bad[0].Object, `--type=json -p '[{"op":"remove","path":"/spec/loadBalancerIP"}]'`),
	)
}

var classServedTwice = rule.Check{
	Code:      "LB-015",
	Reason:    "ClassServedTwice",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactLoadBalancers,
	LookFor:   "spec.loadBalancerClass, the finalizer and the status of the Service",
	DependsOn: rule.OnAPI,
	Judge: services(rule.Each[v1.Service]{
		Concerns: func(_ facts.Facts, s v1.Service) bool { return s.Class != "" },
		Wrong: rule.Always(func(s v1.Service) string {
			if !slices.Contains(s.Finalizers, FinalizerBalancer) {
				return ""
			}
			return "class " + s.Class + " and the finalizer " + FinalizerBalancer
		}),
		Outcome:  v1.Warn,
		Passes:   "no Service has both a class and the cloud's finalizer",
		Fails:    "# [Service has|Services have] both a class and the cloud's finalizer",
		Expected: "one controller for each Service",
		Fix:      func(object string) string { return kubectlService("get", object, "-o yaml") },
	}),
}
