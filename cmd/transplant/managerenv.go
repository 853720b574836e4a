package main

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/plan/compare"
)

// managersGet are lines with the environment and the arguments of each manager that a plan starts, masked: they are what a plan from elsewhere could lead the
// cloud's credentials astray with, and no line of a step shows them.
func managersGet(p *v1.Plan) string {
	var out strings.Builder
	for _, e := range p.Options.Env {
		name, value, _ := strings.Cut(e, "=")
		fmt.Fprintf(&out, "environment of the cloud-controller-manager: %s\n", unbroken(name+"="+mask.Text(mask.Named(name, value))))
	}
	var shown []string
	for _, s := range p.Steps {
		if s.Component != component.CCM || s.Kind != v1.StepAddManifest && s.Kind != v1.StepEnsureObject {
			continue
		}
		for _, command := range commandsOf(s.Content + s.Object) {
			line := unbroken(strings.Join(mask.Command(command), " "))
			if !slices.Contains(shown, line) {
				shown = append(shown, line)
				fmt.Fprintf(&out, "arguments of the cloud-controller-manager: %s\n", line)
			}
		}
	}
	return out.String()
}

// unbroken keeps a text of somebody else to its line, and all of it: what is behind a line break is not hidden.
func unbroken(text string) string { return strings.Join(strings.Fields(text), " ") }

// commandsOf are the command lines of all containers in an object, as YAML or JSON.
func commandsOf(object string) [][]string {
	var doc any
	if yaml.Unmarshal([]byte(object), &doc) != nil {
		return nil
	}
	var out [][]string
	var look func(v any)
	look = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				look(e)
			}
		case map[string]any:
			words := slices.Concat(wordsOf(v["command"]), wordsOf(v["args"]))
			if len(words) > 0 {
				out = append(out, words)
			}
			for _, field := range []string{"spec", "template", "containers", "initContainers"} {
				look(v[field])
			}
		}
	}
	look(doc)
	return out
}

func wordsOf(v any) []string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		out = append(out, fmt.Sprint(e))
	}
	return out
}

// checkEnv refuses variables of a plan that may decide where the cloud's credentials go, unless this command names them
// itself or pins the plan: whoever may write the plan could have them sent to himself. Unseen says where the plan is,
// and why no person has looked at it.
func (f *changing) checkEnv(unseen string, p *v1.Plan) error {
	names := plan.RiskyEnv(p.Options)
	if len(names) == 0 || f.ownEnv || f.pinned.sha256 != "" {
		return nil
	}
	var again []string
	for _, e := range p.Options.Env {
		name, value, _ := strings.Cut(e, "=")
		again = append(again, fmt.Sprintf("--ccm-env='%s=%s'", name, mask.Text(mask.Named(name, value))))
	}
	return withCode(exitNotApproved, "%s, and gives the cloud-controller-manager %s, "+
		"which may decide where the cloud's credentials go: nothing was changed; find out whether that is meant, and name the variables yourself (%s), or give --plan-sha256 %s",
		unseen, unbroken(strings.Join(names, ", ")), unbroken(strings.Join(again, " ")), compare.Digest(p))
}

// checkFileEnv is checkEnv for a plan of a file. Its steps are made again and compared, and its options are not.
func (f *changing) checkFileEnv(args []string, p *v1.Plan) error {
	if !f.yes || len(args) == 0 {
		return nil // a person looks at the review, or the plan was made now
	}
	return f.checkEnv("with --yes nobody looks at plan "+args[0]+", which others may have written", p)
}
