package ccm

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/version"
	"k8s.io/component-base/version/verflag"

	ccmmetrics "github.com/transplant-dev/transplant/ccm/metrics"
	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/boundtoken"
)

// controllerLease shows which manager would run what after a handover, without waiting for one.
var controllerLease = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Name:           "transplant_ccm_controller_lease",
	StabilityLevel: metrics.ALPHA,
	Help:           "1 for each controller that this process runs while it holds the lease, standby included. The lease is none without leader election.",
}, []string{"controller", "lease"})

// controllerSkipped is for a controller that does not run, although it was asked for.
var controllerSkipped = metrics.NewGaugeVec(&metrics.GaugeOpts{
	Name:           "transplant_ccm_controller_skipped",
	StabilityLevel: metrics.ALPHA,
	Help:           "1 for each controller of the program's author that is enabled and has declined to start, which its log explains: its work is not done.",
}, []string{"controller"})

// tokenExpiry shows when this manager would be locked out.
var tokenExpiry = metrics.NewGauge(&metrics.GaugeOpts{
	Name:           "transplant_ccm_token_expiration_timestamp_seconds",
	StabilityLevel: metrics.ALPHA,
	Help:           "When the token of this manager expires, in seconds since 1970. It is renewed once a third of its life is over. 0 without --renew-token.",
})

func showTokenExpiry(c boundtoken.Claims) { tokenExpiry.Set(float64(c.Expires.Unix())) }

var registration sync.Once

func registerMetrics() {
	registration.Do(func() { ccmmetrics.Register(controllerLease, controllerSkipped, tokenExpiry) })
}

// showGroups sets the gauge.
func showGroups(groups []*group) {
	controllerLease.Reset()
	controllerSkipped.Reset()
	for _, g := range groups {
		for _, name := range g.controllers {
			controllerLease.WithLabelValues(name, g.lease).Set(1)
		}
	}
}

// VersionAnnotation on the command is the version of the program. An author whose build sets it in a variable of its
// own puts it there. Without it, the version is that of k8s.io/component-base if the build set it, or else the main
// module's.
const VersionAnnotation = "transplant.dev/version"

// Version is what --version=json prints.
type Version struct {
	Name      string            `json:"name"`
	Version   string            `json:"version"`
	GoVersion string            `json:"goVersion"`
	Platform  string            `json:"platform"`
	Libraries map[string]string `json:"libraries,omitempty"` // module path to version
	// Kubernetes are the API servers that it is tested against.
	Kubernetes Kubernetes `json:"kubernetes"`
}

// Kubernetes is a range of API servers.
type Kubernetes struct {
	Min    string   `json:"min"` // the first minor version, such as 1.26
	Max    string   `json:"max"` // the last one
	Tested []string `json:"tested"`
}

// versionOf describes a build. A nil info is a build without module information.
func versionOf(name, set string, info *debug.BuildInfo) Version {
	first, last := proven.Minors()
	v := Version{
		Name: name, Version: set, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Kubernetes: Kubernetes{Min: fmt.Sprintf("1.%d", first), Max: fmt.Sprintf("1.%d", last), Tested: proven.Versions()},
	}
	if info != nil {
		if v.Version == "" {
			v.Version = info.Main.Version
		}
		for _, dep := range info.Deps {
			if strings.HasPrefix(dep.Path, "k8s.io/cloud-provider") || dep.Path == "github.com/transplant-dev/transplant" {
				if v.Libraries == nil {
					v.Libraries = map[string]string{}
				}
				v.Libraries[dep.Path] = dep.Version
			}
		}
	}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = "devel"
	}
	return v
}

// String is the version in a line.
func (v Version) String() string {
	var parts []string
	for _, path := range sortedKeys(v.Libraries) {
		parts = append(parts, path+" "+v.Libraries[path])
	}
	parts = append(parts, v.GoVersion, v.Platform)
	return fmt.Sprintf("%s %s (%s)", v.Name, v.Version, strings.Join(parts, ", "))
}

// setVersion is the version that the build set, "" if it set none.
func setVersion(cmd *cobra.Command) string {
	if set := cmd.Annotations[VersionAnnotation]; set != "" {
		return set
	}
	// Builds that do not set it have a placeholder there, such as v0.0.0-master+$Format:%H$.
	if set := version.Get().GitVersion; !strings.HasPrefix(set, "v0.0.0") {
		return set
	}
	return ""
}

// versionValue is upstream's value of --version, which takes json as well. An author may have any other flag.
type versionValue struct {
	pflag.Value

	json bool
}

// Set takes what upstream's flag takes, and json.
func (v *versionValue) Set(s string) error {
	v.json = s == jsonVersion
	if v.json {
		return v.Value.Set("true")
	}
	if err := v.Value.Set(s); err != nil {
		return fmt.Errorf("it must be true, false, raw, %s or a version such as v1.2.3: %w", jsonVersion, err)
	}
	return nil
}

// String is what the flag says.
func (v *versionValue) String() string {
	if v.json {
		return jsonVersion
	}
	return v.Value.String()
}

// jsonVersion is what --version is given as for a program to read.
const jsonVersion = "json"

// addVersionFlag adds upstream's --version, which is bound to a variable of the process.
func addVersionFlag(fs *pflag.FlagSet) {
	shared := pflag.NewFlagSet("", pflag.ContinueOnError)
	verflag.AddFlags(shared)
	flag := *shared.Lookup(versionFlag)
	flag.Value = &versionValue{Value: flag.Value}
	flag.Usage = "--version prints the version and quits, --version=json does so for a program to read; --version=vX.Y.Z sets " +
		"the version that is reported"
	fs.AddFlag(&flag)
}

const versionFlag = "version"

// reportVersion prints the version if that is what the flags ask for, and reports whether they do.
func reportVersion(cmd *cobra.Command, out io.Writer) (bool, error) {
	asked := cmd.Flags().Lookup(versionFlag).Value.String()
	info, _ := debug.ReadBuildInfo()
	v := versionOf(cmd.Name(), setVersion(cmd), info)
	switch asked {
	case "true", "raw":
		_, err := fmt.Fprintln(out, v)
		return true, err
	case jsonVersion:
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return true, encoder.Encode(v)
	}
	return false, nil
}
