package controlplane

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// ApplyPodTemplate carries edits out on the container of a pod template that runs a component (kube-controller-manager, ...), in order and with
// the same meaning as Apply on a manifest. It returns a changed copy; a template that needs no edit comes back equal.
func ApplyPodTemplate(in *corev1.PodTemplateSpec, component string, edits []v1.Edit) (*corev1.PodTemplateSpec, error) {
	out := in.DeepCopy()
	at, err := containerOf(out.Spec.Containers, component)
	if err != nil {
		return nil, err
	}
	c := &out.Spec.Containers[at]
	if c.Command, c.Args, err = ApplyArguments(c.Command, c.Args, nil); err != nil {
		return nil, err
	}
	for _, e := range edits {
		switch e.Op {
		case addHostPath, removeHostPath:
			if err = validate(e); err == nil && e.Op == addHostPath {
				err = addTemplatePath(&out.Spec, c, e)
			} else if err == nil {
				removeTemplatePath(&out.Spec, c, e)
			}
			if err != nil {
				err = fmt.Errorf("%s %s: %w", e.Op, e.Name, err)
			}
		default:
			c.Command, c.Args, err = ApplyArguments(c.Command, c.Args, []v1.Edit{e})
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// containerOf is the only container that runs a component: by its program, else by its image or name.
func containerOf(containers []corev1.Container, component string) (int, error) {
	var found []int
	for i := range containers {
		c := container{Name: containers[i].Name, Image: containers[i].Image, Command: containers[i].Command, Args: containers[i].Args}
		if base := componentOf(c); base == component || strings.HasSuffix(base, "-"+component) || speaksOf(c, component) {
			found = append(found, i)
		}
	}
	switch len(found) {
	case 0:
		return 0, fmt.Errorf("no container of the pod template runs %s: its flags cannot be changed there", component)
	case 1:
		return found[0], nil
	default:
		return 0, fmt.Errorf("the containers %s and %s of the pod template both run %s: leave one of them", containers[found[0]].Name, containers[found[1]].Name, component)
	}
}

// speaksOf tells that a container's shell starts the component.
func speaksOf(c container, component string) bool {
	var shell *ShellCommandError
	return errors.As(refuseShell(c.arguments()), &shell) && shell.Component == component
}

func addTemplatePath(spec *corev1.PodSpec, c *corev1.Container, e v1.Edit) error {
	hostPath := func(name string) string {
		i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
		if i < 0 || spec.Volumes[i].HostPath == nil {
			return ""
		}
		return spec.Volumes[i].HostPath.Path
	}
	for _, mt := range c.VolumeMounts {
		if mt.MountPath != e.Value {
			continue
		}
		if path.Join(hostPath(mt.Name), mt.SubPath) == e.Value {
			return nil
		}
		return fmt.Errorf("the container has something else mounted at %s (volume %s): move that elsewhere", e.Value, mt.Name)
	}
	switch i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == e.Name }); {
	case i < 0:
		source := &corev1.HostPathVolumeSource{Path: e.Value}
		if e.PathType != "" {
			kind := corev1.HostPathType(e.PathType)
			source.Type = &kind
		}
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: e.Name, VolumeSource: corev1.VolumeSource{HostPath: source}})
	case hostPath(e.Name) != e.Value:
		return errors.New("the pod has another volume of that name: rename it")
	}
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: e.Name, MountPath: e.Value, ReadOnly: true})
	return nil
}

// removeTemplatePath leaves alone what another container mounts, and a volume that shows another path.
func removeTemplatePath(spec *corev1.PodSpec, c *corev1.Container, e v1.Edit) {
	i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == e.Name })
	if i < 0 || e.Value != "" && (spec.Volumes[i].HostPath == nil || spec.Volumes[i].HostPath.Path != e.Value) {
		return
	}
	mounts := func(m corev1.VolumeMount) bool { return m.Name == e.Name }
	c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, mounts)
	for _, other := range slices.Concat(spec.Containers, spec.InitContainers) {
		if slices.ContainsFunc(other.VolumeMounts, mounts) {
			return
		}
	}
	spec.Volumes = slices.Delete(spec.Volumes, i, i+1)
}
