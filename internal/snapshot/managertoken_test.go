package snapshot

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

func TestWhenAManagersTokenExpiresIsKeptAndTheTokenIsNot(t *testing.T) {
	const path = "/etc/kubernetes/cloud-controller-manager/token"
	expires := now.Add(20 * 24 * time.Hour)
	body := fmt.Sprintf(`{"sub":"system:serviceaccount:kube-system:cloud-controller-manager","iat":%d,"exp":%d}`, now.Unix(), expires.Unix())
	token := "eyJhbGciOiJFUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(body)) + "." + planted
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
			s, h := gatherHosts(t, dir, "cp-1", Options{TokenFile: path})
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
