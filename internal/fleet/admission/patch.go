package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/transplant-dev/transplant/internal/fleet/rules"
)

// operation is one of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patcher writes a patch for an object: parents that are missing are made, and nothing else is touched.
type patcher struct {
	object map[string]any
	out    []operation
}

// patchOf is the patch that adds something to an object as it came.
func patchOf(raw []byte, add rules.Addition) ([]byte, error) {
	p := &patcher{}
	if err := json.Unmarshal(raw, &p.object); err != nil || p.object == nil {
		return nil, errors.New("the cluster is no object")
	}
	var errs []error
	for _, feature := range add.Features {
		errs = append(errs, p.add(true, "spec", "features", feature))
	}
	for _, key := range add.Annotations {
		errs = append(errs, p.add("", "metadata", "annotations", key))
	}
	if add.UseOctavia {
		errs = append(errs, p.add(true, "spec", "cloud", "openstack", "useOctavia"))
	}
	if add.DisableCSIDriver {
		errs = append(errs, p.add(true, "spec", "disableCsiDriver"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return json.Marshal(p.out)
}

// add sets a value. A parent that is something else than a map is left to the schema, which refuses it.
func (p *patcher) add(value any, path ...string) error {
	at, pointer := p.object, ""
	for i, key := range path[:len(path)-1] {
		pointer += "/" + escape(key)
		switch next := at[key].(type) {
		case map[string]any:
			at = next
		case nil:
			made := map[string]any{}
			at[key] = made
			at = made
			p.out = append(p.out, operation{"add", pointer, map[string]any{}})
		default:
			return fmt.Errorf("%s is no map", strings.Join(path[:i+1], "."))
		}
	}
	last := path[len(path)-1]
	at[last] = value
	p.out = append(p.out, operation{"add", pointer + "/" + escape(last), value})
	return nil
}

// escape writes a key as a part of a JSON pointer (RFC 6901).
func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }
