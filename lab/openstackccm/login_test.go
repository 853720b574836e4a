package openstackccm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/ccm/cloud"
	"github.com/transplant-dev/transplant/lab/openstacksim"
	"github.com/transplant-dev/transplant/provider/openstack/client"
)

// An application credential says itself for which project it is: Keystone refuses a login with one that names a project.
func TestLoginsByApplicationCredentials(t *testing.T) {
	const secret = "s-application"
	clouds := func(t *testing.T, text string) string {
		t.Helper()
		file := filepath.Join(t.TempDir(), "clouds.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "use-clouds=true\nclouds-file=" + file + "\n"
	}
	byID := func(_ *testing.T, sim *openstacksim.Cloud, id string) string {
		return "auth-url=" + sim.URL() + "\napplication-credential-id=" + id + "\napplication-credential-secret=" + secret + "\n"
	}
	for name, global := range map[string]func(t *testing.T, sim *openstacksim.Cloud, id string) string{
		"cloud.conf, by ID": byID,
		"cloud.conf, by ID, with a project": func(t *testing.T, sim *openstacksim.Cloud, id string) string {
			return byID(t, sim, id) + "tenant-name=demo\ndomain-name=Default\n"
		},
		"cloud.conf, by name": func(_ *testing.T, sim *openstacksim.Cloud, _ string) string {
			return "auth-url=" + sim.URL() + "\napplication-credential-name=ccm\napplication-credential-secret=" + secret +
				"\nusername=" + openstacksim.User + "\nuser-domain-name=Default\n"
		},
		"clouds.yaml, by ID": func(t *testing.T, sim *openstacksim.Cloud, id string) string {
			return clouds(t, "clouds:\n  lab:\n    region_name: RegionOne\n    auth_type: v3applicationcredential\n    auth:\n      auth_url: "+
				sim.URL()+"\n      application_credential_id: "+id+"\n      application_credential_secret: "+secret+"\n")
		},
		"clouds.yaml, by name": func(t *testing.T, sim *openstacksim.Cloud, _ string) string {
			return clouds(t, "clouds:\n  lab:\n    auth:\n      auth_url: "+sim.URL()+"\n      application_credential_name: ccm\n"+
				"      application_credential_secret: "+secret+"\n      username: "+openstacksim.User+"\n      user_domain_name: Default\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			sim := openstacksim.Start(openstacksim.Options{})
			t.Cleanup(sim.Close)
			id := sim.AddApplicationCredential("ccm", secret)
			sim.SetPassword(openstacksim.User, "which nobody knows")
			f := startOn(t, sim, []byte("[Global]\n"+global(t, sim, id)))
			nodes := f.addServers(1)
			exists := func() {
				t.Helper()
				if exists, err := f.cloud.InstanceExists(t.Context(), nodes[0]); err != nil || !exists {
					t.Fatalf("exists %v, error %v", exists, err)
				}
			}
			exists()
			f.RevokeTokens()
			exists() // by a new token

			f.DeleteApplicationCredential(id)
			_, err := f.cloud.InstanceExists(t.Context(), nodes[0])
			if err == nil || !strings.Contains(err.Error(), "OpenStack refuses a new one") || cloud.Classify(err) != cloud.OutcomeAuth {
				t.Errorf("the credential is deleted, and the error is %v (%s)", err, cloud.Classify(err))
			}
			fresh := startOn(t, sim, []byte("[Global]\n"+global(t, sim, id)))
			probed := fresh.cloud.Probe(t.Context())
			if !client.Refused(probed) {
				t.Errorf("a start with a credential that is deleted gives %v", probed)
			}
			for _, err := range []error{err, probed} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error has the secret: %v", err)
				}
			}
		})
	}
}

// What an application credential lacks is said before Keystone is asked, by the key of the cloud config.
func TestAnApplicationCredentialThatIsNotWhole(t *testing.T) {
	const at = "[Global]\nauth-url=http://keystone/v3\n"
	for global, says := range map[string]string{
		"application-credential-id=1":                                                  "application-credential-secret is missing",
		"application-credential-name=ccm\napplication-credential-secret=s":             "set user-id, or username with user-domain-name",
		"application-credential-name=ccm\napplication-credential-secret=s\nusername=u": "set user-id, or username with user-domain-name",
	} {
		if err := opens([]byte(at + global + "\n")); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: the error is %v, and should say %q", global, err, says)
		}
	}
	for _, global := range []string{
		"application-credential-id=1\napplication-credential-secret=s", "application-credential-name=ccm\napplication-credential-secret=s\nuser-id=u",
		"application-credential-name=ccm\napplication-credential-secret=s\nusername=u\ndomain-name=Default", "application-credential-id=1\nusername=u\npassword=p\ndomain-name=Default",
	} {
		if err := opens([]byte(at + global + "\n")); err != nil {
			t.Errorf("%s: %v", global, err)
		}
	}
}
