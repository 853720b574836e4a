package snapshot

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/snapshot/collect"
)

// tokenUntil is what looks like a token of a manager, with a planted secret for a signature.
func tokenUntil(expires time.Time) string {
	body := fmt.Sprintf(`{"sub":"system:serviceaccount:kube-system:cloud-controller-manager","iat":%d,"exp":%d}`, now.Unix(), expires.Unix())
	return "eyJhbGciOiJFUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(body)) + "." + planted
}

func TestWhenTheTokenOfAManagerInASeedExpiresIsKeptAndTheTokenIsNot(t *testing.T) {
	expires := now.Add(20 * 24 * time.Hour)
	const path = "Secret/cluster-x/kubeconfig"
	of := func(data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster-x", Name: "kubeconfig"}, Data: data}
	}
	for name, c := range map[string]struct {
		secret  *corev1.Secret
		manager bool
		denied  bool
		want    *v1.ManagerToken
		why     string
	}{
		"a token": {
			of(map[string][]byte{"token": []byte(tokenUntil(expires))}),
			true,
			false,
			&v1.ManagerToken{Path: path, Expires: expires},
			"",
		},
		"no token":                              {of(map[string][]byte{"token": []byte(planted)}), true, false, &v1.ManagerToken{Path: path, Error: "the content is no token of a ServiceAccount"}, ""},
		"an earlier version":                    {of(map[string][]byte{"kubeconfig": []byte(planted)}), true, false, nil, ""},
		"no Secret":                             {nil, true, false, nil, ""},
		"no right":                              {of(map[string][]byte{"token": []byte(tokenUntil(expires))}), true, true, nil, "reading Secret cluster-x/kubeconfig of the seed"},
		"no manager, and so no right is needed": {nil, false, true, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			seed := apitest.New(t)
			seed.Put(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cluster-x"}})
			if c.manager {
				seed.Put(
					t,
					deployment("cluster-x", "ccm", template(nil, corev1.Container{Name: "c", Image: "registry.k8s.io/provider-aws/cloud-controller-manager:v1.26.0"})),
				)
			}
			if c.secret != nil {
				seed.Put(t, c.secret)
			}
			if c.denied {
				seed.Deny("get", "secrets")
			}
			kube, _ := seed.Clients(t)
			sources := live(t, apitest.New(t))
			sources.Seed = &collect.Seed{Kube: kube, Namespace: "cluster-x", TokenSecret: "kubeconfig", TokenKey: "token"}
			s := Gather(t.Context(), sources, collect.Options{})
			if diff := cmp.Diff(c.want, s.SeedToken); diff != "" {
				t.Errorf("the manager's token (-want +got):\n%s", diff)
			}
			got := ""
			for _, e := range s.Errors {
				if e.Fact == "manager-token" {
					got = e.Error
				}
			}
			if !strings.HasPrefix(got, c.why) || (got == "") != (c.why == "") {
				t.Errorf("not gathered because of %q, want %q", got, c.why)
			}
			text, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), planted) {
				t.Error("the snapshot holds the token")
			}
		})
	}
}

func TestWhenAManagersTokenExpiresIsKeptAndTheTokenIsNot(t *testing.T) {
	const path = "/etc/kubernetes/cloud-controller-manager/token"
	expires := now.Add(20 * 24 * time.Hour)
	token := tokenUntil(expires)
	for name, c := range map[string]struct {
		content string
		want    *v1.ManagerToken
	}{
		"a token":   {token, &v1.ManagerToken{Path: path, Expires: expires}},
		"no token":  {planted, &v1.ManagerToken{Path: path, Error: "the content is no token of a ServiceAccount"}},
		"no file":   {"", nil},
		"and empty": {"\n", &v1.ManagerToken{Path: path, Error: "the content is no token of a ServiceAccount"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "cp-1/etc/kubernetes/manifests/kube-apiserver.yaml", "kube-apiserver")
			if c.content != "" {
				write(t, dir, "cp-1"+path, c.content)
			}
			s, h := gatherHosts(t, dir, "cp-1", collect.Options{TokenFile: path})
			if diff := cmp.Diff(c.want, h.ManagerToken); diff != "" {
				t.Errorf("the manager's token (-want +got):\n%s", diff)
			}
			text, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), planted) {
				t.Error("the snapshot holds the token")
			}
		})
	}
}
