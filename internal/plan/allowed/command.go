package allowed

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/draft"
	"github.com/transplant-dev/transplant/internal/plan/flagvalue"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/plan/program"
)

// programName is how a manager's program is called in its image.
var programName = regexp.MustCompile(`^/?([a-z0-9-]+/)*[a-z0-9-]+$`)

// files that flags of a manager name, by flag.
var managerFiles = map[string][]string{
	flagvalue.FlagCloudConfig: {
		layout.CCMCloudConf,
		layout.SeedCloudConfigDir + "/" + layout.SeedCloudConfigKey,
	},
	"leader-migration-config": {layout.CCMMigration, layout.SeedMigrationDir + "/" + layout.SeedMigrationCCM},
	"kubeconfig": {
		layout.CCMKubeconfig,
		layout.SeedKubeconfigDir + "/" + layout.SeedKubeconfigKey,
	},
	"authentication-kubeconfig": {layout.CCMKubeconfig, layout.SeedKubeconfigDir + "/" + layout.SeedKubeconfigKey},
	"authorization-kubeconfig":  {layout.CCMKubeconfig, layout.SeedKubeconfigDir + "/" + layout.SeedKubeconfigKey},
}

// managerFlags are those that a manager gets next to the files and what it takes over from the kube-controller-manager.
var managerFlags = []string{
	"cloud-provider",
	"bind-address",
	"leader-elect",
	"leader-elect-retry-period",
	"leader-elect-renew-deadline",
	"enable-leader-migration",
	"use-service-account-credentials",
	"controllers",
	flagvalue.FlagFeatureGates,
	"secure-port",
	"node-name",
	"wait-routes",
	ccm.FlagRenewToken,
}

func managerCommand(j Judge, c layout.Object, rules PodRules) error {
	command := listOf(c["command"])
	if len(command) > 0 && !programName.MatchString(command[0]) {
		return errors.New("the container's command is not a manager's program")
	}
	flags := map[string]string{}
	// an image without a command starts its own program
	for _, w := range slices.Concat(command[min(1, len(command)):], listOf(c["args"])) {
		name, value, ok := strings.Cut(strings.TrimPrefix(w, "--"), "=")
		files, ofFile := managerFiles[name]
		isCarried := slices.ContainsFunc(ccm.InheritedFlags, func(f ccm.InheritedFlag) bool { return f.Name == name })
		switch {
		case !ok || !strings.HasPrefix(w, "--"), !ofFile && !isCarried && !slices.Contains(managerFlags, name):
			return fmt.Errorf("the argument %q is none that a manager gets", w)
		case ofFile && !slices.Contains(files, value):
			return fmt.Errorf("--%s=%s is not the manager's own file", name, value)
		case name == "cloud-provider" && value != j.provider():
			return fmt.Errorf("--cloud-provider=%s is not the provider %s of the cluster", value, j.provider())
		}
		if _, twice := flags[name]; twice {
			return fmt.Errorf("--%s stands twice: the later one would count", name)
		}
		flags[name] = value
	}
	if rules.account == layout.NodeManager {
		return nil // each looks after its own node
	}
	return election(j, flags)
}

// election says what keeps a manager from running the loops under the one lease that its strategy needs. Without an
// election each replica runs them. Without the migration lease it runs them next to a kube-controller-manager.
func election(j Judge, flags map[string]string) error {
	if flags["leader-elect"] != "true" {
		return fmt.Errorf("--leader-elect=%s lets each replica run the loops: a manager gets --leader-elect=true", flags["leader-elect"])
	}
	migrates := flags["enable-leader-migration"] == "true" && flags["leader-migration-config"] != ""
	switch {
	case j.Options.Strategy != planstep.LeaderMigration:
		if flags["enable-leader-migration"] != "" || flags["leader-migration-config"] != "" {
			return fmt.Errorf("the manager takes part in leader migration, and the strategy is %s", j.Options.Strategy)
		}
		return nil
	case !migrates:
		return errors.New(
			"the manager has no --enable-leader-migration=true with its config: it would run the loops next to a " + component.KCM,
		)
	}
	p, err := program.Identify(j.provider(), j.Options.Image)
	if err != nil {
		return err
	}
	if !p.LeaderMigration {
		return fmt.Errorf("the program in %s takes no part in leader migration: it would run the loops next to a %s",
			j.Options.Image, component.KCM)
	}
	return nil
}

// matchesMigrationConfig reports whether a text is a leader migration config as this program makes it for a component.
// A name of another version than that of the known reader is refused. It matches nothing, and the loop runs under both
// leases.
func (j Judge) matchesMigrationConfig(of controllernames.Component, host, text string) bool {
	for minor := program.FirstLeaderMigration; minor <= max(component.Newest, program.OwnMinor)+1; minor++ {
		for _, loops := range [][]controllernames.Loop{
			clusterview.CloudLoops,
			append(slices.Clone(clusterview.CloudLoops), controllernames.NodeIPAM),
		} {
			made, err := migrationconfig.Render(of, minor, loops, j.Options.LeaseName)
			if err == nil && string(made) == text && isReadableConfig(j, of, host, made) {
				return true
			}
		}
	}
	return false
}

// isReadableConfig reports whether the reader of a leader migration config knows each name in it, as far as its version
// is in view. An empty host is the seed.
func isReadableConfig(j Judge, of controllernames.Component, host string, text []byte) bool {
	minor := readerOf(j, of, host)
	if minor == 0 {
		return true
	}
	config, err := migrationconfig.Parse(text)
	return err == nil && !slices.ContainsFunc(config.Leaders, func(l migrationconfig.Leader) bool {
		return controllernames.Explain(of, minor, l.Name) != ""
	})
}

// readerOf is the minor of the program that reads a leader migration config; 0 for one that is not known. A kube-
// controller-manager that is external by now reads none.
func readerOf(j Judge, of controllernames.Component, host string) int {
	if of == controllernames.CloudControllerManager {
		p, _ := program.Identify(j.provider(), j.Options.Image)
		return p.Minor
	}
	if j.Live == nil {
		return 0
	}
	m := clusterview.FindHosted(j.Live, component.KCM)
	if h := j.host(host); host != "" {
		if h == nil {
			return 0
		}
		m = clusterview.FindComponent(*h, component.KCM)
	}
	if m == nil || m.Flags["cloud-provider"] == externalProvider {
		return 0
	}
	minor, _ := (&draft.Draft{Snapshot: j.Live}).MinorOf(m)
	return minor
}

func listOf(v any) []string {
	all, _ := v.([]any)
	out := make([]string, 0, len(all))
	for _, w := range all {
		out = append(out, fmt.Sprint(w))
	}
	return out
}
