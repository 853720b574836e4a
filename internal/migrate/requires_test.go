package migrate

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/precondition"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// TestAPlanReadsNoOtherFileOfThisMachine than the one that --credential-provider names: a fact is in a file or in a journal that somebody else may have
// written.
func TestAPlanReadsNoOtherFileOfThisMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	for name, p := range map[string]*v1.Plan{
		"no file is named":        {},
		"another one is named":    {Options: v1.Options{CredentialProvider: "/bin/provider", CredentialProviderSHA256: "sum"}},
		"it is named without sum": {Options: v1.Options{CredentialProvider: "/etc/kubernetes/admin.conf"}},
	} {
		p.Cluster.UID, p.Facts = "cluster-uid", []v1.Fact{{ID: planstep.LocalFact("/etc/kubernetes/admin.conf"), Value: "sum"}}
		read := false
		err := precondition.Preflight(t.Context(), step.Options{Kube: w.kube, Dynamic: w.dyn, Hosts: w.hosts, ReadLocal: func(string) ([]byte, error) {
			read = true
			return nil, nil
		}}, p)
		if read || err == nil || !strings.Contains(err.Error(), "asks for file /etc/kubernetes/admin.conf of this machine") {
			t.Errorf("%s: read %v: %v", name, read, err)
		}
	}
}
