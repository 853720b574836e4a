package fleet

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kv1 "github.com/transplant-dev/transplant/api/kubermatic/v1"
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/browsertest"
	"github.com/transplant-dev/transplant/lab/seed"
)

// The page of the operator that deploy/operator deploys, with accounts of the seed: its API server reviews their tokens and answers what they may.
func TestThePageOnASeed(t *testing.T) {
	onlyWithAll(t)
	w := newWorld(t)
	ctx := within(t)
	must(t, w.InstallOperator(ctx, append(quick, "--enable-actions")...))
	c := w.addCluster(t, seed.ClusterOptions{Name: "shown"}, 1)
	o, err := w.Create(ctx, kv1.GroupName, "shown", map[string]any{"features": map[string]any{kv1.FeatureExternalCloudProvider: false}})
	must(t, err)
	must(t, o.AwaitPhase(ctx, kv1.PhaseNotNeeded))
	page := w.page(ctx, t)

	t.Run("a reader sees and may not act", func(t *testing.T) { pageReads(t, w, page) })
	t.Run("who may nothing sees nothing", func(t *testing.T) { pageOfNobody(t, w, page) })
	t.Run("who may update starts a migration and sees it completed", func(t *testing.T) { pageActs(t, w, page, c, o) })
}

// page is the address of the page of one of the operator's replicas.
func (w *World) page(ctx context.Context, t *testing.T) string {
	t.Helper()
	pods, err := w.Client().CoreV1().Pods(OperatorNamespace).List(ctx, metav1.ListOptions{})
	must(t, err)
	if len(pods.Items) == 0 || pods.Items[0].Status.PodIP == "" {
		t.Fatal("no pod of the operator has an address")
	}
	return "https://" + pods.Items[0].Status.PodIP + ":8443"
}

// account makes a ServiceAccount that may do these things with Clusters, and returns a token of it.
func (w *World) account(ctx context.Context, t *testing.T, name string, verbs ...string) string {
	t.Helper()
	_, err := w.Client().
		CoreV1().
		ServiceAccounts(metav1.NamespaceDefault).
		Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	if len(verbs) > 0 {
		_, err = w.Client().RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "page-" + name}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{kv1.GroupName, kv1.LegacyGroupName}, Resources: []string{"clusters"}, Verbs: verbs,
		}}}, metav1.CreateOptions{})
		must(t, err)
		_, err = w.Client().RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "page-" + name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "page-" + name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: name}},
		}, metav1.CreateOptions{})
		must(t, err)
	}
	answer, err := w.Client().CoreV1().ServiceAccounts(metav1.NamespaceDefault).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	return answer.Status.Token
}

// askPage asks the page's API as a program with a token does.
func askPage(ctx context.Context, t *testing.T, method, url, token string, body any) (code int, answer string) {
	t.Helper()
	data, err := json.Marshal(body)
	must(t, err)
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(data))
	must(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // the authority of the webhooks signs the page's certificate
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	must(t, err)
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(read)
}

func onPage(page, action string) string {
	return page + "/api/clusters/" + kv1.GroupName + "/shown/actions/" + action
}

// signedIn opens the page and shows it a token.
func signedIn(t *testing.T, page, token string) *browsertest.Tab {
	t.Helper()
	b := browsertest.Open(t, page)
	b.Until(`document.activeElement && document.activeElement.id === "token"`)
	b.Do(chromedp.SetValue("#token", token, chromedp.ByID))
	b.Keys(kb.Enter)
	b.Until(`document.querySelector("#connection").classList.contains("live")`)
	return b
}

const rowOfShown = `tr[data-key$="/shown"]`

func pageReads(t *testing.T, w *World, page string) {
	ctx := within(t)
	token := w.account(ctx, t, "reader", "get", "list")
	b := signedIn(t, page, token)
	b.Until(`document.querySelectorAll("#rows tr").length === 1`)
	b.Do(chromedp.Evaluate(`location.hash = document.querySelector('`+rowOfShown+` a').hash`, nil))
	b.Until(`document.querySelector("#detail-body h2")`)
	if buttons := browsertest.Eval[int](b, `document.querySelectorAll("#detail-body [id^=action-]").length`); buttons != 0 {
		t.Errorf("a reader is offered %d actions", buttons)
	}
	b.Quiet()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		if code, answer := askPage(ctx, t, method, onPage(page, "start"), token, map[string]string{"sha256": "guessed"}); code != http.StatusForbidden {
			t.Errorf("%s of an action by a reader: %d %s", method, code, answer)
		}
	}
}

func pageOfNobody(t *testing.T, w *World, page string) {
	ctx := within(t)
	token := w.account(ctx, t, "nobody")
	if code, answer := askPage(ctx, t, http.MethodGet, page+"/api/clusters", token, nil); code != http.StatusForbidden || strings.Contains(answer, "shown") {
		t.Errorf("who may nothing gets %d %s", code, answer)
	}
	if code, answer := askPage(ctx, t, http.MethodGet, page+"/api/clusters", token[:len(token)-5]+"wrong", nil); code != http.StatusUnauthorized {
		t.Errorf("a token that the seed does not know gets %d %s", code, answer)
	}
}

