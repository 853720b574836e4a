package catalogue

// Image is a cloud-controller-manager that fits a cluster.
type Image struct {
	// Ref with its tag.
	Ref string
	// Ours tells that it is this project's, which is proven over a range of API servers; an official one belongs to one minor.
	Ours bool
	// Minor of k8s.io/cloud-provider inside: the dialect of its controller names.
	Minor int
}

// ImageFor returns the image that a plan takes for a provider and the API server's minor: ours where there is one and its proven range covers the
// minor, else the official one. False when the catalogue has none.
func ImageFor(provider string, minor int) (Image, bool) {
	for _, i := range images[provider] {
		if minor >= i.from && minor <= i.to {
			return i.Image, true
		}
	}
	return Image{}, false
}

// OfficialImage returns the provider's own image for a minor.
func OfficialImage(provider string, minor int) (Image, bool) {
	for _, i := range images[provider] {
		if !i.Ours && minor >= i.from && minor <= i.to {
			return i.Image, true
		}
	}
	return Image{}, false
}

type imageSpan struct {
	from, to int
	Image
}

var images = map[string][]imageSpan{
	"aws": {{26, 36, Image{Ref: "ghcr.io/transplant-dev/aws-cloud-controller-manager:v0.1.0", Ours: true, Minor: 37}}},
}
