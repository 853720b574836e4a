package openstackccm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

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

// deletesNothing has a provider that cannot reach its cloud asked for all that its controllers ask for. None of the
// answers may say that something is gone, and nothing may be changed.
func (b *balanced) deletesNothing(t *testing.T, f *fixture, nodesAreRead bool, says ...string) {
	t.Helper()
	before := len(b.LoadBalancers()) + len(b.FloatingIPs())
	balancers, _ := f.cloud.LoadBalancer()
	now := metav1.Now()
	gone := service("web")
	gone.DeletionTimestamp = &now
	calls := map[string]func() error{
		"EnsureLoadBalancer": func() error {
			_, err := balancers.EnsureLoadBalancer(t.Context(), cluster, service("web"), b.nodes)
			return err
		},
		"UpdateLoadBalancer": func() error { return balancers.UpdateLoadBalancer(t.Context(), cluster, service("web"), b.nodes) },
		"GetLoadBalancer": func() error {
			_, _, err := balancers.GetLoadBalancer(t.Context(), cluster, gone)
			return err
		},
		"EnsureLoadBalancerDeleted": func() error { return balancers.EnsureLoadBalancerDeleted(t.Context(), cluster, gone) },
	}
	if !nodesAreRead {
		calls["InstanceExists"] = func() error {
			_, err := f.cloud.InstanceExists(t.Context(), b.nodes[0])
			return err
		}
		calls["InstanceMetadata"] = func() error {
			_, err := f.cloud.InstanceMetadata(t.Context(), b.nodes[0])
			return err
		}
		calls["ListInstances"] = func() error {
			_, err := f.cloud.ListInstances(t.Context(), b.nodes, everything)
			return err
		}
	}
	for name, call := range calls {
		err := call()
		if err == nil || errors.Is(err, cloudprovider.InstanceNotFound) {
			t.Errorf("%s: the error is %v", name, err)
			continue
		}
		for _, part := range says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error is %v, want %q in it", name, err, part)
			}
		}
	}
	if nodesAreRead {
		if exists, err := f.cloud.InstanceExists(t.Context(), b.nodes[0]); err != nil || !exists {
			t.Errorf("the Node's server exists: %v, error %v", exists, err)
		}
	}
	if got := writes(b.Calls()); len(got) > 0 {
		t.Errorf("it writes %v", got)
	}
	if left := len(b.LoadBalancers()) + len(b.FloatingIPs()); left != before {
		t.Errorf("%d load balancers and floating IPs are left of %d", left, before)
	}
}

// The config names a project in which the user has no role: Keystone refuses the login, and the error names the project.
func TestAnotherProjectIsNoEmptyOne(t *testing.T) {
	for _, project := range []string{"tenant-name=another", "tenant-name=\ntenant-id=00000000000000000000000000000000"} {
		b := balance(t, 1)
		b.ensure(t, service("web"))
		other := startOn(t, b.Cloud, b.Config("[Global]\n"+project+"\n[LoadBalancer]"))
		b.Calls()
		_, name, _ := strings.Cut(strings.TrimPrefix(project, "tenant-name=\n"), "=")
		b.deletesNothing(t, other, false, "logging in to OpenStack", "401", `the user has a role in project "`+name+`"`)
		if err := other.cloud.Probe(t.Context()); !client.Refused(err) || strings.Contains(err.Error(), openstacksim.Password) {
			t.Errorf("a start with it gives %v", err)
		}
	}
}

func TestAServiceThatIsNotInTheCatalog(t *testing.T) {
	for _, lacks := range []string{"compute", "network", "load-balancer"} {
		t.Run(lacks, func(t *testing.T) {
			b := balance(t, 1)
			s := service("web")
			b.ensure(t, s)
			b.LeaveOut(lacks)
			fresh := startOn(t, b.Cloud, b.Config("[LoadBalancer]"))
			b.Calls()
			says := "OpenStack's catalog has no " + lacks + " service for region RegionOne: check [Global] region"
			switch lacks {
			case "load-balancer":
				b.deletesNothing(t, fresh, true, says, "set [LoadBalancer] enabled=false")
			case "compute": // load balancers are kept as they are without it
				states, err := fresh.cloud.ListInstances(t.Context(), b.nodes, everything)
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("the nodes are %+v, and the error is %v", states, err)
				}
				exists, err := fresh.cloud.InstanceExists(t.Context(), b.nodes[0])
				if err == nil || exists || !strings.Contains(err.Error(), says) {
					t.Errorf("exists %v, error %v", exists, err)
				}
			case "network":
				_, err := fresh.cloud.InstanceMetadata(t.Context(), b.nodes[0])
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("the error is %v", err)
				}
				balancers, _ := fresh.cloud.LoadBalancer()
				_, err = balancers.EnsureLoadBalancer(t.Context(), cluster, s, b.nodes)
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("the error is %v", err)
				}
			}
			if got := writes(b.Calls()); len(got) > 0 {
				t.Errorf("it writes %v", got)
			}
			b.only(t)
		})
	}
}

// An event says it on the Service, which keeps its finalizer and its load balancer.
func TestAnEventSaysThatTheCatalogLacksOctavia(t *testing.T) {
	b := balance(t, 1)
	b.LeaveOut("load-balancer")
	c := control(t, b)
	if _, err := c.client.CoreV1().Services("default").Create(t.Context(), service("web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.until(t, "an event names the remedy", func() bool {
		for range len(c.events.Events) {
			if strings.Contains(<-c.events.Events, "catalog has no load-balancer service for region RegionOne: check [Global] region") {
				return true
			}
		}
		return false
	})
}