func pageActs(t *testing.T, w *World, page string, c *seed.Cluster, o *Object) {
	ctx := within(t)
	token := w.account(ctx, t, "actor", "get", "list", "update", "patch")
	stop := load(t, c)
	t.Cleanup(stop)
	b := signedIn(t, page, token)
	b.Until(`document.querySelectorAll("#rows tr").length === 1`)
	b.Shot("seed-list")
	mark := browsertest.Eval[float64](b, `window.mark = Math.random()`)
	b.Do(chromedp.Evaluate(`location.hash = document.querySelector('`+rowOfShown+` a').hash`, nil))
	b.Until(`document.querySelector("#action-start")`)
	b.Do(chromedp.Click("#action-start", chromedp.ByID))
	b.Until(`document.querySelector("dialog").open && !document.querySelector("#confirm").hidden`)
	b.Shot("seed-plan")
	var shown struct {
		Steps   []v1.Step `json:"steps"`
		Blocked bool      `json:"blocked"`
	}
	code, answer := askPage(ctx, t, http.MethodGet, onPage(page, "start"), token, nil)
	if err := json.Unmarshal([]byte(answer), &shown); err != nil || code != http.StatusOK || shown.Blocked || len(shown.Steps) < 5 {
		t.Fatalf("the plan of the page's API: %d %v %s", code, err, answer)
	}
	titles := browsertest.Eval[[]string](b, `[...document.querySelectorAll("#dialog .steps > li")].map((e) => e.firstChild.textContent)`)
	if !slices.EqualFunc(titles, shown.Steps, func(title string, s v1.Step) bool { return title == s.Title }) {
		t.Errorf("the page shows the steps %q", titles)
	}
	b.Do(chromedp.Click("#confirm", chromedp.ByID))
	b.Until(`!document.querySelector("dialog").open`)
	begun, err := o.Get(ctx)
	must(t, err)
	if features, _ := begun.Object["spec"].(map[string]any)["features"].(map[string]any); features[kv1.FeatureExternalCloudProvider] != true {
		t.Errorf("the feature is %v after the confirmation", features)
	}
	b.Do(chromedp.Evaluate(`location.hash = "#/"`, nil))
	seePhase(ctx, t, b, kv1.PhaseHandover)
	b.Shot("seed-list-handover")
	b.Do(chromedp.Evaluate(`location.hash = document.querySelector('`+rowOfShown+` a').hash`, nil))
	b.Until(`document.querySelector("#detail-body h2")`)
	b.Shot("seed-detail-handover")
	must(t, o.AwaitPhase(ctx, kv1.PhaseMachines))
	b.Until(`document.querySelector("#action-restart-machines")`)
	b.Do(chromedp.Click("#action-restart-machines", chromedp.ByID))
	b.Until(`document.querySelector("dialog").open && !document.querySelector("#confirm").hidden`)
	b.Shot("seed-restart")
	b.Do(chromedp.Click("#confirm", chromedp.ByID))
	b.Until(`!document.querySelector("dialog").open`)
	b.Do(chromedp.Evaluate(`location.hash = "#/"`, nil))
	seePhase(ctx, t, b, kv1.PhaseCompleted)
	if browsertest.Eval[float64](b, `window.mark`) != mark {
		t.Error("the page was loaded again on the way")
	}
	shootAll(b)
	b.Quiet()
	if j := Judge(c); len(j.Overlapping) > 0 || j.InTree == 0 || j.External == 0 {
		t.Errorf("%d changes by the in-tree manager, %d by the external one, %d of them overlapping", j.InTree, j.External, len(j.Overlapping))
	}
	// What was done on the page was written by the person, and not with the operator's rights.
	isOther := func(user string) bool { return user != "system:serviceaccount:default:actor" }
	if n := len(slices.DeleteFunc(w.writers(t, "shown", ""), isOther)); n != 2 {
		t.Errorf("the seed's audit log has %d writes of the person, want the start and the restart of machines", n)
	}
}

// seePhase waits until the list shows a phase of the cluster, without anybody touching the page.
func seePhase(ctx context.Context, t *testing.T, b *browsertest.Tab, phase string) {
	t.Helper()
	must(t, seed.Await(ctx, "the page to show "+phase, func(context.Context) error {
		shown := browsertest.Eval[string](b, `document.querySelector('`+rowOfShown+` .badge').textContent`)
		if shown != phase {
			return fmt.Errorf("it shows %s", shown)
		}
		return nil
	}))
}

// shootAll takes what a designer looks at: list and cluster, light and dark, wide and narrow.
func shootAll(b *browsertest.Tab) {
	for _, scheme := range []string{"light", "dark"} {
		b.Do(browsertest.Scheme(scheme))
		for _, width := range []int64{1280, 390} {
			b.Do(emulation.SetDeviceMetricsOverride(width, 900, 1, width < 500))
			b.Do(chromedp.Evaluate(`location.hash = "#/"`, nil))
			b.Until(`!document.querySelector("#list").hidden`)
			b.Shot(fmt.Sprintf("seed-done-list-%s-%d", scheme, width))
			b.Do(chromedp.Evaluate(`location.hash = document.querySelector('`+rowOfShown+` a').hash`, nil))
			b.Until(`!document.querySelector("#detail").hidden && document.querySelector("#detail-body h2")`)
			b.Shot(fmt.Sprintf("seed-done-detail-%s-%d", scheme, width))
		}
	}
}
