package kubelet

import (
	"cmp"
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
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/servingrequest"
	"github.com/transplant-dev/transplant/internal/servingrequest/csr"
)

const (
	// kubeletAddress is where a kubelet serves logs and exec on its own host.
	kubeletAddress = "127.0.0.1:" + component.PortKubelet
	dialTimeout    = 5 * time.Second
)

// serving notes the state of a kubelet's serving certificate. It notes a request that waits for approval, with the
// command that approves it if it asks for the names of its Node alone. It also notes addresses of the node that the
// certificate no longer has. Until then logs and exec of the node's pods may not work; everything else does.
func (x Kubelet) serving(ctx context.Context, s v1.Step, rec *v1.StepRecord) {
	node := x.Env.NodeNames[s.Host]
	waits, err := x.waiting(ctx, node)
	if err != nil {
		waits = []string{
			fmt.Sprintf("whether the kubelet of node %s waits for a serving certificate is not known: %v", node, err),
		}
	}
	for _, text := range waits {
		x.Env.Note(s, rec, text)
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

// waiting says of each request for a serving certificate of a node that is not decided what to do with it, sorted.
func (x Kubelet) waiting(ctx context.Context, node string) ([]string, error) {
	list, err := x.Env.Kube.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.signerName", certificatesv1.KubeletServingSignerName).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("listing certificate signing requests: %w", err)
	}
	requests := slices.DeleteFunc(list.Items, func(r certificatesv1.CertificateSigningRequest) bool {
		return r.Spec.SignerName != certificatesv1.KubeletServingSignerName ||
			r.Spec.Username != servingrequest.UserPrefix+node || len(r.Status.Conditions) > 0
	})
	if len(requests) == 0 {
		return nil, nil
	}
	all, err := x.Env.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	nodes := servingrequest.Nodes{}
	if known := cmp.Or(x.Env.Live, x.Env.Before); known != nil {
		nodes.AddServers(known)
	}
	for _, n := range all.Items {
		nodes.Add(n.Name)
		if component.HasControlPlaneRole(n.Labels) {
			nodes.AddControlPlane(n.Name)
		}
		for _, a := range n.Status.Addresses {
			nodes.Add(n.Name, a.Address)
		}
	}
	var out []string
	for i := range requests {
		r := csr.Of(&requests[i])
		command, err := nodes.Approve(r)
		if err != nil {
			out = append(out, fmt.Sprintf("the kubelet of node %s waits for its serving certificate; do not approve request %q "+
				"before you know why: %v", node, r.Name, err))
			continue
		}
		out = append(out, fmt.Sprintf("the kubelet of node %s waits for its serving certificate, for %s: %s",
			node, strings.Join(r.Names, ", "), command))
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
