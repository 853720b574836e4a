package cloudconfig

import (
	"maps"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/shell"
)

// mountedBelow is the directory below which a plan mounts the files that --ccm-env names into the new manager.
const mountedBelow = "/etc/"

// envFiles judges the files that the wanted variables of --ccm-env name. Each has to be on every host of the new
// manager, and where a plan mounts it. wrong reports whether that is not so, and ends the check.
func envFiles(f facts.Facts, wanted func(name string) bool) (finding v1.Finding, wrong bool) {
	var missing, elsewhere findings.Problems
	var unclear []string
	fix := ""
	for _, name := range slices.Sorted(maps.Keys(f.Opts.CCMFiles)) {
		if !wanted(name) {
			continue
		}
		for _, h := range f.Hosts {
			at := strings.ReplaceAll(f.Opts.CCMFiles[name], "{host}", h.Name)
			if !h.ControlPlane || h.APIOnly {
				continue
			}
			there, known := fileOn(h, at)
			switch {
			case !strings.HasPrefix(at, mountedBelow):
				elsewhere.Add(
					h.Name+":"+at,
					"%s=%s is outside %s, and the plan mounts no other file into the new manager",
					name,
					at,
					mountedBelow,
				)
			case !known:
				unclear = append(unclear, at+" on host "+h.Name)
			case !there:
				missing.Add(h.Name+":"+at, "%s=%s is not on host %s", name, at, h.Name)
				if fix == "" {
					fix = "ls -l " + shell.Quote(at) + "   # on host " + shell.Quote(h.Name)
				}
			}
		}
	}
	const expected, source = "the file on every control-plane host", "--ccm-env, files of the hosts"
	switch {
	case !missing.Empty():
		return findings.With(
			missing.Some(
				v1.Fail,
				"%s that --ccm-env names %s not there, and the new manager would not start",
				findings.Plural(len(missing), "file"),
				english.Word(len(missing), "is", "are"),
			),
			expected,
			source,
			fix,
		), true
	case !elsewhere.Empty():
		return findings.With(
			elsewhere.Some(v1.Fail, "%s", elsewhere[0].Text),
			"a file below "+mountedBelow,
			"--ccm-env",
			"transplant plan --ccm-env <NAME>=/etc/kubernetes/<file>",
		), true
	case len(unclear) > 0:
		return findings.With(
			findings.Unknown("the snapshot does not say whether %s is there: take it with the same --ccm-env", unclear[0]),
			expected,
			source,
			"transplant snapshot --ccm-env <NAME>=<file> --out snapshot.yaml",
		), true
	}
	return v1.Finding{}, false
}

// fileOn reports whether a file is on a host, and whether that is known.
func fileOn(h v1.Host, path string) (there, known bool) {
	for _, f := range h.Files {
		if f.Path == path {
			return f.Present, true
		}
	}
	return false, false
}
