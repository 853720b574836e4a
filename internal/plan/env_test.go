package plan

import (
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// TestWhichVariablesMayDecideWhereCredentialsGo: to whom a manager talks, whom it trusts, what it shows and which code it runs.
func TestWhichVariablesMayDecideWhereCredentialsGo(t *testing.T) {
	for _, name := range []string{
		"HTTPS_PROXY", "http_proxy", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "GODEBUG", "LD_PRELOAD", "AWS_ENDPOINT_URL",
		"AWS_ENDPOINT_URL_EC2", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CA_BUNDLE",
		"AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_PROFILE", "GCE_METADATA_HOST", "GOOGLE_APPLICATION_CREDENTIALS",
		"AZURE_AUTHORITY_HOST", "AZURE_ENVIRONMENT_FILEPATH", "IDENTITY_ENDPOINT", "MSI_ENDPOINT", "OS_AUTH_URL", "VSPHERE_SERVER", "KUBECONFIG",
		"KUBERNETES_SERVICE_HOST", "aws_region", "", "OF_A_LATER_LIBRARY",
	} {
		if got := RiskyEnv(v1.Options{Env: []string{name + "=x"}}); len(got) != 1 || got[0] != name {
			t.Errorf("%s is taken for harmless: %q", name, got)
		}
	}
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_EC2_METADATA_DISABLED", "GOMEMLIMIT", "TZ"} {
		if got := RiskyEnv(v1.Options{Env: []string{name + "=x"}}); got != nil {
			t.Errorf("%s is asked about", name)
		}
	}
}
