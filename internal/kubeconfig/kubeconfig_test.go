package kubeconfig

import (
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const hush = "hush-hush"

// safe is a kubeconfig that stands by itself, for a server that answers with the token it was sent.
func safe(t *testing.T) (*clientcmdapi.Config, *httptest.Server) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"major":"1","minor":"30","gitVersion":"` + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + `"}`))
	}))
	t.Cleanup(s.Close)
	c := clientcmdapi.NewConfig()
	c.Clusters["here"] = &clientcmdapi.Cluster{
		Server: s.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
	}
	c.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: hush}
	c.Contexts["now"] = &clientcmdapi.Context{Cluster: "here", AuthInfo: "admin"}
	c.CurrentContext = "now"
	return c, s
}

func secretOf(t *testing.T, c *clientcmdapi.Config) *corev1.Secret {
	t.Helper()
	data, err := clientcmd.Write(*c)
	if err != nil {
		t.Fatal(err)
	}
	return secretWith(data)
}

func secretWith(data []byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster-x", Name: SecretName}, Data: map[string][]byte{SecretKey: data}}
}

func TestWhatIsUsedOfAKubeconfig(t *testing.T) {
	for name, change := range map[string]func(c *clientcmdapi.Config){
		"as it is": func(*clientcmdapi.Config) {},
		"the only context": func(c *clientcmdapi.Config) {
			c.CurrentContext = ""
		},
		"the current one of two": func(c *clientcmdapi.Config) {
			c.Clusters["there"] = &clientcmdapi.Cluster{Server: "https://there.invalid"}
			c.AuthInfos["other"] = &clientcmdapi.AuthInfo{Token: "another"}
			c.Contexts["later"] = &clientcmdapi.Context{Cluster: "there", AuthInfo: "other"}
		},
		"a certificate for another name": func(c *clientcmdapi.Config) { c.Clusters["here"].TLSServerName = "example.com" },
		"without compression":            func(c *clientcmdapi.Config) { c.Clusters["here"].DisableCompression = true },
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := safe(t)
			change(c)
			config, err := ReadSecret(secretOf(t, c))
			if err != nil {
				t.Fatal(err)
			}
			kube, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			v, err := kube.Discovery().ServerVersion()
			if err != nil || v.GitVersion != hush {
				t.Errorf("the server was sent %v (%v)", v, err)
			}
		})
	}
}

// TestAnAttackByKubeconfigIsRefused is what who may write the Secret tries against who reads it.
func TestAnAttackByKubeconfigIsRefused(t *testing.T) {
	dir := t.TempDir()
	touched := filepath.Join(dir, "touched")
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("of this machine"), 0o600); err != nil {
		t.Fatal(err)
	}
	program := func() *clientcmdapi.AuthInfo {
		return &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
			Command: "touch", Args: []string{touched}, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}}
	}
	user := func(u *clientcmdapi.AuthInfo) func(c *clientcmdapi.Config) {
		return func(c *clientcmdapi.Config) { c.AuthInfos["admin"] = u }
	}
	cluster := func(change func(*clientcmdapi.Cluster)) func(c *clientcmdapi.Config) {
		return func(c *clientcmdapi.Config) { change(c.Clusters["here"]) }
	}
	for name, c := range map[string]struct {
		change func(*clientcmdapi.Config)
		want   string
	}{
		"a program":                 {user(program()), `user "admin" is authenticated by a program (exec)`},
		"a program of another user": {func(c *clientcmdapi.Config) { c.AuthInfos["zoe"] = program() }, `user "zoe" is authenticated by a program`},
		"a program and a token":     {func(c *clientcmdapi.Config) { c.AuthInfos["admin"].Exec = program().Exec }, `user "admin" is authenticated by a program`},
		"a plugin": {user(&clientcmdapi.AuthInfo{AuthProvider: &clientcmdapi.AuthProviderConfig{
			Name: "gcp", Config: map[string]string{"cmd-path": "touch", "cmd-args": touched}}}), `user "admin" is authenticated by a plugin (auth-provider)`},
		"a file as token":       {user(&clientcmdapi.AuthInfo{TokenFile: file}), "(tokenFile), which is not read: give it the token itself"},
		"a token and a file":    {user(&clientcmdapi.AuthInfo{Token: hush, TokenFile: file}), "(tokenFile)"},
		"a file as certificate": {user(&clientcmdapi.AuthInfo{ClientCertificate: file}), "(client-certificate)"},
		"a file as key":         {user(&clientcmdapi.AuthInfo{ClientKey: file}), "(client-key)"},
		"a user to act as":      {user(&clientcmdapi.AuthInfo{Token: hush, Impersonate: "root"}), "impersonates another user"},
		"a uid to act as":       {user(&clientcmdapi.AuthInfo{Token: hush, Impersonate: "a", ImpersonateUID: "0"}), "impersonates another user"},
		"groups to act as":      {user(&clientcmdapi.AuthInfo{Token: hush, ImpersonateGroups: []string{"system:masters"}}), "impersonates another user"},
		"more to act as":        {user(&clientcmdapi.AuthInfo{Token: hush, ImpersonateUserExtra: map[string][]string{"a": {"b"}}}), "impersonates another user"},
		"a file as CA": {cluster(func(c *clientcmdapi.Cluster) {
			c.CertificateAuthority = file
		}), `cluster "here" names a file of this machine (certificate-authority)`},
		"any server": {cluster(func(c *clientcmdapi.Cluster) {
			c.InsecureSkipTLSVerify, c.CertificateAuthorityData = true, nil
		}), "(insecure-skip-tls-verify)"},
		"a proxy":                   {cluster(func(c *clientcmdapi.Cluster) { c.ProxyURL = "http://169.254.169.254" }), "(proxy-url)"},
		"clear text":                {cluster(func(c *clientcmdapi.Cluster) { c.Server = "http://10.0.0.1" }), "not reached by https"},
		"clear text to itself":      {cluster(func(c *clientcmdapi.Cluster) { c.Server = "http://127.0.0.1:8001" }), "not reached by https"},
		"a socket":                  {cluster(func(c *clientcmdapi.Cluster) { c.Server = "unix:///run/docker.sock" }), "not a URL"},
		"a server without a scheme": {cluster(func(c *clientcmdapi.Cluster) { c.Server = "10.0.0.1:6443" }), "not a URL"},
		"no server":                 {cluster(func(c *clientcmdapi.Cluster) { c.Server = "" }), "not a URL"},
		"a password in the server": {cluster(func(c *clientcmdapi.Cluster) {
			c.Server = "https://me:" + hush + "@10.0.0.1"
		}), "leave user, query and fragment out"},
		"a broken CA":     {cluster(func(c *clientcmdapi.Cluster) { c.CertificateAuthorityData = []byte(hush) }), "cannot be read or do not belong together"},
		"half a key pair": {user(&clientcmdapi.AuthInfo{ClientKeyData: []byte(hush)}), "cannot be read or do not belong together"},
		"another cluster's dangers": {func(c *clientcmdapi.Config) {
			c.Clusters["zoo"] = &clientcmdapi.Cluster{Server: "https://a", CertificateAuthority: file}
		}, `cluster "zoo" names a file`},
		"no such context": {func(c *clientcmdapi.Config) { c.CurrentContext = "other" }, `current-context "other" is not in it`},
		"no such user":    {func(c *clientcmdapi.Config) { delete(c.AuthInfos, "admin") }, `names cluster "here" and user "admin", and not both`},
		"no such cluster": {func(c *clientcmdapi.Config) { delete(c.Clusters, "here") }, `names cluster "here" and user "admin", and not both`},
		"which context": {func(c *clientcmdapi.Config) {
			c.CurrentContext, c.Contexts["b"] = "", &clientcmdapi.Context{Cluster: "here", AuthInfo: "admin"}
		}, "no current-context and 2 contexts"},
		"a name for the terminal": {func(c *clientcmdapi.Config) {
			c.AuthInfos["\x1b[2J"+strings.Repeat("x", 4000)] = program()
		}, `user "\x1b[2Jxxx`},
	} {
		t.Run(name, func(t *testing.T) {
			k, _ := safe(t)
			c.change(k)
			config, err := ReadSecret(secretOf(t, k))
			if err == nil {
				if kube, err := kubernetes.NewForConfig(config); err == nil {
					_, _ = kube.Discovery().ServerVersion() // what the attack is for
				}
				t.Fatal("it is not refused")
			}
			said := err.Error()
			if !strings.Contains(said, c.want) || !strings.HasPrefix(said, "kubeconfig in Secret cluster-x/admin-kubeconfig, key kubeconfig: ") {
				t.Errorf("want %q in %q", c.want, said)
			}
			if strings.Contains(said, hush) || strings.ContainsRune(said, '\x1b') || len(said) > 600 {
				t.Errorf("it says too much: %q", said)
			}
			if _, err := os.Stat(touched); err == nil {
				t.Error("a program ran")
			}
		})
	}
}

