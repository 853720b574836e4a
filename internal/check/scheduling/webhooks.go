package scheduling

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/shell"
)

const sourceWebhooks = "/apis/admissionregistration.k8s.io/v1"

var webhookDead = rule.Check{
	Code:      "HOOK-001",
	Reason:    "WebhookDead",
	Category:  findings.CategoryScheduling,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactAPI,
	DependsOn: rule.OnAPI,
	Retryable: true,
	Judge: func(f facts.Facts) v1.Finding {
		var unknowns []string
		bad, n, finding, ok := eachWebhook(f, func(w v1.Webhook, about string) string {
			switch {
			case !isRequired(w) || w.Service == "":
				return ""
			case w.Ready == nil:
				unknowns = append(unknowns, w.Ref)
				return ""
			case *w.Ready == 0:
				return fmt.Sprintf("must answer for %s, and its Service %s has no ready endpoint", about, w.Service)
			}
			return ""
		})
		const expected = "a ready endpoint, or failurePolicy Ignore"
		switch {
		case !ok:
			return finding
		case !bad.Empty():
			return findings.With(
				bad.Finding(
					v1.Fail,
					"%s must answer for writes that the migration needs, and cannot",
					findings.Plural(len(bad), "webhook"),
				),
				expected,
				sourceWebhooks,
				patchWebhook(bad[0].Object, `"failurePolicy":"Ignore"`)+"   # or repair its backend",
			)
		case len(unknowns) > 0:
			return findings.With(
				findings.Unknown(
					"the endpoints of %s are not known: %s",
					findings.Plural(len(unknowns), "webhook"),
					findings.Few(unknowns),
				),
				expected,
				"/apis/discovery.k8s.io/v1/endpointslices",
				"",
			)
		}
		return findings.Pass(
			"%s asked about nodes, leases, pods and the other kinds that a migration needs%s",
			findings.Counting(n, "webhook", "is", "are"),
			findings.Also(n, ", and each that must answer can"),
		)
	},
}

var webhookDeadlock = rule.Check{
	Code:      "HOOK-002",
	Reason:    "WebhookDeadlock",
	Category:  findings.CategoryScheduling,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactScheduling,
	DependsOn: rule.OnAPI,
	Judge:     judgeWebhookDeadlock,
}

func judgeWebhookDeadlock(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("workloads"); ok {
		return finding
	}
	workloads := map[string]v1.Workload{}
	for _, w := range f.Workloads {
		workloads[w.Ref] = w
	}
	known := 0
	bad, n, finding, ok := eachWebhook(f, func(w v1.Webhook, about string) string {
		backend, found := workloads[w.Backend]
		if !isRequired(w) || !found {
			return ""
		}
		known++
		if toleratesTaint(backend.Tolerations, component.TaintUninitialized, "NoSchedule") {
			return ""
		}
		return fmt.Sprintf("must answer for %s; its backend %s does not tolerate the taint", about, backend.Ref)
	})
	switch {
	case !ok:
		return finding
	case bad.Empty():
		return findings.Pass(
			"%s asked about nodes, leases, pods and the other kinds that a migration needs%s",
			findings.Counting(n, "webhook", "is", "are"),
			findings.Also(n, fmt.Sprintf(", %d with a known backend that must answer: each tolerates the taint", known)),
		)
	}
	backend := workloads[backendOf(f, bad[0].Object)]
	return findings.With(
		bad.Finding(
			v1.Warn,
			"the backends of %s do not run on uninitialised nodes",
			findings.Plural(len(bad), "webhook"),
		),
		"a toleration of "+component.TaintUninitialized,
		sourceWebhooks,
		addToleration(backend),
	)
}

func backendOf(f facts.Facts, ref string) string {
	i := slices.IndexFunc(f.Webhooks, func(w v1.Webhook) bool { return w.Ref == ref })
	if i < 0 {
		return ""
	}
	return f.Webhooks[i].Backend
}

// addToleration is the command that gives a workload the toleration of the uninitialised.
func addToleration(w v1.Workload) string {
	parts := shell.QuoteAll(strings.Split(w.Ref, "/"))
	if len(parts) != 3 {
		return ""
	}
	path, value := "/spec/template/spec/tolerations/-", fmt.Sprintf(
		`{"key":"%s","operator":"Exists","effect":"NoSchedule"}`,
		component.TaintUninitialized,
	)
	if len(w.Tolerations) == 0 {
		path, value = "/spec/template/spec/tolerations", "["+value+"]" // there is no list to add to
	}
	return fmt.Sprintf(
		`kubectl -n %s patch %s %s --type=json -p '[{"op":"add","path":"%s","value":%s}]'`,
		parts[1],
		strings.ToLower(parts[0]),
		parts[2],
		path,
		value,
	)
}

