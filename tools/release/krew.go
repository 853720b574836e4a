package release

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

const (
	// pluginFile is the name under which kubectl finds the command as "kubectl transplant".
	pluginFile = "kubectl-" + command
	// completionFile is the program that kubectl asks what may follow "kubectl transplant".
	completionFile = "kubectl_complete-" + command

	completionScript = "#!/bin/sh\n" +
		"# kubectl runs this to complete \"kubectl transplant\". It has to be in PATH, as kubectl-transplant has.\n" +
		"exec " + pluginFile + " __complete \"$@\"\n"
)

// plugin is a manifest of krew.
type plugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       pluginSpec        `json:"spec"`
}

type pluginSpec struct {
	Version          string           `json:"version"`
	Homepage         string           `json:"homepage"`
	ShortDescription string           `json:"shortDescription"`
	Description      string           `json:"description"`
	Caveats          string           `json:"caveats"`
	Platforms        []pluginPlatform `json:"platforms"`
}

type pluginPlatform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string       `json:"uri"`
	SHA256 string       `json:"sha256"`
	Files  []pluginFrom `json:"files"`
	Bin    string       `json:"bin"`
}

type pluginFrom struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// krewManifest returns the manifest of the plugin, whose archives have these checksums, by platform.
func krewManifest(version string, sums map[string]string) ([]byte, error) {
	p := plugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2",
		Kind:       "Plugin",
		Metadata:   map[string]string{"name": command},
		Spec: pluginSpec{
			Version: version, Homepage: project,
			ShortDescription: "Migrate a cluster off its in-tree cloud provider",
			Description: "Transplant moves the cloud loops (service, route, node lifecycle) of a cluster from\n" +
				"kube-controller-manager to a cloud-controller-manager, and proves it.\n",
			Caveats: "Start with \"kubectl transplant check\", which changes nothing.\n" +
				"--cloud and --prove ask the cloud through a program of the same release, such as\n" +
				"aws-cloud-controller-manager: put it into PATH.\n" +
				"Completion of kubectl needs " + completionFile + " in PATH:\n" +
				project + "/blob/" + version + "/docs/how-to/install-the-command.md\n",
		},
	}
	for _, platform := range slices.Sorted(maps.Keys(sums)) {
		system, arch, _ := strings.Cut(platform, "/")
		name := archiveName(command, version, platform)
		one := pluginPlatform{
			URI: project + "/releases/download/" + version + "/" + name + archiveSuffix, SHA256: sums[platform], Bin: command,
		}
		one.Selector.MatchLabels = map[string]string{"os": system, "arch": arch}
		for _, file := range []string{command, "LICENSE", completionFile} {
			one.Files = append(one.Files, pluginFrom{From: name + "/" + file, To: "."})
		}
		p.Spec.Platforms = append(p.Spec.Platforms, one)
	}
	out, err := yaml.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("writing krew's manifest: %w", err)
	}
	return out, nil
}