// TestAFileOfAClusterIsTrustedAsLittle as the Secret that it comes from.
func TestAFileOfAClusterIsTrustedAsLittle(t *testing.T) {
	k, _ := safe(t)
	k.Contexts["b"] = &clientcmdapi.Context{Cluster: "there", AuthInfo: "admin"}
	there := *k.Clusters["here"]
	there.Server = "https://there:6443"
	k.Clusters["there"] = &there
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write := func() {
		if err := clientcmd.WriteToFile(*k, path); err != nil {
			t.Fatal(err)
		}
	}
	write()
	for context, want := range map[string]string{"": k.Clusters["here"].Server, "b": "https://there:6443"} {
		if config, err := ReadFile(path, context); err != nil || config.Host != want {
			t.Errorf("context %q: %v, %+v, want %s", context, err, config, want)
		}
	}
	k.AuthInfos["admin"] = &clientcmdapi.AuthInfo{TokenFile: path}
	write()
	for at, want := range map[string]string{path: "kubeconfig " + path + ": user \"admin\" names a file of this machine (tokenFile)", path + "x": "no such file"} {
		if _, err := ReadFile(at, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestWhatIsNoKubeconfigIsNotQuoted(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":           {nil, "missing or empty"},
		"no YAML":           {[]byte(hush + ": [" + hush), "not a kubeconfig"},
		"another kind":      {[]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + hush + `"}}`), "not a kubeconfig"},
		"too much":          {[]byte("#" + strings.Repeat(hush, 200_000)), "bytes"},
		"an empty document": {[]byte("{}"), "no current-context and 0 contexts"},
		"empty entries":     {[]byte("users: [{name: a}]\nclusters: [{name: b}]\n"), `cluster "b" has a server that is not a URL`},
	} {
		if _, err := ReadSecret(secretWith(c.data)); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), hush) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestEveryFieldOfAKubeconfigIsDecidedOn fails when client-go learns a field: whether it is safe has to be decided
// then.
func TestEveryFieldOfAKubeconfigIsDecidedOn(t *testing.T) {
	for kind, decided := range map[reflect.Type]map[string]string{
		reflect.TypeFor[clientcmdapi.Config](): {
			"Clusters": "judged", "AuthInfos": "judged", "Contexts": "judged", "CurrentContext": "judged",
			"Kind": "left out", "APIVersion": "left out", "Preferences": "left out", "Extensions": "left out",
		},
		reflect.TypeFor[clientcmdapi.Context](): {
			"Cluster": "judged", "AuthInfo": "judged", "LocationOfOrigin": "left out", "Namespace": "left out", "Extensions": "left out",
		},
		reflect.TypeFor[clientcmdapi.Cluster](): {
			"Server": "judged", "TLSServerName": "copied", "CertificateAuthorityData": "copied", "DisableCompression": "copied",
			"InsecureSkipTLSVerify": "refused", "CertificateAuthority": "refused", "ProxyURL": "refused", "LocationOfOrigin": "left out", "Extensions": "left out",
		},
		reflect.TypeFor[clientcmdapi.AuthInfo](): {
			"Token": "copied", "ClientCertificateData": "copied", "ClientKeyData": "copied", "Username": "copied", "Password": "copied",
			"ClientCertificate": "refused", "ClientKey": "refused", "TokenFile": "refused", "AuthProvider": "refused", "Exec": "refused",
			"Impersonate": "refused", "ImpersonateUID": "refused", "ImpersonateGroups": "refused", "ImpersonateUserExtra": "refused",
			"LocationOfOrigin": "left out", "Extensions": "left out",
		},
	} {
		var fields []string
		for field := range kind.Fields() {
			fields = append(fields, field.Name)
		}
		slices.Sort(fields)
		if diff := cmp.Diff(slices.Sorted(maps.Keys(decided)), fields); diff != "" {
			t.Errorf("fields of %s (-decided +there):\n%s", kind, diff)
		}
	}
}

// TestWhatIsTakenOfAHostsKubeconfig: a token is written next to it, so that the server has to prove itself.
func TestWhatIsTakenOfAHostsKubeconfig(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *clientcmdapi.Cluster)
		holds  bool
	}{
		"as it is":               {func(*clientcmdapi.Cluster) {}, true},
		"a proxy, left out":      {func(c *clientcmdapi.Cluster) { c.ProxyURL = "http://192.0.2.1:3128" }, true},
		"an authority's file":    {func(c *clientcmdapi.Cluster) { c.CertificateAuthority = "/etc/kubernetes/pki/ca.crt" }, true},
		"an unverified server":   {func(c *clientcmdapi.Cluster) { c.InsecureSkipTLSVerify = true }, false},
		"a server of plain http": {func(c *clientcmdapi.Cluster) { c.Server = "http://192.0.2.1" }, false},
		"a server with a user":   {func(c *clientcmdapi.Cluster) { c.Server = "https://a:b@192.0.2.1" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			config, _ := safe(t)
			c.change(config.Clusters["here"])
			data, err := clientcmd.Write(*config)
			if err != nil {
				t.Fatal(err)
			}
			have, err := Server(data)
			if (err == nil) != c.holds {
				t.Fatalf("error %v", err)
			}
			if err == nil && (have.ProxyURL != "" || have.Server != config.Clusters["here"].Server ||
				have.CertificateAuthority != config.Clusters["here"].CertificateAuthority) {
				t.Errorf("it becomes %+v", have)
			}
		})
	}
}
