package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// target is the version that the control plane gets on the way: the one that versions are judged against where there is one, else the API server's.
func (f facts) target() (version string, upgrade bool) {
	if f.opts.TargetVersion == "" || f.opts.ReplaceHosts {
		return f.Cluster.Version, false
	}
	return "v" + strings.TrimPrefix(f.opts.TargetVersion, "v"), true
}

// serverName is how a sentence calls the API server that versions are judged against.
func (f facts) serverName() string {
	version, upgrade := f.target()
	if upgrade {
		return version + ", to which the plan upgrades it"
	}
	return version
}

var imagesThere = Check{
	Code: "VER-012", Reason: "ImagesNotThere", Category: categoryVersions, Level: LevelWarning, Impact: ImpactAPI, DependsOn: append([]string{"API-001"}, onHosts...), Retryable: true,
	Title: "with --target-version, the images of that version are on every control-plane host",
	Explain: []string{
		"With --target-version the plan changes the images of kube-apiserver, kube-controller-manager and kube-scheduler, and the kubelet of each host has to have them. A component is stopped before its new image is pulled, so that a slow registry makes each restart longer, and one that cannot be reached leaves the host without its API server until the step is undone.",
		"What is there is read from the images that each Node shows, of which a kubelet lists fifty; an image that is there and not listed is pulled again in no time. The check warns and does not keep a plan from being made.",
	},
	judge: judgeImages,
}

func judgeImages(f facts) v1.Finding {
	version, upgrade := f.target()
	if !upgrade {
		return skip("no version changes: --target-version is not given")
	}
	if finding, ok := f.missing("nodes"); ok {
		return finding
	}
	var bad complaints
	commands := map[string]bool{}
	missing := map[string][]string{} // by host
	n := 0
	for _, name := range []string{kas, kcm, scheduler} {
		for _, p := range f.all(name) {
			image, ok := retagged(p.Image, version)
			if !ok {
				return with(unknown("%s", p.unversioned()), version, "images in the manifests", "")
			}
			n++
			if !slices.Contains(f.imagesOf(p.host.NodeName), image) {
				missing[p.host.Name] = append(missing[p.host.Name], image)
				commands["crictl pull "+image] = true
			}
		}
	}
	for _, host := range slices.Sorted(maps.Keys(missing)) {
		bad.add(host, "%s has no %s", host, strings.Join(missing[host], ", "))
	}
	if n == 0 {
		return unknown("no manifest of the control plane could be read")
	}
	if !bad.empty() {
		return with(bad.some(v1.Warn, "images of %s are missing, or not listed, on %s", version, plural(len(bad.objects), "control-plane host")), "every image pulled before the first step", "status.images of the nodes",
			strings.Join(slices.Sorted(maps.Keys(commands)), "; ")+"   # on each host named")
	}
	return pass("the images of %s are on all %s", version, plural(len(f.all(kas)), "control-plane host"))
}

// retagged is an image in another version, written as its tag is now; false when its tag is none.
func retagged(image, version string) (string, bool) {
	tag, ok := imageVersion(image)
	if !ok || strings.Contains(image, "@") {
		return "", false
	}
	if !strings.HasPrefix(tag, "v") {
		version = strings.TrimPrefix(version, "v")
	}
	return strings.TrimSuffix(image, tag) + version, true
}

func (f facts) imagesOf(node string) []string {
	for _, n := range f.Nodes {
		if n.Name == node {
			return n.ControlPlaneImages
		}
	}
	return nil
}

// handledByThePlan is the finding of a check about the next version where the plan goes there itself.
func (f facts) handledByThePlan() (v1.Finding, bool) {
	version, upgrade := f.target()
	if !upgrade {
		return v1.Finding{}, false
	}
	return skip("%s", fmt.Sprintf("the plan goes to %s, and drops or changes what that version does not take in the edit that changes the image", version)), true
}
