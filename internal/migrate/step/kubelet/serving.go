package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/hostaccess"
)

const (
	// kubeletAddress is where a kubelet serves logs and exec on its own host.
	kubeletAddress = "127.0.0.1:10250"
	dialTimeout    = 5 * time.Second
)

// serving notes the state of a kubelet's serving certificate. It notes a request that waits for approval, with the
// command that approves it. It also notes addresses of the node that the certificate no longer has. Until then logs and
// exec of the node's pods may not work; everything else does.
func (x Kubelet) serving(ctx context.Context, s v1.Step, rec *v1.StepRecord) {
	node := x.Env.NodeNames[s.Host]
	names, err := pendingServing(ctx, x, node)
	if err != nil {
		x.Env.Note(
			s,
			rec,
			fmt.Sprintf("whether the kubelet of node %s waits for a serving certificate is not known: %v", node, err),
		)
	}
	for _, name := range names {
		x.Env.Note(
			s,
			rec,
			fmt.Sprintf("the kubelet of node %s waits for its serving certificate: kubectl certificate approve %s", node, name),
		)
	}
	if rec.Node == nil || len(rec.Node.Names) == 0 {
		return
	}
	is := certified(ctx, x, s.Host)
	if len(is) == 0 {
		return
	}
	var lost []string
	for _, name := range rec.Node.Names {
		if !slices.Contains(is, name) {
			lost = append(lost, name)
		}
	}
	if len(lost) > 0 {
		x.Env.Note(
			s,
			rec,
			fmt.Sprintf("the serving certificate of the kubelet of node %s is no longer for %s", node, strings.Join(lost, ", ")),
		)
	}
}

// pendingServing are the requests for a serving certificate of a node that are not decided, sorted.
func pendingServing(ctx context.Context, x Kubelet, node string) ([]string, error) {
	list, err := x.Env.Kube.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeletServingSignerName).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("listing certificate signing requests: %w", err)
	}
	var out []string
	for _, r := range list.Items {
		if r.Spec.SignerName == certificatesv1.KubeletServingSignerName && r.Spec.Username == "system:node:"+node &&
			len(r.Status.Conditions) == 0 {
			out = append(out, r.Name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// certified are the names and addresses in the certificate with which a kubelet serves, sorted; none where the access
// cannot connect to it.
func certified(ctx context.Context, x Kubelet, host string) []string {
	h, err := x.Env.Host(host)
	if err != nil {
		return nil
	}
	dialer, ok := h.(hostaccess.Dialer)
	if !ok {
		return nil
	}
	limited, cancel := context.WithTimeoutCause(ctx, dialTimeout, errors.New("no answer of the kubelet"))
	defer cancel()
	raw, err := dialer.DialContext(limited, "tcp", kubeletAddress)
	if err != nil {
		return nil
	}
	defer func() { _ = raw.Close() }()                             // nothing was written but a greeting
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate is looked at, and nothing is sent
	if err := conn.HandshakeContext(limited); err != nil {
		return nil
	}
	certs := conn.ConnectionState().PeerCertificates
	if len(certs) == 0 {
		return nil
	}
	out := slices.Clone(certs[0].DNSNames)
	for _, ip := range certs[0].IPAddresses {
		out = append(out, ip.String())
	}
	slices.Sort(out)
	return out
}
