package plan

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// unsealed are the fields that Seal leaves out: words for readers, and who made the plan when.
var unsealed = []string{
	".Created", ".Effects", ".Facts.Detail", ".Findings.AcceptedAt", ".Findings.AcceptedBy", ".Findings.Category", ".Findings.DependsOn",
	".Findings.Docs", ".Findings.Expected",
	".Findings.Fix", ".Findings.FixKind", ".Findings.Found", ".Findings.Impact", ".Findings.Level", ".Findings.LookFor", ".Findings.MoreProblems",
	".Findings.Objects", ".Findings.OnlyIf", ".Findings.Outcome",
	".Findings.Problems.Object", ".Findings.Problems.Objects", ".Findings.Problems.Text", ".Findings.Reason", ".Findings.Since",
	".Findings.Source", ".Findings.Summary", ".Findings.Warning", ".Steps.EstimateSeconds",
	".Steps.Manual", ".Steps.Title", ".Steps.Undo", ".Steps.Why", ".ToolVersion", ".TypeMeta",
}

// goldenSeal is that of a plan in which each field is set. Ledgers hold the sums of plans that are under way: with another one the operator
// refuses to go on with what it began before it was upgraded. A new field that is empty in old plans changes no sum of
// theirs, if it is left out of JSON then; it does change this one, which has a value in each field.
const goldenSeal = "958f7023b7198ad0310e01875b3b760624c462b84698b17a6cd1a1edd7d3c1b1"

// goldenOlderSeal is that of a plan of which only fields are set that plans have always had.
const goldenOlderSeal = "44e3bb66432cfc454e5e1f4c6f8f2d35a058fffe177befa468554499904a1d1b"

// leaf is a value in a plan, and how it gets another one.
type leaf struct {
	path   string
	change func()
}

// leaves gives each value in a document a value of its own, and returns them all.
func leaves(v reflect.Value, path string) (out []leaf) {
	if at, is := v.Addr().Interface().(*time.Time); is {
		*at = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		return []leaf{{path, func() { *at = at.Add(time.Hour) }}}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			out = append(out, leaves(v.Field(i), path+"."+v.Type().Field(i).Name)...)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		out = leaves(v.Index(0), path)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		out = leaves(v.Elem(), path)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		leaves(key, path)
		inner := leaves(value, path)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
		for _, l := range inner {
			out = append(out, leaf{l.path, func() { l.change(); v.SetMapIndex(key, value) }})
		}
	case reflect.String:
		v.SetString("is" + path)
		out = []leaf{{path, func() { v.SetString(v.String() + "!") }}}
	case reflect.Bool:
		v.SetBool(true)
		out = []leaf{{path, func() { v.SetBool(!v.Bool()) }}}
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
		out = []leaf{{path, func() { v.SetInt(v.Int() + 1) }}}
	case reflect.Float64:
		v.SetFloat(7)
		out = []leaf{{path, func() { v.SetFloat(v.Float() + 1) }}}
	default:
		panic(fmt.Sprintf("%s is of kind %s, which no plan has: teach it to this test", path, v.Kind()))
	}
	return out
}

// TestASealHoldsAllThatARunReads: a field that is left out could be changed in a journal without being seen.
func TestASealHoldsAllThatARunReads(t *testing.T) {
	p := &v1.Plan{}
	all := leaves(reflect.ValueOf(p).Elem(), "")
	if len(all) < 80 {
		t.Fatalf("the plan has %d values only", len(all))
	}
	if seal := compare.Seal(p); seal != goldenSeal {
		t.Errorf("the seal of a plan with all fields is %s, and was %s: give new fields omitempty, remove none, and compare the older seal", seal, goldenSeal)
	}
	var left []string
	for _, l := range all {
		before := compare.Seal(p)
		l.change()
		if compare.Seal(p) == before {
			left = append(left, l.path)
		}
	}
	isUnsealed := func(path string) bool {
		return slices.ContainsFunc(unsealed, func(u string) bool { return path == u || strings.HasPrefix(path, u+".") })
	}
	var want []string
	for _, l := range all {
		if isUnsealed(l.path) {
			want = append(want, l.path)
		}
	}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("what the seal leaves out (-meant +left out):\n%s", diff)
	}
	order := compare.Seal(&v1.Plan{Steps: []v1.Step{{ID: "a"}, {ID: "b"}}})
	if order == compare.Seal(&v1.Plan{Steps: []v1.Step{{ID: "b"}, {ID: "a"}}}) {
		t.Error("the order of the steps is not sealed")
	}
}

// TestTheSealOfAnOlderPlanStays: an operator that is upgraded goes on with the plans that it began before.
func TestTheSealOfAnOlderPlanStays(t *testing.T) {
	p := &v1.Plan{
		Cluster: v1.Cluster{
			UID:      "uid",
			Version:  "v1.26.0",
			Provider: cloudprovider.AWS,
			Seed:     "cluster-x",
		},
		Strategy:  planstep.LeaderMigration,
		Direction: planstep.Forward,
		Options:   v1.Options{Image: "example.org/ccm:v1", LeaseName: component.MigrationLease, RetryPeriod: "250ms", RenewDeadline: "10s"},
		Facts:     []v1.Fact{{ID: "cluster:uid", Value: "uid", Detail: "words"}},
		Steps: []v1.Step{{
			ID: "external/x", Phase: "external", Kind: v1.StepEditWorkload, Title: "words", Ref: "Deployment/cluster-x/x", Component: component.KCM,
			Edits: []v1.Edit{{Op: v1.EditSetFlag, Name: "cloud-provider", Value: "external"}}, Requires: []string{"cluster:uid"}, EstimateSeconds: 2,
		}},
	}
	if seal := compare.Seal(p); seal != goldenOlderSeal {
		t.Errorf("the seal of a plan of an earlier version is %s, and was %s: plans under way are not known any longer", seal, goldenOlderSeal)
	}
}
