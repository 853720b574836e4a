package hosted

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask"
)

// Pod templates and commands are known by hashes, which more people read than the templates. The hashes are of what is
// left when secrets are masked: one of a weak secret could be guessed. So a change of a secret alone is not seen. Plans
// and journals of before hold hashes of the whole, which still count.

// TemplateSHA256 is the hash by which a snapshot names a pod template, as the API has it in spec.template. It is of the
// template as this version of client-go knows it. So it is the same whether the object was read typed or not, and
// whichever way it was encoded.
func TemplateSHA256(template map[string]any) string { return sumsOf(template)[0] }

// IsTemplate reports whether a pod template has a hash, of this or of an earlier version.
func IsTemplate(template map[string]any, sum string) bool {
	return slices.Contains(sumsOf(template), sum)
}

func sumsOf(template map[string]any) []string {
	var typed corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &typed); err != nil {
		data, _ := json.Marshal(template) // maps of plain values encode
		return jsonSums(data)
	}
	return templateSums(&typed)
}

func templateSums(template *corev1.PodTemplateSpec) []string {
	data, _ := json.Marshal(template) // a pod template that was decoded encodes
	return jsonSums(data)
}

// jsonSums are the hashes of a document with its secrets masked, and as it is.
func jsonSums(data []byte) []string {
	var doc any
	_ = json.Unmarshal(data, &doc) // it was just encoded
	masked, _ := json.Marshal(maskValue("", doc))
	return []string{hostaccess.SHA256(masked), hostaccess.SHA256(data)}
}

// CommandSHA256 is the hash by which the command of a component in a seed is named, as the component sees it. It is no
// more than that of the pod template. The rest of it (a restart's annotation, the revision of a Secret) changes
// although the component runs as before.
func CommandSHA256(command []string) string { return commandSums(command)[0] }

// IsCommand reports whether a command has a hash, of this or of an earlier version.
func IsCommand(command []string, sum string) bool { return slices.Contains(commandSums(command), sum) }

func commandSums(command []string) []string {
	words := commandline.Unwrapped(command)
	sum := func(words []string) string { return hostaccess.SHA256([]byte(strings.Join(words, "\x00"))) }
	return []string{sum(mask.Command(words)), sum(words)}
}

// maskValue masks what has a key in a pod template, and everything below it.
func maskValue(key string, value any) any {
	switch v := value.(type) {
	case string:
		return mask.Named(key, v)
	case []any:
		for i := range v {
			v[i] = maskValue(key, v[i])
		}
	case map[string]any:
		maskCommand(v)
		name, _ := v["name"].(string)
		for k := range v {
			switch {
			case k == "value" && name != "": // a variable or a header
				v[k] = maskValue(name, v[k])
			case k != "command" && k != "args":
				v[k] = maskValue(k, v[k])
			}
		}
	}
	return value
}

// maskCommand masks the command and the arguments of a container or a probe, which are one line.
func maskCommand(in map[string]any) {
	line := mask.Command(slices.Concat(texts(in["command"]), texts(in["args"])))
	for _, key := range []string{"command", "args"} {
		if n := len(texts(in[key])); n > 0 {
			in[key], line = line[:n], line[n:]
		}
	}
}

func texts(value any) []string {
	list, _ := value.([]any)
	out := make([]string, 0, len(list))
	for _, v := range list {
		text, _ := v.(string)
		out = append(out, text)
	}
	return out
}
