package field

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/restmapper"
	sigsyaml "sigs.k8s.io/yaml"
)

//go:embed seeds
var seeds embed.FS

// inTreeGates bring the in-tree providers back that Kubernetes 1.29 switched off.
const inTreeGates = "DisableCloudProviders=false,DisableKubeletCloudCredentialProviders=false"

// document is one of a seed file: an object, or one for each of a list of values.
type document struct {
	For    []map[string]string `json:"for,omitempty"`
	Object map[string]any      `json:"object"`
}

// seed makes the objects that the provider's clusters have. Their statuses are written as they stand: nobody else
// writes them here.
func (f *Field) seed(ctx context.Context) error {
	groups, err := restmapper.GetAPIGroupResources(f.kube.Discovery())
	if err != nil {
		return fmt.Errorf("asking which resources there are: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	for _, file := range []string{"common.yaml", f.options.Provider + ".yaml"} {
		objects, err := f.read(file)
		if err != nil {
			return fmt.Errorf("reading seed %s: %w", file, err)
		}
		for _, o := range objects {
			if err := f.make(ctx, mapper, o); err != nil {
				return fmt.Errorf("making %s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
	}
	return nil
}

func (f *Field) read(file string) ([]*unstructured.Unstructured, error) {
	data, err := seeds.ReadFile("seeds/" + file)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(f.fit(string(data))), 4096)
	for {
		var d document
		if err := decoder.Decode(&d); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		objects, err := d.objects()
		if err != nil {
			return nil, err
		}
		out = append(out, objects...)
	}
}

// fit names the version and the provider, with the gates that a version without in-tree providers by default needs.
func (f *Field) fit(text string) string {
	if f.options.Provider == "gce" {
		text = strings.ReplaceAll(
			text,
			"          cloud-provider: PROVIDER\n",
			"          cloud-provider: PROVIDER\n          feature-gates: "+inTreeGates+"\n",
		)
	}
	return strings.NewReplacer("PROVIDER", f.options.Provider, "VERSION", f.options.Version).Replace(text)
}

func (d document) objects() ([]*unstructured.Unstructured, error) {
	values := d.For
	if len(values) == 0 {
		values = []map[string]string{nil}
	}
	text, err := sigsyaml.Marshal(d.Object)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, v := range values {
		o := &unstructured.Unstructured{}
		if err := sigsyaml.Unmarshal([]byte(filled(string(text), v)), &o.Object); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// filled puts values in the place of $key, the longest key first, since one may begin as another does.
func filled(text string, values map[string]string) string {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int { return len(b) - len(a) })
	for _, key := range keys {
		text = strings.ReplaceAll(text, "$"+key, values[key])
	}
	return text
}

func (f *Field) make(ctx context.Context, mapper meta.RESTMapper, o *unstructured.Unstructured) error {
	mapping, err := mapper.RESTMapping(
		schema.GroupKind{Group: o.GroupVersionKind().Group, Kind: o.GetKind()},
		o.GroupVersionKind().Version,
	)
	if err != nil {
		return err
	}
	client := f.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace())
	made, err := client.Create(ctx, o, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	status, ok := o.Object["status"]
	if !ok {
		return nil
	}
	made.Object["status"] = status
	_, err = client.UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

// template is a seed that is no object of the API.
func (f *Field) template(file string, values map[string]string) ([]byte, error) {
	data, err := seeds.ReadFile("seeds/" + file)
	if err != nil {
		return nil, err
	}
	return bytes.TrimSpace([]byte(filled(f.fit(string(data)), values))), nil
}
