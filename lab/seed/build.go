package seed

import (
	"context"
	"os"
	"path/filepath"

	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/kubelet"
)

// ImageOperator is the repository of the product's operator.
const ImageOperator = "ghcr.io/transplant-dev/transplant-operator"

// BuildPrograms compiles from the checkout what a seed runs of the product: the cloud-controller-managers of AWS and of
// further providers, and the operator once there is one.
func BuildPrograms(ctx context.Context, out string, providers ...string) (map[string]kubelet.Program, error) {
	root, err := build.FindRoot()
	if err != nil {
		return nil, err
	}
	programs := map[string]kubelet.Program{}
	for _, provider := range append(providers, "aws") {
		name := provider + "-cloud-controller-manager"
		file, err := build.BuildCommand(ctx, root, out, name)
		if err != nil {
			return nil, err
		}
		programs[build.ImageRegistry+name] = kubelet.Program{Path: file, Args: []string{everywhere}}
	}
	if _, err := os.Stat(filepath.Join(root, "cmd", "transplant-operator", "main.go")); err == nil {
		operator, err := build.BuildCommand(ctx, root, out, "transplant-operator")
		if err != nil {
			return nil, err
		}
		programs[ImageOperator] = kubelet.Program{Path: operator, Args: []string{"--kubeconfig=$(KUBECONFIG)"}}
	}
	return programs, nil
}
