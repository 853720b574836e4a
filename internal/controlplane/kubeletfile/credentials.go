package kubeletfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/transplant-dev/transplant/internal/controlplane/textedit"
	"github.com/transplant-dev/transplant/internal/controlplane/yamltext"
	"github.com/transplant-dev/transplant/internal/safeyaml"
)

const (
	credentialKind  = "CredentialProviderConfig"
	credentialGroup = "kubelet.config.k8s.io/"
	providersKey    = "providers"
)

// errByHand is for a text that no line of can be put into.
var errByHand = errors.New("it is written in a way that cannot be edited line by line: add the provider to it by hand")

// AddCredentialProvider adds the provider of one CredentialProviderConfig to another one, after those that are there:
// the kubelet tries credentials in the order of the providers. Everything else keeps its bytes. A config that has the
// provider already stays as it is. One that has another provider of that name is refused, since names are unique. No
// error repeats a value: arguments and environment variables of a provider may be secret.
func AddCredentialProvider(data, add []byte) ([]byte, error) {
	want, there, err := credentialTree(data)
	if err != nil {
		return nil, err
	}
	_, added, err := credentialTree(add)
	if err != nil || len(added) != 1 {
		return nil, errors.New("what is to be added is no CredentialProviderConfig with one provider")
	}
	name := fmt.Sprint(added[0]["name"])
	for _, p := range there {
		switch {
		case p["name"] != name:
		case reflect.DeepEqual(p, added[0]):
			return data, nil
		default:
			return nil, fmt.Errorf("it has another provider with the name %s, which differs in %s, and names are unique: "+
				"make that entry the one that is wanted, or remove it", name, strings.Join(differing(p, added[0]), ", "))
		}
	}
	want[providersKey] = append(want[providersKey].([]any), any(added[0]))
	out, err := appendProvider(data, added[0])
	if err != nil {
		return nil, err
	}
	have, _, err := credentialTree(out)
	if err != nil || !reflect.DeepEqual(want, have) {
		return nil, errByHand
	}
	return out, nil
}

// credentialTree returns a CredentialProviderConfig as values, and its providers.
func credentialTree(data []byte) (map[string]any, []map[string]any, error) {
	if err := safeyaml.Check(data); err != nil {
		return nil, nil, err
	}
	tree := map[string]any{}
	if err := yaml.Unmarshal(data, &tree); err != nil {
		return nil, nil, errors.New("it cannot be read as YAML")
	}
	group, _ := tree["apiVersion"].(string)
	if tree["kind"] != credentialKind || !strings.HasPrefix(group, credentialGroup) {
		return nil, nil, fmt.Errorf("it is no %s of %s", credentialKind, strings.TrimSuffix(credentialGroup, "/"))
	}
	list, _ := tree[providersKey].([]any)
	if len(list) == 0 {
		return nil, nil, errors.New("it names no providers, and a kubelet does not start with it")
	}
	var providers []map[string]any
	for i, item := range list {
		p, ok := item.(map[string]any)
		if _, named := p["name"].(string); !ok || !named {
			return nil, nil, fmt.Errorf("its provider number %d has no name", i+1)
		}
		providers = append(providers, p)
	}
	return tree, providers, nil
}

// differing are the fields in which two providers differ.
func differing(a, b map[string]any) []string {
	var out []string
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, field := range slices.Sorted(maps.Keys(all)) {
		if !reflect.DeepEqual(a[field], b[field]) {
			out = append(out, field)
		}
	}
	return out
}

// appendProvider writes a provider after the last one of a config, in the style of the list.
func appendProvider(data []byte, provider map[string]any) ([]byte, error) {
	d, err := yamltext.NewDocument(data)
	if err != nil {
		return nil, errByHand // its own words are about manifests of pods
	}
	_, list := yamltext.FindKey(d.Root, providersKey)
	if list == nil || list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		return nil, errByHand
	}
	last := list.Content[len(list.Content)-1]
	end, err := d.EndOf(last)
	if err != nil {
		return nil, errByHand
	}
	if list.Style&yaml.FlowStyle != 0 {
		text, err := json.Marshal(provider)
		if err != nil {
			return nil, err
		}
		return d.ApplySplices([]textedit.Splice{{Start: end, End: end, Text: ", " + string(text)}}), nil
	}
	prefix, err := d.DashPrefix(last)
	if err != nil || !d.EndsLine(end) {
		return nil, errByHand
	}
	text, err := yaml.Marshal([]any{provider})
	if err != nil {
		return nil, err
	}
	indent := prefix[:strings.Index(prefix, "-")]
	var lines []string
	for line := range strings.SplitSeq(strings.TrimRight(string(text), "\n"), "\n") {
		lines = append(lines, indent+line)
	}
	return d.ApplySplices([]textedit.Splice{d.InsertLines(end, lines)}), nil
}
