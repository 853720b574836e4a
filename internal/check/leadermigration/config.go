package leadermigration

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
	"github.com/transplant-dev/transplant/internal/shell"
)

// judged is a leader migration config with what is wrong with it for the manager that reads it.
type judged struct {
	facts.Instance
	path     string
	content  string
	minor    int
	config   migrationconfig.Config
	problems []migrationconfig.Problem
}

// source names the file, as host:path.
func (j judged) source() string { return j.Host.Name + ":" + j.path }

// alike groups configs that say the same to the same version of the same manager, in their order.
func alike(all []judged) [][]judged {
	var out [][]judged
	for _, j := range all {
		i := slices.IndexFunc(out, func(g []judged) bool {
			return g[0].Name == j.Name && g[0].minor == j.minor && g[0].path == j.path && g[0].content == j.content &&
				facts.Own(g[0].Image) == facts.Own(j.Image)
		})
		if i < 0 {
			out = append(out, []judged{j})
			continue
		}
		out[i] = append(out[i], j)
	}
	return out
}

// inOne is a problem without a semicolon, which stands between complaints.
func inOne(q migrationconfig.Problem) string {
	fix := q.Fix
	q.Fix = ""
	text := strings.ReplaceAll(q.String(), "; ", ", ")
	if fix == "" {
		return text
	}
	return text + " (" + fix + ")"
}

func hostsOf(group []judged) []string {
	var out []string
	for _, j := range group {
		out = append(out, j.Host.Name)
	}
	return out
}

// rewrite is the command that writes the file that was meant. The manager reads it when it starts.
func (j judged) rewrite(hosts []string) string {
	file, ok := migrationconfig.Correct(controllernames.Component(j.Name), j.minor, []byte(j.content))
	if !ok {
		return "transplant plan --strategy=downtime"
	}
	return migrationconfig.Command(
		file,
		j.path,
	) + "   # on " + findings.Few(shell.QuoteAll(hosts)) + "; " + j.Name + " reads it when it starts"
}

// migrationConfigs judges the config of every manager that names one, and says which could not be judged.
func migrationConfigs(f facts.Facts) (all []judged, unclear []string) {
	for _, p := range f.AllManagers() {
		if p.Flags["leader-migration-config"] == "" || !p.Migrates() {
			continue
		}
		minor, ok := f.MinorOf(p)
		if !ok {
			unclear = append(unclear, p.Unversioned())
			continue
		}
		file, ok := migrationFile(p)
		if !ok {
			unclear = append(
				unclear,
				"the leader migration config "+p.Flags["leader-migration-config"]+" of "+p.String()+" could not be read",
			)
			continue
		}
		config, err := migrationconfig.Parse([]byte(file.Content))
		problems := migrationconfig.ProblemsOf(err)
		if len(problems) == 0 {
			problems = migrationconfig.Judge(controllernames.Component(p.Name), minor, config)
		}
		if p.Name == component.CCM && facts.Own(p.Image) {
			problems = forOwn(problems, config)
		}
		all = append(
			all,
			judged{
				Instance: p,
				path:     file.Path,
				content:  file.Content,
				minor:    minor,
				config:   config,
				problems: problems,
			},
		)
	}
	return all, unclear
}

// forOwn leaves of the problems what they are for our own manager. It does not exit because of a resourceLock in a v1
// file: it ignores the line and warns, as this does.
func forOwn(problems []migrationconfig.Problem, config migrationconfig.Config) []migrationconfig.Problem {
	var out []migrationconfig.Problem
	for _, q := range problems {
		if isUnderstood(q, config) {
			continue
		}
		if q.Code == migrationconfig.ResourceLockInV1 {
			q.Blocking, q.Summary = false, "v1 has no such field; this manager ignores it, others of 1.32 or later exit because of it"
		}
		out = append(out, q)
	}
	return out
}

// isUnderstood reports whether a problem is none for our own manager, which takes the names of both dialects, and no
// mistaken ones.
func isUnderstood(q migrationconfig.Problem, config migrationconfig.Config) bool {
	if q.Code != migrationconfig.WrongName {
		return false
	}
	for i, l := range config.Leaders {
		if q.Field == fmt.Sprintf("controllerLeaders[%d].name", i) {
			_, dialect, ok := controllernames.Lookup(l.Name)
			return ok && dialect != controllernames.Mistaken
		}
	}
	return false
}

