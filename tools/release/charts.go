package release

import (
	"fmt"
	"path"
	"strings"

	"sigs.k8s.io/yaml"
)

// chart is what a release has to know of a Helm chart.
type chart struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	AppVersion string `json:"appVersion"`
}

// charts adds the archives of all charts, as helm package names and fills them. Helm itself writes the time of the
// packaging into its archives.
func (b *builder) charts() error {
	of := map[string][]string{}
	for _, file := range b.source.below("deploy/charts") {
		name, _, nested := strings.Cut(strings.TrimPrefix(file, "deploy/charts/"), "/")
		if nested {
			of[name] = append(of[name], file)
		}
	}
	for name, files := range of {
		dir := path.Join("deploy/charts", name)
		data, err := b.source.read(dir + "/Chart.yaml")
		if err != nil {
			return err
		}
		var c chart
		if err := yaml.Unmarshal(data, &c); err != nil {
			return fmt.Errorf("reading %s/Chart.yaml: %w", dir, err)
		}
		if c.Name != name || c.Version == "" {
			return fmt.Errorf(
				"%s/Chart.yaml is of chart %q, version %q: Helm wants the name of its directory, and a version",
				dir, c.Name, c.Version,
			)
		}
		var entries []entry
		for _, file := range files {
			data, err := b.source.read(file)
			if err != nil {
				return err
			}
			entries = append(entries, entry{name: strings.TrimPrefix(file, dir+"/"), mode: 0o644, data: data})
		}
		packed, err := archive(below(name, entries), b.at)
		if err != nil {
			return err
		}
		b.files[name+"-"+c.Version+".tgz"] = packed
	}
	return nil
}
