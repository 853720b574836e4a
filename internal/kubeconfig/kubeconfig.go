// Package kubeconfig decides which kubeconfigs of a Secret are used, and what of them.
//
// A kubeconfig is a program. client-go runs its exec plugins, reads the files that it names and sends requests through
// its proxy, all on the reader's machine. Who may write one Secret in a seed must not get the rights of the operator,
// nor of an administrator's machine. So a kubeconfig that a cluster handed out has to stand by itself. Only the fields
// that are known to be safe are copied out of it.
//
// The file that an administrator names with --kubeconfig is the administrator's own and is not read here. A bundle of a
// hosted cluster is the exception: it asks for what is in the Secret, as a file.
package kubeconfig

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/transplant-dev/transplant/internal/safeyaml"
)

// The Secret in a control plane's namespace of a seed, and the key in it, by which the cluster is reached.
const (
	SecretName = "admin-kubeconfig"
	SecretKey  = "kubeconfig"
)

const (
	maxBytes = 1 << 20 // a Secret holds no more
	maxShown = 80      // of a name, which the Secret's author chose
)

// ReadSecret returns the configuration of the current context in a Secret's kubeconfig. An entry that would run a
// program, read a file of this machine, or send credentials to an unproven server is refused. So are entries that the
// current context does not name. Its clients follow no redirect.
func ReadSecret(secret *corev1.Secret) (*rest.Config, error) {
	config, err := readConfig(secret.Data[SecretKey], "")
	if err != nil {
		return nil, fmt.Errorf("kubeconfig in Secret %s/%s, key %s: %w", secret.Namespace, secret.Name, SecretKey, err)
	}
	return config, nil
}

// ReadFile is ReadSecret for a file that holds what a cluster handed out, and a context of it. No name stands for its
// current context.
func ReadFile(path, context string) (*rest.Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config, err := readConfig(data, context)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return config, nil
}

// Server returns the cluster of the current context in a kubeconfig of a host: server, authority and the name of its
// certificate, and no proxy. A server that has not to prove itself is refused: a token is written next to it.
func Server(data []byte) (*clientcmdapi.Cluster, error) {
	k, err := load(data)
	if err != nil {
		return nil, errors.New("it is not a kubeconfig (the reason is not shown, since it may quote credentials)")
	}
	current, ok := k.Contexts[k.CurrentContext]
	if !ok || k.Clusters[current.Cluster] == nil {
		return nil, fmt.Errorf("its current context %s names no cluster", quote(k.CurrentContext))
	}
	c := k.Clusters[current.Cluster]
	if c.InsecureSkipTLSVerify {
		return nil, fmt.Errorf("cluster %s has its server's certificate not verified (insecure-skip-tls-verify): "+
			"give it certificate-authority-data", quote(current.Cluster))
	}
	if err := refuseServer(c.Server); err != nil {
		return nil, fmt.Errorf("cluster %s %w", quote(current.Cluster), err)
	}
	return &clientcmdapi.Cluster{
		Server: c.Server, TLSServerName: c.TLSServerName, DisableCompression: c.DisableCompression,
		CertificateAuthority: c.CertificateAuthority, CertificateAuthorityData: c.CertificateAuthorityData,
	}, nil
}

// load reads a kubeconfig that does not grow by its aliases.
func load(data []byte) (*clientcmdapi.Config, error) {
	if err := safeyaml.Check(data); err != nil {
		return nil, err
	}
	return clientcmd.Load(data)
}

