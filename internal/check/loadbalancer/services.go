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
	if finding, ok := f.Missing("services"); ok {
		return bad, finding, false
	}
	if len(f.Services) == 0 {
		return bad, facts.None("Service of type LoadBalancer"), false
	}
	for _, s := range f.Services {
		if complaint := judge(s); complaint != "" {
			bad.Add(serviceName(s), "%s: %s", serviceName(s), complaint)
		}
	}
	return bad, v1.Finding{}, true
}

// balanced reports whether the cluster's provider makes load balancers at all; the finding says why a check of them is
// skipped where it does not.
func balanced(f facts.Facts) (v1.Finding, bool) {
	name := f.CloudName()
	if p, ok := cloudprovider.Lookup(name); ok && !p.LoadBalancers {
		return findings.Skip("%s had no load balancers in tree", name), false
	}
	return v1.Finding{}, true
}

// elsewhere reports whether both service loops leave a Service to another controller.
func elsewhere(f facts.Facts, s v1.Service) bool {
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
	return strings.TrimSpace(fmt.Sprintf("kubectl -n %s %s service %s %s", namespace, verb, name, rest))
}

var servicesServed = rule.Check{
	Code:      "LB-002",
	Reason:    "ServicePending",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactLoadBalancers,
	DependsOn: rule.OnAPI,
	Retryable: true,
	Title:     "every Service that wants a load balancer has its address",
	Explain: []string{
		"The new manager looks at every Service when it starts. One without an address is one that the in-tree loop is still working on, or cannot make (quota, subnet, security group): the handover would either hide that, by making it at " +
			"last, or blame itself for an old fault. And a load balancer that is half made at that moment is the one place where the two providers may disagree about what it should be.",
		"Wait for it, or find out why: kubectl describe shows the events of the loop.",
	},
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := balanced(f); !ok {
			return finding
		}
		served := 0
		bad, finding, ok := eachService(f, func(s v1.Service) string {
			if s.Deleting || elsewhere(f, s) {
				return ""
			}
			if len(s.Addresses) > 0 {
				served++
				return ""
			}
			return strings.Join(
				append([]string{"no address since " + s.Created.UTC().Format("2006-01-02 15:04")}, s.Conditions...),
				", ",
			)
		})
		switch {
		case !ok:
			return finding
		case bad.Empty():
			return findings.Pass(
				"%s an address from the cloud's service loop, and none waits for one",
				findings.Counting(served, "Service", "has", "have"),
			)
		}
		return findings.With(
			bad.Finding(v1.Warn, "%s without an address", findings.Counting(len(bad.Lines), "Service", "is", "are")),
			"an address in status.loadBalancer",
			sourceServices,
			kubectlService("describe", bad.Objects[0], ""),
		)
	},
}

var deletionStuck = rule.Check{
	Code:      "LB-003",
	Reason:    "ServiceDeletionStuck",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactLoadBalancers,
	DependsOn: rule.OnAPI,
	Retryable: true,
	Title:     "no Service waits to be deleted",
	Explain: []string{
		"A Service with a deletion time stays until its load balancer is gone and the finalizer " + FinalizerBalancer + " is removed. The new manager takes this up at once: what the in-tree loop could not delete, for weeks perhaps, may be gone a minute " +
			"after the handover, and be missing in the comparison of before and after.",
		"Let the deletion finish first. Never remove the finalizer by hand while the load balancer exists: nothing would delete it any more.",
	},
	Judge: func(f facts.Facts) v1.Finding {
		bad, finding, ok := eachService(f, func(s v1.Service) string {
			if !s.Deleting {
				return ""
			}
			return "is being deleted, held by " + findings.OrElse(strings.Join(s.Finalizers, ", "), "nothing")
		})
		switch {
		case !ok:
			return finding
		case bad.Empty():
			return findings.Pass("none of %s is being deleted", findings.Plural(len(f.Services), "Service"))
		}
		return findings.With(
			bad.Finding(
				v1.Warn,
				"%s to be deleted, which the new manager would try at takeover",
				findings.Counting(len(bad.Lines), "Service", "waits", "wait"),
			),
			"no deletion under way",
			sourceServices,
			kubectlService("describe", bad.Objects[0], ""),
		)
	},
}

