package journal

import (
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/apitest"
)

// tiny has a journal of a few hosts kept as one of thousands is.
func tiny(h ObjectLocation) ObjectLocation {
	h.Sizes = &Sizes{Inline: 500, Recent: 700, Part: 9_000}
	return h
}

const configMaps = "/api/v1/namespaces/kube-system/configmaps/"

// partsOf are the names of the parts that are there.
func partsOf(api *apitest.Server) []string {
	var out []string
	for path := range api.Objects() {
		if name, ok := strings.CutPrefix(path, configMaps+Name+"-"); ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
