package check

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

const (
	sourceServices  = "/api/v1/services"
	sourceBalancers = "the cloud's load balancers"
	// finalizerBalancer keeps a Service until its load balancer is gone; both service loops set and remove it.
	finalizerBalancer = "service.kubernetes.io/load-balancer-cleanup"
)

func serviceName(s v1.Service) string { return s.Namespace + "/" + s.Name }

// eachService is the finding of a check that looks at every Service of type LoadBalancer. The judge returns what is wrong with one, or "".
func (f facts) eachService(judge func(v1.Service) string) (complaints, v1.Finding, bool) {
	var bad complaints
	if finding, ok := f.missing("services"); ok {
		return bad, finding, false
	}
	if len(f.Services) == 0 {
		return bad, none("Service of type LoadBalancer"), false
	}
	for _, s := range f.Services {
		if complaint := judge(s); complaint != "" {
			bad.add(serviceName(s), "%s: %s", serviceName(s), complaint)
		}
	}
	return bad, v1.Finding{}, true
}

// balanced tells whether the cluster's provider makes load balancers at all; the finding says why a check of them is skipped where it does not.
func (f facts) balanced() (v1.Finding, bool) {
	name := f.cloudName()
	if p, ok := catalogue.Lookup(name); ok && !p.LoadBalancers {
		return skip("%s had no load balancers in tree", name), false
	}
	return v1.Finding{}, true
}

// elsewhere tells whether both service loops leave a Service to another controller.
func (f facts) elsewhere(s v1.Service) bool {
	if s.Class != "" {
		return true
	}
	return slices.ContainsFunc(f.readings(s), func(a catalogue.Annotation) bool { return a.Reading == catalogue.Elsewhere })
}

// readings are the annotations of a Service that the two providers do not read in the same way.
func (f facts) readings(s v1.Service) []catalogue.Annotation {
	return catalogue.AnnotationsOf(f.cloudName(), s.Annotations, f.inTreeMinor(), f.newMinor())
}

// kubectlService names a Service from a finding's object in a command.
func kubectlService(verb, object, rest string) string {
	namespace, name, _ := strings.Cut(object, "/")
	return strings.TrimSpace(fmt.Sprintf("kubectl -n %s %s service %s %s", namespace, verb, name, rest))
}

var servicesServed = Check{
	Code: "LB-002", Reason: "ServicePending", Category: categoryBalancers, Level: LevelWarning, Impact: ImpactLoadBalancers, DependsOn: onAPI, Retryable: true,
	Title: "every Service that wants a load balancer has its address",
	Explain: []string{
		"The new manager looks at every Service when it starts. One without an address is one that the in-tree loop is still working on, or cannot make (quota, subnet, security group): the handover would either hide that, by making it at " +
			"last, or blame itself for an old fault. And a load balancer that is half made at that moment is the one place where the two providers may disagree about what it should be.",
		"Wait for it, or find out why: kubectl describe shows the events of the loop.",
	},
	judge: func(f facts) v1.Finding {
		if finding, ok := f.balanced(); !ok {
			return finding
		}
		served := 0
		bad, finding, ok := f.eachService(func(s v1.Service) string {
			if s.Deleting || f.elsewhere(s) {
				return ""
			}
			if len(s.Addresses) > 0 {
				served++
				return ""
			}
			return strings.Join(append([]string{"no address since " + s.Created.UTC().Format("2006-01-02 15:04")}, s.Conditions...), ", ")
		})
		switch {
		case !ok:
			return finding
		case bad.empty():
			return pass("%s an address from the cloud's service loop, and none waits for one", counting(served, "Service", "has", "have"))
		}
		return with(bad.finding(v1.Warn, "%s without an address", counting(len(bad.lines), "Service", "is", "are")), "an address in status.loadBalancer", sourceServices,
			kubectlService("describe", bad.objects[0], ""))
	},
}

var deletionStuck = Check{
	Code: "LB-003", Reason: "ServiceDeletionStuck", Category: categoryBalancers, Level: LevelWarning, Impact: ImpactLoadBalancers, DependsOn: onAPI, Retryable: true,
	Title: "no Service waits to be deleted",
	Explain: []string{
		"A Service with a deletion time stays until its load balancer is gone and the finalizer " + finalizerBalancer + " is removed. The new manager takes this up at once: what the in-tree loop could not delete, for weeks perhaps, may be gone a minute " +
			"after the handover, and be missing in the comparison of before and after.",
		"Let the deletion finish first. Never remove the finalizer by hand while the load balancer exists: nothing would delete it any more.",
	},
	judge: func(f facts) v1.Finding {
		bad, finding, ok := f.eachService(func(s v1.Service) string {
			if !s.Deleting {
				return ""
			}
			return "is being deleted, held by " + orElse(strings.Join(s.Finalizers, ", "), "nothing")
		})
		switch {
		case !ok:
			return finding
		case bad.empty():
			return pass("none of %s is being deleted", plural(len(f.Services), "Service"))
		}
		return with(bad.finding(v1.Warn, "%s to be deleted, which the new manager would try at takeover", counting(len(bad.lines), "Service", "waits", "wait")), "no deletion under way", sourceServices,
			kubectlService("describe", bad.objects[0], ""))
	},
}