var finalizerMissing = rule.Check{
	Code:      "LB-004",
	Reason:    "FinalizerMissing",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactLoadBalancers,
	DependsOn: rule.OnAPI,
	Title:     "every Service with a load balancer has the finalizer that keeps it until that is gone",
	Explain: []string{
		"During a handover there are seconds in which no service loop runs. A Service that is deleted then, and has the finalizer " + FinalizerBalancer + ", waits for the new manager. Without it the Service is gone before anyone sees it, " +
			"and its load balancer stays in the cloud, with its address and its bill, for ever.",
		"The loop sets the finalizer when it next works on the Service; an annotation of your own makes it do so.",
	},
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := balanced(f); !ok {
			return finding
		}
		kept := 0
		bad, finding, ok := eachService(f, func(s v1.Service) string {
			switch {
			case s.Deleting || len(s.Addresses) == 0 || elsewhere(f, s):
				return ""
			case slices.Contains(s.Finalizers, FinalizerBalancer):
				kept++
				return ""
			}
			return "no finalizer " + FinalizerBalancer
		})
		switch {
		case !ok:
			return finding
		case bad.Empty():
			return findings.Pass("%s a load balancer and the finalizer", findings.Counting(kept, "Service", "has", "have"))
		}
		return findings.With(
			bad.Finding(
				v1.Warn,
				"%s would leave a load balancer behind if deleted during the handover",
				findings.Plural(len(bad.Lines), "Service"),
			),
			FinalizerBalancer,
			sourceServices,
			kubectlService("annotate", bad.Objects[0], "--overwrite transplant.dev/touched=\"$(date +%s)\""),
		)
	},
}

var annotationsLost = rule.Check{
	Code:      "LB-005",
	Reason:    "AnnotationLost",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelError,
	Impact:    findings.ImpactLoadBalancers,
	DependsOn: rule.OnAPI,
	Title:     "no Service has an annotation that the external provider does not know, or refuses",
	Explain: []string{
		"Every Service is ensured again when the new manager starts. An annotation that only the in-tree provider obeys is then ignored, and what it asked for is taken back. One that the external provider refuses stops it from touching the Service at " +
			"all: its members stay what they were on the day of the handover, node by node more wrong.",
		"AWS: since 2025 the external provider refuses extra security groups on network load balancers, and a type annotation that is not the type of the load balancer that exists (the in-tree one made a second load balancer then, and " +
			"left the first behind). The table of annotations is part of this program; what it does not list, both providers read alike.",
	},
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := balanced(f); !ok {
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
				findings.Counting(len(bad.Lines), "Service", "has", "have"),
			),
			"annotations that both providers read alike",
			sourceServices,
			kubectlService("get", bad.Objects[0], "-o jsonpath='{.metadata.annotations}'"),
		)
	},
}

// otherKind says that an AWS Service asks for another kind of load balancer than the one whose name it has: classic
// ones end in .elb.amazonaws.com, network ones in .elb.<region>.amazonaws.com. The external provider refuses that; the
// in-tree one made a second one.
func otherKind(f facts.Facts, s v1.Service) string {
	if f.CloudName() != "aws" || len(s.Addresses) == 0 || elsewhere(f, s) || !strings.Contains(s.Addresses[0], ".elb.") {
		return ""
	}
	labels := strings.Split(strings.TrimSuffix(s.Addresses[0], ".cn"), ".")
	if len(labels) < 5 {
		return ""
	}
	// <name>.<region>.elb.amazonaws.com or <name>.elb.<region>.amazonaws.com
	network := labels[len(labels)-4] == "elb"
	const annotation = "service.beta.kubernetes.io/aws-load-balancer-type"
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
	DependsOn: rule.OnAPI,
	Title:     "no Service has an annotation that begins to matter at the handover",
	Explain: []string{
		"An annotation that the in-tree provider never knew does nothing today, whatever it says, and stands in Services all the same: copied from a page about the external provider, or kept from an attempt. At its start the new manager " +
			"ensures every Service and obeys it: health monitors appear, source ranges are closed, an address moves.",
		"Remove the annotation, or keep it and expect the difference in the comparison of before and after. OpenStack's in-tree provider knew three annotations (internal, floating-network-id and subnet-id); the external one knows twenty more.",
	},
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := balanced(f); !ok {
			return finding
		}
		bad, finding, ok := eachService(f, func(s v1.Service) string {
			if elsewhere(f, s) {
				return ""
			}
			var begin []string
			for _, a := range readings(f, s) {
				if a.Reading == catalogue.Begins {
					begin = append(begin, fmt.Sprintf("with %s=%s it %s", a.Key, s.Annotations[a.Key], a.Effect))
				}
			}
			return strings.Join(begin, ", ")
		})
		switch {
		case !ok:
			return finding
		case bad.Empty():
			return findings.Pass("no annotation of %s begins to matter", findings.Plural(len(f.Services), "Service"))
		}
		return findings.With(
			bad.Finding(
				v1.Warn,
				"%s annotations that do nothing today and something after the handover",
				findings.Counting(len(bad.Lines), "Service", "has", "have"),
			),
			"annotations that both providers read alike",
			sourceServices,
			kubectlService("get", bad.Objects[0], "-o jsonpath='{.metadata.annotations}'"),
		)
	},
}

