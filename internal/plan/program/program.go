// Package program decides what the image of a cloud-controller-manager holds: the version of its library, and with it
// the flags and controllers that it knows.
package program

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// OwnMinor is the minor of k8s.io/cloud-provider that our cloud-controller-manager is built from: it decides the
// dialect of controller names.
const OwnMinor = 37

// FirstLeaderMigration is the first minor of kube-controller-manager, and of the cloud-controller-managers' library,
// that has leader migration.
const FirstLeaderMigration = 21

// Program is the cloud-controller-manager in an image.
type Program struct {
	Image string
	Ours  bool
	// Minor of k8s.io/cloud-provider inside: the dialect of its names and the gates that it knows.
	Minor int
	// Command is the program in the image; empty where the image starts it by itself, from a path that is not known.
	Command string
	// LeaderMigration reports whether it looks at --enable-leader-migration; one that takes the flag and does not look
	// at it makes two owners.
	LeaderMigration bool
	// IPAMName is what it calls its node IPAM controller; empty when it has none. ipamOn reports whether it runs unless
	// --controllers removes it.
	IPAMName string
	IPAMOn   bool
	// ReadyPath is what a readiness probe asks for; empty for none.
	ReadyPath string
	// ShowsLoops reports whether it says on /metrics which loops it runs.
	ShowsLoops bool
	// NodeManager is the image that has to run on every node next to it; empty for none.
	NodeManager string
	// ServingPort is where it serves unless it is told otherwise.
	ServingPort string
}

// providerPrograms are what the providers' own programs do next to what the catalogue has of their images.
//
// azure: cloud-provider-azure cmd/cloud-controller-manager/app/controllermanager.go is an application of its own. It
// takes the flags of leader migration and campaigns for its main lease only, and its node IPAM controller is on. gce:
// cloud-provider-gcp cmd/cloud-controller-manager/main.go.
var providerPrograms = map[string]struct {
	// oneLease reports whether it has no leader migration.
	oneLease bool
	ipamName string
	ipamOn   bool
}{
	cloudprovider.Azure: {oneLease: true, ipamName: "node-ipam", ipamOn: true},
	cloudprovider.GCE:   {ipamName: "nodeipam", ipamOn: true},
}

// Identify says what is in an image: by the catalogue where it knows the image, else by its name and tag.
func Identify(provider, image string) (Program, error) {
	p := Program{Image: image, Ours: proven.Ours(image), ServingPort: component.PortCCM}
	if p.Ours {
		// see tools/images
		p.Minor = OwnMinor
		p.Command = "/" + provider + "-" + component.CCM
		p.LeaderMigration = true
		p.ShowsLoops = true
		p.ReadyPath = "/readyz"
		p.IPAMName = controllernames.Name(controllernames.CloudControllerManager, OwnMinor, controllernames.NodeIPAM)
		return p, nil
	}
	for m := component.Oldest; m <= component.Newest && p.Minor == 0; m++ {
		if known, ok := cloudprovider.OfficialImage(provider, m); ok && known.Ref == image {
			p.Minor = known.Minor
		}
	}
	if p.Minor == 0 {
		p.Minor = libraryMinor(image)
	}
	if p.Minor == 0 {
		return p, fmt.Errorf(
			"image %s does not tell its version, and with it which names and flags its manager knows: name it with its tag, e.g. %s:v1.30.0",
			image,
			WithoutTag(image),
		)
	}
	p.Command = provider + "-" + component.CCM
	if known, ok := NearestImage(provider, p.Minor); ok {
		p.ReadyPath, p.NodeManager, p.Command = known.ReadyPath, known.NodeManager, ""
		if len(known.Command) > 0 {
			p.Command = known.Command[0]
		}
	}
	own := providerPrograms[provider]
	p.LeaderMigration = !own.oneLease && p.Minor >= FirstLeaderMigration
	known, _ := cloudprovider.Lookup(provider)
	p.ServingPort = cmp.Or(known.ServingPort, component.PortCCM)
	p.ShowsLoops = !known.Silent && catalogue.ShowsLoops(component.CCM, p.Minor)
	p.IPAMName, p.IPAMOn = own.ipamName, own.ipamOn
	return p, nil
}

// KnowsFlag reports whether the program takes a flag. Of a flag that is not the library's only the program itself could
// say so; ours has those of node IPAM.
func (p Program) KnowsFlag(flag string) bool {
	f, held := catalogue.FlagAt(component.CCM, flag, min(p.Minor, component.Newest))
	return !held || f.Known
}

// NearestImage is the provider's own image for a minor, or for the nearest one before it that has any. A mirrored image
// is built like it.
func NearestImage(provider string, minor int) (cloudprovider.Image, bool) {
	for m := minor; m >= component.Oldest; m-- {
		if known, ok := cloudprovider.OfficialImage(provider, m); ok {
			return known, true
		}
	}
	return cloudprovider.Image{}, false
}

// libraryMinor reads 27 from the tags v1.27.3 and v27.1.6; 0 when the tag tells nothing. The providers number their
// releases after the minor of Kubernetes whose library they are built from.
func libraryMinor(image string) int {
	name, _, _ := strings.Cut(path.Base(image), "@")
	_, tag, _ := strings.Cut(name, ":")
	parts := strings.Split(strings.TrimPrefix(tag, "v"), ".")
	if len(parts) < 2 {
		return 0
	}
	number := parts[0]
	if number == "1" {
		number = parts[1]
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < component.Oldest-1 || n > component.Newest+10 {
		return 0
	}
	return n
}

// WithoutTag is an image's name without its digest and its tag; the port of a registry is no tag.
func WithoutTag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if at := strings.LastIndexByte(image, ':'); at > strings.LastIndexByte(image, '/') {
		image = image[:at]
	}
	return image
}

// ShowsLoops reports whether the manager in an image says on /metrics which loops it runs. One whose version the image
// does not tell is taken for one that does: what it runs is not known then, and never concluded.
func ShowsLoops(manager, provider, image string) bool {
	if manager != component.CCM {
		minor := libraryMinor(image)
		return minor == 0 || catalogue.ShowsLoops(manager, minor)
	}
	p, err := Identify(provider, image)
	return err != nil || p.ShowsLoops
}
