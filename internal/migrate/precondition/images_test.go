package precondition

import (
	"fmt"
	"testing"
)

func TestTheManagerOfADaemonSet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, object, image, command string }{
		{"one with a command", `{"spec":{"template":{"spec":{"containers":[{"image":"x:1","command":["/bin/ccm","--v=2"]}]}}}}`, "x:1", "[/bin/ccm --version]"},
		{"one whose image names its program", `{"spec":{"template":{"spec":{"containers":[{"image":"x:1","args":["--v=2"]}]}}}}`, "x:1", "[]"},
		{"one without containers", `{"spec":{}}`, "", "[]"},
		{"none", `{`, "", "[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			image, command := managerOf(c.object)
			if image != c.image || fmt.Sprint(command) != c.command {
				t.Errorf("image %q, command %q", image, command)
			}
		})
	}
}
