// Package settings says with what a plan starts managers, and which program it gives to kubelets.
package settings

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/client/wording"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/safeyaml"
)

// OfManagers are lines with the environment, the image and the arguments of each manager that a plan starts, masked.
// They have the program that it gives to kubelets, too. A plan from elsewhere could use any of these to send the
// cloud's credentials away, or to be root on each node. No line of a step has to show them.
func OfManagers(p *v1.Plan) string {
	var out strings.Builder
	for _, e := range p.Options.Env {
		name, value, _ := strings.Cut(e, "=")
		fmt.Fprintf(
			&out,
			"environment of the cloud-controller-manager: %s\n",
			wording.OneLine(name+"="+mask.Text(mask.Named(name, value))),
		)
	}
	if program := p.Options.CredentialProvider; program != "" {
		fmt.Fprintf(
			&out,
			"program that kubelets run as root: %s of this machine, SHA-256 %s\n",
			wording.OneLine(program),
			wording.OneLine(p.Options.CredentialProviderSHA256),
		)
	}
	var shown, first []string
	for _, s := range p.Steps {
		if s.Component != component.CCM || s.Kind != v1.StepAddManifest && s.Kind != v1.StepEnsureObject {
			continue
		}
		for _, c := range containersOf(s.Content + s.Object) {
			lines := []string{"image of the cloud-controller-manager: " + describeImage(c.image)}
			if len(c.command) > 0 {
				command := mask.Command(c.command)
				line := strings.Join(command, " ")
				if own := onlyAddress(first, command); own != "" {
					line = "as above, with " + own
				} else {
					first = command
				}
				lines = append(lines, "arguments of the cloud-controller-manager: "+wording.OneLine(line))
			}
			for _, line := range lines {
				if !slices.Contains(shown, line) {
					shown = append(shown, line)
					fmt.Fprintln(&out, line)
				}
			}
		}
	}
	return out.String()
}

// onlyAddress is the address of a command that differs in nothing else from another; empty where it does.
func onlyAddress(other, command []string) string {
	const address = "--bind-address="
	if len(other) != len(command) {
		return ""
	}
	own := ""
	for i, word := range command {
		switch {
		case word == other[i]:
		case own == "" && strings.HasPrefix(word, address) && strings.HasPrefix(other[i], address):
			own = word
		default:
			return ""
		}
	}
	return own
}

// describeImage returns an image with whether it is this project's own. One of another registry with such a path is not
// called that. The path is all that program.Identify goes by, and every registry may have it.
func describeImage(image string) string {
	if image == "" {
		return "-"
	}
	shown := wording.OneLine(image)
	if origin := proven.Origin(image); origin != "" {
		return shown + " (" + origin + ")"
	}
	return shown
}

// container is what an object says of one that it starts.
type container struct {
	image   string
	command []string
}

// containersOf are all containers in an object, as YAML or JSON.
func containersOf(object string) []container {
	var doc any
	if safeyaml.Unmarshal([]byte(object), &doc) != nil {
		return nil
	}
	var out []container
	var look func(v any)
	look = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				look(e)
			}
		case map[string]any:
			words := slices.Concat(wordsOf(v["command"]), wordsOf(v["args"]))
			if image, _ := v["image"].(string); image != "" || len(words) > 0 {
				out = append(out, container{image, words})
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
