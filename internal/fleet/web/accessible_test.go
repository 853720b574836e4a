package web

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"

	"github.com/transplant-dev/transplant/internal/browsertest"
)

// axTree is as much of the accessibility tree as these tests read: a browser may know properties that a library does not.
type axTree struct {
	Nodes []struct {
		Ignored bool    `json:"ignored"`
		Role    axValue `json:"role"`
		Name    axValue `json:"name"`
	} `json:"nodes"`
}

type axValue struct {
	Value any `json:"value"`
}

// tree is what a screen reader is told of the page: "role name", in order.
func tree(b *browsertest.Tab) (out []string) {
	b.Do(chromedp.ActionFunc(func(ctx context.Context) error {
		var tree axTree
		err := cdp.Execute(ctx, "Accessibility.getFullAXTree", nil, &tree)
		for _, n := range tree.Nodes {
			if !n.Ignored {
				out = append(out, strings.TrimSpace(fmt.Sprint(n.Role.Value)+" "+strings.TrimPrefix(fmt.Sprint(n.Name.Value), "<nil>")))
			}
		}
		return err
	}))
	return out
}

// named are the roles that need a name to be of use.
var named = []string{
	"button",
	"link",
	"textbox",
	"searchbox",
	"combobox",
	"table",
	"region",
	"dialog",
	"progressbar",
	"heading",
	"columnheader",
	"rowheader",
	"progressIndicator",
}

func accessible(t *testing.T, b *browsertest.Tab, where string, want ...string) {
	t.Helper()
	tree := tree(b)
	for _, line := range tree {
		if slices.Contains(named, line) {
			t.Errorf("%s: a %s has no name", where, line)
		}
	}
	for _, w := range want {
		if !slices.ContainsFunc(tree, func(line string) bool { return strings.HasPrefix(line, w) }) {
			t.Errorf("%s: a screen reader is not told of %q. It is told of:\n%s", where, w, strings.Join(tree, "\n"))
		}
	}
}

func TestInABrowserAScreenReaderIsToldOfEverything(t *testing.T) {
	w := newWorld(t)
	variety(w)
	b := open(t, w)
	accessible(t, b, "signing in", "heading Sign in", "button Sign in", "textbox Token", "main")
	signIn(b, "alice")
	accessible(
		t,
		b,
		"the list",
		"heading Clusters",
		"table Clusters",
		"columnheader State",
		"rowheader c5machines",
		"link c5machines",
		"searchbox Name or message",
		"combobox Provider",
		"button 1 failed",
		"cell Machines",
		"status",
		"log",
		"search Filter the clusters",
		"group Show only clusters that are",
		"heading The whole fleet",
		"image Of 9 clusters 1 done, 1 under way, 5 in need of a person",
		"list Waves",
		"alert",
	)
	narrow(b)
	accessible(t, b, "the list on a telephone", "table Clusters", "rowheader c5machines", "cell Machines") // blocks instead of a table, and still a table
	b.Do(chromedp.Evaluate(`location.hash = document.querySelector('tr[data-key$="/c5machines"] a').hash`, nil))
	b.Until(`document.querySelector("#detail-body h2")`)
	accessible(
		t,
		b,
		"one cluster",
		"heading c5machines (people-call-it-c5machines)",
		"region State",
		"list Phases",
		"table",
		"button Restart machines",
		"button Run the checks",
		"heading Timeline",
		"heading What happened",
		"image Timeline of the migration",
		"heading Conditions",
	)
	b.Do(chromedp.Click("#action-restart-machines", chromedp.ByID))
	b.Until(`!document.querySelector("#confirm").hidden`)
	accessible(t, b, "an action", "dialog Restart machines: c5machines", "button Let the operator restart the MachineDeployments", "button Cancel", "listitem")
	contrast(t, b)
	b.Quiet()
}

// narrow makes the window that of a telephone.
func narrow(b *browsertest.Tab) {
	b.Do(chromedp.EmulateViewport(390, 800))
}

// contrast fails where text is not readable on what is behind it: 4.5 to 1, in both colour schemes.
func contrast(t *testing.T, b *browsertest.Tab) {
	t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		b.Do(browsertest.Scheme(scheme))
		low := browsertest.Eval[[]string](b, contrastScript)
		for _, l := range low {
			t.Errorf("%s: %s", scheme, l)
		}
	}
}

const contrastScript = `(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (c) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const lum = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] > 250) return c; } return [255, 255, 255, 255]; };
  const low = [];
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.getClientRects().length || e.closest(".offscreen, .skip, :disabled")) continue;
    const a = lum(rgba(getComputedStyle(e).color)), b = lum(behind(e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push(e.tagName + "." + e.className + " " + e.textContent.trim().slice(0, 40) + ": " + ratio.toFixed(2) + " to 1");
  }
  return low;
})()`