var webhookSlow = rule.Check{
	Code:      "HOOK-003",
	Reason:    "WebhookSlow",
	Category:  findings.CategoryScheduling,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactNoLoops,
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		deadline := renewDeadline(f)
		bad, n, finding, ok := eachWebhook(f, func(w v1.Webhook, _ string) string {
			if !slices.Contains(asked(f, w), "leases") {
				return ""
			}
			if time.Duration(w.TimeoutSeconds)*time.Second < deadline {
				return ""
			}
			return fmt.Sprintf(
				"may take %d s for a lease (failurePolicy %s)",
				w.TimeoutSeconds,
				findings.OrElse(w.FailurePolicy, "Fail"),
			)
		})
		switch {
		case !ok:
			return finding
		case bad.Empty():
			return findings.Pass(
				"%s asked about nodes, leases, pods and the other kinds that a migration needs%s",
				findings.Counting(n, "webhook", "is", "are"),
				findings.Also(n, ", and none may hold a lease for "+deadline.String()),
			)
		}
		return findings.With(
			bad.Finding(
				v1.Warn,
				"%s could hold the renewal of a lease until its leader ends",
				findings.Plural(len(bad), "webhook"),
			),
			"timeoutSeconds below "+deadline.String()+", or no rule about leases",
			sourceWebhooks,
			patchWebhook(bad[0].Object, fmt.Sprintf(`"timeoutSeconds":%d`, quickAnswer(deadline))),
		)
	},
}

// quickAnswer is a timeout in seconds that leaves a leader time to try again: two, and one where the deadline is short.
func quickAnswer(deadline time.Duration) int {
	if deadline > 4*time.Second {
		return 2
	}
	return 1
}

// renewDeadline is the shortest that a manager has, or gets during the migration.
func renewDeadline(f facts.Facts) time.Duration {
	shortest := facts.DefaultRenewDeadline
	texts := []string{f.Opts.RenewDeadline}
	for _, p := range f.AllManagers() {
		texts = append(texts, p.Flag("leader-elect-renew-deadline", ""))
	}
	for _, text := range texts {
		if d, err := time.ParseDuration(text); err == nil && d > 0 {
			shortest = min(shortest, d)
		}
	}
	return shortest
}

var webhookOutside = rule.Check{
	Code:      "HOOK-004",
	Reason:    "WebhookOutside",
	Category:  findings.CategoryScheduling,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactAPI,
	LookFor:   "an HTTP code below 500; 000 is no answer in five seconds",
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		bad, n, finding, ok := eachWebhook(f, func(w v1.Webhook, about string) string {
			if w.URL == "" || !isRequired(w) {
				return ""
			}
			return "must answer for " + about + " at " + w.URL
		})
		switch {
		case !ok:
			return finding
		case bad.Empty():
			return findings.Pass(
				"%s asked about nodes, leases, pods and the other kinds that a migration needs%s",
				findings.Counting(n, "webhook", "is", "are"),
				findings.Also(n, ", and none that must answer is outside the cluster"),
			)
		}
		url := ""
		if i := slices.IndexFunc(f.Webhooks, func(w v1.Webhook) bool { return w.Ref == bad[0].Object }); i >= 0 {
			url = f.Webhooks[i].URL
		}
		return findings.With(
			bad.Finding(v1.Warn, "%s must answer from outside the cluster", findings.Plural(len(bad), "webhook")),
			"a Service of the cluster, or failurePolicy Ignore",
			sourceWebhooks,
			"curl -sk -m 5 -o /dev/null -w '%{http_code}\\n' "+shell.Quote(url),
		)
	},
}

var webhookOnMigration = rule.Check{
	Code:      "HOOK-005",
	Reason:    "WebhookOnMigration",
	Category:  findings.CategoryScheduling,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactGap,
	DependsOn: rule.OnAPI,
	Judge: func(f facts.Facts) v1.Finding {
		bad, _, finding, ok := eachWebhook(f, func(w v1.Webhook, about string) string {
			if !isRequired(w) {
				return ""
			}
			return "is asked about " + about
		})
		answered := 0
		for _, d := range f.DryRuns {
			if !d.Unanswered {
				answered++
			}
		}
		switch {
		case !ok:
			return finding
		case bad.Empty():
			return findings.Pass("no webhook that must answer is asked about the migration's objects")
		case len(f.DryRuns) > 0 && answered == len(f.DryRuns):
			return findings.Pass(
				"%s sent as dry runs past %s; PROOF-001 says what they answered",
				findings.Counting(answered, "object", "was", "were"),
				findings.Plural(len(bad), "webhook"),
			)
		}
		return findings.With(
			bad.Finding(
				v1.Warn,
				"%s about objects of the migration, which no dry run has shown to pass",
				findings.Counting(len(bad), "webhook", "is asked", "are asked"),
			),
			"a dry run of every object",
			sourceWebhooks,
			"transplant check --prove",
		)
	},
}
