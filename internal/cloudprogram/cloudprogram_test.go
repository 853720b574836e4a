package cloudprogram

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/inventory"
)

// behaviour is the environment variable that says what the program of these tests does.
const behaviour = "CLOUDPROGRAM_TEST"

func TestMain(m *testing.M) {
	if strings.HasPrefix(filepath.Base(os.Args[0]), Argument0) {
		os.Exit(program(os.Args, os.Getenv(behaviour)))
	}
	goleak.VerifyTestMain(m)
}

// program is a provider's, of a cloud that is called aws or toy.
func program(args []string, does string) int {
	data, err := io.ReadAll(os.Stdin)
	var q Question
	if err == nil {
		err = json.Unmarshal(data, &q)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	cloud := strings.TrimPrefix(args[0], Argument0)
	a := Answer{Protocol: Protocol, Version: "v1"}
	switch {
	case q.Settings["bad"] != "":
		a.Error = `there is no setting "bad"`
	case q.OnlyOpen:
	case args[1] == Orphans:
		for _, id := range q.Orphans.IDs {
			a.Orphans = append(a.Orphans, v1.Orphan{ID: id, State: v1.OrphanRefused, Reason: "password=hunter2hunter2"})
		}
		if does == "another object" {
			a.Orphans[0].ID = "z"
		}
	case args[1] == Preview:
		a.Preview = &v1.Preview{Provider: cloud, Calls: len(q.CloudConfig)}
		for _, n := range q.Nodes {
			a.Preview.Nodes = append(a.Preview.Nodes, v1.NodePreview{Node: n.Name, Error: "password=hunter2hunter2"})
		}
	default:
		a.Inventory = &v1.CloudInventory{Provider: cloud, Errors: []string{"routes: --token=hunter2hunter2 was refused"}}
		for _, n := range q.Nodes {
			a.Inventory.Instances = append(a.Inventory.Instances, v1.CloudInstance{Node: n.Name, ID: "i-" + n.Name, Found: true})
		}
	}
	answer, err := json.Marshal(a)
	if err != nil || q.OnlyOpen && does != "refuse" {
		fmt.Println(string(answer))
		return 0
	}
	switch does {
	case "refuse": // as upstream's programs do
		fmt.Fprintln(os.Stderr, `takes no arguments, but got ["inventory"]; password=hunter2hunter2`)
		return 1
	case "no JSON":
		fmt.Println("hello")
	case "another protocol":
		fmt.Println(`{"protocol":2,"answer":{}}`)
	case "a field more":
		fmt.Println(`{"protocol":1,"inventory":{"provider":"aws","quantum":true}}`)
	case "another cloud":
		fmt.Println(strings.Replace(string(answer), `"provider":"aws"`, `"provider":"gce"`, 1))
	case "another node":
		fmt.Println(strings.ReplaceAll(string(answer), `"node":"a"`, `"node":"z"`))
	case "a node twice":
		fmt.Println(strings.ReplaceAll(string(answer), `"node":"b"`, `"node":"a"`))
	case "no end":
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat(" ", 1<<20)); err != nil {
				return 1
			}
		}
	case "a hang":
		<-time.After(time.Hour)
	default:
		fmt.Println(string(answer))
	}
	return 0
}

// install puts this test as a program into a directory.
func install(t *testing.T, dir, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, name)
	if err := os.Symlink(self, at); err != nil {
		t.Fatal(err)
	}
	return at
}

var nodes = []v1.Node{{Name: "a"}, {Name: "b"}}