var loadBalancerIPs = rule.Check{
	Code:      "LB-007",
	Reason:    "LoadBalancerIPIgnored",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelError,
	Impact:    findings.ImpactLoadBalancers,
	DependsOn: rule.OnAPI,
	Title:     "spec.loadBalancerIP of every Service that has it is the address it has",
	Explain: []string{
		"The deprecated field spec.loadBalancerIP asks for an address. The external providers of Azure, GCE and OpenStack obey it when they ensure the Service at their start: where it is not the address that the load balancer has, they " +
			"move it there, or fail if the address is taken.",
		"AWS: the in-tree provider refuses such a Service, so that it has no load balancer today; the external one ignores the field and makes one. Remove the field, or set it to the address in the status.",
	},
	Judge: judgeLoadBalancerIPs,
}

func judgeLoadBalancerIPs(f facts.Facts) v1.Finding {
	if finding, ok := balanced(f); !ok {
		return finding
	}
	name, asked := f.CloudName(), 0
	bad, finding, ok := eachService(f, func(s v1.Service) string {
		if s.LoadBalancerIP == "" || s.Deleting || elsewhere(f, s) {
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
			findings.Counting(len(bad.Lines), "Service", "asks", "ask"),
		),
		"the address in status.loadBalancer, or no spec.loadBalancerIP",
		sourceServices,
		kubectlService("patch", bad.Objects[0], `--type=json -p '[{"op":"remove","path":"/spec/loadBalancerIP"}]'`),
	)
}

var classServedTwice = rule.Check{
	Code:      "LB-015",
	Reason:    "ClassServedTwice",
	Category:  findings.CategoryBalancers,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactLoadBalancers,
	DependsOn: rule.OnAPI,
	Title:     "no Service with a loadBalancerClass carries anything of the cloud's service loop",
	Explain: []string{
		"A Service with spec.loadBalancerClass belongs to the controller of that class; neither service loop of the cloud touches it. If it has the cloud's finalizer all the same, it was served by the cloud once: nobody removes the finalizer " +
			"any more, so that its deletion hangs, and the load balancer of that time is left behind.",
	},
	Judge: func(f facts.Facts) v1.Finding {
		classes := 0
		bad, finding, ok := eachService(f, func(s v1.Service) string {
			if s.Class == "" {
				return ""
			}
			classes++
			if !slices.Contains(s.Finalizers, FinalizerBalancer) {
				return ""
			}
			return "class " + s.Class + " and the finalizer " + FinalizerBalancer
		})
		switch {
		case !ok:
			return finding
		case bad.Empty():
			return findings.Pass(
				"%s a class%s",
				findings.Counting(classes, "Service", "has", "have"),
				findings.Also(classes, ", and none of those the cloud's finalizer"),
			)
		}
		return findings.With(
			bad.Finding(
				v1.Warn,
				"%s both a class and the cloud's finalizer",
				findings.Counting(len(bad.Lines), "Service", "has", "have"),
			),
			"one controller for each Service",
			sourceServices,
			kubectlService("get", bad.Objects[0], "-o yaml"),
		)
	},
}
