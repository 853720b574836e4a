package version

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/shell"
)

// serverName is how a sentence calls the API server that versions are judged against.
func serverName(f facts.Facts) string {
	version, upgrade := f.Target()
	if upgrade {
		return version + ", to which the plan upgrades it"
	}
	return version
}

var imagesThere = rule.Check{
	Code:      "VER-012",
	Reason:    "ImagesNotThere",
	Category:  findings.CategoryVersions,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactAPI,
	DependsOn: append([]string{"API-001"}, rule.OnHosts...),
	Retryable: true,
	Judge:     judgeImages,
}

func judgeImages(f facts.Facts) v1.Finding {
	version, upgrade := f.Target()
	if !upgrade {
		return findings.Skip("no version changes: --target-version is not given")
	}
	if finding, ok := f.Missing("nodes"); ok {
		return finding
	}
	var bad findings.Problems
	commands := map[string]bool{}
	missing := map[string][]string{} // by host
	n := 0
	for _, name := range []string{component.KAS, component.KCM, component.Scheduler} {
		for _, p := range f.InstancesOf(name) {
			image, ok := retagged(p.Image, version)
			if !ok {
				return findings.With(findings.Unknown("%s", p.Unversioned()), version, "images in the manifests", "")
			}
			n++
			if !slices.Contains(imagesOf(f, p.Host.NodeName), image) {
				missing[p.Host.Name] = append(missing[p.Host.Name], image)
				commands["crictl pull "+shell.Quote(image)] = true
			}
		}
	}
	for _, host := range slices.Sorted(maps.Keys(missing)) {
		bad.Add(host, "%s has no %s", host, strings.Join(missing[host], ", "))
	}
	if n == 0 {
		return findings.Unknown("no manifest of the control plane could be read")
	}
	if !bad.Empty() {
		return findings.With(
			bad.Some(
				v1.Warn,
				"images of %s are missing, or not listed, on %s",
				version,
				findings.Plural(len(bad), "control-plane host"),
			),
			"every image pulled before the first step",
			"status.images of the nodes",
			strings.Join(slices.Sorted(maps.Keys(commands)), "; ")+"   # on each host named",
		)
	}
	return findings.Pass(
		"the images of %s are on all %s",
		version,
		findings.Plural(len(f.InstancesOf(component.KAS)), "control-plane host"),
	)
}

// retagged is an image in another version, written as its tag is now; false when its tag is none.
func retagged(image, version string) (string, bool) {
	tag, ok := facts.ImageVersion(image)
	if !ok || strings.Contains(image, "@") {
		return "", false
	}
	if !strings.HasPrefix(tag, "v") {
		version = strings.TrimPrefix(version, "v")
	}
	return strings.TrimSuffix(image, tag) + version, true
}

func imagesOf(f facts.Facts, node string) []string {
	for _, n := range f.Nodes {
		if n.Name == node {
			return n.ControlPlaneImages
		}
	}
	return nil
}

// handledByThePlan is the finding of a check about the next version where the plan goes there itself.
func handledByThePlan(f facts.Facts) (v1.Finding, bool) {
	version, upgrade := f.Target()
	if !upgrade {
		return v1.Finding{}, false
	}
	return findings.Skip(
		"%s",
		fmt.Sprintf(
			"the plan goes to %s, and drops or changes what that version does not take in the edit that changes the image",
			version,
		),
	), true
}
