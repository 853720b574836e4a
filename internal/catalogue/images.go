package catalogue

import "slices"

// Image is a cloud-controller-manager that fits a cluster.
type Image struct {
	// Ref with its tag.
	Ref string
	// Ours tells that it is this project's, which is proven over a range of API servers; an official one belongs to one minor.
	Ours bool
	// Minor of k8s.io/cloud-provider inside: the dialect of its controller names.
	Minor int
	// Command is the program in the image. Some images start it by themselves, and some do not: with it, both do. Empty where the image's own has to do.
	Command []string
	// Controllers is the value of --controllers that its makers give; empty when all of them run.
	Controllers string
	// ReadyPath answers on the secure port without credentials.
	ReadyPath string
	// NodeIPAM tells that it can allocate pod CIDRs.
	NodeIPAM bool
	// NodeManager is the image that has to run on every node beside it; empty when none has to.
	NodeManager string
}

// Official in the place of an image stands for the one that OfficialImage returns for a cluster.
const Official = "official"

// ImageFor returns the image that a plan takes for a provider and the API server's minor: ours where there is one and its proven range covers the
// minor, else the official one. False when the catalogue has none.
func ImageFor(provider string, minor int) (Image, bool) {
	if i, ok := images[provider].at(minor); ok {
		return i, true
	}
	return OfficialImage(provider, minor)
}

// OfficialImage returns the provider's own image for a minor. False when its makers published none that a source names.
func OfficialImage(provider string, minor int) (Image, bool) {
	series, ok := official[provider]
	if !ok {
		return Image{}, false
	}
	i := slices.IndexFunc(series.tags, func(t tag) bool { return t.minor == minor })
	if i < 0 {
		return Image{}, false
	}
	t := series.tags[i]
	out := series.Image
	out.Minor = minor
	out.Ref = t.repository(series.repository) + ":" + t.tag
	if t.starts {
		out.Command = nil
	}
	if series.nodeManager != "" {
		out.NodeManager = series.nodeManagerAt(t)
	}
	return out, true
}

// ImageOf returns the official image of a reference. Makers number their releases in ways of their own, so a tag alone does not tell the minor.
func ImageOf(ref string) (Image, bool) {
	for provider, series := range official {
		for _, t := range series.tags {
			if t.repository(series.repository)+":"+t.tag == ref {
				return OfficialImage(provider, t.minor)
			}
		}
	}
	return Image{}, false
}

// spans of minors in which an image of ours fits.
type imageSpans []imageSpan

func (s imageSpans) at(minor int) (Image, bool) {
	i := slices.IndexFunc(s, func(i imageSpan) bool { return minor >= i.from && minor <= i.to })
	if i < 0 {
		return Image{}, false
	}
	return s[i].Image, true
}

type imageSpan struct {
	from, to int
	Image
}

// imageSeries is an official image with its tags, one per minor.
type imageSeries struct {
	Image
	repository, nodeManager string
	tags                    []tag
}

// tag is the newest tag of a minor that a source names.
type tag struct {
	minor int
	tag   string
	// at is the repository where it is not the series'; node the tag of the node manager where it differs.
	at, node string
	// starts tells that the image starts its program by itself, from a path that the series' command does not name.
	starts bool
}

func (t tag) repository(usual string) string {
	if t.at != "" {
		return t.at
	}
	return usual
}

func (s imageSeries) nodeManagerAt(t tag) string {
	if t.node != "" {
		return s.nodeManager + ":" + t.node
	}
	return s.nodeManager + ":" + t.tag
}

// FirstLeaderMigration is the first minor of kube-controller-manager, and of the cloud-controller-managers' library, that has leader migration.
const FirstLeaderMigration = 21

// HasLeaderMigration tells whether the official manager of a provider campaigns for a migration lease in the versions whose library can. Azure's is an
// application of its own (cloud-provider-azure cmd/cloud-controller-manager/app/controllermanager.go): it takes the flags and campaigns for its main lease only.
func HasLeaderMigration(provider string) bool { return provider != "azure" }
