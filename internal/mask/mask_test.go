package mask

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommandsKeepWhatIsNoSecret(t *testing.T) {
	same := []string{
		"/usr/local/bin/kube-controller-manager",
		"--feature-gates=BoundServiceAccountTokenVolume=true,CSIMigrationAWS=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=/etc/kubernetes/pki/sa.key",
		"--token-auth-file",
		"/etc/tokens.csv",
		"--token-ttl=24h",
		"--v=2",
		"--concurrent-serviceaccount-token-syncs=5",
		"--authorization-mode=Node,RBAC",
		"--authentication-token-webhook-cache-ttl=2m0s",
		"--authentication-token-webhook-version=v1beta1",
		"--controllers=*,bootstrapsigner,tokencleaner,-cloud-node-lifecycle",
		"--bypass-checks=everything",
		"--token=$(TOKEN)",
		"--cloud-config=/etc/kubernetes/cloud.conf",
		"--kubelet-client-key=/etc/kubernetes/pki/apiserver-kubelet-client.key",
		"--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
		"--image-credential-provider-config=/etc/kubernetes/credential.yaml",
		"--image-credential-provider-bin-dir=/opt/bin",
		"--etcd-servers=https://10.0.0.1:2379,https://10.0.0.2:2379",
		"--service-account-issuer=https://kubernetes.default.svc",
		"registry.example.com/ccm@sha256:4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a",
		"--cluster-name=prod-eu-west-1-0a1b2c3d4e5f60718293a4b5c6d7e8f9",
		"--node-labels=role=worker,uid=8f14e45f-ceea-467f-9d8f-1a2b3c4d5e6f",
		"sh",
		"-c",
		"set -e; exec kube-controller-manager --cloud-provider=aws --token=$TOKEN --token-auth-file /etc/tokens.csv \\\n  --v=2 2>&1 | tee /var/log/kcm.log",
		"--role-arn=arn:aws:iam::123456789012:role/KubernetesNodeRole-1ABCDEFGH2JKL",
		"--alsologtostderr",
		"--sig-storage=true",
		"--subnet=/subscriptions/8f14e45f-ceea-467f-9d8f-1a2b3c4d5e6f/resourceGroups/MyResourceGroup1/providers/Microsoft.Network/virtualNetworks/v1",
	}
	if diff := cmp.Diff(same, Command(same)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSentencesStayReadable(t *testing.T) {
	for _, same := range []string{
		"flag --token is missing", "the key token: it is missing in Secret a/b", "reading Secret kube-system/cloud-controller-manager-token: not found",
		"the bearer token of the account is read", "needs basic authentication", "--bootstrap-token must be given once",
		`secrets "admin-kubeconfig" is forbidden: User "jane" cannot get resource "secrets" in API group ""`,
		"https://10.0.0.1:6443/api/v1/namespaces/kube-system/secrets/x?limit=500", "serviceaccounts/token: create is denied",
		`reading Secret kube-system/ccm-token: Get "https://10.0.0.1:6443/api": dial tcp 10.0.0.1:6443: connect: connection refused`,
		`creating Secret "ccm-token": secrets "ccm-token" already exists`, "cluster-x/admin-token: unauthorized",
		"step create/Secret/kube-system/cloud-controller-manager-token: context deadline exceeded",
	} {
		if got := Text(same); got != same {
			t.Errorf("%q became %q", same, got)
		}
	}
}

func TestMaskingTwiceIsMaskingOnce(t *testing.T) {
	for _, c := range leaks(t) {
		once := strings.Join(Command(c.args), "\n")
		if twice := strings.Join(Command(strings.Split(once, "\n")), "\n"); twice != once && !strings.Contains(strings.Join(c.args, ""), "\n") {
			t.Errorf("%s: %q became %q", c.name, once, twice)
		}
	}
}

const canary = "Canary7hunter2"

type leak struct {
	name   string
	args   []string
	secret string // canary when empty
	want   string // what is left, when that is of interest
}

// leaks are command lines that hold a secret. Each secret is asked for as it is and in base64.
func leaks(t *testing.T) []leak {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	line := strings.Split(block, "\n")[1]
	encoded := base64.StdEncoding.EncodeToString([]byte(block))
	jwt := "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.c2lnbmF0dXJlLWNhbmFyeQ"
	aws := "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	return []leak{
		{name: "a flag", args: []string{"p", "--oidc-client-secret=" + canary}, want: "p\n--oidc-client-secret=(masked)"},
		{name: "the next argument", args: []string{"p", "--password", canary}},
		{name: "underscores", args: []string{"p", "--api_key", canary}},
		{name: "underscores and =", args: []string{"p", "--api_key=" + canary}},
		{name: "one dash", args: []string{"p", "-apiKey", canary}},
		{name: "a pass", args: []string{"p", "--db-pass", canary}},
		{name: "a pass and =", args: []string{"p", "--db-pass=" + canary}},
		{name: "basic auth", args: []string{"p", "--basic-auth=u:" + canary}},
		{name: "a user of curl", args: []string{"curl", "-u", "jane:" + canary}},
		{name: "a user of curl in one argument", args: []string{"curl", "-ujane:" + canary}},
		{name: "a user of curl behind an equals sign", args: []string{"curl", "--user=jane:" + canary}},
		{name: "a proxy's user", args: []string{"curl", "-U", "jane:" + canary}},
		{name: "a proxy's user behind an equals sign", args: []string{"curl", "--proxy-user=jane:" + canary}},
		{name: "a user of curl in a script", args: []string{"sh", "-c", "curl -ujane:" + canary + " https://example.com"}},
		{name: "a session's key", args: []string{"p", "--session-key=" + canary}},
		{name: "a licence", args: []string{"p", "--license-key", canary}},
		{name: "a connection string", args: []string{"p", "Endpoint=sb://x.example.com/;SharedAccessKeyName=root;SharedAccessKey=" + canary + "="}},
		{name: "a SAS", args: []string{"p", "https://x.blob.core.windows.net/c?sv=2020&sp=r&sig=" + canary + "&se=2030"}},
		{name: "a SAS in a flag", args: []string{"p", "--backup-url=https://x.blob.core.windows.net/c?sv=2020&sig=" + canary}},
		{name: "a script", args: []string{"sh", "-c", "exec p --v=2 --token " + canary + " --x"}, want: "sh\n-c\nexec p --v=2 --token (masked) --x"},
		{name: "a script with quotes", args: []string{"sh", "-c", `exec p --token "` + canary + ` and more" --x`}, want: "sh\n-c\nexec p --token \"(masked)\" --x"},
		{name: "a script with =", args: []string{"sh", "-ec", "p --api_key='" + canary + "'; q"}},
		{name: "a script over lines", args: []string{"sh", "-c", "p \\\n  --db-pass \\\n  " + canary + " \\\n  --x"}},
		{name: "a script in a script", args: []string{"sh", "-c", `sh -c 'p --token ` + canary + `'`}},
		{name: "an export", args: []string{"sh", "-c", "export OS_PASSWORD=" + canary + "; exec p"}},
		{name: "a heredoc", args: []string{"sh", "-c", "cat > /f <<EOF\npassword: " + canary + "\nEOF\n"}},
		{name: "a script in a flag", args: []string{"p", "--pre-start=q --token " + canary + " --z"}},
		{name: "env", args: []string{"env", "API_TOKEN=" + canary, "p"}},
		{name: "JSON", args: []string{"p", `{"apiToken": "` + canary + ` x", "b": 1}`}, want: "p\n" + `{"apiToken": "(masked)", "b": 1}`},
		{name: "JSON in JSON", args: []string{"p", `{"args":"{\"password\":\"` + canary + `\"}"}`}},
		{name: "a wrapped command", args: []string{"prober", `-command={"command":"kcm","args":["--token=` + canary + `","--v=2"]}`}},
		{name: "a wrapped command's next argument", args: []string{"prober", "-command", `{"command":"kcm","args":["--token","` + canary + `"]}`}},
		{name: "a header", args: []string{"curl", "-H", "Authorization: Bearer " + canary}},
		{name: "a basic header", args: []string{"curl", "-H", "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("u:"+canary))}},
		{name: "a header of its own", args: []string{"curl", "--header=X-Auth-Token: " + canary + ",Gate=true"}},
		{name: "a cookie", args: []string{"curl", "-H", "Cookie: session=" + canary}},
		{name: "a URL", args: []string{"p", "--cloud-endpoint=https://jane:" + canary + "@cloud.example.com/v3"}},
		{name: "two flags in one", args: []string{"p", "--set=a=1,password=" + canary}},
		{name: "a PEM key", args: []string{"p", "--data=" + block}, secret: line},
		{name: "a PEM key in one line", args: []string{"p", strings.ReplaceAll(block, "\n", `\n`)}, secret: line},
		{name: "a PEM key that is cut off", args: []string{"p", block[:120]}, secret: block[60:110]},
		{name: "a PEM key in base64", args: []string{"p", encoded}, secret: encoded[40:120]},
		{name: "a JWT", args: []string{"p", "x", jwt}, secret: jwt[25:]},
		{name: "an AWS key ID", args: []string{"p", "id AKIAIOSFODNN7EXAMPLE"}, secret: "AKIAIOSFODNN7EXAMPLE"},
		{name: "an AWS key under no name", args: []string{"p", "--x=" + aws}, secret: aws},
		{name: "a bootstrap token under no name", args: []string{"p", "07401b.f395accd246ae52d"}, secret: "f395accd246ae52d"},
		{name: "a GitHub token", args: []string{"p", "ghp_" + strings.Repeat("a1B2", 9)}, secret: strings.Repeat("a1B2", 9)},
	}
}

func TestNoSecretOfACommandIsShown(t *testing.T) {
	for _, c := range leaks(t) {
		secret := c.secret
		if secret == "" {
			secret = canary
		}
		for how, got := range map[string]string{
			"as a command": strings.Join(Command(c.args), "\n"), "line by line": Lines(strings.Join(c.args, "\n")),
			"in a list": YAML(yamlList(c.args)),
		} {
			if strings.Contains(got, secret) || strings.Contains(got, base64.StdEncoding.EncodeToString([]byte(secret))) {
				t.Errorf("%s, %s: %s", c.name, how, got)
			}
			if !strings.Contains(got, Masked) {
				t.Errorf("%s, %s: nothing is said to be masked: %s", c.name, how, got)
			}
			if how == "as a command" && c.want != "" && got != c.want {
				t.Errorf("%s: got %q, want %q", c.name, got, c.want)
			}
		}
	}
}

func yamlList(args []string) string {
	var out strings.Builder
	out.WriteString("args:\n")
	for _, a := range args {
		fmt.Fprintf(&out, "- %q\n", a)
	}
	return out.String()
}

func TestURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://hooks.example.com/x":                     "https://hooks.example.com/x",
		"https://jane:hunter2@hooks.example.com/x?key=1#": "https://(masked)@hooks.example.com/x?masked",
		"://": "(masked)",
	} {
		if got := URL(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestNamedValues(t *testing.T) {
	for name, value := range map[string]string{
		"example.com/api-token": canary, "db_pass": canary, "AccountKey": canary, "client-key-data": canary, "config": "password=" + canary,
		"helm.sh/values": `{"sharedAccessKey":"` + canary + `"}`, "cmd": "x --token " + canary, "deploy.example.com/cosign.sig": canary,
	} {
		if got := Annotations(map[string]string{name: value}); strings.Contains(got[name], canary) {
			t.Errorf("%s: %s", name, got[name])
		}
	}
	for name, value := range map[string]string{
		"csi.storage.k8s.io/provisioner-secret-name": "ceph", "kubernetes.io/service-account.name": "default",
		"service.beta.kubernetes.io/aws-load-balancer-ssl-cert": "arn:aws:acm:eu-west-1:123456789012:certificate/8f14e45f-ceea-467f-9d8f-1a2b3c4d5e6f",
		"token-ttl": "24h", "credential-provider": "./ecr-credential-provider", "passive": "yes", "auth-mode": "RBAC", "volume.kubernetes.io/storage-provisioner": "kubernetes.io/aws-ebs",
	} {
		if got := Annotations(map[string]string{name: value}); got[name] != value {
			t.Errorf("%s: %q became %q", name, value, got[name])
		}
	}
	if got := Annotations(map[string]string{lastApplied: "{}"}); got != nil {
		t.Errorf("kubectl's copy is kept: %v", got)
	}
}

func TestDocuments(t *testing.T) {
	certificate := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: make([]byte, 200)}))
	for name, doc := range map[string]string{
		"a kubeconfig":           "users:\n- name: a\n  user:\n    client-key-data: " + base64.StdEncoding.EncodeToString([]byte(canary)) + "\n    token: " + canary + "\n",
		"the second document":    "a: 1\n---\npassword: " + canary + "\n",
		"a Secret":               "kind: Secret\nstringData:\n  harmless: " + canary + "\n",
		"a Secret below":         "items:\n- kind: Secret\n  data: {x: " + base64.StdEncoding.EncodeToString([]byte(canary)) + "}\n",
		"an alias":               "harmless: &x " + canary + "\npassword: *x\n",
		"an environment":         "extraEnvs:\n- name: X\n  value: " + canary + "\n",
		"a name and a value":     "env:\n- name: OS_PASSWORD\n  value: " + canary + "\n",
		"arguments":              "args:\n- --v=2\n- --db-pass\n- " + canary + "\n",
		"a script":               "command: [sh, -c, \"exec p --token " + canary + "\"]\n",
		"a script as a block":    "run: |\n  p --db-pass " + canary + "\n  q\n",
		"a comment":              "a: 1 # --token=" + canary + "\n",
		"an encryption config":   "providers:\n- aescbc:\n    keys:\n    - name: k\n      secret: " + canary + "\n",
		"no YAML":                "[Global]\n\tpassword = " + canary + "\n\tx: : y\n",
		"an INI with =":          "[Service]\nEnvironment=\"API_KEY=" + canary + "\"\nExecStart=/bin/p --api_key " + canary + "\n",
		"a list under its name":  "tokens:\n- " + canary + "\n",
		"a connection's strings": "connectionString: \"AccountName=a;AccountKey=" + canary + "==;x=y\"\n",
	} {
		for how, got := range map[string]string{"document": Document([]byte(doc)), "lines": Lines(doc)} {
			if how == "lines" && strings.Contains("a Secret,a Secret below,an alias,an environment,a name and a value,a list under its name", name) {
				continue // lines know no structure
			}
			if strings.Contains(got, canary) || strings.Contains(got, base64.StdEncoding.EncodeToString([]byte(canary))) {
				t.Errorf("%s, %s:\n%s", name, how, got)
			}
		}
	}
	for name, doc := range map[string]string{
		"a kubelet's": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nauthentication:\n  webhook: {cacheTTL: 0s}\nserverTLSBootstrap: true # yes\n" +
			"featureGates:\n  BoundServiceAccountTokenVolume: true\n",
		"a CA":      "certificate-authority-data: " + certificate + "\n",
		"kubeadm's": "apiServer:\n  extraArgs:\n    service-account-signing-key-file: /etc/kubernetes/pki/sa.key\n    authorization-mode: Node,RBAC\ndiscovery:\n- sha256:4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a\n",
	} {
		if got := YAML(doc); got != doc {
			t.Errorf("%s became:\n%s", name, got)
		}
	}
}

// FuzzText looks for texts on which masking fails, or that it changes again when they are masked already.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"--token x", `password="a b" c`, "a=b=c:d", "-----BEGIN PRIVATE KEY-----", "sh -c 'p --token \"x'", "token=,,a", "\\\"token\\\":\\\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_ = Command([]string{text, text})
		_ = Document([]byte(text))
	})
}

func TestTheAddressOfAServerIsShownWithoutItsUser(t *testing.T) {
	for in, want := range map[string]string{
		"https://10.0.0.1:6443": "https://10.0.0.1:6443", "10.0.0.1:6443": "10.0.0.1:6443", "api": "api", "": "", "https://[::1]:6443/k8s/clusters/c": "https://[::1]:6443/k8s/clusters/c",
		"https://jane:hunter2@api:6443": "https://(masked)@api:6443", "jane:hunter2@api:6443": "(masked)@api:6443", "https://hunter2@api": "https://(masked)@api",
		"https://jane:hunter2@hunter2@api": "https://(masked)@api", "https://api/?token=hunter2hunter2": "https://api/?token=(masked)",
	} {
		if have := Server(in); have != want {
			t.Errorf("%s: have %s, want %s", in, have, want)
		}
	}
}
