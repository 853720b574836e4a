package controlplane

import (
	"fmt"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
)

var strategyFits = rule.Check{
	Code:      "CP-013",
	Reason:    "StrategyMisfit",
	Category:  findings.CategoryControlPlane,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactGap,
	DependsOn: rule.OnHosts,
	Judge:     judgeStrategy,
}

// countManagers returns how many kube-controller-managers there are: the replicas where they are a Deployment.
func countManagers(f facts.Facts) int {
	for _, p := range f.InstancesOf(component.KCM) {
		if p.RunKind() == v1.RunsDeployment && p.Replicas != nil {
			return int(*p.Replicas)
		}
	}
	return len(f.InstancesOf(component.KCM))
}

func judgeStrategy(f facts.Facts) v1.Finding {
	kcms := countManagers(f)
	strategy := f.Strategy()
	const expected, source = "leader-migration with two hosts or more, downtime with one", "manifests of " + component.KCM
	note := v1.Finding{
		Outcome: v1.Warn,
		Objects: []string{component.KCM},
		Found:   findings.Plural(kcms, component.KCM) + ", --strategy=" + strategy,
	}
	switch {
	case f.Stage() == facts.StageExternal:
		return findings.Skip("every %s is external already: nothing is left to move", component.KCM)
	case kcms == 0:
		return findings.Unknown("no %s was found", component.KCM)
	case strategy != facts.StrategyDowntime && strategy != facts.StrategyLeaderMigration:
		return findings.With(
			v1.Finding{
				Outcome: v1.Fail,
				Summary: fmt.Sprintf("there is no strategy %q", strategy),
				Objects: []string{"--strategy"},
				Found:   strategy,
			},
			"leader-migration or downtime",
			"--strategy",
			"transplant plan --strategy=leader-migration",
		)
	case strategy == facts.StrategyLeaderMigration && kcms == 1:
		fix := "transplant plan --strategy=downtime"
		note.Summary = "there is one " + component.KCM + ": leader migration needs a second one to hand over to, and the cloud loops stop while it restarts"
		if f.Opts.ReplaceHosts {
			note.Summary = "there is one " + component.KCM + ": hosts are replaced under leader migration, which needs a second one to hand over to"
			fix += "   # and without --replace-hosts"
		}
		return findings.With(note, expected, source, fix)
	case f.Opts.Strategy == facts.StrategyLeaderMigration && onlyDowntime(f) != "":
		return findings.With(
			v1.Finding{
				Outcome: v1.Fail,
				Summary: "leader migration cannot be planned: " + onlyDowntime(f),
				Objects: []string{"--strategy"},
				Found:   strategy,
			},
			expected,
			source,
			"transplant plan --strategy=downtime",
		)
	case strategy == facts.StrategyDowntime && kcms > 1:
		if why := whyDowntime(f); why != "" {
			return findings.Pass("downtime is the strategy %s", why)
		}
		note.Summary = fmt.Sprintf(
			"downtime with %s: no cloud loop runs while all of them are changed; leader migration would keep them running",
			findings.Plural(kcms, component.KCM),
		)
		return findings.With(note, expected, source, "transplant plan --strategy=leader-migration")
	}
	return findings.Pass("%s fits %s", strategy, findings.Plural(kcms, component.KCM))
}

// whyDowntime returns in a clause why several managers have no other strategy; empty when they have.
func whyDowntime(f facts.Facts) string {
	if !f.HasLeaderMigration() {
		return fmt.Sprintf("for %s, which has no leader migration", f.Cluster.Version)
	}
	if why := onlyDowntime(f); why != "" {
		return "here: " + why
	}
	return ""
}

// onlyDowntime says why a plan would refuse leader migration, whatever the number of hosts; empty when it would not.
func onlyDowntime(f facts.Facts) string {
	version, _ := f.Target()
	if cluster, ok := facts.VersionMinor(version); ok {
		if image, minor, known := f.NewImage(
			cluster,
		); image != "" && !facts.Own(image) &&
			(known && minor < cloudprovider.FirstLeaderMigration || !cloudprovider.HasLeaderMigration(f.CloudName())) {
			return "the manager in image " + image + " has none"
		}
	}
	if f.Cluster.Seed == "" && f.Deployed(component.KCM) != nil {
		return component.KCM + " runs as a Deployment of its own cluster, where no host can prove that its old process has ended"
	}
	return ""
}

const defaultLeaseDuration = 15 * time.Second

const defaultRetryPeriod = 2 * time.Second

// wideGap is the estimate from which on the gap is worth a warning: Services and nodes that come in the meantime wait
// for that long.
const wideGap = 2 * time.Minute

// The gaps of strategy downtime, as the plan estimates them for static pods. With several hosts, the gap is from the
// restart of the last in-tree manager to the first cloud-controller-manager. With one host, it includes the restart of
// its kube-apiserver.
const (
	downtimeGap       = 45 * time.Second
	singleDowntimeGap = 110 * time.Second
)

// GapLength is about the time in which no manager runs the cloud loops. It is listed among the checks of leader
// migration.
var GapLength = rule.Check{
	Code:      "GAP-002",
	Reason:    "GapLength",
	Category:  findings.CategoryLeaderMigration,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactGap,
	LookFor:   "the lease duration, renew deadline and retry period that make the gap long",
	DependsOn: rule.OnHosts,
	Judge:     judgeGap,
}

func judgeGap(f facts.Facts) v1.Finding {
	in := f.InTree()
	if len(in) == 0 {
		return findings.Skip("no in-tree manager is left")
	}
	var worst, best time.Duration
	for _, p := range in {
		lease, ok1 := duration(p, "leader-elect-lease-duration", defaultLeaseDuration)
		retry, ok2 := duration(p, "leader-elect-retry-period", defaultRetryPeriod)
		if !ok1 || !ok2 {
			return findings.With(
				findings.Unknown(
					"%s has an election flag that is no duration: %s, %s",
					p,
					p.Flag("leader-elect-lease-duration", "15s"),
					p.Flag("leader-elect-retry-period", "2s"),
				),
				"a duration such as 15s",
				p.Host.Name+":"+p.Manifest,
				"",
			)
		}
		worst, best = max(worst, lease+retry), max(best, retry)
	}
	if f.Strategy() == facts.StrategyDowntime {
		stopped := downtimeGap
		if len(in) == 1 {
			stopped = singleDowntimeGap
		}
		best += stopped
		worst += stopped
	}
	text := fmt.Sprintf(
		"the cloud loops have no owner for about %s, and for %s at most if a lease cannot be released",
		best,
		worst,
	)
	if worst > wideGap {
		return findings.With(
			v1.Finding{
				Outcome: v1.Warn,
				Summary: text,
				Objects: []string{component.KCM},
				Found:   fmt.Sprintf("strategy %s, %s", f.Strategy(), findings.Plural(len(in), "in-tree manager")),
			},
			"two minutes or less",
			"election flags of "+component.KCM,
			in[0].Grep("leader-elect"),
		)
	}
	return findings.Pass("%s", text)
}

// duration is the value of a flag as a duration, or what the component takes when it is not given; false when it is
// none.
func duration(p facts.Instance, flag string, otherwise time.Duration) (time.Duration, bool) {
	v, given := p.Flags[flag]
	if !given {
		return otherwise, true
	}
	d, err := time.ParseDuration(strings.TrimSpace(v))
	return d, err == nil
}
