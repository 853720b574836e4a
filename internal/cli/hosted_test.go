package cli

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
)

func TestACommandForAHostedControlPlaneReachesBothClusters(t *testing.T) {
	seed, user := apitest.New(t), apitest.New(t)
	seed.Put(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cluster-x", UID: "ns"}})
	user.Put(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "user"}})
	to := []string{"--seed-kubeconfig", seed.Kubeconfig(t), "--seed-namespace", "cluster-x"}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a namespace is missing":      {[]string{"check", "--seed-kubeconfig", "x"}, exitcode.Error, "--seed-kubeconfig needs --seed-namespace"},
		"the cluster is not known":    {append([]string{"status"}, to...), exitcode.Error, "Secret cluster-x/admin-kubeconfig"},
		"a part that nobody has":      {append([]string{"apply", "--part", "all", "--kubeconfig", user.Kubeconfig(t)}, to...), exitcode.Error, "the parts are handover and finish"},
		"no control plane is there":   {append([]string{"check", "--problems", "--kubeconfig", user.Kubeconfig(t)}, to...), exitcode.Blocked, "no Deployment that runs kube-controller-manager"},
		"nothing was begun":           {append([]string{"status", "--kubeconfig", user.Kubeconfig(t)}, to...), exitcode.OK, "no migration was started"},
		"nothing begun, as series":    {append([]string{"status", "-o", "prometheus", "--kubeconfig", user.Kubeconfig(t)}, to...), exitcode.OK, `state="not-started"} 1`},
		"there is nothing to go back": {append([]string{"rollback", "--yes", "--kubeconfig", user.Kubeconfig(t)}, to...), exitcode.Error, "nothing to roll back"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs strings.Builder
			code := Run(t.Context(), c.args, console.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
			if said := out.String() + errs.String(); code != c.code || !strings.Contains(said, c.says) {
				t.Errorf("exit code %d, want %d, and %q in:\n%s", code, c.code, c.says, said)
			}
		})
	}
}

// TestAKubeconfigOfTheSeedActsOnNothingHere lets the Secret in the seed hold what its author would like to happen on the administrator's machine.
func TestAKubeconfigOfTheSeedActsOnNothingHere(t *testing.T) {
	touched, key := filepath.Join(t.TempDir(), "touched"), filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("of the administrator"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		user    clientcmdapi.AuthInfo
		refused string
	}{
		"a program is not run": {clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
			Command: "touch", Args: []string{touched}, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}}, `Secret cluster-x/admin-kubeconfig, key kubeconfig: user "admin" is authenticated by a program (exec)`},
		"a file is not sent": {clientcmdapi.AuthInfo{TokenFile: key},
			`Secret cluster-x/admin-kubeconfig, key kubeconfig: user "admin" names a file of this machine (tokenFile)`},
		"a token is used": {clientcmdapi.AuthInfo{Token: "its own"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			seed, user := apitest.New(t), apitest.New(t)
			var asked atomic.Int64
			var sent atomic.Value
			k := apitest.OverTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				sent.Store(r.Header.Get("Authorization"))
				user.ServeHTTP(w, r)
			}), "admin", c.user)
			data, err := clientcmd.Write(*k)
			if err != nil {
				t.Fatal(err)
			}
			seed.Put(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "cluster-x", UID: "ns"}},
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster-x", Name: "admin-kubeconfig"}, Data: map[string][]byte{"kubeconfig": data}})
			var out, errs strings.Builder
			code := Run(t.Context(), []string{"check", "--seed-kubeconfig", seed.Kubeconfig(t), "--seed-namespace", "cluster-x"},
				console.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
			if _, err := os.Stat(touched); err == nil {
				t.Error("a program of the Secret ran here")
			}
			if c.refused == "" {
				if asked.Load() == 0 || sent.Load() != "Bearer its own" {
					t.Errorf("the cluster was asked %d times, with %v:\n%s", asked.Load(), sent.Load(), errs.String())
				}
				return
			}
			if said := errs.String(); code != exitcode.Error || !strings.Contains(said, c.refused) || !strings.Contains(said, "with --kubeconfig") {
				t.Errorf("exit code %d, want %q in:\n%s", code, c.refused, said)
			}
			if asked.Load() != 0 {
				t.Errorf("its server was asked %d times, and sent %s", asked.Load(), fmt.Sprint(sent.Load()))
			}
		})
	}
}
