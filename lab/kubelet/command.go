package kubelet

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// mount says that what a container sees under inside lies under outside on this machine.
type mount struct{ inside, outside string }

// mountsOf resolves the container's mounts on the host and makes or checks their sources, as hostPath types demand. An
// error keeps the container waiting.
func mountsOf(hostDir string, pod *corev1.Pod, c *corev1.Container) ([]mount, error) {
	volumes := map[string]*corev1.Volume{}
	for i := range pod.Spec.Volumes {
		volumes[pod.Spec.Volumes[i].Name] = &pod.Spec.Volumes[i]
	}
	var mounts []mount
	for _, m := range c.VolumeMounts {
		outside, err := prepareVolume(hostDir, pod, volumes[m.Name])
		if err != nil {
			return nil, fmt.Errorf("MountVolume.SetUp failed for volume %q: %w", m.Name, err)
		}
		mounts = append(mounts, mount{path.Clean(m.MountPath), filepath.Join(outside, filepath.Clean("/"+m.SubPath))})
	}
	// The most specific mount counts.
	slices.SortFunc(mounts, func(a, b mount) int { return cmp.Compare(len(b.inside), len(a.inside)) })
	return mounts, nil
}

func prepareVolume(hostDir string, pod *corev1.Pod, v *corev1.Volume) (string, error) {
	if v.HostPath == nil {
		dir := filepath.Join(hostDir, "var/lib/kubelet/pods", string(pod.UID), "volumes/kubernetes.io~empty-dir", v.Name)
		return dir, os.MkdirAll(dir, 0o755)
	}
	hostPath := filepath.Clean("/" + v.HostPath.Path)
	outside := filepath.Join(hostDir, hostPath)
	kind := corev1.HostPathUnset
	if v.HostPath.Type != nil {
		kind = *v.HostPath.Type
	}
	info, err := os.Stat(outside)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return "", fmt.Errorf("hostPath type check failed: %w", err)
	}
	if missing && (kind == corev1.HostPathUnset || kind == corev1.HostPathDirectoryOrCreate) {
		return outside, os.MkdirAll(outside, 0o755) // a container runtime makes what is not checked a directory
	}
	if missing && kind == corev1.HostPathFileOrCreate {
		return outside, os.WriteFile(outside, nil, 0o644) //nolint:gosec // the mode that a kubelet gives it
	}
	if err := checkType(kind, info, missing, hostPath); err != nil {
		return "", err
	}
	return outside, nil
}

// checkType refuses what is not of the type that a volume asks for; info is nil when it is missing.
func checkType(kind corev1.HostPathType, info fs.FileInfo, missing bool, hostPath string) error {
	switch kind {
	case corev1.HostPathUnset:
	case corev1.HostPathDirectoryOrCreate, corev1.HostPathDirectory:
		if missing || !info.IsDir() {
			return fmt.Errorf("hostPath type check failed: %s is not a directory", hostPath)
		}
	case corev1.HostPathFileOrCreate, corev1.HostPathFile:
		if missing || !info.Mode().IsRegular() {
			return fmt.Errorf("hostPath type check failed: %s is not a file", hostPath)
		}
	case corev1.HostPathSocket, corev1.HostPathCharDev, corev1.HostPathBlockDev:
		if missing {
			return fmt.Errorf("hostPath type check failed: %s does not exist", hostPath)
		}
	default:
		return fmt.Errorf("hostPath type %q is unknown", kind)
	}
	return nil
}

// mapPaths replaces each absolute path in text that lies under a mount by the path on this machine. A path starts at
// the beginning of the text or behind one of the characters that separate values (--x=/a,/b; file:///a) and ends before
// the next one.
func mapPaths(text string, mounts []mount) string {
	const separators = "=,:;\"' \t\n"
	var out strings.Builder
	for text != "" {
		end := strings.IndexAny(text, separators)
		if end < 0 {
			end = len(text)
		}
		out.WriteString(mapPath(text[:end], mounts))
		if end == len(text) {
			break
		}
		out.WriteByte(text[end])
		text = text[end+1:]
	}
	return out.String()
}

