package diff

import (
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// imageLine is what a difference shows of an image where only flags are known; empty for a plan that changes no image
// there.
func imageLine(steps []v1.Step, c *v1.Component, host string) string {
	for _, s := range steps {
		if s.Host == host && s.Component == c.Name && planstep.ChangesImage(s) {
			return imagePrefix + c.Image + "\n"
		}
	}
	return ""
}

const imagePrefix = "image: "

// retagged applies an edit of an image to the line that imageLine has made, and returns the rest of the text apart.
func retagged(text string, edits []v1.Edit) (line, rest string) {
	if !strings.HasPrefix(text, imagePrefix) {
		return "", text
	}
	line, rest, _ = strings.Cut(text, "\n")
	image := strings.TrimPrefix(line, imagePrefix)
	return imagePrefix + planstep.ImageAfter(v1.Step{Edits: edits}, image) + "\n", rest
}
