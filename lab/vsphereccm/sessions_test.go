package vsphereccm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/lab/poll"
	"github.com/transplant-dev/transplant/lab/vspheresim"
	"github.com/transplant-dev/transplant/provider/vsphere/client"
	"github.com/transplant-dev/transplant/provider/vsphere/cloudconf"
)

func count(calls []string, call string) (n int) {
	for _, c := range calls {
		if c == call {
			n++
		}
	}
	return n
}

func TestASessionThatEndsIsOpenedAgain(t *testing.T) {
	f := start(t, 2, labels)
	f.tag(t, "k8s-zone", "z", "Datacenter")
	f.tag(t, "k8s-region", "r", "Datacenter")
	for range 3 {
		f.Calls()
		for _, s := range f.list(t, everything, f.nodes...) {
			if s.Err != nil || !s.Exists || s.Metadata.Zone != "z" {
				t.Fatalf("state %+v", s)
			}
		}
		if logins := count(f.Calls(), "Login"); logins != 1 {
			t.Errorf("%d logins", logins)
		}
		if err := f.EndSessions(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAPasswordThatIsNotTakenIsTriedOnce(t *testing.T) {
	f := start(t, 1, "")
	if err := f.cloud.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.SetPassword("another")
	if err := f.EndSessions(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Calls()
	for range 5 {
		_, err := f.cloud.ListInstances(t.Context(), f.nodes, everything)
		if err == nil || cloud.Classify(err) != cloud.OutcomeAuth || !client.Refused(err) || strings.Contains(err.Error(), vspheresim.Password) ||
			!strings.Contains(err.Error(), "correct them in the cloud config") {
			t.Fatalf("the error is %v (%s)", err, cloud.Classify(err))
		}
	}
	if logins := count(f.Calls(), "Login"); logins != 1 {
		t.Errorf("%d logins with a password that is not taken: they lock the account", logins)
	}
}

func TestACertificateIsTrustedForAReason(t *testing.T) {
	sim := vcenter(t, vspheresim.Options{Machines: 1, Number: 1})
	_, all := nodes(t, sim)
	sum := sha256.Sum256(sim.Certificate())
	print := hex.EncodeToString(sum[:])
	for name, test := range map[string]struct {
		line  string
		taken bool
	}{
		"none":               {"", false},
		"authority":          {trusted(t, sim), true},
		"insecure":           {"insecureFlag: true", true},
		"thumbprint":         {"thumbprint: " + strings.ToUpper(print), true},
		"another thumbprint": {"thumbprint: " + strings.Repeat("ab", 32), false},
	} {
		t.Run(name, func(t *testing.T) {
			lines := slices.DeleteFunc([]string{test.line}, func(line string) bool { return line == "" })
			made := open(t, config(sim.Config("a", lines...), ""), client.Options{})
			exists, err := made.InstanceExists(t.Context(), all[0])
			if exists != test.taken || (err == nil) != test.taken {
				t.Errorf("exists %v, error %v", exists, err)
			}
			if err != nil && (cloud.Classify(err) != cloud.OutcomeTLS || !strings.Contains(err.Error(), "set ca-file")) {
				t.Errorf("the error is %v (%s)", err, cloud.Classify(err))
			}
		})
	}
	made := open(t, config(sim.Config("a", "thumbprint: xyz"), ""), client.Options{})
	if _, err := made.InstanceExists(t.Context(), all[0]); err == nil || !strings.Contains(err.Error(), "SHA-256 of a certificate") {
		t.Errorf("a thumbprint that is none: %v", err)
	}
}

func TestCredentialsFromFilesAreReadBeforeEachLogin(t *testing.T) {
	sim := vcenter(t, vspheresim.Options{Machines: 1, Number: 1})
	_, all := nodes(t, sim)
	host, port := sim.Address()
	directory := t.TempDir()
	write := func(password string) {
		t.Helper()
		for key, value := range map[string]string{host + ".username": vspheresim.User + "\n", host + ".password": password + "\n"} {
			if err := os.WriteFile(filepath.Join(directory, key), []byte(value), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	data := "global: {secretsDirectory: " + directory + "}\n" + string(config("  a: {server: "+host+", port: "+port+", "+trusted(t, sim)+"}\n", ""))
	made := open(t, []byte(data), client.Options{RefusedFor: time.Nanosecond})
	if err := made.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), host+".username") {
		t.Errorf("without files the error is %v", err)
	}
	write("wrong")
	if err := made.Probe(t.Context()); !client.Refused(err) || !strings.Contains(err.Error(), host+".password in "+directory) {
		t.Errorf("with a wrong password the error is %v", err)
	}
	write(vspheresim.Password)
	if exists, err := made.InstanceExists(t.Context(), all[0]); err != nil || !exists {
		t.Errorf("exists %v, error %v", exists, err)
	}
}

func TestAVCenterThatHangsIsLeftInTime(t *testing.T) {
	f := start(t, 1, "")
	made := open(t, config(f.Config("a", trusted(t, f.VCenter)), ""), client.Options{RequestTimeout: 200 * time.Millisecond})
	defer f.Add(vspheresim.Fault{Operation: "RetrievePropertiesEx", Hang: true})()
	_, err := made.InstanceExists(t.Context(), f.nodes[0])
	if err == nil || cloud.Classify(err) != cloud.OutcomeTimeout {
		t.Errorf("the error is %v (%s)", err, cloud.Classify(err))
	}
}

func TestReadsAreTriedAgain(t *testing.T) {
	f := start(t, 1, "")
	f.list(t, everything, f.nodes...)
	for _, fault := range []vspheresim.Fault{
		{Operation: "RetrievePropertiesEx", Times: 2}, {Operation: "RetrievePropertiesEx", Times: 2, Status: 502},
	} {
		remove := f.Add(fault)
		if s := f.list(t, everything, f.nodes[0])[0]; s.Err != nil || !s.Exists {
			t.Errorf("%+v: %+v", fault, s)
		}
		remove()
	}
}

// Nodes that are asked for one by one at the same time share lists.
func TestQuestionsAtOneTimeShareLists(t *testing.T) {
	f := start(t, 50, "")
	f.list(t, everything, f.nodes[0])
	f.Calls()
	var all sync.WaitGroup
	for _, n := range f.nodes {
		all.Go(func() {
			if exists, err := f.cloud.InstanceExists(t.Context(), n); err != nil || !exists {
				t.Errorf("node %s: exists %v, error %v", n.Name, exists, err)
			}
		})
	}
	all.Wait()
	if lists := count(f.Calls(), "RetrievePropertiesEx"); lists > 25 {
		t.Errorf("%d lists for %d questions", lists, len(f.nodes))
	}
}

// A caller that leaves while others wait for its list leaves them a list all the same.
func TestACallerThatLeavesTakesNoOtherWithIt(t *testing.T) {
	f := start(t, 1, "")
	f.list(t, everything, f.nodes[0])
	defer f.Add(vspheresim.Fault{Operation: "RetrievePropertiesEx", Times: 1, Hang: true})()
	f.Calls()
	leaving, leave := context.WithCancel(t.Context())
	defer leave()
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := f.cloud.ListInstances(leaving, f.nodes, everything); err == nil {
			t.Error("the one that left has an answer")
		}
	})
	poll.EventuallyComplete(t, "the list of the one that leaves to hang", func(context.Context) string {
		if count(f.Calls(), "RetrievePropertiesEx") == 0 {
			return "it is not asked for"
		}
		return ""
	})
	for range 5 {
		all.Go(func() {
			if exists, err := f.cloud.InstanceExists(t.Context(), f.nodes[0]); err != nil || !exists {
				t.Errorf("exists %v, error %v", exists, err)
			}
		})
	}
	leave()
	all.Wait()
}

// kept is a vCenter whose session has been used for a list of machines and for tags, and a clock.
func kept(t *testing.T) (*vspheresim.VCenter, *client.VCenter, *testclock.FakePassiveClock) {
	t.Helper()
	sim := vcenter(t, vspheresim.Options{Machines: 1, Number: 1})
	conf, _, err := cloudconf.Read(config(sim.Config("a", trusted(t, sim)), labels))
	if err != nil {
		t.Fatal(err)
	}
	clock := testclock.NewFakePassiveClock(time.Now())
	v := client.New(client.Options{Config: conf.VCenters[0], Credentials: client.CredentialsOf(conf.VCenters[0], nil), Clock: clock})
	t.Cleanup(func() { v.Close(context.WithoutCancel(t.Context())) })
	v.KeepAlive(t.Context())
	if calls := sim.Calls(); len(calls) > 0 {
		t.Errorf("there is no session, and it is kept by %v", calls)
	}
	if got := look(t, v); !got {
		t.Error("a machine is not listed")
	}
	sim.Calls()
	return sim, v, clock
}

// look lists machines and asks for their tags.
func look(t *testing.T, v *client.VCenter) bool {
	t.Helper()
	list, err := v.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.AttachedTags(t.Context(), list.Places(list.Machines)); err != nil {
		t.Fatal(err)
	}
	return len(list.Machines) == 1
}

// logins are the SOAP and the REST logins among some calls.
func logins(calls []string) (soap, rest int) {
	return count(calls, "Login"), count(calls, "POST session")
}

func TestAnIdleSessionIsKept(t *testing.T) {
	sim, v, clock := kept(t)
	for range 20 { // 40 minutes: vCenter ends a session after 30 without a call, and one of REST after 5
		clock.SetTime(clock.Now().Add(client.KeepAlivePeriod))
		v.KeepAlive(t.Context())
		if calls := sim.Calls(); count(calls, "CurrentTime") != 1 || count(calls, "GET session") != 1 || len(calls) != 2 {
			t.Fatalf("an idle session is kept by %v", calls)
		}
	}
	clock.SetTime(clock.Now().Add(time.Second))
	v.KeepAlive(t.Context())
	if calls := sim.Calls(); len(calls) > 0 {
		t.Errorf("a session that was just used is kept by %v", calls)
	}
	look(t, v)
	if soap, rest := logins(sim.Calls()); soap+rest > 0 {
		t.Errorf("then there are %d SOAP and %d REST logins", soap, rest)
	}
	if sessions, err := sim.Sessions(t.Context()); err != nil || sessions != 1 {
		t.Errorf("%d sessions, error %v", sessions, err)
	}
}

// Machines are listed in each period, and their tags are read more seldom: the lists do not keep the REST session.
func TestTheRESTSessionIsKeptBetweenLists(t *testing.T) {
	sim, v, clock := kept(t)
	kept := 0
	for range 10 {
		clock.SetTime(clock.Now().Add(client.KeepAlivePeriod / 4))
		if _, err := v.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		v.KeepAlive(t.Context())
		kept += count(sim.Calls(), "GET session")
	}
	if kept != 5 {
		t.Errorf("in 5 minutes, the REST session was used %d times", kept)
	}
}

func TestASessionThatEndsWhileItIsIdle(t *testing.T) {
	sim, v, clock := kept(t)
	if err := sim.EndSessions(t.Context()); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(clock.Now().Add(client.KeepAlivePeriod))
	v.KeepAlive(t.Context())
	if soap, rest := logins(sim.Calls()); soap != 1 || rest != 0 {
		t.Errorf("it is kept by %d SOAP and %d REST logins", soap, rest)
	}
	look(t, v)
	if soap, rest := logins(sim.Calls()); soap != 0 || rest != 1 {
		t.Errorf("the next look makes %d SOAP and %d REST logins", soap, rest)
	}
	sim.Add(vspheresim.Fault{}) // it is away: nothing is to be said to anyone
	clock.SetTime(clock.Now().Add(client.KeepAlivePeriod))
	v.KeepAlive(t.Context())
	if soap, _ := logins(sim.Calls()); soap > 0 {
		t.Errorf("%d logins to a vCenter that is away", soap)
	}
}

// A REST session that has ended takes no SOAP session with it: vCenter would keep one that nothing uses for half an hour.
func TestOnlyTheRESTSessionIsOpenedAgain(t *testing.T) {
	sim, v, _ := kept(t)
	sim.Add(vspheresim.Fault{Operation: "tag-association", Status: http.StatusUnauthorized, Times: 1})
	look(t, v)
	if soap, rest := logins(sim.Calls()); soap != 0 || rest != 1 {
		t.Errorf("%d SOAP and %d REST logins", soap, rest)
	}
	if sessions, err := sim.Sessions(t.Context()); err != nil || sessions != 1 {
		t.Errorf("%d sessions, error %v", sessions, err)
	}
}
