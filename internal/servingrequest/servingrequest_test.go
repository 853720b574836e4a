package servingrequest_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/servingrequest"
	"github.com/transplant-dev/transplant/internal/servingrequest/csr"
	"github.com/transplant-dev/transplant/internal/servingrequest/requesttest"
)

// TestOnlyTheNamesOfANodeAreApproved: the credentials of a node suffice to make these requests.
func TestOnlyTheNamesOfANodeAreApproved(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*x509.CertificateRequest)
		csr    func(*certificatesv1.CertificateSigningRequest)
		want   string
	}{
		"its own":          {},
		"its address only": {change: func(r *x509.CertificateRequest) { r.DNSNames = nil }},
		"an address of nobody": {change: func(r *x509.CertificateRequest) {
			r.IPAddresses = append(r.IPAddresses, net.IPv4(10, 0, 0, 9))
		}, want: "10.0.0.9, which Node a does not have"},
		"a name of nobody": {change: func(r *x509.CertificateRequest) {
			r.DNSNames = append(r.DNSNames, "api.example.com")
		}, want: "api.example.com, which Node a does not have"},
		"an address of another Node": {change: func(r *x509.CertificateRequest) {
			r.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 7)}
		}, want: "10.0.0.7, which Node b has, too"},
		"the name of another Node":     {change: func(r *x509.CertificateRequest) { r.DNSNames = []string{"b"} }, want: "b, which Node b has, too"},
		"the API server's name":        {change: func(r *x509.CertificateRequest) { r.DNSNames = []string{"kubernetes.default.svc"} }, want: "a name of the API server"},
		"the host's own address":       {change: func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} }, want: "which every host has"},
		"a wildcard":                   {change: func(r *x509.CertificateRequest) { r.DNSNames = []string{"*.example.com"} }, want: "is no name of a node"},
		"a name with control sequence": {change: func(r *x509.CertificateRequest) { r.DNSNames = []string{"a\x1b[2K"} }, want: `"a\x1b[2K", which is no name`},
		"no name":                      {change: func(r *x509.CertificateRequest) { r.DNSNames, r.IPAddresses = nil, nil }, want: "no name"},
		"the common name of another":   {change: func(r *x509.CertificateRequest) { r.Subject.CommonName = "system:node:b" }, want: `the common name "system:node:b"`},
		"an organization":              {change: func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:masters"} }, want: `organizations ["system:masters"]`},
		"an e-mail address":            {change: func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@example.com"} }, want: "e-mail addresses or URIs"},
		"a URI":                        {change: func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{Scheme: "spiffe", Host: "a"}} }, want: "e-mail addresses or URIs"},
		"a name with a command": {csr: func(r *certificatesv1.CertificateSigningRequest) {
			r.Name = "csr-1;curl x|sh"
		}, want: "not one that a kubelet chooses"},
		"a user that is no kubelet": {csr: func(r *certificatesv1.CertificateSigningRequest) {
			r.Spec.Username = "a"
		}, want: `"a"`},
		"nothing": {csr: func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = nil }, want: "no single PEM block"},
		"a text":  {csr: func(r *certificatesv1.CertificateSigningRequest) { r.Spec.Request = []byte("x") }, want: "no single PEM block"},
		"two": {csr: func(r *certificatesv1.CertificateSigningRequest) {
			r.Spec.Request = append(r.Spec.Request, r.Spec.Request...)
		}, want: "no single PEM block"},
		"something else": {csr: func(r *certificatesv1.CertificateSigningRequest) {
			r.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")})
		}, want: "that can be read"},
	} {
		t.Run(name, func(t *testing.T) {
			request := requesttest.Of("a", "A", "a.example.com", "10.0.0.1", "fd00::1")
			if test.change != nil {
				test.change(request)
			}
			r := &certificatesv1.CertificateSigningRequest{
				ObjectMeta: metav1.ObjectMeta{Name: "csr-1"},
				Spec: certificatesv1.CertificateSigningRequestSpec{
					SignerName: certificatesv1.KubeletServingSignerName, Username: "system:node:a", Request: requesttest.Encode(t, request),
				},
			}
			if test.csr != nil {
				test.csr(r)
			}
			// The kubelet of Node a claims the address of Node b, and names of the API server.
			nodes := servingrequest.NodesOf(&v1.Snapshot{Nodes: []v1.Node{
				{Name: "a", Addresses: []string{
					"InternalIP=10.0.0.1", "InternalIP=fd00:0::1", "InternalDNS=a.example.com", "InternalIP=10.0.0.7", "InternalIP=127.0.0.1",
					"Hostname=kubernetes.default.svc", "Hostname=b",
				}},
				{Name: "b", Addresses: []string{"InternalIP=10.0.0.7"}},
			}})
			command, err := nodes.Approve(csr.Of(r))
			if test.want == "" {
				if err != nil || command != "kubectl certificate approve csr-1" {
					t.Errorf("%q, %v", command, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || command != "" {
				t.Errorf("%q, %v", command, err)
			}
		})
	}
}

func TestARequestOfAnOlderSnapshotIsNotApproved(t *testing.T) {
	nodes := servingrequest.NodesOf(&v1.Snapshot{Nodes: []v1.Node{{Name: "a"}}})
	if command, err := nodes.Approve(v1.CertificateRequest{Name: "csr-1", Username: "system:node:a"}); err == nil || command != "" {
		t.Errorf("%q, %v", command, err)
	}
}

func TestACommandNamesAPlainRequestOnly(t *testing.T) {
	for name, want := range map[string]string{
		"csr-1": "kubectl delete csr csr-1", "node-csr-Ab_c.d": "kubectl delete csr node-csr-Ab_c.d",
		"x;reboot": "kubectl delete csr NAME", "--all": "kubectl delete csr NAME", "a b": "kubectl delete csr NAME", "$(id)": "kubectl delete csr NAME", "": "kubectl delete csr NAME",
	} {
		if got := servingrequest.Command("delete csr", name); got != want {
			t.Errorf("%q: %s", name, got)
		}
	}
}

// TestAWorkerGetsNoNameOfAnAPIServer: its kubelet writes the addresses of its Node, and no other Node has the virtual IP.
// With a certificate for it, root there could stand between the API server and its clients.
func TestAWorkerGetsNoNameOfAnAPIServer(t *testing.T) {
	s := &v1.Snapshot{
		Cluster:    v1.Cluster{Server: "https://API.example.com:6443"},
		APIServers: []string{"10.0.0.1", "10.0.0.100"},
		Kubeadm:    &v1.KubeadmConfig{ControlPlaneEndpoint: "control-plane.example.com:6443"},
		Hosts: []v1.Host{{Components: []v1.Component{
			{Name: "kube-apiserver", Flags: map[string]string{"service-cluster-ip-range": "10.96.0.0/12,fd00:96::/112"}},
		}}},
		Nodes: []v1.Node{
			{Name: "cp", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}, Addresses: []string{"InternalIP=10.0.0.1", "InternalIP=10.96.0.1"}},
			{Name: "worker", Addresses: []string{
				"InternalIP=10.0.0.7", "InternalIP=10.0.0.100", "ExternalDNS=api.example.com", "InternalIP=10.96.0.1", "InternalIP=fd00:96::1",
				"InternalIP=10.96.0.9", "InternalDNS=web.default.svc.cluster.local", "ExternalDNS=control-plane.example.com",
			}},
		},
	}
	nodes := servingrequest.NodesOf(s)
	for _, c := range []struct {
		node, name string
		approved   bool
	}{
		{"worker", "10.0.0.7", true}, {"cp", "10.0.0.1", true}, {"cp", "cp", true}, {"worker", "10.0.0.100", false}, {"worker", "api.example.com", false},
		{"worker", "10.96.0.9", false}, {"worker", "fd00:96::1", false},
		{"worker", "control-plane.example.com", false}, {"cp", "10.96.0.1", false}, {"worker", "web.default.svc.cluster.local", false},
	} {
		command, err := nodes.Approve(v1.CertificateRequest{Name: "csr-1", Username: "system:node:" + c.node, Names: []string{c.name}})
		if c.approved != (err == nil) || (command != "") != c.approved || err != nil && !strings.Contains(err.Error(), "a name of the API server") {
			t.Errorf("%s asks for %s: %q, %v", c.node, c.name, command, err)
		}
	}
}

// TestANodeThatIsAddedOftenOwnsItsNamesOnce: what is the same address is one, and other Nodes of it stay others.
func TestANodeThatIsAddedOftenOwnsItsNamesOnce(t *testing.T) {
	nodes := &servingrequest.Nodes{}
	for range 3 {
		nodes.Add("a", "10.0.0.1", "fd00::1", "FD00:0::1", "A")
		nodes.Add("b", "10.0.0.2")
	}
	nodes.Add("a", "10.0.0.2")
	for address, want := range map[string]string{
		"10.0.0.1": "",
		"fd00::1":  "",
		"a":        "",
		"10.0.0.2": "it asks for 10.0.0.2, which Node b has, too",
		"b":        "it asks for b, which Node a does not have",
	} {
		_, err := nodes.Approve(v1.CertificateRequest{Name: "csr-1", Username: servingrequest.UserPrefix + "a", Names: []string{address}})
		if got := fmt.Sprint(err); got != want && (want != "" || err != nil) {
			t.Errorf("%s: have %s, want %s", address, got, want)
		}
	}
}
