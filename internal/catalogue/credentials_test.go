package catalogue

import (
	"testing"

	"sigs.k8s.io/yaml"
)

func TestCredentialConfigs(t *testing.T) {
	got, err := CredentialConfig("azure", 26)
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- apiVersion: credentialprovider.kubelet.k8s.io/v1
  args:
  - /etc/kubernetes/azure.json
  defaultCacheDuration: 12h
  matchImages:
  - '*.azurecr.io'
  - '*.azurecr.cn'
  - '*.azurecr.de'
  - '*.azurecr.us'
  name: acr-credential-provider
`
	if string(got) != want {
		t.Errorf("config:\n%s", got)
	}
	for minor, version := range map[int]string{20: "v1alpha1", 23: "v1alpha1", 24: "v1beta1", 25: "v1beta1", 26: "v1", 30: "v1"} {
		for _, provider := range []string{"aws", "gce"} {
			data, err := CredentialConfig(provider, minor)
			var config credentialConfig
			if err != nil || yaml.UnmarshalStrict(data, &config) != nil || config.APIVersion != "kubelet.config.k8s.io/"+version ||
				config.Providers[0].APIVersion != "credentialprovider.kubelet.k8s.io/"+version {
				t.Errorf("%s 1.%d: %v\n%s", provider, minor, err, data)
			}
		}
	}
	for _, provider := range []string{"openstack", "vsphere", "nobody"} {
		if _, err := CredentialConfig(provider, 26); err == nil {
			t.Errorf("%s has a config", provider)
		}
	}
	if _, err := CredentialConfig("aws", 19); err == nil {
		t.Error("a kubelet of 1.19 gets a config")
	}
}
