package controlplane

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/textedit"
	"github.com/transplant-dev/transplant/internal/controlplane/yamltext"
)

// SplitImage returns the repository, with its registry, and the tag of an image. One that is named by its digest, or by
// neither tag nor digest, is an error. Its version cannot be known, and no other version of it can be named.
func SplitImage(image string) (repository, tag string, err error) {
	if strings.Contains(image, "@") {
		return "", "", fmt.Errorf(
			"image %s is named by its digest, and the digest of another version is not known: name it with the tag of its version alone",
			image,
		)
	}
	at := strings.LastIndex(image, ":")
	if at <= strings.LastIndex(image, "/") || at+1 == len(image) {
		return "", "", fmt.Errorf("image %q has no tag: name it with the tag of its version", image)
	}
	return image[:at], image[at+1:], nil
}

// Retag returns an image with another tag, of the same registry and repository.
func Retag(image, tag string) (string, error) {
	repository, _, err := SplitImage(image)
	if err != nil {
		return "", err
	}
	if !commandline.TagPattern.MatchString(tag) {
		return "", fmt.Errorf("%q is no tag of an image", tag)
	}
	return repository + ":" + tag, nil
}

// setImage gives the component's image another tag.
func (m *Manifest) setImage(component, tag string) (*change, error) {
	if component != m.Component() {
		return nil, fmt.Errorf("the manifest is that of %s", m.Component())
	}
	want, err := Retag(m.Image(), tag)
	if err != nil {
		return nil, err
	}
	if want == m.Image() {
		return nil, nil
	}
	owner := m.containerNode()
	key, value := yamltext.FindKey(owner, "image")
	switch {
	case key == nil:
		return nil, yamltext.Unsupported(owner.Line, "the container's image is merged in from elsewhere")
	case value.Kind == yaml.AliasNode:
		return nil, yamltext.Unsupported(key.Line, "the container's image is an alias of a text that stands elsewhere")
	case value.Kind != yaml.ScalarNode:
		return nil, errors.New("the container's image is no text")
	}
	start, end, err := m.doc.ExtentOf(value)
	if err != nil {
		return nil, err
	}
	text := yamltext.QuoteScalar(want, value.Style, owner.Style&yaml.FlowStyle != 0)
	return &change{
		splices: []textedit.Splice{{Start: start, End: end, Text: text}},
		want:    func(tree map[string]any) { m.containerTree(tree)["image"] = want },
	}, nil
}
