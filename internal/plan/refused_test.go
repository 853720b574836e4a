package plan

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/clusterview"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

func TestNoPlanIsMadeFor(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*v1.Snapshot)
		want   []string // parts of the error
	}{
		{"no host", func(s *v1.Snapshot) { s.Hosts = nil }, []string{"no control-plane host is known", "--host-access"}},
		{"workers only", func(s *v1.Snapshot) { s.Hosts[0].ControlPlane, s.Hosts[1].ControlPlane = false, false }, []string{"no control-plane host is known"}},
		{"a control-plane node whose host is not known", func(s *v1.Snapshot) {
			s.Hosts, s.ControlPlaneNodes = s.Hosts[:1], []string{"node-cp-1", "node-cp-2"}
		}, []string{"node node-cp-2 runs a control plane", "--host-access"}},
		{"a host that is known from the API alone", func(s *v1.Snapshot) { s.Hosts[1].APIOnly = true }, []string{"host cp-2 runs a control plane and cannot be reached"}},
		{"a manager that is external already", func(s *v1.Snapshot) { kcmOf(s, 0).Flags["cloud-provider"] = "external" },
			[]string{`kube-controller-manager on host cp-1 runs with --cloud-provider="external", not "aws"`, "transplant apply"}},
		{"managers that are all external already", func(s *v1.Snapshot) {
			kcmOf(s, 0).Flags["cloud-provider"], kcmOf(s, 1).Flags["cloud-provider"], s.Cluster.Provider = "external", "external", ""
		}, []string{"no kube-controller-manager has an in-tree provider any longer (external on cp-1, cp-2)", "there is nothing to move"}},
		{"a version before the catalogue's", func(s *v1.Snapshot) {
			s.Cluster.Version = "v1.19.3"
			for i := range s.Hosts {
				kcmOf(s, i).Image = "registry.k8s.io/kube-controller-manager:v1.19.3"
			}
		}, []string{"the cluster is of 1.19: plans are made for 1.20 to 1.26, the last one with the in-tree provider aws"}},
		{"two providers", func(s *v1.Snapshot) { kcmOf(s, 0).Flags["cloud-provider"] = "gce" }, []string{"different in-tree providers (aws, gce)"}},
		{"a provider that has no external manager", func(s *v1.Snapshot) {
			kcmOf(s, 0).Flags["cloud-provider"], kcmOf(s, 1).Flags["cloud-provider"] = "cloudstack", "cloudstack"
		}, []string{"provider cloudstack is not supported", "aws, azure, gce, openstack, vsphere"}},
		{"a provider that never was in tree", func(s *v1.Snapshot) {
			kcmOf(s, 0).Flags["cloud-provider"], kcmOf(s, 1).Flags["cloud-provider"] = "hetzner", "hetzner"
		}, []string{"--cloud-provider=hetzner is no provider that was in tree"}},
		{"a cluster that is half migrated", func(s *v1.Snapshot) {
			s.Hosts[1].Components = append(s.Hosts[1].Components, v1.Component{Name: component.CCM, Manifest: layout.CCMManifest})
		}, []string{"host cp-2 has a cloud-controller-manager already (" + layout.CCMManifest + ")", "continue the migration"}},
		{"a host without a kube-controller-manager", func(s *v1.Snapshot) { s.Hosts[0].Components = s.Hosts[0].Components[:1] }, []string{"host cp-1 has no kube-controller-manager manifest"}},
		{"a host without an API server", func(s *v1.Snapshot) { s.Hosts[0].Components = s.Hosts[0].Components[1:] }, []string{"host cp-1 has no kube-apiserver manifest"}},
		{"a manifest that is no Pod", func(s *v1.Snapshot) { kcmOf(s, 1).Error = "it is a Deployment" },
			[]string{"manifest /etc/kubernetes/manifests/kube-controller-manager.yaml on host cp-2: it is a Deployment"}},
		{"a manager without a cloud config whose provider needs one", func(s *v1.Snapshot) {
			for i := range s.Hosts {
				kcmOf(s, i).Flags["cloud-provider"] = "azure"
			}
			delete(kcmOf(s, 0).Flags, "cloud-config")
		}, []string{"on host cp-1 has no --cloud-config", "azure-cloud-provider", "name it with --cloud-config"}},
		{"a cloud config that could not be read", func(s *v1.Snapshot) { s.Hosts[1].CloudConfig.Error = "permission denied" }, []string{"/etc/kubernetes/cloud.conf on host cp-2 could not be read"}},
		{"a cloud config that was not looked for", func(s *v1.Snapshot) { s.Hosts[1].CloudConfig = nil }, []string{"/etc/kubernetes/cloud.conf on host cp-2 could not be read"}},
		{"a version that is not known", func(s *v1.Snapshot) { kcmOf(s, 0).Image, s.Cluster.Version = "registry/kcm@sha256:00", "" }, []string{"host cp-1: version of image"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Make(cluster(c.change), v1.Options{}, nil, now)
			if err == nil {
				t.Fatalf("a plan of %d steps was made", len(p.Steps))
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q: %v", part, err)
				}
			}
		})
	}
}