// readConfig returns the configuration of a context; the current one for none.
func readConfig(data []byte, context string) (*rest.Config, error) {
	if len(data) == 0 {
		return nil, errors.New("it is missing or empty")
	}
	if len(data) > maxBytes {
		return nil, fmt.Errorf("it has %d bytes, and none of more than %d is read", len(data), maxBytes)
	}
	k, err := load(data)
	if err != nil {
		return nil, errors.New("it is not a kubeconfig (the reason is not shown, since it may quote credentials)")
	}
	k.CurrentContext = cmp.Or(context, k.CurrentContext)
	for _, name := range slices.Sorted(maps.Keys(k.AuthInfos)) {
		if err := refuseUser(k.AuthInfos[name]); err != nil {
			return nil, fmt.Errorf("user %s %w", quote(name), err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.Clusters)) {
		if err := refuseCluster(k.Clusters[name]); err != nil {
			return nil, fmt.Errorf("cluster %s %w", quote(name), err)
		}
	}
	return build(k)
}

// refuseUser returns what is dangerous about a user, and what to write instead.
func refuseUser(u *clientcmdapi.AuthInfo) error {
	const instead = ": give it a token, or client-certificate-data and client-key-data"
	switch {
	case u == nil:
		return errors.New("is empty" + instead)
	case u.Exec != nil:
		return errors.New("is authenticated by a program (exec), which is not run" + instead)
	case u.AuthProvider != nil:
		return errors.New("is authenticated by a plugin (auth-provider), which is not run" + instead)
	case u.TokenFile != "":
		return errors.New("names a file of this machine (tokenFile), which is not read: " +
			"give it the token itself (token)")
	case u.ClientCertificate != "":
		return errors.New("names a file of this machine (client-certificate), which is not read: " +
			"give it client-certificate-data")
	case u.ClientKey != "":
		return errors.New("names a file of this machine (client-key), which is not read: give it client-key-data")
	case u.Impersonate != "", u.ImpersonateUID != "", len(u.ImpersonateGroups) > 0, len(u.ImpersonateUserExtra) > 0:
		return errors.New("impersonates another user (as, as-uid, as-groups, as-user-extra); " +
			"give it that user's own credentials, so that audit logs and refusals name it")
	}
	return nil
}

// refuseCluster returns what is dangerous about a cluster, and what to write instead.
func refuseCluster(c *clientcmdapi.Cluster) error {
	switch {
	case c == nil:
		return errors.New("is empty: give it a server and certificate-authority-data")
	case c.CertificateAuthority != "":
		return errors.New("names a file of this machine (certificate-authority), which is not read: " +
			"give it certificate-authority-data")
	case c.InsecureSkipTLSVerify:
		return errors.New("does not verify its server's certificate (insecure-skip-tls-verify), " +
			"so credentials could go to any server; " +
			"give it certificate-authority-data, and tls-server-name where the certificate is for another name")
	case c.ProxyURL != "":
		return errors.New("is reached through a proxy of its own (proxy-url), " +
			"to which this machine would connect; remove it, and set HTTPS_PROXY for this process where a proxy is needed")
	}
	return refuseServer(c.Server)
}

func refuseServer(server string) error {
	u, err := url.Parse(server)
	switch {
	case err != nil || u.Host == "":
		return errors.New("has a server that is not a URL: give it one that begins with https://")
	case u.Scheme != "https":
		return errors.New("has a server that is not reached by https, so that credentials could be read on the way: " +
			"give it one that begins with https://")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("has a server with more than host, port and path: " +
			"leave user, query and fragment out")
	}
	return nil
}

// build copies what is known to be safe. A field that a later client-go understands does not get in by itself.
func build(k *clientcmdapi.Config) (*rest.Config, error) {
	name := k.CurrentContext
	if name == "" && len(k.Contexts) == 1 {
		for only := range k.Contexts {
			name = only
		}
	}
	if name == "" {
		return nil, fmt.Errorf("it has no current-context and %d contexts: set current-context", len(k.Contexts))
	}
	current := k.Contexts[name]
	if current == nil {
		return nil, fmt.Errorf("its current-context %s is not in it: set current-context to one that is", quote(name))
	}
	cluster, user := k.Clusters[current.Cluster], k.AuthInfos[current.AuthInfo]
	if cluster == nil || user == nil {
		return nil, fmt.Errorf("its context %s names cluster %s and user %s, and not both are in it: "+
			"add the missing one",
			quote(name), quote(current.Cluster), quote(current.AuthInfo))
	}
	config := &rest.Config{
		Host: cluster.Server,
		TLSClientConfig: rest.TLSClientConfig{
			ServerName: cluster.TLSServerName,
			CAData:     cluster.CertificateAuthorityData,
			CertData:   user.ClientCertificateData,
			KeyData:    user.ClientKeyData,
		},
		BearerToken:        user.Token,
		Username:           user.Username,
		Password:           user.Password,
		DisableCompression: cluster.DisableCompression,
		UserAgent:          rest.DefaultKubernetesUserAgent(),
	}
	half := (len(config.CertData) == 0) != (len(config.KeyData) == 0)
	if _, err := rest.TLSConfigFor(config); err != nil || half {
		return nil, fmt.Errorf("the certificates and keys of cluster %s and user %s cannot be read "+
			"or do not belong together; write them again (the reason is not shown, since it may quote them)",
			quote(current.Cluster), quote(current.AuthInfo))
	}
	RefuseRedirects(config)
	return config, nil
}

// quote shows a name of the kubeconfig, which may be long or hold what a terminal would act upon.
func quote(name string) string {
	if len(name) > maxShown {
		return fmt.Sprintf("%.*q...", maxShown, name)
	}
	return fmt.Sprintf("%q", name)
}
