package build

import (
	"context"
	"fmt"
	"path/filepath"
)

// Names of the image credential providers that the project builds.
const (
	ECRCredentialProvider = "ecr-credential-provider"
	ACRCredentialProvider = "acr-credential-provider"
	GCRCredentialProvider = "gcr-credential-provider"
)

// BuildCredentialProviders compiles the image credential providers from the checkout at root into out, and returns the
// directory of the programs. They come from a module of their own, those of upstream as its tools.
func BuildCredentialProviders(ctx context.Context, root, out string) (string, error) {
	dir, err := filepath.Abs(out)
	if err != nil {
		return "", fmt.Errorf("resolving output directory %q: %w", out, err)
	}
	module := filepath.Join(root, "credentials")
	// Without a version, Amazon's has no --version.
	args := []string{"-ldflags", "-X main.gitVersion=lab -X main.version=lab", "-o", dir + string(filepath.Separator), "./cmd/...", "tool"}
	if err := goBuild(ctx, module, dir, args...); err != nil {
		return "", fmt.Errorf("building the image credential providers in %q: %w", module, err)
	}
	return dir, nil
}
