package seed

import (
	"fmt"
	"os"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/transplant-dev/transplant/lab/kubelet"
	"github.com/transplant-dev/transplant/lab/seed/component"
)

// Images of the parts of Kubermatic that are simulated, by repository; every tag of them runs the simulation.
const (
	ImageMachineController = "quay.io/kubermatic/machine-controller"
	ImageOSM               = "quay.io/kubermatic/operating-system-manager"
)

// everywhere is what a process listens on that was not told where: its pod's address, see kubelet.PodOptions.
const everywhere = "--bind-address=0.0.0.0"

// accessKey makes the name of a pod its access key, whatever its Secret says: the account's audit log tells the pods of
// one Deployment apart by it.
func accessKey(pod *corev1.Pod, name, value string) string {
	if name == "AWS_ACCESS_KEY_ID" {
		return pod.Name
	}
	return value
}

// program finds what a container is run by: its image's program, started by http-prober where the command says so.
func (s *Seed) program(c *corev1.Container) (kubelet.Program, error) {
	p, err := s.image(c.Image)
	if err != nil {
		return kubelet.Program{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return kubelet.Program{}, fmt.Errorf("finding the lab's own program: %w", err)
	}
	if len(c.Command) == 0 || path.Base(c.Command[0]) != component.Prober {
		if len(c.Command) > 0 && p.Path != self && path.Base(c.Command[0]) != path.Base(p.Path) {
			return kubelet.Program{}, fmt.Errorf(
				"exec: %q: executable file not found in image %s, whose program is %s",
				c.Command[0],
				c.Image,
				path.Base(p.Path),
			)
		}
		return p, nil
	}
	env := append(
		[]corev1.EnvVar{{Name: component.EnvComponent, Value: "1"}, {Name: component.EnvProgram, Value: p.Path}},
		p.Env...)
	return kubelet.Program{Path: self, Env: env}, nil
}

func (s *Seed) image(image string) (kubelet.Program, error) {
	repository, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndexByte(repository, ':'); i > strings.LastIndexByte(repository, '/') {
		repository = repository[:i]
	}
	if file, ok := s.opts.Binaries.Image(image); ok {
		if strings.HasSuffix(repository, "/kube-controller-manager") {
			return kubelet.Program{Path: file, Args: []string{everywhere}}, nil
		}
		return kubelet.Program{Path: file}, nil
	}
	if p, ok := s.opts.Programs[repository]; ok {
		return p, nil
	}
	switch repository {
	case ImageMachineController, ImageOSM:
		self, err := os.Executable()
		if err != nil {
			return kubelet.Program{}, fmt.Errorf("finding the lab's own program: %w", err)
		}
		return kubelet.Program{Path: self, Env: []corev1.EnvVar{{Name: component.EnvComponent, Value: "1"}}}, nil
	}
	return kubelet.Program{}, fmt.Errorf("the lab has no program for image %q", image)
}
