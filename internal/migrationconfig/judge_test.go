package migrationconfig

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

const (
	kcm = controllernames.KubeControllerManager
	ccm = controllernames.CloudControllerManager
)

// listing returns a v1 config that gives names to component.
func listing(manager string, names ...string) Config {
	config := Config{Version: V1, LeaderName: component.MigrationLease}
	for _, name := range names {
		config.Leaders = append(config.Leaders, Leader{name, manager})
	}
	return config
}

func TestJudge(t *testing.T) {
	short := []string{"route", "service", "cloud-node-lifecycle"}
	canonical := []string{"node-route-controller", "service-lb-controller", "cloud-node-lifecycle-controller"}
	withLock := func(version, lock string) Config {
		config := listing("*", short...)
		config.Version, config.ResourceLock = version, lock
		return config
	}
	for _, c := range []struct {
		name      string
		component controllernames.Component
		minor     int
		config    Config
		want      []string // code, ! when it blocks, field
	}{
		{"short names in an old kube-controller-manager", kcm, 26, listing("*", short...), nil},
		{"canonical names in a new cloud-controller-manager", ccm, 37, listing("cloud-controller-manager", canonical...), nil},
		{"node IPAM left to the other manager", ccm, 37, Config{Version: V1, LeaderName: "m", Leaders: append(
			listing("*", canonical...).Leaders, Leader{"node-ipam-controller", "kube-controller-manager"})}, nil},
		{"one file with the names of both sides", ccm, 37, listing("*", append(slices.Clone(short), canonical...)...), nil},
		{"the documented names in a new cloud-controller-manager", ccm, 37, listing("*", short...), []string{
			"WrongName! controllerLeaders[0].name", "WrongName! controllerLeaders[1].name", "WrongName! controllerLeaders[2].name"}},
		{"canonical names in an old kube-controller-manager", kcm, 26, listing("*", canonical...), []string{
			"WrongName! controllerLeaders[0].name", "WrongName! controllerLeaders[1].name", "WrongName! controllerLeaders[2].name"}},
		{"the upstream default of 0.28 and later", ccm, 37, listing("*", "route-controller", "service-controller", "cloud-node-lifecycle-controller"), []string{
			"WrongName! controllerLeaders[0].name", "WrongName! controllerLeaders[1].name"}},
		{"a loop forgotten", kcm, 26, listing("*", "service", "cloud-node-lifecycle"), []string{"MissingLoop! controllerLeaders"}},
		{"an empty list", kcm, 26, listing("*"), []string{
			"MissingLoop! controllerLeaders", "MissingLoop! controllerLeaders", "MissingLoop! controllerLeaders"}},
		{"a misspelt loop", kcm, 26, listing("*", "service", "route", "cloud-node-lifecyle"), []string{
			"UnknownName controllerLeaders[2].name", "MissingLoop! controllerLeaders"}},
		{"a loop listed twice", kcm, 26, Config{Version: V1, LeaderName: "m", Leaders: append(listing("*", short...).Leaders, Leader{"route", "x"})}, []string{
			"DuplicateName! controllerLeaders[0].name", "UnknownComponent! controllerLeaders[3].component"}},
		{"the other side's file", kcm, 26, listing("cloud-controller-manager", short...), []string{
			"OtherComponent! controllerLeaders[0].component", "OtherComponent! controllerLeaders[1].component", "OtherComponent! controllerLeaders[2].component"}},
		{"resourceLock in a v1 file of an old manager", kcm, 26, withLock(V1, "leases"), []string{"ResourceLockInV1 resourceLock"}},
		{"resourceLock in a v1 file of the last lenient manager", kcm, 31, withLock(V1, "leases"), []string{"ResourceLockInV1 resourceLock",
			"WrongName! controllerLeaders[0].name", "WrongName! controllerLeaders[1].name", "WrongName! controllerLeaders[2].name"}},
		{"resourceLock in a v1 file of a strict manager", ccm, 32, withLock(V1, "leases"), []string{"ResourceLockInV1! resourceLock",
			"WrongName! controllerLeaders[0].name", "WrongName! controllerLeaders[1].name", "WrongName! controllerLeaders[2].name"}},
		{"a lock on endpoints", kcm, 26, withLock(V1Beta1, "endpoints"), []string{"BadResourceLock! resourceLock"}},
		{"v1 before 1.24", kcm, 23, listing("*", short...), []string{"VersionTooNew! apiVersion"}},
		{"v1beta1 before 1.22", kcm, 21, withLock(V1Beta1, "leases"), []string{"VersionTooNew! apiVersion"}},
		{"a manager without leader migration", kcm, 20, withLock(V1Alpha1, "leases"), []string{"NoLeaderMigration!"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			problems := Judge(c.component, c.minor, c.config)
			for _, p := range problems {
				mark := ""
				if p.Blocking {
					mark = "!"
				}
				line := string(p.Code) + mark
				if p.Field != "" {
					line += " " + p.Field
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s\n%v", diff, problems)
			}
			if want := slices.ContainsFunc(problems, func(p Problem) bool { return p.Blocking }); want != (len(Blocking(problems)) > 0) {
				t.Errorf("Blocking(%v) = %v", problems, Blocking(problems))
			}
		})
	}
}

func TestJudgeSaysWhatFollowsAndWhatToWrite(t *testing.T) {
	got := Judge(ccm, 37, listing("*", "service", "node-route-controller", "cloud-node-lifecycle-controller"))
	want := `controllerLeaders[0].name: "service" matches no controller of cloud-controller-manager 1.37, so that the service loop runs under the main lease, ` +
		`next to the other manager's: this is the name up to 1.27; from 1.28 on the controller is called service-lb-controller; write service-lb-controller`
	if len(got) != 1 || got[0].String() != want {
		t.Errorf("problems = %v, want %s", got, want)
	}
}

func TestAgreeSeesDifferentLeases(t *testing.T) {
	a, b := listing("*"), listing("*")
	if got := Agree(a, b); got != nil {
		t.Errorf("Agree on the same lease = %v, want nothing", got)
	}
	b.LeaderName = "migration"
	if got := Agree(a, b); len(got) != 1 || got[0].Code != DifferentLease || !got[0].Blocking {
		t.Errorf("Agree on different leases = %v, want one blocking %s", got, DifferentLease)
	}
}

func TestDefaultIsRightForEveryVersion(t *testing.T) {
	for _, component := range controllernames.Components {
		for minor := firstMinor; minor <= 40; minor++ {
			config := Default(component, minor)
			if config.Version != V1 {
				config.ResourceLock = lockLeases // what a manager fills in; the default is not read from a file
			}
			if got := Judge(component, minor, config); got != nil {
				t.Errorf("the default of %s has problems: %v", fmt.Sprintf("%s 1.%d", component, minor), got)
			}
		}
	}
}
