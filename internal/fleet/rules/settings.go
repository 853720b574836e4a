package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/transplant-dev/transplant/internal/catalogue/csidriver"
)

// CheckImages refuses an image of a cloud-controller-manager for a provider without one. The image would be silently
// unused, and its plan would never equal one that was made with the right name.
func CheckImages(flag string, images map[string]string) error {
	var known []string
	for _, p := range Providers {
		if p.InTree != "" {
			known = append(known, p.InTree)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(images)) {
		if !slices.Contains(known, name) {
			return fmt.Errorf(
				"--%s %s=%s: the providers that are migrated are %s",
				flag,
				name,
				images[name],
				strings.Join(known, ", "),
			)
		}
		if images[name] == "" {
			return fmt.Errorf("--%s %s= names no image", flag, name)
		}
	}
	return nil
}

// CheckVSphereCSI refuses a release of vSphere's CSI driver if it is not known which versions of Kubernetes it
// supports.
func CheckVSphereCSI(release string) error {
	if release == "" {
		return nil
	}
	driver, _ := csidriver.DriverOf(vSphereDriver)
	if _, ok := driver.Release(release); !ok {
		return fmt.Errorf(
			"--vsphere-csi-driver %s: which versions of Kubernetes that release supports is not known here",
			release,
		)
	}
	return nil
}
