package azure

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/catalogue"
)

// whole is a config that can be used.
const whole = `{"subscriptionId": "s", "resourceGroup": "RG", "location": "l", "vmType": "standard", "loadBalancerSku": "basic",
	"aadClientId": "id", "aadClientSecret": "very-secret"}`

func TestAConfigIsReadAsTheInTreeProviderDid(t *testing.T) {
	conf, err := readConfig([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	if conf.ResourceGroup != "rg" || conf.VMType != "standard" || conf.LoadBalancerSKU != "basic" || !conf.DisableAPICallCache {
		t.Errorf("%+v", conf.VMType)
	}
	if _, err := readConfig([]byte("subscriptionId: s\nresourceGroup: g\nlocation: l\nvmType: vmss\nloadBalancerSku: Standard\n")); err != nil {
		t.Errorf("as YAML: %v", err)
	}
}

// TestAConfigThatWouldChangeTheCluster: the defaults of the in-tree provider are not upstream's.
func TestAConfigThatWouldChangeTheCluster(t *testing.T) {
	for name, c := range map[string]struct{ of, by, says string }{
		"no kind of machines":      {`"vmType": "standard",`, "", "vmType is missing; without it, in-tree providers take standard, and newer ones vmss"},
		"no SKU":                   {`"loadBalancerSku": "basic",`, "", "loadBalancerSku is missing"},
		"no subscription":          {`"subscriptionId": "s",`, "", "subscriptionId is missing"},
		"another kind of machines": {`"vmType": "standard"`, `"vmType": "vms"`, `vmType is "vms"; there are standard, vmss, vmssflex`},
		"the service SKU":          {`"loadBalancerSku": "basic"`, `"loadBalancerSku": "service"`, `loadBalancerSku is "service"`},
		"a Secret":                 {`"location": "l"`, `"location": "l", "cloudConfigType": "secret"`, "put the cloud config of the Secret in the file"},
		"several load balancers": {
			`"location": "l"`, `"location": "l", "multipleStandardLoadBalancerConfigurations": [{"name": "a"}]`, "use upstream's manager",
		},
		"no JSON": {`{`, `{]`, "reading the cloud config"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open([]byte(strings.Replace(whole, c.of, c.by, 1)), Options{})
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "very-secret") {
				t.Errorf("the error is %v", err)
			}
		})
	}
	if _, err := Open([]byte(strings.Replace(whole, `"very-secret"`, `""`, 1)), Options{}); err == nil || !strings.Contains(err.Error(), "has no credentials") {
		t.Errorf("without credentials the error is %v", err)
	}
}

// TestTheCatalogueKnowsWhatIsRefused: a check says before a migration with which settings the manager would not start.
func TestTheCatalogueKnowsWhatIsRefused(t *testing.T) {
	values := map[string]string{"multipleStandardLoadBalancerConfigurations": `[{"name": "a"}]`, "serviceGatewayEnabled": "true", "cloudConfigType": `"secret"`}
	refused := catalogue.RefusedByOurs(Name)
	if len(refused) != len(values) {
		t.Errorf("the catalogue has %d settings", len(refused))
	}
	for _, r := range refused {
		text := strings.Replace(whole, `"location": "l"`, `"location": "l", "`+r.Key+`": `+values[r.Key], 1)
		if _, err := readConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), r.Key+" is") {
			t.Errorf("%s: the error is %v", r.Key, err)
		}
	}
}

func TestWhereTheMachineOfANodeIs(t *testing.T) {
	conf, err := readConfig([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	i := &instances{conf: conf}
	for id, want := range map[string]place{
		"": {group: "rg"},
		"azure:///subscriptions/S/resourceGroups/Other/providers/Microsoft.Compute/virtualMachines/One":                        {"other", "", "one"},
		"azure:///subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/Set/virtualMachines/7": {"rg", "set", "7"},
	} {
		got, err := i.placeOf(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}})
		if err != nil || got != want {
			t.Errorf("%q: %+v, error %v", id, got, err)
		}
	}
	for _, id := range []string{"aws:///eu/i-1", "azure:///subscriptions/other/resourceGroups/rg/providers/Microsoft.Compute/virtualMachines/one", "azure:///x"} {
		if got, err := i.placeOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: corev1.NodeSpec{ProviderID: id}}); err == nil {
			t.Errorf("%q: %+v", id, got)
		}
	}
}
