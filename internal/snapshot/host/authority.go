// Package host reads what a snapshot says of each host: manifests, units, processes, files, kubelet, cloud configs,
// credential providers, certificates and the clock.
package host

import (
	"context"
	"encoding/pem"
	"slices"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/safeyaml"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
	"github.com/transplant-dev/transplant/internal/snapshot/objects"
)

// rootCA is the ConfigMap that kube-controller-manager puts into every namespace from 1.20 on.
const rootCA = "kube-root-ca.crt"

// GatherAuthorities reads whom the cluster's own pods trust: the certificates in front of its API servers.
func GatherAuthorities(ctx context.Context, g *collect.Collector) {
	if g.Kube == nil {
		return // said elsewhere
	}
	cm, err := objects.ReadConfigMap(ctx, g, rootCA)
	if err != nil {
		g.Unknown("authorities", g.Describe("reading ConfigMap "+component.Namespace+"/"+rootCA, err))
		return
	}
	if cm != nil {
		g.Snap.Authorities = Certificates([]byte(cm.Data["ca.crt"]))
	}
}

// authority reads whom the host trusts to be its API server: what kubeadm put there, or else what a kubeconfig on it
// says. A host where neither is found tells nothing.
func (l *hostReader) authority(ctx context.Context) {
	if f, err := l.access.ReadFile(ctx, "/etc/kubernetes/pki/ca.crt"); err == nil {
		l.host.Authorities = Certificates(f.Data)
	}
	for _, at := range []string{"/etc/kubernetes/kubelet.conf", "/etc/kubernetes/controller-manager.conf"} {
		if len(l.host.Authorities) > 0 {
			return
		}
		f, err := l.access.ReadFile(ctx, at)
		if err != nil || safeyaml.Check(f.Data) != nil {
			continue
		}
		config, err := clientcmd.Load(f.Data)
		if err != nil {
			continue
		}
		for _, c := range config.Clusters {
			data := c.CertificateAuthorityData
			if len(data) == 0 && c.CertificateAuthority != "" {
				if f, err := l.access.ReadFile(ctx, c.CertificateAuthority); err == nil {
					data = f.Data
				}
			}
			l.host.Authorities = append(l.host.Authorities, Certificates(data)...)
		}
		slices.Sort(l.host.Authorities)
	}
}

// Certificates are the SHA-256 of the certificates in a bundle, sorted.
func Certificates(bundle []byte) []string {
	var out []string
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			slices.Sort(out)
			return slices.Compact(out)
		}
		if block.Type == "CERTIFICATE" {
			out = append(out, hostaccess.SHA256(block.Bytes))
		}
	}
}
