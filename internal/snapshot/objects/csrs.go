package objects

import (
	"context"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/servingrequest/csr"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// GatherCertificateRequests keeps the kubelets' that have no certificate: such a kubelet cannot be asked for logs, or
// has not joined.
func GatherCertificateRequests(ctx context.Context, g *collect.Collector) {
	if g.Kube == nil {
		g.Unknown("csrs", collect.NoAPI)
		return
	}
	items, ok := collect.List(
		ctx,
		g,
		"csrs",
		"certificatesigningrequests",
		g.Kube.CertificatesV1().CertificateSigningRequests().List,
		func(l *certificatesv1.CertificateSigningRequestList) []certificatesv1.CertificateSigningRequest {
			return l.Items
		},
	)
	if !ok {
		return
	}
	g.Count("certificatesigningrequests", len(items))
	for i := range items {
		if r := &items[i]; csr.IsKubelets(r) {
			g.Snap.CertificateRequests = append(g.Snap.CertificateRequests, csr.Of(r))
		}
	}
	slices.SortFunc(
		g.Snap.CertificateRequests,
		func(a, b v1.CertificateRequest) int { return strings.Compare(a.Name, b.Name) },
	)
}