func mapPath(word string, mounts []mount) string {
	scheme := ""
	if strings.HasPrefix(word, "///") { // of a URL without a host, cut at its colon
		scheme, word = "//", word[2:]
	}
	if !strings.HasPrefix(word, "/") {
		return scheme + word
	}
	for _, m := range mounts {
		if m.inside == "/" {
			return scheme + m.outside + word
		}
		if rest, ok := strings.CutPrefix(word, m.inside); ok && (rest == "" || rest[0] == '/') {
			return scheme + m.outside + rest
		}
	}
	return scheme + word
}

// commandLine is what a container runs: its arguments and environment as the process gets them.
type commandLine struct {
	component string // base name of argv[0]
	args      []string
	env       []string
}

// commandOf builds the command line of a container. The program itself comes from its image; of the command's first
// word only the base name counts, which is the name that the process shows.
func commandOf(
	pod *corev1.Pod,
	c *corev1.Container,
	program, address string,
	base []string,
	mounts []mount,
) (commandLine, error) {
	vars := map[string]string{}
	env := append(
		[]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME=" + pod.Spec.NodeName},
		base...)
	for _, e := range c.Env {
		value, err := envValue(pod, c, e, address)
		if err != nil {
			return commandLine{}, err
		}
		value = mapPaths(expand(value, vars), mounts)
		vars[e.Name] = value
		env = append(env, e.Name+"="+value)
	}
	if len(c.EnvFrom) > 0 {
		return commandLine{}, fmt.Errorf("envFrom of container %q: a static pod cannot read config maps and secrets", c.Name)
	}
	words := slices.Concat(c.Command, c.Args)
	if len(c.Command) == 0 {
		words = slices.Concat([]string{program}, c.Args)
	}
	line := commandLine{component: path.Base(expand(words[0], vars)), env: env}
	line.args = append(line.args, line.component)
	for _, w := range words[1:] {
		line.args = append(line.args, mapPaths(expand(w, vars), mounts))
	}
	return line, nil
}

func envValue(pod *corev1.Pod, c *corev1.Container, e corev1.EnvVar, address string) (string, error) {
	if e.ValueFrom == nil {
		return e.Value, nil
	}
	if e.ValueFrom.FieldRef == nil {
		return "", fmt.Errorf(
			"environment variable %q of container %q: only fieldRef can be resolved on a static pod",
			e.Name,
			c.Name,
		)
	}
	field := e.ValueFrom.FieldRef.FieldPath
	switch field {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return pod.Spec.NodeName, nil
	case "status.podIP", "status.podIPs", "status.hostIP":
		return address, nil
	}
	for prefix, values := range map[string]map[string]string{"metadata.labels": pod.Labels, "metadata.annotations": pod.Annotations} {
		if key, ok := strings.CutPrefix(field, prefix+"['"); ok && strings.HasSuffix(key, "']") {
			return values[strings.TrimSuffix(key, "']")], nil
		}
	}
	return "", fmt.Errorf("environment variable %q of container %q: field %q cannot be resolved", e.Name, c.Name, field)
}

// expand replaces $(NAME) by the variable's value; an unknown name stays as it is, and $$ stands for one dollar sign.
func expand(text string, vars map[string]string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			out.WriteByte(text[i])
			continue
		}
		if text[i+1] == '$' {
			out.WriteByte('$')
			i++
			continue
		}
		end := strings.IndexByte(text[i:], ')')
		if text[i+1] != '(' || end < 0 {
			out.WriteByte('$')
			continue
		}
		if value, ok := vars[text[i+2:i+end]]; ok {
			out.WriteString(value)
		} else {
			out.WriteString(text[i : i+end+1])
		}
		i += end
	}
	return out.String()
}
