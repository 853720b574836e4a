// Package upstream decides which leader migration the upstream cloud-controller-manager library runs.
//
// The library compares the names in a leader migration config with the names of its controllers and does not mind one that matches nothing:
// such a loop runs under the main lease, beside kube-controller-manager's. Its own default config has held two such names since 0.28, and the
// names in the documentation are such names since then. NewCommand is app.NewCloudControllerManagerCommand with that put right:
//
//	--leader-migration-config --read, normalised--> +
//	(no file)                 --Default-----------> + --> CompletedConfig --> library
//
// The library never sees the file. It gets the config by value, between its own reading of the flags and its first use of it: the function that
// makes the cloud is called exactly there.
package upstream

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	appconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/controller-manager/config"
	migrationoptions "k8s.io/controller-manager/pkg/leadermigration/options"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/internal/migrationconfig"
)

// NewCommand takes what app.NewCloudControllerManagerCommand takes and returns its command with leader migration put right: without a file all
// cloud loops migrate, in a file short, canonical and mistaken names are understood, and a file that names an unknown controller is refused.
func NewCommand(opts *options.CloudControllerManagerOptions, newCloud app.InitCloudFunc, controllers map[string]app.ControllerInitFuncConstructor,
	aliases map[string]string, additionalFlags cliflag.NamedFlagSets, stop <-chan struct{},
) *cobra.Command {
	known := manager{controllers, aliases}
	var m migration
	command := app.NewCloudControllerManagerCommand(opts, func(completed *appconfig.CompletedConfig) cloudprovider.Interface {
		m.apply(&completed.ComponentConfig.Generic)
		return newCloud(completed)
	}, controllers, aliases, additionalFlags, stop)

	run := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		given := *opts.Generic.LeaderMigration
		var err error
		if m, err = known.migration(given); err != nil {
			return err
		}
		// The flags stay bound to the options that they were declared on, so that the library still logs them as they were given.
		opts.Generic.LeaderMigration = &migrationoptions.LeaderMigrationOptions{Enabled: given.Enabled}
		return run(cmd, args)
	}
	return command
}

// migration is what the command's flags and file come to.
type migration struct {
	enabled bool
	source  string // where the config comes from, for the log
	config  config.LeaderMigrationConfiguration
	notes   []string
}

// migration reads the flags and the file that they name.
func (m manager) migration(given migrationoptions.LeaderMigrationOptions) (migration, error) {
	path := given.ControllerMigrationConfig
	switch {
	case !given.Enabled && path == "":
		return migration{}, nil
	case !given.Enabled:
		return migration{source: path, notes: []string{"the file is ignored, because --enable-leader-migration is not set"}}, nil
	case path == "":
		return migration{enabled: true, source: "default", config: m.internal(migrationconfig.Default(ccm, linkedMinor))}, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return migration{}, fmt.Errorf("reading the file of --leader-migration-config: %w", err)
	}
	file, err := migrationconfig.Parse(data)
	if err != nil {
		return migration{}, fmt.Errorf("parsing leader migration config %q: %w", path, err)
	}
	lib, notes, err := m.normalise(file)
	if err != nil {
		return migration{}, fmt.Errorf("using leader migration config %q: %w", path, err)
	}
	return migration{enabled: true, source: path, config: lib, notes: notes}, nil
}

// apply puts the config in place of the library's and logs what it is. It runs after the library has set up logging.
func (m migration) apply(generic *config.GenericControllerManagerConfiguration) {
	for _, note := range m.notes {
		klog.Warningf("Leader migration config %q: %s", m.source, note)
	}
	if !m.enabled {
		return
	}
	generic.LeaderMigration = m.config
	klog.InfoS("Leader migration is enabled", "source", m.source, "lease", m.config.LeaderName, "leaders", m.config.ControllerLeaders)
	if !generic.LeaderElection.LeaderElect {
		klog.Warning("Leader migration has no effect, because --leader-elect is off: this manager runs every loop at once, whoever else runs it")
	}
}
