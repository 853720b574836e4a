package planstep

import (
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

const (
	// ArchPlaceholder stands in --credential-provider for the architecture of a host.
	ArchPlaceholder = "{arch}"
	// ArchLabel is the label by which a node shows its architecture.
	ArchLabel = "kubernetes.io/arch"
)

// ProviderFile is a binary of the image credential provider on the machine that runs apply.
type ProviderFile struct {
	// Arch is the architecture of the hosts that get it; empty where all get the same.
	Arch         string
	Path, SHA256 string
}

// ProviderFiles are the binaries that options name: one, or one for each architecture, whose sums are written as
// amd64:SUM,arm64:SUM.
func ProviderFiles(o v1.Options) []ProviderFile {
	if o.CredentialProvider == "" {
		return nil
	}
	if !strings.Contains(o.CredentialProvider, ArchPlaceholder) {
		return []ProviderFile{{Path: o.CredentialProvider, SHA256: o.CredentialProviderSHA256}}
	}
	var out []ProviderFile
	for sum := range strings.SplitSeq(o.CredentialProviderSHA256, ",") {
		if arch, sum, ok := strings.Cut(sum, ":"); ok && arch != "" {
			at := strings.ReplaceAll(o.CredentialProvider, ArchPlaceholder, arch)
			out = append(out, ProviderFile{Arch: arch, Path: at, SHA256: sum})
		}
	}
	return out
}

// ProviderSums is what options say of the sums of binaries.
func ProviderSums(files []ProviderFile) string {
	var sums []string
	for _, f := range files {
		if f.Arch == "" {
			return f.SHA256
		}
		sums = append(sums, f.Arch+":"+f.SHA256)
	}
	slices.Sort(sums)
	return strings.Join(sums, ",")
}

// ProviderFileFor returns the binary for hosts of an architecture, and reports whether there is one.
func ProviderFileFor(o v1.Options, arch string) (ProviderFile, bool) {
	files := ProviderFiles(o)
	i := slices.IndexFunc(files, func(f ProviderFile) bool { return f.Arch == "" || f.Arch == arch })
	if i < 0 {
		return ProviderFile{}, false
	}
	return files[i], true
}

// IsProviderFile reports whether options name a file of this machine with a sum.
func IsProviderFile(o v1.Options, path, sum string) bool {
	return path != "" && slices.ContainsFunc(ProviderFiles(o), func(f ProviderFile) bool {
		return f.Path == path && f.SHA256 == sum
	})
}
