package ccm

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	appconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/controller-manager/config"
	"k8s.io/controller-manager/pkg/leadermigration"
	migrationoptions "k8s.io/controller-manager/pkg/leadermigration/options"

	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
)

// build is upstream's function, or ours.
type build func(*options.CloudControllerManagerOptions, app.InitCloudFunc, map[string]app.ControllerInitFuncConstructor, map[string]string,
	cliflag.NamedFlagSets, <-chan struct{}) *cobra.Command

// leads runs a command up to the moment at which the library would start to use its configuration, and returns which controllers the library
// would then run under which lease.
func leads(t *testing.T, command build, args ...string) (map[string]string, error) {
	t.Helper()
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	captured := make(chan config.GenericControllerManagerConfiguration, 1)
	failed := make(chan error, 1)
	go func() {
		built := command(opts, func(completed *appconfig.CompletedConfig) cloudprovider.Interface {
			completed.EventBroadcaster.Shutdown()
			captured <- completed.ComponentConfig.Generic
			runtime.Goexit() // before the library runs anything
			return nil
		}, app.DefaultInitFuncConstructors, names.CCMControllerAliases(), cliflag.NamedFlagSets{}, nil)
		built.SetArgs(append([]string{"--cloud-provider=aws", "--master=http://127.0.0.1:1", "--secure-port=0", "--webhook-secure-port=0"}, args...))
		built.SilenceUsage, built.SilenceErrors = true, true
		failed <- built.Execute()
	}()
	var generic config.GenericControllerManagerConfiguration
	select {
	case err := <-failed:
		return nil, err
	case generic = <-captured:
	}
	if !leadermigration.Enabled(&generic) {
		return nil, nil
	}
	filter := leadermigration.NewLeaderMigrator(&generic.LeaderMigration, "cloud-controller-manager").FilterFunc
	under := map[string]string{}
	for name := range app.DefaultInitFuncConstructors {
		switch filter(name) {
		case leadermigration.ControllerMigrated:
			under[name] = "migration lease " + generic.LeaderMigration.LeaderName
		case leadermigration.ControllerNonMigrated:
			under[name] = mainLease
		case leadermigration.ControllerUnowned:
			under[name] = "not run"
		}
	}
	return under, nil
}

// under returns where each loop runs, in reporting order, and the node controller last, which never migrates.
func under(service, route, lifecycle string) map[string]string {
	return map[string]string{
		names.ServiceLBController: service, names.NodeRouteController: route, names.CloudNodeLifecycleController: lifecycle,
		names.CloudNodeController: mainLease,
	}
}

const (
	migrating = "migration lease cloud-provider-extraction-migration"
	mainLease = "main lease"
	notRun    = "not run"
)

// file returns a v1 config that gives three names to component.
func file(component string, names ...string) string {
	var b strings.Builder
	b.WriteString(
		"apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\nleaderName: cloud-provider-extraction-migration\ncontrollerLeaders:\n",
	)
	for _, name := range names {
		b.WriteString("- name: " + name + "\n  component: \"" + component + "\"\n")
	}
	return b.String()
}

