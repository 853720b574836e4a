package plan

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/controllernames"
)

// firstLeaderMigration is the first minor of kube-controller-manager, and of the cloud-controller-managers' library, that has leader migration.
const firstLeaderMigration = 21

// program is the cloud-controller-manager in an image.
type program struct {
	image string
	ours  bool
	// minor of k8s.io/cloud-provider inside: the dialect of its names and the gates that it knows.
	minor int
	// command is the program in the image.
	command string
	// leaderMigration tells that it looks at --enable-leader-migration; one that takes the flag and does not look at it makes two owners.
	leaderMigration bool
	// ipamName is what it calls its node IPAM controller; empty when it has none. ipamOn tells that it runs unless --controllers takes it out.
	ipamName string
	ipamOn   bool
	// readyPath is what a readiness probe asks for; empty for none.
	readyPath string
}

// official are the programs of the providers' own images: the path in the image and what they add to the common library.
//
// aws: cloud-provider-aws cmd/aws-cloud-controller-manager. azure: cloud-provider-azure cmd/cloud-controller-manager/app/controllermanager.go, an
// application of its own with one lease and a node IPAM controller that is on. gce: cloud-provider-gcp cmd/cloud-controller-manager/main.go.
// openstack: cloud-provider-openstack cmd/openstack-cloud-controller-manager. vsphere: cloud-provider-vsphere cmd/vsphere-cloud-controller-manager.
var official = map[string]program{
	"aws":       {command: "/bin/aws-cloud-controller-manager", leaderMigration: true},
	"azure":     {command: CCM, ipamName: "node-ipam", ipamOn: true},
	"gce":       {command: "/" + CCM, leaderMigration: true, ipamName: "nodeipam", ipamOn: true},
	"openstack": {command: "/bin/openstack-cloud-controller-manager", leaderMigration: true},
	"vsphere":   {command: "/bin/vsphere-cloud-controller-manager", leaderMigration: true},
}

// chooseImage takes the image of the options, else the catalogue's for the provider and the API server.
func (b *builder) chooseImage() error {
	if b.opts.Image == "" {
		image, ok := catalogue.ImageFor(b.provider.Name, b.api)
		if !ok {
			return fmt.Errorf("the catalogue has no cloud-controller-manager for provider %s and Kubernetes 1.%d: name one with --image", b.provider.Name, b.api)
		}
		b.opts.Image = image.Ref
	}
	p, err := programOf(b.provider.Name, b.opts.Image)
	b.program = p
	return err
}

// programOf says what is in an image: by the catalogue where it knows the image, else by its name and tag.
func programOf(provider, image string) (program, error) {
	p := program{image: image, ours: proven.Ours(image)}
	if p.ours {
		p.minor, p.command, p.leaderMigration, p.readyPath = ccmMinor, CCM, true, "/readyz"
		p.ipamName = controllernames.Name(controllernames.CloudControllerManager, ccmMinor, controllernames.NodeIPAM)
		return p, nil
	}
	o := official[provider]
	p.command, p.leaderMigration, p.ipamName, p.ipamOn = o.command, o.leaderMigration, o.ipamName, o.ipamOn
	for m := catalogue.Oldest; m <= catalogue.Newest; m++ {
		if known, ok := catalogue.OfficialImage(provider, m); ok && known.Ref == image {
			p.minor = known.Minor
		}
	}
	if p.minor == 0 {
		p.minor = libraryMinor(image)
	}
	if p.minor == 0 {
		return p, fmt.Errorf("image %s does not tell its version, and with it which names and flags its manager knows: name it with its tag, e.g. %s:v1.30.0", image, strings.SplitN(image, "@", 2)[0])
	}
	p.leaderMigration = p.leaderMigration && p.minor >= firstLeaderMigration
	return p, nil
}

// libraryMinor reads 27 from the tags v1.27.3 and v27.1.6; 0 when the tag tells nothing. The providers number their releases after the minor of
// Kubernetes whose library they are built from.
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
	if err != nil || n < catalogue.Oldest-1 || n > catalogue.Newest+10 {
		return 0
	}
	return n
}
