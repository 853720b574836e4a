package pki

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Identity is a user of the Kubernetes API, proven by a client certificate.
type Identity struct {
	User   string
	Groups []string
}

// The users of a control plane, named as kubeadm names them.
var (
	Admin             = Identity{User: "kubernetes-admin", Groups: []string{"system:masters"}}
	ControllerManager = Identity{User: "system:kube-controller-manager"}
	Scheduler         = Identity{User: "system:kube-scheduler"}
)

// Node is the kubelet of the Node with the given name, as the Node authorizer and NodeRestriction know it.
func Node(nodeName string) Identity {
	return Identity{User: "system:node:" + nodeName, Groups: []string{"system:nodes"}}
}

// Kubeconfig returns a kubeconfig that reaches server (an https URL) as id, with everything embedded. It holds a
// private key: write it with mode 0600.
func (p *PKI) Kubeconfig(server string, id Identity) ([]byte, error) {
	client, err := p.CA.Issue(Request{CommonName: id.User, Organizations: id.Groups, Client: true})
	if err != nil {
		return nil, err
	}
	c := clientcmdapi.NewConfig()
	name := id.User + "@" + p.cluster
	c.Clusters[p.cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: p.CA.Cert}
	c.AuthInfos[id.User] = &clientcmdapi.AuthInfo{ClientCertificateData: client.Cert, ClientKeyData: client.Key}
	c.Contexts[name] = &clientcmdapi.Context{Cluster: p.cluster, AuthInfo: id.User}
	c.CurrentContext = name
	out, err := clientcmd.Write(*c)
	if err != nil {
		return nil, fmt.Errorf("encoding kubeconfig of %q: %w", id.User, err)
	}
	return out, nil
}
