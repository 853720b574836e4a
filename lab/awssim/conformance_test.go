package awssim_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/awssim/ec2"
	"github.com/transplant-dev/transplant/lab/awssim/wire"
)

const (
	first  = "i-0000000000a00000b" // 10.0.0.11
	second = "i-0000000000a00000c" // 10.0.0.12
	third  = "i-0000000000a00000d" // 10.0.0.13, terminated by the scripts
	nobody = "i-0123456789abcdef0"
	cert   = "arn:aws:acm:us-east-1:123456789012:certificate/lab"
	noARN  = "arn:aws:elasticloadbalancing:us-east-1:123456789012:"
)

var born = time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)

// step is one call of a script, or something that the lab does between calls.
type step struct {
	// action and in are the operation and its input, as JSON with the SDKs' member names.
	action, in string
	// raw are parameters that go over the wire as they are: for a value that neither SDK can send, or next to in, for an operation that only the
	// newer SDK has.
	raw map[string]string
	// want are values that the output must have, by path (Reservations.0.OwnerId; # is a list's length).
	want map[string]string
	// save keeps values of the output under names, for ${name} in later steps.
	save map[string]string
	// code is the error that must come instead.
	code string
	// lab is done before the call.
	lab func(*awssim.Server) error
}

func scriptOptions() awssim.Options {
	return awssim.Options{
		Instances:    []awssim.Instance{{PrivateIP: "10.0.0.11"}, {PrivateIP: "10.0.0.12"}, {PrivateIP: "10.0.0.13"}},
		ExtraSubnets: []ec2.Subnet{{ID: "subnet-a2", Zone: "us-east-1a", CIDR: "10.0.240.0/20"}},
		Certificates: []string{cert}, ElasticIPs: []string{"eipalloc-1"}, Clock: clocktesting.NewFakeClock(born),
	}
}

// TestBothSDKsDriveEveryAction runs the same scripts with the SDK of the in-tree provider and with that of the external one. Every value and
// error must come out the same, the cloud must end up the same, byte by byte, and together the scripts must have seen every action succeed and
// every guard refuse.
func TestBothSDKsDriveEveryAction(t *testing.T) {
	for name, script := range map[string]struct {
		service string
		steps   []step
	}{"ec2": {"ec2", append(volumesScript(), ec2Script()...)}, "elb": {"elb", elbScript()}, "elbv2": {"elbv2", elbv2Script()}} {
		t.Run(name, func(t *testing.T) {
			states := map[string]string{}
			for sdk, newClient := range map[string]func(*testing.T, endpoint) client{"sdk-v1": newV1, "sdk-v2": newV2} {
				sim := start(t, scriptOptions())
				play(t, sdk, newClient(t, sim), sim, script.service, script.steps)
				if u := sim.Unknown(); len(u) > 0 {
					t.Errorf("%s: calls the simulator did not know: %+v", sdk, u)
				}
				complete(t, sdk, sim, script.service)
				states[sdk] = stateJSON(t, sim.Server)
			}
			if diff := cmp.Diff(states["sdk-v1"], states["sdk-v2"]); diff != "" {
				t.Errorf("the two SDKs left different clouds (-v1 +v2):\n%s", diff)
			}
		})
	}
}

func play(t *testing.T, sdk string, c client, sim *simulation, service string, steps []step) {
	t.Helper()
	vars := map[string]string{"first": first, "second": second, "third": third, "nobody": nobody, "cert": cert, "noARN": noARN}
	expand := func(s string) string { return os.Expand(s, func(name string) string { return vars[name] }) }
	for i, s := range steps {
		if s.lab != nil {
			if err := s.lab(sim.Server); err != nil {
				t.Fatalf("%s: step %d: %v", sdk, i, err)
			}
		}
		if s.action == "" {
			continue
		}
		var out any
		var code string
		var err error
		unread := s.raw != nil && (s.in == "" || sdk == "sdk-v1")
		if unread {
			code = sim.post(t, testKey, versions[service], s.action, s.raw).code
		} else {
			out, code, err = c.call(service, s.action, expand(s.in))
		}
		if err != nil && code == "" {
			t.Fatalf("%s: step %d: %s(%s): %v", sdk, i, s.action, s.in, err)
		}
		if code != s.code {
			t.Fatalf("%s: step %d: %s(%s): error %q (%v), want %q", sdk, i, s.action, s.in, code, err, s.code)
		}
		if unread {
			continue
		}
		for _, path := range slices.Sorted(maps.Keys(s.want)) {
			if got, want := lookup(out, path), expand(s.want[path]); got != want {
				t.Errorf("%s: step %d: %s(%s): %s is %q, want %q", sdk, i, s.action, s.in, path, got, want)
			}
		}
		for name, path := range s.save {
			vars[name] = lookup(out, path)
			if vars[name] == "" {
				t.Fatalf("%s: step %d: %s: nothing at %s in %v", sdk, i, s.action, path, out)
			}
		}
	}
}

// complete checks that a script left out no action and no guard of a service.
func complete(t *testing.T, sdk string, sim *simulation, service string) {
	t.Helper()
	seen := map[string]bool{}
	for _, c := range sim.Audit().Calls(awssim.Filter{Services: []string{service}}) {
		seen[c.Action+" "+c.Error] = true
		if (c.Error == "") != (c.Effect != nil) {
			t.Errorf("%s: call %d has the error %q and the effect %v", sdk, c.Seq, c.Error, c.Effect)
		}
	}
	for _, a := range sim.Actions(service) {
		for _, outcome := range append([]string{""}, a.Errors...) {
			if !seen[a.Name+" "+outcome] {
				t.Errorf("%s: the script never sees %s answer %q", sdk, a.Name, outcome)
			}
			delete(seen, a.Name+" "+outcome)
		}
	}
	for left := range seen {
		t.Errorf("%s: %q is not listed among the guards of the action", sdk, left)
	}
}

func stateJSON(t *testing.T, sim *awssim.Server) string {
	t.Helper()
	b, err := json.MarshalIndent(sim.State(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func repeated(format string, n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = strings.ReplaceAll(format, "@", strings.Repeat("k", i+1))
	}
	return strings.Join(items, ",")
}

// wantRefusal is nil when an error is the API's refusal with this code.
func wantRefusal(err error, code string) error {
	var refused *wire.Error
	if !errors.As(err, &refused) || refused.Code != code {
		return errors.Join(errors.New("wanted the refusal "+code), err)
	}
	return nil
}
