package plan

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/controlplane"
)

// firstLeaderMigration is the first minor of kube-controller-manager, and of the cloud-controller-managers' library, that has leader migration.
const firstLeaderMigration = 21

// program is the cloud-controller-manager in an image.
type program struct {
	image string
	ours  bool
	// minor of k8s.io/cloud-provider inside: the dialect of its names and the gates that it knows.
	minor int
	// command is the program in the image; empty where the image starts it by itself, from a path that is not known.
	command string
	// leaderMigration tells that it looks at --enable-leader-migration; one that takes the flag and does not look at it makes two owners.
	leaderMigration bool
	// ipamName is what it calls its node IPAM controller; empty when it has none. ipamOn tells that it runs unless --controllers takes it out.
	ipamName string
	ipamOn   bool
	// readyPath is what a readiness probe asks for; empty for none.
	readyPath string
	// showsLoops tells that it says on /metrics which loops it runs.
	showsLoops bool
	// nodeManager is the image that has to run on every node beside it; empty for none.
	nodeManager string
}

// ways are what the providers' own programs do beside what the catalogue has of their images.
//
// azure: cloud-provider-azure cmd/cloud-controller-manager/app/controllermanager.go is an application of its own: it takes the flags of leader
// migration and campaigns for its main lease only, and its node IPAM controller is on. gce: cloud-provider-gcp cmd/cloud-controller-manager/main.go.
var ways = map[string]struct {
	// oneLease tells that it has no leader migration, silent that it does not say which loops it runs.
	oneLease, silent bool
	ipamName         string
	ipamOn           bool
}{
	providerAzure: {oneLease: true, silent: true, ipamName: "node-ipam", ipamOn: true},
	providerGCE:   {ipamName: "nodeipam", ipamOn: true},
}

// chooseImage takes the image of the options, else the catalogue's for the provider and the API server.
func (b *builder) chooseImage() error {
	if b.opts.Image == catalogue.Official {
		if err := b.chooseOfficial(); err != nil {
			return err
		}
	}
	if b.opts.Image == "" {
		image, ok := catalogue.ImageFor(b.provider.Name, max(b.api, b.up.minor)) // it starts when every API server is upgraded
		if !ok {
			if b.opts.Part != v1.PartInstall && (b.api < catalogue.Oldest || b.api > b.provider.LastInTree) {
				return fmt.Errorf("the cluster is of 1.%d: plans are made for 1.%d to 1.%d, the last one with the in-tree provider %s", b.api, catalogue.Oldest, b.provider.LastInTree, b.provider.Name)
			}
			return fmt.Errorf("the catalogue has no cloud-controller-manager for provider %s and Kubernetes 1.%d: name one with --image=REPOSITORY:TAG, or for the operator with --ccm-image=%s=REPOSITORY:TAG",
				b.provider.Name, max(b.api, b.up.minor), b.provider.Name)
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
		p.minor, p.command, p.leaderMigration, p.showsLoops, p.readyPath = ccmMinor, "/"+provider+"-"+CCM, true, true, "/readyz" // see Dockerfile
		p.ipamName = controllernames.Name(controllernames.CloudControllerManager, ccmMinor, controllernames.NodeIPAM)
		return p, nil
	}
	for m := catalogue.Oldest; m <= catalogue.Newest && p.minor == 0; m++ {
		if known, ok := catalogue.OfficialImage(provider, m); ok && known.Ref == image {
			p.minor = known.Minor
		}
	}
	if p.minor == 0 {
		p.minor = libraryMinor(image)
	}
	if p.minor == 0 {
		return p, fmt.Errorf("image %s does not tell its version, and with it which names and flags its manager knows: name it with its tag, e.g. %s:v1.30.0", image, untagged(image))
	}
	p.command = provider + "-" + CCM
	if known, ok := nearest(provider, p.minor); ok {
		p.readyPath, p.nodeManager, p.command = known.ReadyPath, known.NodeManager, ""
		if len(known.Command) > 0 {
			p.command = known.Command[0]
		}
	}
	own := ways[provider]
	p.leaderMigration = !own.oneLease && p.minor >= firstLeaderMigration
	p.showsLoops = !own.silent && catalogue.ShowsLoops(CCM, p.minor)
	p.ipamName, p.ipamOn = own.ipamName, own.ipamOn
	return p, nil
}

// fill puts the program and its flags into a container. Where the image starts its program by itself, the flags are its arguments.
func (p program) fill(container object, flags []controlplane.Flag) {
	args := make([]any, 0, len(flags))
	for _, f := range flags {
		args = append(args, "--"+f.Name+"="+f.Value)
	}
	if p.command == "" {
		container["args"] = args
		return
	}
	container["command"] = append([]any{p.command}, args...)
}

// knows tells that the program takes a flag. Of a flag that is not the library's only the program itself could say so; ours has those of node IPAM.
func (p program) knows(flag string) bool {
	f, held := catalogue.FlagAt(CCM, flag, min(p.minor, catalogue.Newest))
	return !held || f.Known
}

// nearest is the provider's own image for a minor, or for the nearest one before it that has any: a mirrored image is built like it.
func nearest(provider string, minor int) (catalogue.Image, bool) {
	for m := minor; m >= catalogue.Oldest; m-- {
		if known, ok := catalogue.OfficialImage(provider, m); ok {
			return known, true
		}
	}
	return catalogue.Image{}, false
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

// untagged is an image's name without its digest and its tag; the port of a registry is no tag.
func untagged(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if at := strings.LastIndexByte(image, ':'); at > strings.LastIndexByte(image, '/') {
		image = image[:at]
	}
	return image
}