var ownBinary = v1.Options{CredentialProvider: "x", CredentialProviderSHA256: sha}

// withProviders is azure28 whose second host has image credential providers.
func withProviders(providers ...v1.CredentialProvider) *v1.Snapshot {
	s := azure28()
	s.Hosts[1].Kubelet.Credentials = &v1.CredentialProviders{
		ConfigPath: "/etc/own.yaml", BinDir: "/opt/bin", APIVersion: "kubelet.config.k8s.io/v1", SHA256: sha, Providers: providers,
	}
	s.Hosts[1].Files = append(s.Hosts[1].Files, v1.File{Path: "/etc/own.yaml", Present: true, SHA256: sha, Mode: "0640"})
	return s
}

func TestChoicesThatAClusterCannotBear(t *testing.T) {
	for _, c := range []struct {
		name    string
		snap    *v1.Snapshot
		options v1.Options
		want    []string
	}{
		{"leader migration with one host", aws26(), v1.Options{Strategy: planstep.LeaderMigration}, []string{"only one control-plane host (cp-1)", "--strategy=downtime"}},
		{"leader migration before it was there", openstack20(), v1.Options{Strategy: planstep.LeaderMigration}, []string{"1.20 has no leader migration"}},
		{"leader migration with a manager that ignores it", azure28(), v1.Options{Strategy: planstep.LeaderMigration}, []string{"has no leader migration: it would take the flags and run the loops next to the in-tree manager"}},
		{"node IPAM that cannot stay", gce30(), v1.Options{NodeIPAM: v1.IPAMKeep}, []string{"node IPAM has to move"}},
		{"node IPAM that cannot move", vsphere29(), v1.Options{NodeIPAM: v1.IPAMMove}, []string{"node IPAM cannot move"}},
		{"volumes without a driver", func() *v1.Snapshot {
			s := openstack20()
			s.Volumes.CSIDrivers = nil
			return s
		}(), v1.Options{Volumes: v1.VolumesCSI}, []string{"CSI driver cinder.csi.openstack.org of kubernetes.io/cinder is not installed", "--volumes=in-tree"}},
		{"a driver that a node lacks", func() *v1.Snapshot {
			s := openstack20()
			s.Volumes.CSINodes = s.Volumes.CSINodes[:4]
			return s
		}(), v1.Options{Volumes: v1.VolumesCSI}, []string{"runs on no kubelet of worker-2"}},
		{"another form of providerID", openstack20(), v1.Options{Env: []string{"OS_CCM_REGIONAL=true"}}, []string{"OS_CCM_REGIONAL=true asks for providerIDs with a region"}},
		{"an image that says nothing of itself", openstack20(), v1.Options{Image: "mirror/manager:latest"}, []string{"does not tell its version"}},
		{"image credentials that never were", openstack20(), v1.Options{CredentialProvider: "x", CredentialProviderSHA256: sha}, []string{"openstack never had image credentials in the kubelet"}},
		{"another image credential provider of that name", withProviders(v1.CredentialProvider{Name: "acr-credential-provider", MatchImages: []string{"own.example"}, Present: true}), ownBinary,
			[]string{"host cp-2: /etc/own.yaml has another provider with the name acr-credential-provider, which is for own.example and for none of *.azurecr.io, ", "rename it"}},
		{"an image credential provider without its binary", withProviders(v1.CredentialProvider{Name: "acr-credential-provider", MatchImages: []string{"*.azurecr.io"}, Error: "there is no /opt/bin/x"}), ownBinary,
			[]string{"host cp-2: /etc/own.yaml names acr-credential-provider already, and its kubelet cannot run it (there is no /opt/bin/x)", "into /opt/bin by hand"}},
		{"image credential providers that cannot be read", func() *v1.Snapshot {
			s := withProviders()
			s.Hosts[1].Kubelet.Credentials.Error = "it is no CredentialProviderConfig"
			return s
		}(), ownBinary, []string{"host cp-2: its kubelet names image credential providers in /etc/own.yaml, to which acr-credential-provider cannot be added: it is no CredentialProviderConfig; repair"}},
		{"image credential providers of another version", func() *v1.Snapshot {
			s := withProviders(v1.CredentialProvider{Name: "own"})
			s.Hosts[1].Kubelet.Credentials.APIVersion = "kubelet.config.k8s.io/v2"
			return s
		}(), ownBinary, []string{"host cp-2: /etc/own.yaml has apiVersion kubelet.config.k8s.io/v2, which its kubelet does not read (kubelet.config.k8s.io/v1, "}},
		{"image credential providers where nothing is written", func() *v1.Snapshot {
			s := withProviders(v1.CredentialProvider{Name: "own"})
			s.Hosts[1].Kubelet.Credentials.BinDir = "/var/lib/kubelet/bin"
			return s
		}(), ownBinary, []string{"host cp-2: its kubelet finds image credential providers by /var/lib/kubelet/bin, where a migration writes nothing", "or add acr-credential-provider there by hand"}},
		{"image credential providers by a detour", func() *v1.Snapshot {
			s := withProviders(v1.CredentialProvider{Name: "own"})
			s.Hosts[1].Kubelet.Credentials.BinDir = "opt/../bin"
			return s
		}(), ownBinary, []string{`host cp-2: its kubelet finds image credential providers by "opt/../bin", which is no absolute path without detours`}},
		{"no image credential provider for an architecture", azure28(), v1.Options{CredentialProvider: "{arch}/x", CredentialProviderSHA256: "arm64:" + sha},
			[]string{`host cp-1: its node is of architecture "", and there is no image credential provider for it: put it to --credential-provider={arch}/x`}},
		{"one environment for all hosts", gce30(), v1.Options{Shape: v1.ShapeDaemonSet, Env: []string{"HOST=x-{host}"}}, []string{"needs a static pod on each host"}},
		{"a version without the provider", func() *v1.Snapshot {
			s := aws26()
			clusterview.FindComponent(s.Hosts[0], component.KCM).Image = "registry.k8s.io/kube-controller-manager:v1.27.0"
			return s
		}(), v1.Options{}, []string{"is of 1.27", "1.20 to 1.26"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Make(c.snap, c.options, nil, now)
			if err == nil {
				t.Fatalf("a plan of %d steps was made", len(p.Steps))
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error does not say %q: %v", part, err)
				}
			}
		})
	}
}