func migrationFile(p facts.Instance) (v1.LeaderMigrationFile, bool) {
	for _, file := range p.Host.LeaderMigration {
		if file.UsedBy == p.Name {
			return file, true
		}
	}
	return v1.LeaderMigrationFile{}, false
}

// judgeProblems is the finding of a check that looks for some kinds of problem in the leader migration configs.
func judgeProblems(f facts.Facts, wanted func(migrationconfig.Code) bool, bad, good string) v1.Finding {
	configs, unclear := migrationConfigs(f)
	var blocking, warning findings.Problems
	fix := ""
	for _, group := range alike(configs) {
		j := group[0]
		for _, q := range j.problems {
			if !wanted(q.Code) {
				continue
			}
			to := &warning
			if q.Blocking {
				to = &blocking
			}
			for _, g := range group {
				to.Add(g.source(), "%s for %s on %s: %s", j.path, j.Name, findings.Few(hostsOf(group)), inOne(q))
			}
			if fix == "" {
				fix = j.rewrite(hostsOf(group))
			}
		}
	}
	const source = "the files that --leader-migration-config names"
	switch {
	case !blocking.Empty():
		return findings.With(
			blocking.Some(v1.Fail, "%s: %s", bad, blocking[0].Text),
			"names and fields of the version that reads the file",
			source,
			fix,
		)
	case len(unclear) > 0:
		return findings.Unknown("%s", strings.Join(unclear, "; "))
	case !warning.Empty():
		return findings.With(
			warning.Some(v1.Warn, "%s", warning[0].Text),
			"names and fields of the version that reads the file",
			source,
			fix,
		)
	case len(configs) == 0:
		return findings.Skip("no manager names a leader migration config")
	}
	return findings.Pass("%s in %s", good, findings.Plural(len(configs), "leader migration config"))
}

func isLockCode(c migrationconfig.Code) bool {
	return c == migrationconfig.ResourceLockInV1 || c == migrationconfig.BadResourceLock
}

var controllerNames = rule.Check{
	Code:      "LM-001",
	Reason:    "WrongControllerNames",
	Category:  findings.CategoryLeaderMigration,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactTwoOwners,
	LookFor:   "the dialect of controller names that your version reads",
	Mandatory: true,
	DependsOn: rule.OnHosts,
	Judge: func(f facts.Facts) v1.Finding {
		return judgeProblems(
			f,
			func(c migrationconfig.Code) bool { return !isLockCode(c) },
			"a leader migration config does not say what was meant",
			"every cloud loop is listed under the right name",
		)
	},
}

var resourceLock = rule.Check{
	Code:      "LM-004",
	Reason:    "ResourceLockRefused",
	Category:  findings.CategoryLeaderMigration,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNoLoops,
	DependsOn: rule.OnHosts,
	Judge: func(f facts.Facts) v1.Finding {
		return judgeProblems(
			f,
			isLockCode,
			"a manager exits because of its leader migration config",
			"no resourceLock that matters",
		)
	},
}

var migrationLeftOn = rule.Check{
	Code:      "LM-002",
	Reason:    "LeaderMigrationLeftOn",
	Category:  findings.CategoryLeaderMigration,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactNoLoops,
	LookFor:   "the flags of leader migration, which an external manager does not have",
	Mandatory: true,
	DependsOn: rule.OnHosts,
	Judge: func(f facts.Facts) v1.Finding {
		var bad findings.Problems
		n := 0
		for _, p := range f.InstancesOf(component.KCM) {
			if !p.External() {
				continue
			}
			n++
			if p.On("enable-leader-migration", false) {
				bad.Add(p.String(), "%s has --cloud-provider=%s and --enable-leader-migration", p, p.Flag("cloud-provider", ""))
			}
		}
		switch {
		case !bad.Empty():
			return findings.With(
				bad.Finding(
					v1.Fail,
					"%s can take the migration lease and run nothing under it",
					findings.Plural(len(bad), "external "+component.KCM),
				),
				"no --enable-leader-migration with --cloud-provider=external",
				bad[0].Object,
				facts.EditManifest(
					"/etc/kubernetes/manifests/"+component.KCM+".yaml",
					"/--enable-leader-migration/d; /--leader-migration-config/d",
				)+"   # on each host named",
			)
		case n == 0:
			return findings.Skip("no %s is external", component.KCM)
		}
		return findings.Pass("leader migration is off in %s", findings.Plural(n, "external "+component.KCM))
	},
}

