package cli

import (
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/transplant-dev/transplant/internal/client/exitcode"
)

// A pipeline has the kubeconfig of a person, whose current context is whatever that person looked at last.
func TestAPipelineSaysWhichClusterIsMeant(t *testing.T) {
	c := newLive(t)
	good := c.plan()
	config, err := clientcmd.LoadFromFile(c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	current := config.CurrentContext
	config.Contexts["another"] = config.Contexts[current].DeepCopy()
	c.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, c.kubeconfig); err != nil {
		t.Fatal(err)
	}
	fails(
		t,
		c.run("apply", good, "--yes"),
		exitcode.NotApproved,
		"the kubeconfig has 2 contexts, and where nothing is asked and there is no terminal --context has to say which one is meant; the current one is "+current,
	)
	c.unchanged()
	if r := c.run("apply", good, "--dry-run"); r.code != exitcode.OK {
		t.Errorf("a dry run needs no such word: %s", r.text(nil))
	}
	fails(t, c.run("apply", good, "--context", current), exitcode.NotApproved, "there is no terminal on which to ask")
	c.unchanged()
	for _, command := range []string{"pause", "resume", "renew"} {
		fails(t, c.run(command), exitcode.NotApproved, "--context has to say which one is meant")
	}
	c.unchanged()
	if r := c.run("apply", good, "--yes", "--context", current); r.code == exitcode.NotApproved {
		t.Errorf("with the word it is refused: %s", r.text(nil))
	}
}