var finalizerMissing = Check{
	Code: "LB-004", Reason: "FinalizerMissing", Category: categoryBalancers, Level: LevelWarning, Impact: ImpactLoadBalancers, DependsOn: onAPI,
	Title: "every Service with a load balancer has the finalizer that keeps it until that is gone",
	Explain: []string{
		"During a handover there are seconds in which no service loop runs. A Service that is deleted then, and has the finalizer " + finalizerBalancer + ", waits for the new manager. Without it the Service is gone before anyone sees it, " +
			"and its load balancer stays in the cloud, with its address and its bill, for ever.",
		"The loop sets the finalizer when it next works on the Service; an annotation of your own makes it do so.",
	},
	judge: func(f facts) v1.Finding {
		if finding, ok := f.balanced(); !ok {
			return finding
		}
		kept := 0
		bad, finding, ok := f.eachService(func(s v1.Service) string {
			switch {
			case s.Deleting || len(s.Addresses) == 0 || f.elsewhere(s):
				return ""
			case slices.Contains(s.Finalizers, finalizerBalancer):
				kept++
				return ""
			}
			return "no finalizer " + finalizerBalancer
		})
		switch {
		case !ok:
			return finding
		case bad.empty():
			return pass("%s a load balancer and the finalizer", counting(kept, "Service", "has", "have"))
		}
		return with(bad.finding(v1.Warn, "%s would leave a load balancer behind if deleted during the handover", plural(len(bad.lines), "Service")), finalizerBalancer, sourceServices,
			kubectlService("annotate", bad.objects[0], "--overwrite transplant.dev/touched=\"$(date +%s)\""))
	},
}

var annotationsLost = Check{
	Code: "LB-005", Reason: "AnnotationLost", Category: categoryBalancers, Level: LevelError, Impact: ImpactLoadBalancers, DependsOn: onAPI,
	Title: "no Service has an annotation that the external provider does not know, or refuses",
	Explain: []string{
		"Every Service is ensured again when the new manager starts. An annotation that only the in-tree provider obeys is then ignored, and what it asked for is taken back. One that the external provider refuses stops it from touching the Service at " +
			"all: its members stay what they were on the day of the handover, node by node more wrong.",
		"AWS: since 2025 the external provider refuses extra security groups on network load balancers, and a type annotation that is not the type of the load balancer that exists (the in-tree one made a second load balancer then, and " +
			"left the first behind). The table of annotations is part of this program; what it does not list, both providers read alike.",
	},
	judge: func(f facts) v1.Finding {
		if finding, ok := f.balanced(); !ok {
			return finding
		}
		refused := false
		bad, finding, ok := f.eachService(func(s v1.Service) string {
			var wrong []string
			for _, a := range f.readings(s) {
				if a.Reading == catalogue.Lost || a.Reading == catalogue.Refused {
					refused = refused || a.Reading == catalogue.Refused
					wrong = append(wrong, a.Key+": "+a.Effect)
				}
			}
			if why := f.otherKind(s); why != "" {
				refused = true
				wrong = append(wrong, why)
			}
			return strings.Join(wrong, ", ")
		})
		switch {
		case !ok:
			return finding
		case bad.empty():
			return pass("the external provider obeys every annotation of %s", plural(len(f.Services), "Service"))
		}
		outcome := v1.Warn
		if refused {
			outcome = v1.Fail
		}
		return with(bad.finding(outcome, "%s annotations that the external provider ignores or refuses", counting(len(bad.lines), "Service", "has", "have")), "annotations that both providers read alike",
			sourceServices, kubectlService("get", bad.objects[0], "-o jsonpath='{.metadata.annotations}'"))
	},
}

