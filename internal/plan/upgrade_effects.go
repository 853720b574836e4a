package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

// upgradeEffects says what an upgrade on the way changes beside the migration, what it leaves to the operator, and what nobody has looked at.
func (b *builder) upgradeEffects() []string {
	if !b.up.wanted() {
		return nil
	}
	if !slices.ContainsFunc(b.steps, changesImage) {
		return []string{"versions: the control plane is " + b.up.version + " already, no image changes"}
	}
	v := b.up.version
	out := []string{
		fmt.Sprintf("versions: %s go from %s to %s, API servers first, by the tag of their images; registries and repositories stay", strings.Join(versioned, ", "), b.versionNow(), v),
		fmt.Sprintf("to do before: pull the images of %s on each control-plane host, so that no component waits for a download while it is stopped: %s", v, strings.Join(b.pulls(), "; ")),
		fmt.Sprintf("not upgraded: kubelets and kubeadm (packages of the hosts), kube-proxy, the cluster's DNS and etcd; kubelets of %s fit API servers of %s, and kubeadm upgrade node upgrades them later", b.kubeletVersions(), v),
		fmt.Sprintf("not checked: defaults that are new in %s, its release notes, values of flags, admission webhooks, --runtime-config, the API versions in files that flags name (--encryption-provider-config, --admission-control-config-file, --audit-policy-file, --config), and whether etcd is as new as upstream tests %s with", v, v),
		fmt.Sprintf("rollback: goes back to %s from any step. One minor version back is what upstream's tests try; what only %s can store cannot be kept", b.versionNow(), v),
	}
	if gone := catalogue.RemovedAPIs(b.up.minor); len(gone) > 0 && b.up.minor > b.api {
		out = append(out, fmt.Sprintf("no longer served from 1.%d on: %s. Who still asks for them is not in a snapshot; each API server counts it: kubectl get --raw /metrics | grep '^apiserver_requested_deprecated_apis.*removed_release=\"1.%d\"'",
			b.up.minor, strings.Join(gone, "; "), b.up.minor))
	}
	return out
}

// versionNow is the version of the API servers before the plan.
func (b *builder) versionNow() string {
	for _, h := range b.hosts {
		if c := component(h, KAS); c != nil {
			return tagOf(c.Image)
		}
	}
	return b.snap.Cluster.Version
}

func tagOf(image string) string { return image[strings.LastIndex(image, ":")+1:] }

// pulls are the commands that fetch the new images.
func (b *builder) pulls() []string {
	images := map[string]bool{}
	for _, s := range b.steps {
		for _, c := range s.Changes {
			if c.Field == fieldImage && changesImage(s) {
				images["crictl pull "+c.After] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(images))
}

// kubeletVersions names the versions of the kubelets.
func (b *builder) kubeletVersions() string {
	seen := map[string]bool{}
	for _, n := range b.snap.Nodes {
		seen[n.KubeletVersion] = true
	}
	delete(seen, "")
	if len(seen) == 0 {
		return "the version that they have"
	}
	return few(slices.Sorted(maps.Keys(seen)))
}

// imageLine is what a difference shows of an image where only flags are known; empty for a plan that changes no image there.
func imageLine(steps []v1.Step, c *v1.Component, host string) string {
	for _, s := range steps {
		if s.Host == host && s.Component == c.Name && changesImage(s) {
			return imagePrefix + c.Image + "\n"
		}
	}
	return ""
}

const imagePrefix = "image: "

// retagged carries an edit of an image out on the line that imageLine has made, and returns the rest of the text apart.
func retagged(text string, edits []v1.Edit) (line, rest string) {
	if !strings.HasPrefix(text, imagePrefix) {
		return "", text
	}
	line, rest, _ = strings.Cut(text, "\n")
	image := strings.TrimPrefix(line, imagePrefix)
	return imagePrefix + imageAfter(v1.Step{Edits: edits}, image) + "\n", rest
}