var defaultConfig = rule.Check{
	Code:      "LM-005",
	Reason:    "DefaultMatchesNothing",
	Category:  findings.CategoryLeaderMigration,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactTwoOwners,
	LookFor:   "the file that --leader-migration-config has to name, and its content",
	Mandatory: true,
	DependsOn: rule.OnHosts,
	Judge: func(f facts.Facts) v1.Finding {
		var bad findings.Problems
		var unclear []string
		n := 0
		for _, p := range f.AllManagers() {
			if !p.Migrates() {
				continue
			}
			n++
			if p.Flags["leader-migration-config"] != "" || p.Name == component.CCM && facts.Own(p.Image) {
				continue
			}
			switch minor, ok := f.MinorOf(p); {
			case !ok:
				unclear = append(unclear, p.Unversioned())
			case !migrationconfig.HasDefault(minor):
				bad.Add(
					p.String(),
					"%s (1.%d) has --enable-leader-migration and exits without --leader-migration-config: that version has no default",
					p,
					minor,
				)
			case controllernames.DialectOf(controllernames.Component(p.Name), minor) == controllernames.Canonical:
				bad.Add(p.String(), "%s (1.%d) has --enable-leader-migration and no --leader-migration-config", p, minor)
			}
		}
		switch {
		case !bad.Empty():
			return findings.With(
				bad.Finding(
					v1.Fail,
					"%s on a default that is not there, or matches neither the service nor the route loop",
					findings.Plural(len(bad), "manager")+" "+english.Word(len(bad), "relies", "rely"),
				),
				"--leader-migration-config with the names of this version",
				bad[0].Object,
				"transplant explain LM-001",
			)
		case len(unclear) > 0:
			return findings.Unknown("%s", strings.Join(unclear, "; "))
		case n == 0:
			return findings.Skip("leader migration is off everywhere")
		}
		return findings.Pass(
			"%s with leader migration on %s a config or a default that holds",
			findings.Plural(n, "manager"),
			english.Word(n, "has", "have"),
		)
	},
}

var differentLeases = rule.Check{
	Code:      "LM-008",
	Reason:    "DifferentLeases",
	Category:  findings.CategoryLeaderMigration,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactTwoOwners,
	Mandatory: true,
	DependsOn: rule.OnHosts,
	Judge: func(f facts.Facts) v1.Finding {
		configs, unclear := migrationConfigs(f)
		if len(unclear) > 0 {
			return findings.Unknown("%s", strings.Join(unclear, "; "))
		}
		names := map[string][]string{}
		for _, j := range configs {
			names[j.config.LeaderName] = append(names[j.config.LeaderName], j.String())
		}
		for _, p := range f.AllManagers() {
			if p.Migrates() && p.Flags["leader-migration-config"] == "" {
				names[component.MigrationLease] = append(names[component.MigrationLease], p.String())
			}
		}
		if len(names) == 0 {
			return findings.Skip("leader migration is off everywhere")
		}
		var bad findings.Problems
		for name, users := range names {
			if name != f.Opts.LeaseName {
				bad.Add(strings.Join(users, ", "), "%s name the lease %q", strings.Join(users, ", "), name)
			}
		}
		slices.SortFunc(bad, func(a, b v1.Problem) int { return strings.Compare(a.Text, b.Text) })
		if bad.Empty() {
			return findings.Pass("every manager with leader migration on names the lease %s", f.Opts.LeaseName)
		}
		return findings.With(
			bad.Finding(v1.Fail, "not every manager contends for the lease %s", f.Opts.LeaseName),
			"leaderName: "+f.Opts.LeaseName,
			"the files that --leader-migration-config names",
			sameLease(f, configs, slices.Sorted(maps.Keys(names))),
		)
	},
}

// sameLease is the command that makes all managers name one lease. The others get the name on which all agree already,
// or the first file that names another is changed.
func sameLease(f facts.Facts, configs []judged, names []string) string {
	if len(names) == 1 {
		return "transplant check --lease-name=" + shell.Quote(names[0]) + "   # if that name is meant"
	}
	for _, group := range alike(configs) {
		if j := group[0]; j.config.LeaderName != f.Opts.LeaseName {
			return fmt.Sprintf(
				"sed -i.before %s %s   # on %s; %s reads it when it starts",
				shell.InQuotes("s/^leaderName: .*/leaderName: "+f.Opts.LeaseName+"/"),
				shell.Quote(j.path),
				strings.Join(shell.QuoteAll(hostsOf(group)), ", "),
				j.Name,
			)
		}
	}
	return "transplant explain LM-008"
}
