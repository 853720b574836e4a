package plan

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
)

// TestAManagerReadsTheOneSecretThatItsCloudConfigNames: a right on all Secrets of kube-system is a right on tokens of other accounts.
func TestAManagerReadsTheOneSecretThatItsCloudConfigNames(t *testing.T) {
	const (
		role     = "create/Role/kube-system/transplant-cloud-controller-manager"
		official = "registry.k8s.io/cloud-pv-vsphere/cloud-provider-vsphere:v1.29.0"
		one      = `{"apiGroups":[""],"resourceNames":["vsphere-creds"],"resources":["secrets"],"verbs":["get"]}`
		all      = `{"apiGroups":[""],"resources":["secrets"],"verbs":["get","list","watch"]}`
	)
	for name, c := range map[string]struct {
		image, namespace, secret string
		want                     string
	}{
		"ours, and the config has the credentials": {image: "ours"},
		"ours, and the config names a Secret":      {image: "ours", namespace: "kube-system", secret: "vsphere-creds", want: one},
		"ours, and the Secret is elsewhere":        {image: "ours", namespace: "vault", secret: "vsphere-creds"},
		"official, with the credentials":           {image: official},
		"official, which follows all Secrets":      {image: official, namespace: "kube-system", secret: "vsphere-creds", want: all},
	} {
		t.Run(name, func(t *testing.T) {
			s := vsphere29()
			for i := range s.Hosts {
				if config := s.Hosts[i].CloudConfig; config != nil && c.secret != "" {
					settings := map[string]string{"Global.secret-name": c.secret, "Global.secret-namespace": c.namespace}
					for key, value := range config.Settings {
						settings[key] = value
					}
					config.Settings = settings
				}
			}
			p := mustMake(t, s, v1.Options{Image: c.image})
			object := find(t, p, role).Object
			for _, rule := range []string{one, all} {
				if strings.Contains(object, rule) != (rule == c.want) {
					t.Errorf("the Role is %s, want the rule %q", object, c.want)
				}
			}
			if c.image != "ours" {
				return
			}
			wide := find(t, p, role)
			wide.Object = strings.Replace(wide.Object, `"rules":[`, `"rules":[`+all+`,`, 1)
			for _, live := range []*v1.Snapshot{nil, s} {
				if err := invariant.CheckAllowed(p, live); err == nil || !strings.Contains(err.Error(), "is not byte for byte the object") {
					t.Errorf("a Role that reads all Secrets is not refused: %v", err)
				}
			}
		})
	}
}
