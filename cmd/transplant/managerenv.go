package main

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/plan"
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
		if s.Component != plan.CCM || s.Kind != v1.StepAddManifest && s.Kind != v1.StepEnsureObject {
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

// decidesWhere reports whether a variable of a manager decides to whom it talks, whom it trusts, or which code it runs.
func decidesWhere(name string) bool {
	name = strings.ToUpper(name)
	return strings.HasSuffix(name, "_PROXY") || name == "GODEBUG" ||
		slices.ContainsFunc([]string{"SSL_CERT_", "AWS_ENDPOINT_URL", "LD_"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// checkEnv refuses variables of a journal that decide where the cloud's credentials go, unless this command names them itself, or the plan was approved on
// this machine or pinned: whoever may write the journal could have them sent to himself.
func (f *changing) checkEnv(approved bool, p *v1.Plan) error {
	if approved || f.ownEnv || f.pinned.sha256 != "" {
		return nil
	}
	var names, again []string
	for _, e := range p.Options.Env {
		name, value, _ := strings.Cut(e, "=")
		again = append(again, fmt.Sprintf("--ccm-env='%s=%s'", name, mask.Text(mask.Named(name, value))))
		if decidesWhere(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return withCode(exitNotApproved, "the plan in the journal was not approved on this machine, and gives the cloud-controller-manager %s, which decides where the cloud's credentials go: "+
		"nothing was changed; find out whether that is meant, and name the variables yourself (%s), or give --plan-sha256 %s",
		unbroken(strings.Join(names, ", ")), unbroken(strings.Join(again, " ")), plan.Digest(p))
}
