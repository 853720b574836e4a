package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/safeyaml"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/visible"
)

// credentialProviders reads the configuration that the kubelet names, and looks whether the programs are there. A
// kubelet does not start without its configuration, and starts without a program: then pulls fail.
func (l *hostReader) credentialProviders(ctx context.Context, k *v1.Kubelet) {
	config, dir := flagOf(k, "image-credential-provider-config"), flagOf(k, "image-credential-provider-bin-dir")
	if config == "" && dir == "" {
		return
	}
	out := &v1.CredentialProviders{ConfigPath: config, BinDir: dir}
	k.Credentials = out
	if config == "" || dir == "" {
		out.Error = "the kubelet names only one of --image-credential-provider-config and --image-credential-provider-bin-dir, with which it does not start"
		return
	}
	plugins, err := l.readCredentialConfig(ctx, out)
	if err != nil {
		out.Error = mask.Text(err.Error())
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errNoCredentialConfig) {
			l.Unknown(l.fact("credential-providers"), out.Error)
		}
		return
	}
	for _, p := range plugins {
		out.Providers = append(out.Providers, l.credentialProvider(ctx, dir, p))
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.Plugins == nil {
		l.Plugins = map[string][]collect.ProviderConfig{}
	}
	l.Plugins[l.host.Name] = plugins
}

// Bounds of a configuration that root on the host may write: each provider is read, and its program run.
const (
	maxProviders = 50
	maxName      = 255
)

var errNoCredentialConfig = errors.New("it is no CredentialProviderConfig")

func (l *hostReader) readCredentialConfig(
	ctx context.Context,
	out *v1.CredentialProviders,
) ([]collect.ProviderConfig, error) {
	file, err := l.access.ReadFile(ctx, out.ConfigPath)
	if err != nil {
		return nil, err
	}
	out.SHA256 = hostaccess.SHA256(file.Data)
	var config struct {
		APIVersion string                   `json:"apiVersion"`
		Kind       string                   `json:"kind"`
		Providers  []collect.ProviderConfig `json:"providers"`
	}
	// What the reader says may quote the file, and with it a secret.
	if err := safeyaml.Unmarshal(file.Data, &config); err != nil {
		return nil, fmt.Errorf("%s: %w: it cannot be read as YAML of that kind", out.ConfigPath, errNoCredentialConfig)
	}
	if config.Kind != "CredentialProviderConfig" {
		return nil, fmt.Errorf("%s: %w: its kind is %q", out.ConfigPath, errNoCredentialConfig, config.Kind)
	}
	out.APIVersion = config.APIVersion
	if len(config.Providers) > maxProviders {
		return nil, fmt.Errorf("%s: %w: it has %d providers, and no host needs more than %d",
			out.ConfigPath, errNoCredentialConfig, len(config.Providers), maxProviders)
	}
	return config.Providers, nil
}

func (l *hostReader) credentialProvider(
	ctx context.Context,
	dir string,
	p collect.ProviderConfig,
) v1.CredentialProvider {
	out := v1.CredentialProvider{Name: p.Name, APIVersion: p.APIVersion, MatchImages: p.MatchImages}
	if p.Name == "" || p.Name == "." || p.Name == ".." || strings.ContainsAny(p.Name, "/ ") || len(p.Name) > maxName {
		out.Name = visible.Cut(p.Name, maxName)
		out.Error = fmt.Sprintf("%q is no name of a program", out.Name)
		return out
	}
	at := path.Join(dir, p.Name)
	sum, mode, err := hostaccess.Digest(ctx, l.access, at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		out.Error = "there is no " + at
	case err != nil:
		out.Error = err.Error()
		l.Unknown(l.fact("credential-providers"), err.Error())
	case mode.Perm()&0o111 == 0:
		out.SHA256, out.Error = sum, fmt.Sprintf("%s may not be executed (mode %04o)", at, mode.Perm())
	default:
		out.SHA256, out.Present = sum, true
	}
	return out
}

// GatherCredentials does what needs hosts and nodes both.
func GatherCredentials(ctx context.Context, g *collect.Collector) {
	if !g.AskCredentialProviders {
		return
	}
	var asks []func(context.Context, *collect.Collector)
	for i := range g.Snap.Hosts {
		h := &g.Snap.Hosts[i]
		if h.Kubelet == nil || h.Kubelet.Credentials == nil {
			continue
		}
		at := slices.IndexFunc(g.Hosts, func(a hostaccess.Host) bool { return a.Name() == h.Name })
		if at < 0 {
			continue
		}
		asks = append(asks, func(ctx context.Context, g *collect.Collector) { askProviders(ctx, g, h, g.Hosts[at]) })
	}
	collect.Together(ctx, g, asks...)
}
