package host

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

const (
	credentialGroup = "credentialprovider.kubelet.k8s.io/"
	// askTimeout bounds one credential provider; a kubelet waits for a minute.
	askTimeout = 30 * time.Second
)

// askProviders asks every credential provider of a host for the credentials of one image, as its kubelet does.
func askProviders(ctx context.Context, g *collect.Collector, h *v1.Host, access hostaccess.Host) {
	fact := "hosts/" + h.Name + "/credential-providers"
	runner, err := hostaccess.RunnerOf(access)
	if err != nil {
		g.Unknown(fact, "the host's image credential providers were not asked: "+err.Error())
		return
	}
	c := h.Kubelet.Credentials
	for i := range c.Providers {
		p := &c.Providers[i]
		if !p.Present {
			continue
		}
		if p.Asked = ImageFor(g, h.NodeName, p.MatchImages); p.Asked == "" {
			p.Error = "none of the nodes' images comes from a registry that it matches, so that it was not asked"
			continue
		}
		if err := askProvider(ctx, runner, path.Join(c.BinDir, p.Name), g.Plugins[h.Name][i], p.Asked); err != nil {
			p.Error = err.Error()
			continue
		}
		p.Answered = true
	}
}

// AskCredentialProviders asks the image credential providers of one host that a configuration names, whether a kubelet
// is told of it yet or not. nodes are those of the cluster, whose images are asked about. It is an error when the
// configuration cannot be read. If the host's programs cannot be run, no provider is asked, and the answers say so.
func AskCredentialProviders(
	ctx context.Context,
	access hostaccess.Host,
	config, dir, node string,
	nodes []v1.Node,
) ([]v1.CredentialProvider, error) {
	g := &collect.Collector{Snap: &v1.Snapshot{Nodes: nodes}}
	out := &v1.CredentialProviders{ConfigPath: config, BinDir: dir}
	l := hostReader{
		Collector: g,
		access:    access,
		host:      v1.Host{Name: access.Name(), NodeName: node, Kubelet: &v1.Kubelet{Credentials: out}},
	}
	plugins, err := l.readCredentialConfig(ctx, out)
	if err != nil {
		return nil, err
	}
	for _, p := range plugins {
		out.Providers = append(out.Providers, l.credentialProvider(ctx, dir, p))
	}
	g.Plugins = map[string][]collect.ProviderConfig{access.Name(): plugins}
	askProviders(ctx, g, &l.host, access)
	return out.Providers, nil
}

// askProvider returns nil when the program gave credentials of the API version that it is configured with. What it gave
// ends here: an error says nothing of it, neither does one of the program's.
func askProvider(
	ctx context.Context,
	runner hostaccess.Executor,
	program string,
	p collect.ProviderConfig,
	image string,
) error {
	request, err := json.Marshal(
		map[string]string{"apiVersion": p.APIVersion, "kind": "CredentialProviderRequest", "image": image},
	)
	if err != nil {
		return fmt.Errorf("making the request: %w", err)
	}
	out, err := runner.Run(
		ctx,
		hostaccess.Command{
			Path:    program,
			Args:    p.Args,
			Env:     p.Environment(),
			Stdin:   request,
			Timeout: askTimeout,
		},
	)
	if err != nil {
		return fmt.Errorf("%w: run it by hand there to see what it says", err)
	}
	var answer struct {
		APIVersion string              `json:"apiVersion"`
		Kind       string              `json:"kind"`
		Auth       map[string]struct{} `json:"auth"`
	}
	switch err := json.Unmarshal(out, &answer); {
	case err != nil:
		return fmt.Errorf("%s answered something that is no JSON of a CredentialProviderResponse", program)
	case answer.Kind != "CredentialProviderResponse" || !strings.HasPrefix(answer.APIVersion, credentialGroup):
		return fmt.Errorf("%s answered something that is no CredentialProviderResponse", program)
	case answer.APIVersion != p.APIVersion:
		return fmt.Errorf(
			"%s answered in %s, and its configuration names %s: the kubelet refuses that",
			program,
			answer.APIVersion,
			p.APIVersion,
		)
	case len(answer.Auth) == 0:
		return fmt.Errorf("%s gave no credentials for %s: the kubelet would pull it without any", program, image)
	}
	return nil
}

// ImageFor is an image of a registry that one of the patterns matches. It is one that the host's own node uses, else
// any node's, else an example.
func ImageFor(g *collect.Collector, node string, patterns []string) string {
	var own, others []string
	region := ""
	for _, n := range g.Snap.Nodes {
		if n.Name == node {
			own = n.Registries
		} else {
			others = append(others, n.Registries...)
		}
		if region == "" {
			region = n.Labels["topology.kubernetes.io/region"]
		}
	}
	slices.Sort(others)
	for _, registry := range slices.Concat(own, slices.Compact(others)) {
		for _, pattern := range patterns {
			host, where := splitPattern(pattern)
			if cloudprovider.MatchesImage(host, registry) {
				return registry + where + "/probe:latest"
			}
		}
	}
	for _, pattern := range patterns {
		if host, where := splitPattern(pattern); exampleHost(host, region) != "" {
			return exampleHost(host, region) + where + "/probe:latest"
		}
	}
	return ""
}

// splitPattern takes a pattern of images apart: its host, and its path with the slash in front.
func splitPattern(pattern string) (host, where string) {
	pattern = strings.TrimPrefix(strings.TrimPrefix(pattern, "https://"), "http://")
	host, where, ok := strings.Cut(pattern, "/")
	if !ok || strings.Trim(where, "/") == "" {
		return host, ""
	}
	return host, "/" + strings.Trim(where, "/")
}

// exampleHost is a registry that a pattern matches and that its cloud answers for whether it exists or not; empty when
// there is none. Amazon gives credentials by account and region, and not by repository.
func exampleHost(pattern, region string) string {
	if !strings.Contains(pattern, "*") {
		return pattern
	}
	if rest, ok := strings.CutPrefix(pattern, "*.dkr.ecr.*."); ok && region != "" && !strings.Contains(rest, "*") {
		return "000000000000.dkr.ecr." + region + "." + rest
	}
	return ""
}
