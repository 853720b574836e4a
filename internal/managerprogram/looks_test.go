package managerprogram

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cloudprogram"
	"github.com/transplant-dev/transplant/internal/inventory"
)

// toy is a cloud that has an instance for each node.
type toy struct{}

func (toy) Inventory(_ context.Context, nodes []v1.Node) *v1.CloudInventory {
	out := &v1.CloudInventory{Provider: "toy"}
	for _, n := range nodes {
		out.Instances = append(out.Instances, v1.CloudInstance{Node: n.Name, Found: true})
	}
	return out
}

func openToy(_ context.Context, settings map[string]string) (inventory.Source, error) {
	if settings["bad"] != "" {
		return nil, errors.New("there is no setting bad")
	}
	return toy{}, nil
}

func run(t *testing.T, looks Looks, question string, args ...string) (cloudprogram.Answer, error) {
	t.Helper()
	root := &cobra.Command{Use: "toy-cloud-controller-manager", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(looks.Commands("v1.2.3")...)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetIn(strings.NewReader(question))
	root.SetArgs(args)
	if err := root.ExecuteContext(t.Context()); err != nil {
		return cloudprogram.Answer{}, err
	}
	var a cloudprogram.Answer
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	return a, nil
}

func TestAnAnswer(t *testing.T) {
	looks := Looks{Inventory: openToy}
	for question, want := range map[string]cloudprogram.Answer{
		`{"protocol":1,"onlyOpen":true,"nodes":[{"name":"a"}]}`: {Protocol: 1, Version: "v1.2.3"},
		`{"protocol":1,"settings":{"bad":"1"}}`:                 {Protocol: 1, Version: "v1.2.3", Error: "there is no setting bad"},
		`{"protocol":7}`:                                        {Protocol: 1, Version: "v1.2.3", Error: "transplant asks by protocol 7, and this program answers by 1: use both of the same release"},
		`{"protocol":1,"nodes":[{"name":"a"}]}`: {
			Protocol: 1, Version: "v1.2.3", Inventory: &v1.CloudInventory{Provider: "toy", Instances: []v1.CloudInstance{{Node: "a", Found: true}}},
		},
	} {
		got, err := run(t, looks, question, cloudprogram.Inventory)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", question, err, diff)
		}
	}
	for _, c := range []struct {
		question string
		args     []string
		want     string
	}{
		{"", []string{cloudprogram.Inventory}, "reading the question from standard input"},
		{`{"protocol":1}`, []string{cloudprogram.Inventory, "more"}, "unknown command"},
		{`{"protocol":1}`, []string{cloudprogram.Preview}, "unknown command"}, // this provider has none
	} {
		if _, err := run(t, looks, c.question, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.args, err, c.want)
		}
	}
}

func TestAnAnswerAboutOrphans(t *testing.T) {
	looks := Looks{Orphans: func(_ context.Context, settings map[string]string, nodes []v1.Node, q cloudprogram.OrphanQuestion) ([]v1.Orphan, error) {
		if settings["bad"] != "" {
			return nil, errors.New("there is no setting bad")
		}
		return []v1.Orphan{{ID: q.IDs[0], Name: nodes[0].Name, State: v1.OrphanFound}}, nil
	}}
	for question, want := range map[string]cloudprogram.Answer{
		`{"protocol":1,"nodes":[{"name":"a"}],"orphans":{"ids":["x"]}}`: {Protocol: 1, Version: "v1.2.3", Orphans: []v1.Orphan{{ID: "x", Name: "a", State: v1.OrphanFound}}},
		`{"protocol":1,"settings":{"bad":"1"},"orphans":{"ids":["x"]}}`: {Protocol: 1, Version: "v1.2.3", Error: "there is no setting bad"},
		`{"protocol":1}`: {Protocol: 1, Version: "v1.2.3", Error: "the question names no objects"},
	} {
		got, err := run(t, looks, question, cloudprogram.Orphans)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", question, err, diff)
		}
	}
}
