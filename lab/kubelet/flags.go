package kubelet

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
)

// Where kubeadm and the administrator put kubelet flags, in the order in which they count.
const (
	kubeadmFlagsFile = "/var/lib/kubelet/kubeadm-flags.env"
	extraFlagsFile   = "/etc/default/kubelet"
)

// Cloud provider modes of a kubelet.
const (
	CloudNone     = ""
	CloudAWS      = "aws"
	CloudExternal = "external"
)

// Flags are the command line that a kubelet runs with.
type Flags struct {
	CloudProvider    string // CloudNone, CloudExternal or the name of an in-tree provider
	ProviderID       string
	NodeLabels       map[string]string
	NodeIP           string
	HostnameOverride string
	FeatureGates     map[string]string
	// Args is the whole command line as it was read, also the flags that are accepted and change nothing here.
	Args []string
}

// readFlags reads the environment files of the host, as the service's unit does at each start.
func readFlags(hostDir, version string) (Flags, error) {
	var args []string
	for _, f := range []struct{ path, variable string }{
		{kubeadmFlagsFile, "KUBELET_KUBEADM_ARGS"},
		{extraFlagsFile, "KUBELET_EXTRA_ARGS"},
	} {
		data, err := os.ReadFile(filepath.Join(hostDir, f.path))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Flags{}, fmt.Errorf("reading kubelet flags from %q: %w", f.path, err)
		}
		env, err := parseEnvFile(data)
		if err != nil {
			return Flags{}, fmt.Errorf("reading kubelet flags from %q: %w", f.path, err)
		}
		args = append(args, strings.Fields(env[f.variable])...)
	}
	return parseFlags(args, version)
}

// parseEnvFile reads lines NAME=value, NAME="value" or NAME='value'. What systemd would skip with a warning is an error
// here: a line that nobody reads is a mistake that a test should show.
func parseEnvFile(data []byte) (map[string]string, error) {
	env := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || name == "" || strings.ContainsAny(name, " \t\"'") {
			return nil, fmt.Errorf("line %d is not NAME=value", n)
		}
		if value != "" && (value[0] == '"' || value[0] == '\'') {
			if len(value) < 2 || value[len(value)-1] != value[0] {
				return nil, fmt.Errorf("line %d: the quote of %s is not closed", n, name)
			}
			value = value[1 : len(value)-1]
		}
		env[name] = value
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return env, nil
}

// parseFlags understands both --name=value and --name value, and refuses what a kubelet refuses.
func parseFlags(args []string, version string) (Flags, error) {
	f := Flags{Args: args}
	set := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	set.StringVar(&f.CloudProvider, "cloud-provider", "", "")
	set.StringVar(&f.ProviderID, "provider-id", "", "")
	set.StringToStringVar(&f.NodeLabels, "node-labels", nil, "")
	set.StringVar(&f.NodeIP, "node-ip", "", "")
	set.StringVar(&f.HostnameOverride, "hostname-override", "", "")
	set.StringToStringVar(&f.FeatureGates, "feature-gates", nil, "")
	for _, accepted := range []string{
		"container-runtime-endpoint", "pod-infra-container-image", "pod-manifest-path",
		"image-credential-provider-config", "image-credential-provider-bin-dir",
	} {
		set.String(accepted, "", "")
	}
	if err := set.Parse(args); err != nil {
		return Flags{}, fmt.Errorf("parsing kubelet flags: %w", err)
	}
	if set.NArg() > 0 {
		return Flags{}, fmt.Errorf("parsing kubelet flags: unknown command %q", set.Arg(0))
	}
	return f, f.validate(version)
}

// inTree reports whether a provider in the kubelet itself asks the cloud about the machine.
func (f *Flags) inTree() bool {
	return f.CloudProvider != CloudNone && f.CloudProvider != CloudExternal
}

// firstDisabled is the first minor whose gate DisableCloudProviders is on by default.
const firstDisabled = 29

func (f *Flags) validate(version string) error {
	switch f.CloudProvider {
	case CloudNone, CloudExternal:
	default:
		p, known := cloudprovider.Lookup(f.CloudProvider)
		if !known {
			return fmt.Errorf("unknown cloud provider %q", f.CloudProvider)
		}
		if minor, ok := minorOf(version); ok && minor > p.LastInTree {
			return fmt.Errorf(
				"unknown cloud provider %q: kubelet %s has no in-tree provider of that name",
				f.CloudProvider,
				version,
			)
		} else if ok && minor >= firstDisabled && f.FeatureGates["DisableCloudProviders"] != "false" {
			return fmt.Errorf(
				"cloud provider %q was specified, but built-in cloud providers are disabled. Please set --cloud-provider=external and migrate to an external cloud provider",
				f.CloudProvider,
			)
		}
	}
	if f.NodeIP != "" && net.ParseIP(f.NodeIP) == nil {
		return fmt.Errorf("--node-ip %q is not an IP address", f.NodeIP)
	}
	for _, key := range slices.Sorted(maps.Keys(f.NodeLabels)) {
		if !labelAllowed(key) {
			return fmt.Errorf("--node-labels: %q is not a label that a kubelet may set on its own node", key)
		}
	}
	return nil
}

// labelAllowed says whether a kubelet may put the label on its node itself; NodeRestriction refuses the others.
func labelAllowed(key string) bool {
	domain, _, ok := strings.Cut(key, "/")
	if !ok {
		return true
	}
	reserved := false
	for _, d := range []string{"kubernetes.io", "k8s.io"} {
		reserved = reserved || domain == d || strings.HasSuffix(domain, "."+d)
	}
	if !reserved {
		return true
	}
	for _, d := range []string{"kubelet.kubernetes.io", "node.kubernetes.io"} {
		if domain == d || strings.HasSuffix(domain, "."+d) {
			return true
		}
	}
	return slices.Contains(defaultLabels, key)
}

// minorOf takes 26 from v1.26.0.
func minorOf(version string) (int, bool) {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) < 2 {
		return 0, false
	}
	minor, err := strconv.Atoi(parts[1])
	return minor, err == nil
}
