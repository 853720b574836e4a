package objects

import (
	"context"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
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
	kubelets := []string{certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName}
	for i := range items {
		r := &items[i]
		if !slices.Contains(kubelets, r.Spec.SignerName) || len(r.Status.Certificate) > 0 {
			continue
		}
		g.Snap.CertificateRequests = append(g.Snap.CertificateRequests, v1.CertificateRequest{
			Name:       r.Name,
			SignerName: r.Spec.SignerName,
			Username:   r.Spec.Username,
			State:      stateOf(r),
			Created:    r.CreationTimestamp.UTC(),
		})
	}
	slices.SortFunc(
		g.Snap.CertificateRequests,
		func(a, b v1.CertificateRequest) int { return strings.Compare(a.Name, b.Name) },
	)
}

// stateOf is the state of a request without a certificate. Denied and Failed are for good, so they win over Approved.
func stateOf(r *certificatesv1.CertificateSigningRequest) string {
	state := "Pending"
	for _, c := range r.Status.Conditions {
		switch {
		case c.Type == certificatesv1.CertificateDenied || c.Type == certificatesv1.CertificateFailed:
			return string(c.Type)
		case c.Type == certificatesv1.CertificateApproved:
			state = string(c.Type)
		}
	}
	return state
}