func TestEveryProblemIsNamedAtOnce(t *testing.T) {
	_, err := Make(cluster(func(s *v1.Snapshot) {
		kcmOf(s, 0).Flags["cloud-provider"] = "external"
		kcmOf(s, 1).Error = "it is no YAML"
	}), v1.Options{}, nil, now)
	if err == nil || strings.Count(err.Error(), "\n") != 1 || !strings.Contains(err.Error(), "cp-1") || !strings.Contains(err.Error(), "cp-2") {
		t.Errorf("error: %v", err)
	}
}

func TestOptionsThatCannotBeUsed(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*v1.Options)
		want   string // part of the error; empty when the options are good
	}{
		{"the defaults", func(*v1.Options) {}, ""},
		{"a budget of nodes", func(o *v1.Options) { o.MaxUnavailable = "3" }, ""},
		{"a share of the nodes", func(o *v1.Options) { o.MaxUnavailable = "10%" }, ""},
		{"a budget of no node", func(o *v1.Options) { o.MaxUnavailable = "0" }, `max unavailable "0": give a number of nodes of at least 1`},
		{"more than all nodes", func(o *v1.Options) { o.MaxUnavailable = "101%" }, `max unavailable "101%"`},
		{"a budget in words", func(o *v1.Options) { o.MaxUnavailable = "half" }, `max unavailable "half"`},
		{"no soak", func(o *v1.Options) { o.Soak = "0s" }, ""},
		{"a soak without a unit", func(o *v1.Options) { o.Soak = "30" }, `soak "30": give a duration`},
		{"a drain without time", func(o *v1.Options) { o.DrainTimeout = "0s" }, `drain timeout "0s": give a duration from 1s`},
		{"another strategy", func(o *v1.Options) { o.Strategy = "quiesce" }, `strategy "quiesce" is not known`},
		{"a retry period that is no duration", func(o *v1.Options) { o.RetryPeriod = "often" }, `retry period "often"`},
		{"a retry period that would flood the API server", func(o *v1.Options) { o.RetryPeriod = "1ms" }, "at least 50ms"},
		{"a renew deadline without a unit", func(o *v1.Options) { o.RenewDeadline = "5" }, `renew deadline "5"`},
		{"a renew deadline as long as the lease", func(o *v1.Options) { o.RenewDeadline = "15s" }, "below the lease duration of 15s"},
		{"a retry period above the renew deadline", func(o *v1.Options) { o.RetryPeriod = "5s" }, "too long for renew deadline 5s"},
		{"a retry period just short enough", func(o *v1.Options) { o.RetryPeriod = "4s" }, ""},
		{"a variable without a value", func(o *v1.Options) { o.Env = []string{"AWS_REGION"} }, `environment "AWS_REGION": give NAME=VALUE`},
		{"a variable without a name", func(o *v1.Options) { o.Env = []string{"=x"} }, "give NAME=VALUE"},
		{"an empty value", func(o *v1.Options) { o.Env = []string{"AWS_REGION="} }, ""},
		{"a secret", func(o *v1.Options) { o.Env = []string{"AWS_SECRET_ACCESS_KEY=planted"} }, "AWS_SECRET_ACCESS_KEY is a secret"},
		{"a session token", func(o *v1.Options) { o.Env = []string{"aws_session_token=planted"} }, "aws_session_token is a secret"},
		{"a password", func(o *v1.Options) { o.Env = []string{"OS_PASSWORD=planted"} }, "OS_PASSWORD is a secret"},
		{"a file with credentials", func(o *v1.Options) { o.Env = []string{"AWS_SHARED_CREDENTIALS_FILE=/etc/kubernetes/ccm.credentials"} }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options.Defaults(v1.Options{})
			c.change(&o)
			_, err := Make(cluster(), o, nil, now)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("the error does not say %q: %v", c.want, err)
			case err != nil && strings.Contains(err.Error(), "planted"):
				t.Errorf("the error prints the secret: %v", err)
			}
		})
	}
}

