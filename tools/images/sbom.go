package images

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// components lists the modules that a program was built from, as the program itself says: a CycloneDX document.
func components(binary, program string, o Options) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("reading what %s was built from: %w", program, err)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: o.Created.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			BOMRef: purl(info.Main.Path, o.Version), Type: cyclonedx.ComponentTypeApplication,
			Name: program, Version: o.Version, PackageURL: purl(info.Main.Path, o.Version),
			Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
		},
	}
	list := []cyclonedx.Component{library("std", info.GoVersion)}
	for _, m := range info.Deps {
		list = append(list, moduleOf(m))
	}
	bom.Components = &list
	var out bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON)
	if err := encoder.SetPretty(true).Encode(bom); err != nil {
		return nil, fmt.Errorf("writing the components of %s: %w", program, err)
	}
	return out.Bytes(), nil
}

// moduleOf is a module as it was built: its replacement where it has one.
func moduleOf(m *debug.Module) cyclonedx.Component {
	if m.Replace != nil {
		m = m.Replace
	}
	return library(m.Path, m.Version)
}

func library(path, version string) cyclonedx.Component {
	return cyclonedx.Component{
		BOMRef: purl(path, version), Type: cyclonedx.ComponentTypeLibrary,
		Name: path, Version: version, PackageURL: purl(path, version),
	}
}

// purl is the package URL of a module.
func purl(path, version string) string { return "pkg:golang/" + path + "@" + version }
