package testimony

import (
	"errors"
	"fmt"
	"os"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/klog/v2"
)

// Mode is whether the kubelet of a process testifies to others when it has ended.
type Mode string

// What --pod-testimony takes.
const (
	Auto   Mode = "auto"
	Always Mode = "always" // it is an error where the kubelet cannot
	Never  Mode = "never"
)

// Modes are all of them.
var Modes = []Mode{Auto, Always, Never}

// Variables by which a manager knows its pod, as the manifests of this project set them.
const (
	envPodName  = "POD_NAME"
	envNodeName = "NODE_NAME"
)

// Self is the process as its kubelet knows it.
type Self struct {
	// Pod and Node are where it runs. The pod is in the namespace of the leases.
	Pod, Node string

	message string // the file with the termination message
}

// Prepare writes the termination message of this container for an identity, to its terminationMessagePath. It returns
// nil where the kubelet does not testify: leases of holders that crash are waited for then.
func Prepare(mode Mode, path, identity string) (*Self, error) {
	if mode == Never {
		return nil, nil
	}
	s := &Self{Pod: os.Getenv(envPodName), Node: os.Getenv(envNodeName), message: path}
	err := errors.Join(s.isKnown(), isFirst(mode))
	if err == nil {
		err = writeMessage(path, Epitaph(identity))
	}
	switch {
	case err == nil:
		return s, nil
	case mode == Always:
		return nil, fmt.Errorf("--pod-testimony is always: %w", err)
	}
	klog.InfoS("A lease whose holder crashes is waited for", "because", err)
	return nil, nil
}

func (s *Self) isKnown() error {
	if s.Pod == "" || s.Node == "" {
		return fmt.Errorf("the environment does not name the pod and its node (%s, %s)", envPodName, envNodeName)
	}
	return nil
}

// isFirst says why the end of the container need not be that of this process. When the first process of a container
// has ended, the kernel has ended all others. One that a shell has started could outlive that end where the pod shares
// the host's processes.
func isFirst(mode Mode) error {
	if mode == Auto && os.Getpid() != 1 {
		return errors.New("this process is not the first one of a container")
	}
	return nil
}

// writeMessage writes the termination message of this container. The kubelet has made the file.
func writeMessage(path, message string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("termination message: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("termination message: %s is no file", path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return fmt.Errorf("termination message: %w", err)
	}
	_, err = f.WriteString(message)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("termination message: %w", err)
	}
	return nil
}

// Retract takes the termination message back. It is for a process that ends and leaves its lease to expire. Calls of it
// may still be on their way, and its successor must not begin before.
func (s *Self) Retract() {
	if s == nil || s.message == "" {
		return
	}
	if err := os.Truncate(s.message, 0); err != nil {
		klog.ErrorS(err, "The termination message cannot be taken back, so that the lease may be taken sooner than it expires")
	}
}

// Sign writes into a lease where its holder, this process, runs. Without a self, what an earlier holder wrote goes.
func (s *Self) Sign(lease *coordinationv1.Lease, identity string) {
	if s == nil {
		delete(lease.Annotations, Annotation)
		return
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[Annotation] = Claim{s.Pod, s.Node, identity}.String()
}
