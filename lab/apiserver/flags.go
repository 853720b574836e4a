package apiserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports of the components: the ordinary ones, on an address of its own.
const (
	portAPI        = "6443"
	portEtcdClient = "2379"
	portEtcdPeer   = "2380"
)

// freeAddress chooses a loopback address on which nobody listens. It is drawn from three million, so that two servers
// that start at once get different ones; and no connection has a source port there, as a free port of 127.0.0.1 may
// have a moment later.
func freeAddress() (string, error) {
	const attempts = 20
	var taken error
	for range attempts {
		address := fmt.Sprintf("127.%d.%d.%d", 200+rand.IntN(50), 1+rand.IntN(254), 1+rand.IntN(254))
		if taken = usable(address); taken == nil {
			return address, nil
		}
	}
	return "", fmt.Errorf("finding a free loopback address: %w", taken)
}

// usable tries to listen on every port that will be needed.
func usable(address string) error {
	var errs []error
	for _, port := range []string{portAPI, portEtcdClient, portEtcdPeer} {
		l, err := net.Listen("tcp", net.JoinHostPort(address, port))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

func (s *Server) etcdFlags() []string {
	client, peer := "https://"+net.JoinHostPort(
		s.address,
		portEtcdClient,
	), "https://"+net.JoinHostPort(
		s.address,
		portEtcdPeer,
	)
	cert, key, ca := s.path("etcd/server.crt"), s.path("etcd/server.key"), s.path("etcd/ca.crt")
	return []string{
		"--name=lab",
		"--data-dir=" + s.path("etcd/data"),
		"--unsafe-no-fsync", // what a test measures is not the disk of the machine it happens to run on
		"--quota-backend-bytes=4294967296",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=lab=" + peer,
		"--client-cert-auth", "--cert-file=" + cert, "--key-file=" + key, "--trusted-ca-file=" + ca,
		"--peer-client-cert-auth", "--peer-cert-file=" + cert, "--peer-key-file=" + key, "--peer-trusted-ca-file=" + ca,
		"--log-level=warn",
	}
}

// flags are those of kube-apiserver. Its limits are lifted: what is measured is a client, and one that overloads the
// server shows in the server's answers instead of in a queue.
func (s *Server) flags(audit bool) []string {
	pki := func(name string) string { return s.path("pki/" + name) }
	out := []string{
		"--bind-address=" + s.address, "--advertise-address=" + s.address, "--secure-port=" + portAPI,
		"--etcd-servers=https://" + net.JoinHostPort(s.address, portEtcdClient),
		"--etcd-cafile=" + pki("etcd/ca.crt"),
		"--etcd-certfile=" + pki("apiserver-etcd-client.crt"), "--etcd-keyfile=" + pki("apiserver-etcd-client.key"),
		"--tls-cert-file=" + pki("apiserver.crt"), "--tls-private-key-file=" + pki("apiserver.key"),
		"--client-ca-file=" + pki("ca.crt"),
		"--requestheader-client-ca-file=" + pki("front-proxy-ca.crt"), // managers read it to serve their own metrics
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + pki("sa.pub"), "--service-account-signing-key-file=" + pki("sa.key"),
		"--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=RBAC",
		"--endpoint-reconciler-type=none", // no client may use a loopback address out of Endpoints
		"--enable-priority-and-fairness=false",
		"--max-requests-inflight=4000", "--max-mutating-requests-inflight=4000",
		"--event-ttl=1h",
	}
	if audit {
		out = append(out,
			"--audit-policy-file="+s.path("audit-policy.yaml"), "--audit-log-path="+s.path(auditLog),
			"--audit-log-mode=blocking", // an answer has been given only when its line is there: counts are exact at any moment
			"--audit-log-maxsize=4096",  // one file
		)
	}
	return out
}
