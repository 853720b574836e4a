// Package csr decides what is kept of a CertificateSigningRequest of a kubelet.
package csr

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// isName is a DNS name of a node.
var isName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`).MatchString

// IsKubelets reports whether a request is for a certificate of a kubelet, and has none yet.
func IsKubelets(r *certificatesv1.CertificateSigningRequest) bool {
	kubelets := []string{certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName}
	return slices.Contains(kubelets, r.Spec.SignerName) && len(r.Status.Certificate) == 0
}

// Of is what is kept of a request.
func Of(r *certificatesv1.CertificateSigningRequest) v1.CertificateRequest {
	out := v1.CertificateRequest{
		Name:       r.Name,
		SignerName: r.Spec.SignerName,
		Username:   r.Spec.Username,
		State:      stateOf(r),
		Created:    r.CreationTimestamp.UTC(),
	}
	if r.Spec.SignerName == certificatesv1.KubeletServingSignerName {
		names, err := readRequest(r)
		if out.Names = names; err != nil {
			out.Names, out.Problem = nil, err.Error()
		}
	}
	return out
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

// readRequest returns the names and addresses that a request asks for, sorted.
func readRequest(r *certificatesv1.CertificateSigningRequest) ([]string, error) {
	block, rest := pem.Decode(r.Spec.Request)
	if block == nil || len(rest) > 0 {
		return nil, errors.New("it holds no single PEM block")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, errors.New("it holds no certificate request that can be read")
	}
	switch {
	case request.Subject.CommonName != r.Spec.Username:
		return nil, fmt.Errorf("it asks for the common name %q", request.Subject.CommonName)
	case !slices.Equal(request.Subject.Organization, []string{"system:nodes"}):
		return nil, fmt.Errorf("it asks for the organizations %q", request.Subject.Organization)
	case len(request.EmailAddresses)+len(request.URIs) > 0:
		return nil, errors.New("it asks for e-mail addresses or URIs")
	}
	var names []string
	for _, name := range request.DNSNames {
		if !isName(name) {
			return nil, fmt.Errorf("it asks for %q, which is no name of a node", name)
		}
		names = append(names, name)
	}
	for _, ip := range request.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return nil, errors.New("it asks for no name")
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