// The first column of results is the reason for our own reading: it is what the library does by itself. Should it change, the tests say so.
func TestTheLoopsRunUnderTheMigrationLease(t *testing.T) {
	all := under(migrating, migrating, migrating)
	for _, c := range []struct {
		name    string
		file    string // "" for none
		library map[string]string
		refusal string // the library's, instead of a result
		ours    map[string]string
	}{
		{name: "without a file", library: under(mainLease, mainLease, migrating), ours: all},
		{name: "with the documented short names", file: file("*", "route", "service", "cloud-node-lifecycle"), library: under(mainLease, mainLease, mainLease), ours: all},
		{name: "with the documented names for version N+1", file: file("cloud-controller-manager", "route", "service", "cloud-node-lifecycle"),
			library: under(mainLease, mainLease, mainLease), ours: all},
		{name: "with canonical names", file: file("*", "node-route-controller", "service-lb-controller", "cloud-node-lifecycle-controller"), library: all, ours: all},
		{name: "with the names of the library's default", file: file("*", "route-controller", "service-controller", "cloud-node-lifecycle-controller"),
			library: under(mainLease, mainLease, migrating), ours: all},
		{name: "with the names of both dialects", file: file("*", "route", "service", "cloud-node-lifecycle",
			"node-route-controller", "service-lb-controller", "cloud-node-lifecycle-controller"), library: all, ours: all},
		{name: "with a resourceLock in a v1 file", file: file("*", "route", "service", "cloud-node-lifecycle") + "resourceLock: leases\n",
			refusal: `strict decoding error: unknown field "resourceLock"`, ours: all},
		{name: "with a loop left to kube-controller-manager", file: file("*", "service", "cloud-node-lifecycle") + "- {name: route, component: kube-controller-manager}\n",
			library: under(mainLease, mainLease, mainLease), ours: under(migrating, notRun, migrating)},
		{name: "with a loop left out", file: file("*", "service-lb-controller", "cloud-node-lifecycle-controller"),
			library: under(migrating, mainLease, migrating), ours: under(migrating, mainLease, migrating)},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := []string{"--enable-leader-migration"}
			if c.file != "" {
				args = append(args, "--leader-migration-config="+write(t, c.file))
			}
			library, err := leads(t, app.NewCloudControllerManagerCommand, args...)
			if c.refusal != "" && (err == nil || !strings.Contains(err.Error(), c.refusal)) {
				t.Errorf("the library by itself: error %v, want %s", err, c.refusal)
			}
			if c.refusal == "" && err != nil {
				t.Errorf("the library by itself: %v", err)
			}
			if diff := cmp.Diff(c.library, library); diff != "" {
				t.Errorf("the library by itself (-want +got):\n%s", diff)
			}
			ours, err := leads(t, NewCloudControllerManagerCommand, args...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.ours, ours); diff != "" {
				t.Errorf("our command (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLeaderMigrationStaysOffUnlessEnabled(t *testing.T) {
	path := write(t, "not even YAML: [")
	for _, args := range [][]string{nil, {"--leader-migration-config=" + path}, {"--enable-leader-migration", "--leader-elect=false"}} {
		got, err := leads(t, NewCloudControllerManagerCommand, args...)
		if err != nil || got != nil {
			t.Errorf("with %q the loops run under %v (error %v), want no leader migration", args, got, err)
		}
	}
}

func TestAFileThatCannotBeUsedStopsTheManagerWithTheReason(t *testing.T) {
	for _, c := range []struct{ name, file, want string }{
		{"an unknown name", file("*", "service", "rout"), `controllerLeaders[1].name: cloud-controller-manager has no controller "rout"; it has service, service-lb-controller, route, ` +
			`node-route-controller, cloud-node-lifecycle, cloud-node-lifecycle-controller, nodeipam, node-ipam-controller, cloud-node-controller`},
		{"an unquoted wildcard", strings.ReplaceAll(file("*", "service"), `"`, ""),
			`line 6: component: * is not valid YAML: an asterisk without quotes starts an alias; write component: "*"`},
		{"kube-controller-manager's file", file("kube-controller-manager", "service", "route", "cloud-node-lifecycle"),
			"cloud-controller-manager would have nothing to run under the lease cloud-provider-extraction-migration"},
		{"an empty list", file("*"), "would have nothing to run under the lease"},
		{"only a controller that this manager does not have", file("*", "nodeipam"), "would have nothing to run under the lease"},
		{"a component that does not exist", file("*", "service") + "- {name: route, component: ccm}\n",
			`controllerLeaders[1].component: there is no component "ccm": this manager never runs the route loop; write component: "*"`},
		{"two answers for one loop", file("*", "service") + "- {name: service-lb-controller, component: kube-controller-manager}\n",
			`controllerLeaders[1]: service-lb-controller is listed before with another component, "*"; keep one`},
		{"a lock on endpoints", strings.Replace(file("*", "service"), "/v1\n", "/v1beta1\nresourceLock: endpoints\n", 1),
			"resourceLock: locks on endpoints cannot be created any more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, c.file)
			_, err := leads(t, NewCloudControllerManagerCommand, "--enable-leader-migration", "--leader-migration-config="+path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error = %v\nwant it to name the file and say: %s", err, c.want)
			}
		})
	}
	if _, err := leads(
		t,
		NewCloudControllerManagerCommand,
		"--enable-leader-migration",
		"--leader-migration-config="+filepath.Join(t.TempDir(), "none"),
	); !errors.Is(
		err,
		fs.ErrNotExist,
	) {
		t.Errorf("error for a file that does not exist = %v", err)
	}
}

func TestNotesSayWhatWasChangedAndWhatLooksWrong(t *testing.T) {
	path := write(t, file("*", "service", "node-route-controller", "nodeipam")+"resourceLock: leases\n")
	m, err := roster{app.DefaultInitFuncConstructors, names.CCMControllerAliases()}.migration(
		migrationoptions.LeaderMigrationOptions{Enabled: true, ControllerMigrationConfig: path})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`controllerLeaders[0].name: "service" is read as service-lb-controller`,
		`controllerLeaders[2].name: "nodeipam" is read as node-ipam-controller`,
		"resourceLock: v1 has no such field; it is ignored here, and other managers of 1.32 or later exit because of it; remove it",
		"controllerLeaders: the cloud-node-lifecycle loop is not listed: this manager runs it under its main lease, next to the other manager's; add cloud-node-lifecycle-controller",
		"controllerLeaders[2]: this manager has no node-ipam-controller, so that the entry has no effect; keep the controller enabled elsewhere",
	}
	if diff := cmp.Diff(want, m.notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

func TestTheLinkedLibraryRegistersTheNamesOfItsMinor(t *testing.T) {
	for _, loop := range controllernames.CloudLoops {
		if name := controllernames.Name(ownComponent, linkedMinor, loop); app.DefaultInitFuncConstructors[name].Constructor == nil {
			t.Errorf("the library registers no %s", name)
		}
	}
}

// FuzzParseAgreesWithTheLibrary checks that what we accept the library accepts and reads in the same way, and that of what we refuse it accepts
// only what it reads wrong: the first of several documents.
func FuzzParseAgreesWithTheLibrary(f *testing.F) {
	f.Add(file("*", "service", "route"))
	f.Add(strings.Replace(file("*", "service"), "/v1\n", "/v1beta1\nresourceLock: leases\n", 1))
	f.Add(`{"apiVersion":"controllermanager.config.k8s.io/v1alpha1","kind":"LeaderMigrationConfiguration","leaderName":"yes","resourceLock":"leases"}`)
	f.Add(file("*", "service") + "---\n" + file("*", "route"))
	for _, tail := range []string{ // what YAML and JSON readers disagree about most
		"- {name: yes, component: on}\n", "- {name: 1.5, component: 0x10}\n", "- {name: ~, component: null}\n", "- null\n", "- []\n", "- {}\n", "-\n",
		"- {Name: route, component: x}\n", "- {name: route, NAME: service, component: x}\n", "- {name: route, name: route, component: x}\n",
		"- &a {name: route, component: x}\n- *a\n", "- &a {name: route, component: x}\n- {<<: *a, name: service}\n", "- {name: route, component: x}\nextra: 1\n",
		"- {name: 2001-01-01, component: !!str 5}\n", "- {name: \"\\u00e9\", component: |-\n   x}\n", "- name: route\n- component: x\n", "\tname: x\n", "...\n", "---\n",
		"- {name: route, component: x}\nleaderName: again\n", "- {name: route, component: x}\nLeaderName: other\n", "- {name: route, component: x}\n5: x\n",
	} {
		f.Add(file("*", "service") + tail)
	}
	for _, whole := range []string{"", "null", "[]", "x", "{}", "\ufeff" + file("*", "service"), "kind: LeaderMigrationConfiguration\n",
		strings.Replace(file("*"), "controllerLeaders:", "controllerLeaders: null", 1), strings.Replace(file("*"), "controllerLeaders:", "controllerLeaders: ''", 1),
		strings.Replace(file("*"), "controllerLeaders:", "controllerLeaders: {}", 1), strings.Replace(file("*"), "v1", "v1beta1", 1),
		strings.Replace(file("*"), "leaderName: cloud-provider-extraction-migration", "leaderName: null", 1),
		strings.Replace(file("*"), "kind: Leader", "kind: leader", 1), `{"apiVersion":"controllermanager.config.k8s.io/v1","kind":"LeaderMigrationConfiguration","leaderName":"m"} {}`,
		`{apiVersion: controllermanager.config.k8s.io/v1, kind: LeaderMigrationConfiguration, leaderName: m}`, "  \n" + `{"apiVersion": "controllermanager.config.k8s.io/v1", "kind": "LeaderMigrationConfiguration", "leaderName": "m"}` + "\n# end\n",
		`{"apiVersion": "controllermanager.config.k8s.io/v1", "kind": "LeaderMigrationConfiguration", "leaderName": "m", "leaderName": "m"}`,
	} {
		f.Add(whole)
	}
	f.Fuzz(func(t *testing.T, data string) {
		ours, ourErr := migrationconfig.Parse([]byte(data))
		if ourErr == nil && ours.Version == migrationconfig.V1 && ours.ResourceLock != "" {
			t.Skip("resourceLock in v1 is left to the judge")
		}
		for _, p := range migrationconfig.ProblemsOf(ourErr) {
			if p.Code == migrationconfig.SeveralDocuments {
				t.Skip("the library reads the first of several documents")
			}
		}
		var generic config.GenericControllerManagerConfiguration
		theirErr := (&migrationoptions.LeaderMigrationOptions{Enabled: true, ControllerMigrationConfig: write(t, data)}).ApplyTo(&generic)
		if (ourErr == nil) != (theirErr == nil) {
			t.Fatalf("we say %v, the library says %v", ourErr, theirErr)
		}
		if ourErr != nil {
			return
		}
		lock := ours.ResourceLock
		if ours.Version == migrationconfig.V1 {
			lock = lockLeases
		}
		read := migrationconfig.Config{Version: ours.Version, LeaderName: generic.LeaderMigration.LeaderName, ResourceLock: generic.LeaderMigration.ResourceLock}
		for _, l := range generic.LeaderMigration.ControllerLeaders {
			read.Leaders = append(read.Leaders, migrationconfig.Leader{Name: l.Name, Component: l.Component})
		}
		ours.ResourceLock = lock
		if diff := cmp.Diff(read, ours); diff != "" {
			t.Errorf("read differently (-library +ours):\n%s", diff)
		}
	})
}

// write puts a leader migration config into a file of the test.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "leadermigration.conf")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
