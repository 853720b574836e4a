package loadbalancer

import (
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/provider/openstack/cloudconf"
)

// TestTheCatalogueKnowsWhatIsRefused: a check says before a migration with which settings the manager would not start.
func TestTheCatalogueKnowsWhatIsRefused(t *testing.T) {
	refused := catalogue.RefusedByOurs("openstack")
	if len(refused) != 1 || refused[0].Key != "LoadBalancer.manage-security-groups" {
		t.Fatalf("the catalogue has %+v", refused)
	}
	r := refused[0]
	for value, want := range map[string]bool{
		"true": true, "True": true, "yes": true, "on": true, "1": true, "false": false, "no": false, "off": false, "0": false,
	} {
		for unless, has := range map[string]bool{"": true, "enabled=true\n": true, "enabled=yes\n": true, "enabled=false\n": false, "enabled=Off\n": false} {
			conf, _, err := cloudconf.Read([]byte("[Global]\nauth-url=https://keystone\n[LoadBalancer]\n" + unless + "manage-security-groups=" + value + "\n"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = New(nil, conf, clock.RealClock{}, nil)
			if (err != nil) != (want && has) || err != nil && !strings.Contains(err.Error(), "[LoadBalancer] manage-security-groups") {
				t.Errorf("%s, %q: the manager says %v", value, unless, err)
			}
			_, enabled, _ := strings.Cut(strings.TrimSpace(unless), "=")
			if r.Refuses(value, enabled) != (err != nil) {
				t.Errorf("%s, %q: the catalogue says otherwise than the manager: %v", value, unless, err)
			}
		}
	}
}