func TestOwnerHost(t *testing.T) {
	for _, c := range []struct {
		name     string
		managers []v1.Manager
		want     string
	}{
		{"nobody was asked", nil, ""},
		{"one leads", []v1.Manager{{Component: component.KCM, Host: "cp-1"}, {Component: component.KCM, Host: "cp-2", Leads: []string{"other", component.KCM}}}, "cp-2"},
		{
			"two say that they lead",
			[]v1.Manager{{Component: component.KCM, Host: "cp-1", Leads: []string{component.KCM}}, {Component: component.KCM, Host: "cp-2", Leads: []string{component.KCM}}},
			"",
		},
		{"one did not answer", []v1.Manager{{Component: component.KCM, Host: "cp-1", Leads: []string{component.KCM}, Error: "timeout"}}, ""},
		{"another component leads", []v1.Manager{{Component: component.CCM, Host: "cp-1", Leads: []string{component.KCM}}}, ""},
	} {
		if have := clusterview.OwnerHost(&v1.Snapshot{Managers: c.managers}, component.KCM); have != c.want {
			t.Errorf("%s: %q, want %q", c.name, have, c.want)
		}
	}
}

func TestMinor(t *testing.T) {
	for _, c := range []struct {
		image, fallback string
		want            int
		bad             bool
	}{
		{"registry.k8s.io/kube-controller-manager:v1.26.0", "", 26, false},
		{"registry:5000/kcm:v1.27.3-custom.1", "v1.26.0", 27, false},
		{"registry:5000/kcm", "v1.28.1", 28, false},
		{"kcm@sha256:0123", "v1.25.0+k3s1", 25, false},
		{"kcm:latest", "", 0, true},
		{"kcm:v2.26.0", "x", 0, true},
	} {
		if have, err := clusterview.ParseMinor(c.image, c.fallback); have != c.want || (err != nil) != c.bad {
			t.Errorf("minor(%q, %q) = %d, %v", c.image, c.fallback, have, err)
		}
	}
}

func TestAPlanFromAFileIsRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*v1.Plan)
		want   string // part of the error; empty when the plan is good
	}{
		{"not when it is as it was made", func(*v1.Plan) {}, ""},
		{"without steps", func(p *v1.Plan) { p.Steps = nil }, "steps is empty"},
		{"without a cluster", func(p *v1.Plan) { p.Cluster.UID = "" }, "cluster.uid is empty"},
		{"with a kind that nobody knows", func(p *v1.Plan) { p.Steps[3].Kind = "Reboot" }, `steps[3] "create/Role/kube-system/transplant-leader-migration": kind "Reboot" is not known`},
		{"with a step twice", func(p *v1.Plan) { p.Steps = append(p.Steps, p.Steps[0]) }, "is there twice"},
		{"without its facts", func(p *v1.Plan) { p.Facts = nil }, `requires the fact "cluster:uid", which the plan does not state`},
		{"with a step without a host", func(p *v1.Plan) { p.Steps[len(p.Steps)-20].Host = "" }, "host is empty"},
		{"with a step without an ID", func(p *v1.Plan) { p.Steps[0].ID = "" }, "id is empty"},
		{"with options that cannot be used", func(p *v1.Plan) { p.Options.RetryPeriod = "" }, `options: retry period ""`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustMake(t, lab(t), labOptions())
			c.change(p)
			err := invariant.CheckWellFormed(p)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error does not say %q: %v", c.want, err)
			}
		})
	}
}