// otherKind says that an AWS Service asks for another kind of load balancer than the one whose name it has: classic ones end in .elb.amazonaws.com, network
// ones in .elb.<region>.amazonaws.com. The external provider refuses that; the in-tree one made a second one.
func (f facts) otherKind(s v1.Service) string {
	if f.cloudName() != "aws" || len(s.Addresses) == 0 || f.elsewhere(s) || !strings.Contains(s.Addresses[0], ".elb.") {
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

var annotationsBegin = Check{
	Code: "LB-006", Reason: "AnnotationBegins", Category: categoryBalancers, Level: LevelWarning, Impact: ImpactLoadBalancers, DependsOn: onAPI,
	Title: "no Service has an annotation that begins to matter at the handover",
	Explain: []string{
		"An annotation that the in-tree provider never knew does nothing today, whatever it says, and stands in Services all the same: copied from a page about the external provider, or kept from an attempt. At its start the new manager " +
			"ensures every Service and obeys it: health monitors appear, source ranges are closed, an address moves.",
		"Remove the annotation, or keep it and expect the difference in the comparison of before and after. OpenStack's in-tree provider knew three annotations (internal, floating-network-id and subnet-id); the external one knows twenty more.",
	},
	judge: func(f facts) v1.Finding {
		if finding, ok := f.balanced(); !ok {
			return finding
		}
		bad, finding, ok := f.eachService(func(s v1.Service) string {
			if f.elsewhere(s) {
				return ""
			}
			var begin []string
			for _, a := range f.readings(s) {
				if a.Reading == catalogue.Begins {
					begin = append(begin, fmt.Sprintf("with %s=%s it %s", a.Key, s.Annotations[a.Key], a.Effect))
				}
			}
			return strings.Join(begin, ", ")
		})
		switch {
		case !ok:
			return finding
		case bad.empty():
			return pass("no annotation of %s begins to matter", plural(len(f.Services), "Service"))
		}
		return with(bad.finding(v1.Warn, "%s annotations that do nothing today and something after the handover", counting(len(bad.lines), "Service", "has", "have")), "annotations that both providers read alike",
			sourceServices, kubectlService("get", bad.objects[0], "-o jsonpath='{.metadata.annotations}'"))
	},
}

var loadBalancerIPs = Check{
	Code: "LB-007", Reason: "LoadBalancerIPIgnored", Category: categoryBalancers, Level: LevelError, Impact: ImpactLoadBalancers, DependsOn: onAPI,
	Title: "spec.loadBalancerIP of every Service that has it is the address it has",
	Explain: []string{
		"The deprecated field spec.loadBalancerIP asks for an address. The external providers of Azure, GCE and OpenStack obey it when they ensure the Service at their start: where it is not the address that the load balancer has, they " +
			"move it there, or fail if the address is taken.",
		"AWS: the in-tree provider refuses such a Service, so that it has no load balancer today; the external one ignores the field and makes one. Remove the field, or set it to the address in the status.",
	},
	judge: judgeLoadBalancerIPs,
}

func judgeLoadBalancerIPs(f facts) v1.Finding {
	if finding, ok := f.balanced(); !ok {
		return finding
	}
	name, asked := f.cloudName(), 0
	bad, finding, ok := f.eachService(func(s v1.Service) string {
		if s.LoadBalancerIP == "" || s.Deleting || f.elsewhere(s) {
			return ""
		}
		asked++
		switch {
		case slices.Contains(s.Addresses, s.LoadBalancerIP):
			return ""
		case !catalogue.TakesLoadBalancerIP(name) && len(s.Addresses) > 0:
			return ""
		case !catalogue.TakesLoadBalancerIP(name):
			return "asks for " + s.LoadBalancerIP + " and has no load balancer; the external provider ignores the field and makes one"
		}
		return "asks for " + s.LoadBalancerIP + " and has " + orElse(strings.Join(s.Addresses, ", "), "no address")
	})
	switch {
	case !ok:
		return finding
	case bad.empty():
		return pass("%s for an address%s", counting(asked, "Service", "asks", "ask"), also(asked, ", each for the one that it has"))
	}
	return with(bad.finding(v1.Fail, "%s for another address than they have", counting(len(bad.lines), "Service", "asks", "ask")), "the address in status.loadBalancer, or no spec.loadBalancerIP", sourceServices,
		kubectlService("patch", bad.objects[0], `--type=json -p '[{"op":"remove","path":"/spec/loadBalancerIP"}]'`))
}

var classServedTwice = Check{
	Code: "LB-015", Reason: "ClassServedTwice", Category: categoryBalancers, Level: LevelWarning, Impact: ImpactLoadBalancers, DependsOn: onAPI,
	Title: "no Service with a loadBalancerClass carries anything of the cloud's service loop",
	Explain: []string{
		"A Service with spec.loadBalancerClass belongs to the controller of that class; neither service loop of the cloud touches it. If it has the cloud's finalizer all the same, it was served by the cloud once: nobody removes the finalizer " +
			"any more, so that its deletion hangs, and the load balancer of that time is left behind.",
	},
	judge: func(f facts) v1.Finding {
		classes := 0
		bad, finding, ok := f.eachService(func(s v1.Service) string {
			if s.Class == "" {
				return ""
			}
			classes++
			if !slices.Contains(s.Finalizers, finalizerBalancer) {
				return ""
			}
			return "class " + s.Class + " and the finalizer " + finalizerBalancer
		})
		switch {
		case !ok:
			return finding
		case bad.empty():
			return pass("%s a class%s", counting(classes, "Service", "has", "have"), also(classes, ", and none of those the cloud's finalizer"))
		}
		return with(bad.finding(v1.Warn, "%s both a class and the cloud's finalizer", counting(len(bad.lines), "Service", "has", "have")), "one controller for each Service", sourceServices,
			kubectlService("get", bad.objects[0], "-o yaml"))
	},
}
