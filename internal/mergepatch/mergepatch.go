// Package mergepatch decides what an object is after a JSON merge patch (RFC 7396). It works on the maps of
// unstructured objects, so that the numbers in them keep their types.
package mergepatch

import "maps"

// Apply returns an object with a patch in it. The object itself stays as it is; what neither changes is shared.
func Apply(object, patch map[string]any) map[string]any {
	out := maps.Clone(object)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range patch {
		part, nested := value.(map[string]any)
		switch {
		case value == nil:
			delete(out, key)
		case nested:
			have, _ := out[key].(map[string]any)
			out[key] = Apply(have, part)
		default:
			out[key] = value
		}
	}
	return out
}
