package hostaccess

import (
	"context"
	"fmt"
)

// ImageTrier is a Host on which it can be tried whether a container image is to be had before anything depends on it.
type ImageTrier interface {
	// TryImage has the machine's own kubelet pull the image, unless the machine has it. The kubelet starts the command in
	// it once, without access to the machine and without rights. Nil means that it was started; an *ImageError that it was
	// not, and why. Another error says that it is not known.
	TryImage(ctx context.Context, image string, command []string) error
}

// ImageError says that a machine cannot pull an image, or not start what is in it.
type ImageError struct {
	// Host is the machine's name, Image what it should have pulled.
	Host, Image string
	// Why is what its kubelet says.
	Why string
}

func (e *ImageError) Error() string {
	return fmt.Sprintf("image %s cannot be used on host %s: %s", e.Image, e.Host, e.Why)
}

// StuckReasons are what a kubelet says of a container that will not come up by itself soon.
var StuckReasons = []string{
	"ErrImagePull",
	"ImagePullBackOff",
	"InvalidImageName",
	"ErrImageNeverPull",
	"ImageInspectError",
	"RegistryUnavailable",
	"CreateContainerConfigError",
	"CreateContainerError",
	"RunContainerError",
	"CrashLoopBackOff",
}