func TestAnInventoryThroughAProgram(t *testing.T) {
	dir := t.TempDir()
	install(t, dir, "aws-cloud-controller-manager")
	t.Setenv("PATH", dir)
	s, err := Programs{Cloud: "aws:cluster=lab"}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := &v1.CloudInventory{
		Provider: "aws", Instances: []v1.CloudInstance{{Node: "a", ID: "i-a", Found: true}, {Node: "b", ID: "i-b", Found: true}},
		Errors: []string{"routes: --token=(masked) was refused"},
	}
	if diff := cmp.Diff(want, s.Inventory(t.Context(), nodes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := (Programs{Cloud: "aws:bad=1"}).Open(t.Context()); err == nil || !strings.Contains(err.Error(), `cloud "aws:bad=1": there is no setting "bad"`) {
		t.Errorf("got %v", err)
	}
}

// What cannot be believed makes every part unknown; nothing is missing by it.
func TestAnswersThatAreNotBelieved(t *testing.T) {
	at := install(t, t.TempDir(), "aws-cloud-controller-manager")
	for does, want := range map[string]string{
		"no JSON":          "it answered with no JSON",
		"another protocol": "it answers by protocol 2, not 1: use that of the same release",
		"a field more":     `unknown field "quantum": use that of the same release`,
		"another cloud":    "answered without an inventory of aws",
		"another node":     `answered for node "z", which it was not asked about`,
		"a node twice":     `answered for node "a", which it was not asked about, or twice`,
		"no end":           "answered with more than 67108864 bytes",
	} {
		t.Run(does, func(t *testing.T) {
			t.Setenv(behaviour, does)
			s, err := Programs{Cloud: "aws", Path: at}.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := s.Inventory(t.Context(), nodes)
			if len(got.Errors) != len(inventory.Parts) || len(got.Instances) > 0 {
				t.Fatalf("got %+v", got)
			}
			for i, part := range inventory.Parts {
				if !strings.HasPrefix(got.Errors[i], part+": ") || !strings.Contains(got.Errors[i], want) {
					t.Errorf("got %q, want %q", got.Errors[i], want)
				}
			}
		})
	}
}

func TestAProgramThatRefuses(t *testing.T) {
	at := install(t, t.TempDir(), "aws-cloud-controller-manager")
	t.Setenv(behaviour, "refuse")
	_, err := Programs{Cloud: "aws", Path: at}.Open(t.Context())
	if err == nil || !strings.Contains(err.Error(), at+" inventory: exit status 1: takes no arguments") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
}

func TestAProgramEndsWithItsCaller(t *testing.T) {
	at := install(t, t.TempDir(), "aws-cloud-controller-manager")
	t.Setenv(behaviour, "a hang")
	s, err := Programs{Cloud: "aws", Path: at}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if got := s.Inventory(ctx, nodes); len(got.Errors) == 0 || !strings.Contains(got.Errors[0], "deadline exceeded") {
		t.Errorf("got %+v", got)
	}
}

func TestAPreviewThroughAProgram(t *testing.T) {
	dir := t.TempDir()
	install(t, dir, "aws-cloud-controller-manager")
	toy := install(t, dir, "toy-cloud-controller-manager")
	t.Setenv("PATH", dir)
	want := &v1.Preview{Provider: "aws", Calls: 6, Nodes: []v1.NodePreview{{Node: "a", Error: "password=(masked)"}, {Node: "b", Error: "password=(masked)"}}}
	got, err := Programs{}.Preview(t.Context(), "aws", []byte("config"), nodes)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	// A cluster names its provider. That alone never starts a program that is not ours, also when there is one.
	for _, cloud := range []string{"toy", "../toy", "", "/bin/true"} {
		if _, err := (Programs{Path: toy}).Preview(t.Context(), cloud, nil, nodes); err == nil || !strings.Contains(err.Error(), "is not in this version of transplant") {
			t.Errorf("%q: got %v", cloud, err)
		}
	}
	if got, err := (Programs{Cloud: "toy", Path: toy}).Preview(t.Context(), "toy", nil, nodes); err != nil || got.Provider != "toy" {
		t.Errorf("the cloud that the administrator named: %+v, %v", got, err)
	}
	// The program of another cloud is not asked about this one.
	if got, err := (Programs{Cloud: "toy", Path: toy}).Preview(t.Context(), "aws", nil, nodes); err != nil || got.Provider != "aws" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestProgramsThatAreNotThere(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	plain := filepath.Join(dir, "aws-cloud-controller-manager")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		programs Programs
		want     string
	}{
		{Programs{Cloud: "aws"}, "aws-cloud-controller-manager, through which aws is asked, is neither next to transplant nor in PATH: install that of the same release"},
		{Programs{Cloud: "aws", Path: plain}, "it is no file that may be run"},
		{Programs{Cloud: "aws", Path: filepath.Join(dir, "none")}, "no such file"},
		{Programs{Cloud: "alibaba"}, `cloud "alibaba" is not known: use aws, azure, gce, openstack or vsphere`},
		{Programs{Cloud: "../x"}, `cloud "../x" is not known`},
		{Programs{Cloud: "-x"}, `cloud "-x" is not known`},
		{Programs{Cloud: ":a=b"}, "is not known"},
		{Programs{Cloud: "aws:cluster"}, `"cluster" is not key=value`},
	} {
		if _, err := c.programs.Open(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.programs, err, c.want)
		}
	}
	install(t, dir, "toy-cloud-controller-manager")
	t.Chdir(filepath.Dir(dir))
	t.Setenv("PATH", filepath.Base(dir))
	if _, err := (Programs{Cloud: "toy"}).Open(t.Context()); err == nil || !strings.Contains(err.Error(), "by a relative directory only") {
		t.Errorf("got %v", err)
	}
}

// TestAProgramOfAnotherUserIsNotRunUnnamed: where each user may write, as in /tmp, the program next to this one may be an attacker's.
func TestAProgramOfAnotherUserIsNotRunUnnamed(t *testing.T) {
	at := filepath.Join(t.TempDir(), "aws-cloud-controller-manager")
	if err := os.WriteFile(at, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := trusted(at); err != nil {
		t.Errorf("the own one: %v", err)
	}
	if err := trusted("/bin/sh"); err != nil {
		t.Errorf("one of root: %v", err)
	}
	if err := os.Chmod(at, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := trusted(at); err == nil || !strings.Contains(err.Error(), "may be written by each user") {
		t.Errorf("one that all may write: %v", err)
	}
	if os.Geteuid() != 0 {
		return // only root can give a file to another user
	}
	if err := errors.Join(os.Chmod(at, 0o755), os.Chown(at, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	if err := trusted(at); err == nil || !strings.Contains(err.Error(), "belongs to user id 12345") {
		t.Errorf("another user's: %v", err)
	}
}

// What was not asked about is never taken for an answer: by it, a load balancer would be deleted that was not named.
func TestOrphansThroughAProgram(t *testing.T) {
	dir := t.TempDir()
	at := install(t, dir, "openstack-cloud-controller-manager")
	question := OrphanQuestion{IDs: []string{"a", "b"}}
	got, err := Programs{Cloud: "openstack:cluster=lab", Path: at}.Orphans(t.Context(), nodes, question)
	want := []v1.Orphan{
		{ID: "a", State: v1.OrphanRefused, Reason: "password=(masked)"}, {ID: "b", State: v1.OrphanRefused, Reason: "password=(masked)"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := (Programs{Cloud: "aws", Path: at}).Orphans(t.Context(), nodes, question); err == nil || !strings.Contains(err.Error(), "nothing is removed on aws") {
		t.Errorf("a cloud where nothing is removed: %v", err)
	}
	t.Setenv(behaviour, "another object")
	if _, err := (Programs{Cloud: "openstack", Path: at}).Orphans(t.Context(), nodes, question); err == nil || !strings.Contains(err.Error(), "about other objects") {
		t.Errorf("an answer about others: %v", err)
	}
}
