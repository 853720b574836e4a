package manual

import (
	"os"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask/canary"
)

func TestNothingThatIsPrintedForAHostHoldsASecretOfItsFiles(t *testing.T) {
	t.Parallel()
	l, m, o, state := byHand(t)
	secrets, texts := canary.Plant()
	const conf, backup = "/etc/kubernetes/cloud.conf", "/etc/kubernetes/transplant/backup/run-1/step"
	old, changed := strings.Join(texts, "\n"), "changed\n"+strings.Join(texts, "\n")
	writeTo(t, l, conf, old, 0o600)
	release, err := hostaccess.Grant(t.Context(), m, hostaccess.Need{Purpose: "write/cloud.conf@cp-1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		m.Backup(t.Context(), conf, backup, hostaccess.SHA256([]byte(old))), m.WriteFile(t.Context(), conf, []byte(changed), 0o600), m.Commit(t.Context()),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	release(t.Context())
	if have := readFrom(t, l, conf) + readFrom(t, l, backup); have != changed+old {
		t.Error("the host does not have what was to be written")
	}
	printed := strings.Join(o.blocks, "\n")
	if found := secrets.In(printed); len(found) > 0 || !strings.Contains(printed, conf) {
		t.Errorf("what is printed shows the secret of %q:\n%s", found, printed)
	}
	if left, err := os.ReadDir(state); err != nil || len(left) > 0 {
		t.Errorf("staged files are left: %v, %v", left, err)
	}
}
