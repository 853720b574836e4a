package loadbalancer

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/provider/openstack/cloudconf"
)

// TestTheCatalogueKnowsWhatIsRefused: a check says before a migration with which settings the manager would not start.
func TestTheCatalogueKnowsWhatIsRefused(t *testing.T) {
	yes := []string{"true", "True", "yes", "on", "1"}
	refusedValues := map[string][]string{
		"manage-security-groups": yes,
		"cascade-delete":         {"false", "False", "no", "off", "0"},
	}
	all := catalogue.RefusedByOurs("openstack")
	if len(all) != len(refusedValues) {
		t.Fatalf("the catalogue has %+v", all)
	}
	for _, r := range all {
		key := strings.TrimPrefix(r.Key, "LoadBalancer.")
		for _, value := range slices.Concat(yes, []string{"false", "False", "no", "off", "0"}) {
			want := slices.Contains(refusedValues[key], value)
			for unless, has := range map[string]bool{"": true, "enabled=true\n": true, "enabled=yes\n": true, "enabled=false\n": false, "enabled=Off\n": false} {
				conf, _, err := cloudconf.Read([]byte("[Global]\nauth-url=https://keystone\n[LoadBalancer]\n" + unless + key + "=" + value + "\n"))
				if err != nil {
					t.Fatal(err)
				}
				_, err = New(nil, conf, clock.RealClock{}, nil)
				if (err != nil) != (want && has) || err != nil && !strings.Contains(err.Error(), "[LoadBalancer] "+key) {
					t.Errorf("%s=%s, %q: the manager says %v", key, value, unless, err)
				}
				_, enabled, _ := strings.Cut(strings.TrimSpace(unless), "=")
				if r.Refuses(value, enabled) != (err != nil) {
					t.Errorf("%s=%s, %q: the catalogue says otherwise than the manager: %v", key, value, unless, err)
				}
			}
		}
	}
}
