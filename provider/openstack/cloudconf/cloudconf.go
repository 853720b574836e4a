// Package cloudconf decides how a cloud.conf of OpenStack is understood. It takes the keys of the external provider
// (cloud-provider-openstack), with its defaults, and decides what becomes of the keys that only the in-tree provider
// read.
package cloudconf

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"gopkg.in/gcfg.v1"
)

// Config is a cloud.conf.
type Config struct {
	Global       Global
	LoadBalancer LoadBalancer
	// LoadBalancerClass are the classes that a Service asks for with loadbalancer.openstack.org/class, by name.
	LoadBalancerClass map[string]*Class
	Route             Route
	Metadata          Metadata
	Networking        Networking
}

// Global says where OpenStack is and who asks.
type Global struct {
	AuthURL                     string `gcfg:"auth-url"`
	UserID                      string `gcfg:"user-id"`
	Username                    string
	Password                    string
	TenantID                    string `gcfg:"tenant-id"`
	TenantName                  string `gcfg:"tenant-name"`
	TrustID                     string `gcfg:"trust-id"`
	TrusteeID                   string `gcfg:"trustee-id"`
	TrusteePassword             string `gcfg:"trustee-password"`
	DomainID                    string `gcfg:"domain-id"`
	DomainName                  string `gcfg:"domain-name"`
	TenantDomainID              string `gcfg:"tenant-domain-id"`
	TenantDomainName            string `gcfg:"tenant-domain-name"`
	UserDomainID                string `gcfg:"user-domain-id"`
	UserDomainName              string `gcfg:"user-domain-name"`
	ApplicationCredentialID     string `gcfg:"application-credential-id"`
	ApplicationCredentialName   string `gcfg:"application-credential-name"`
	ApplicationCredentialSecret string `gcfg:"application-credential-secret"`
	Token                       string
	Region                      string
	// EndpointType is public, internal or admin; empty for public.
	EndpointType string `gcfg:"os-endpoint-type"`
	CAFile       string `gcfg:"ca-file"`
	CertFile     string `gcfg:"cert-file"`
	KeyFile      string `gcfg:"key-file"`
	TLSInsecure  bool   `gcfg:"tls-insecure"`
	// UseClouds is that CloudsFile fills what this file leaves out.
	UseClouds  bool   `gcfg:"use-clouds"`
	CloudsFile string `gcfg:"clouds-file"`
	Cloud      string
}

// LoadBalancer are the settings of load balancers.
type LoadBalancer struct {
	Enabled               bool
	LBVersion             string   `gcfg:"lb-version"`
	LBProvider            string   `gcfg:"lb-provider"`
	LBMethod              string   `gcfg:"lb-method"`
	SubnetID              string   `gcfg:"subnet-id"`
	MemberSubnetID        string   `gcfg:"member-subnet-id"`
	NetworkID             string   `gcfg:"network-id"`
	FloatingNetworkID     string   `gcfg:"floating-network-id"`
	FloatingSubnetID      string   `gcfg:"floating-subnet-id"`
	FloatingSubnet        string   `gcfg:"floating-subnet"`
	FloatingSubnetTags    string   `gcfg:"floating-subnet-tags"`
	CreateMonitor         bool     `gcfg:"create-monitor"`
	MonitorDelay          Duration `gcfg:"monitor-delay"`
	MonitorTimeout        Duration `gcfg:"monitor-timeout"`
	MonitorMaxRetries     int      `gcfg:"monitor-max-retries"`
	MonitorMaxRetriesDown int      `gcfg:"monitor-max-retries-down"`
	ManageSecurityGroups  bool     `gcfg:"manage-security-groups"`
	InternalLB            bool     `gcfg:"internal-lb"`
	NodeSelector          string   `gcfg:"node-selector"`
	CascadeDelete         bool     `gcfg:"cascade-delete"`
	FlavorID              string   `gcfg:"flavor-id"`
	AvailabilityZone      string   `gcfg:"availability-zone"`
	EnableIngressHostname bool     `gcfg:"enable-ingress-hostname"`
	IngressHostnameSuffix string   `gcfg:"ingress-hostname-suffix"`
	MaxSharedLB           int      `gcfg:"max-shared-lb"`
	DefaultTLSContainer   string   `gcfg:"default-tls-container-ref"`
	SerialAPICalls        bool     `gcfg:"provider-requires-serial-api-calls"`
	// FormerClusterNames are values that --cluster-name had before. Load balancers that are named with one belong to the
	// Service of the same namespace and name. The key is our own.
	FormerClusterNames []string `gcfg:"former-cluster-name"`
	// ShareAcrossNamespaces lets a Service share each load balancer of the project whose ID it names, as the external
	// provider does. The key is our own.
	ShareAcrossNamespaces bool `gcfg:"share-across-namespaces"`
}

// Class is a [LoadBalancerClass "name"].
type Class struct {
	FloatingNetworkID  string `gcfg:"floating-network-id"`
	FloatingSubnetID   string `gcfg:"floating-subnet-id"`
	FloatingSubnet     string `gcfg:"floating-subnet"`
	FloatingSubnetTags string `gcfg:"floating-subnet-tags"`
	NetworkID          string `gcfg:"network-id"`
	SubnetID           string `gcfg:"subnet-id"`
	MemberSubnetID     string `gcfg:"member-subnet-id"`
}

// Route are the settings of routes.
type Route struct {
	// RouterID is the router whose routes lead to pods; empty for none.
	RouterID string `gcfg:"router-id"`
}

// Metadata are the settings of the metadata service, which this manager does not ask. RequestTimeout bounds each
// request to OpenStack, as with the external provider.
type Metadata struct {
	RequestTimeout Duration `gcfg:"request-timeout"`
}

// Networking says which addresses nodes get.
type Networking struct {
	IPv6SupportDisabled bool     `gcfg:"ipv6-support-disabled"`
	PublicNetworkName   []string `gcfg:"public-network-name"`
	InternalNetworkName []string `gcfg:"internal-network-name"`
	AddressSortOrder    string   `gcfg:"address-sort-order"`
}

// SortOrder are the CIDRs of AddressSortOrder, the first before the others.
func (n Networking) SortOrder() ([]netip.Prefix, error) {
	var order []netip.Prefix
	for item := range strings.SplitSeq(n.AddressSortOrder, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(item)
		if err != nil {
			return nil, fmt.Errorf("[Networking] address-sort-order: %q is no CIDR", item)
		}
		order = append(order, prefix.Masked())
	}
	return order, nil
}

// Duration is a time in the form that Go reads: 5s, 1m30s.
type Duration struct{ time.Duration }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration such as 5s", text)
	}
	d.Duration = parsed
	return nil
}

// The external provider's defaults (ReadConfig in cloud-provider-openstack's pkg/openstack/openstack.go).
const (
	defaultRequestTimeout = 60 * time.Second
	defaultMonitorDelay   = 5 * time.Second
	defaultMonitorTimeout = 3 * time.Second
	defaultHostnameSuffix = "nip.io"
)

func defaults() *Config {
	c := &Config{}
	c.LoadBalancer = LoadBalancer{
		Enabled:               true,
		LBProvider:            "amphora",
		LBMethod:              "ROUND_ROBIN",
		MonitorDelay:          Duration{defaultMonitorDelay},
		MonitorTimeout:        Duration{defaultMonitorTimeout},
		MonitorMaxRetries:     1,
		MonitorMaxRetriesDown: 3,
		CascadeDelete:         true,
		IngressHostnameSuffix: defaultHostnameSuffix,
		MaxSharedLB:           2,
	}
	c.Metadata.RequestTimeout.Duration = defaultRequestTimeout
	return c
}

// Read reads a cloud.conf. The notes say which keys are not used, and what to use instead.
func Read(data []byte) (config *Config, notes []string, err error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil, errors.New("the cloud config is empty: OpenStack needs at least [Global] auth-url and credentials")
	}
	c, err := parseConfig(data)
	if err != nil {
		return nil, nil, err
	}
	notes = unused(data)
	if c.Global.UseClouds {
		if err := fillFromClouds(&c.Global); err != nil {
			return nil, nil, err
		}
	}
	return c, notes, c.check()
}

func parseConfig(data []byte) (*Config, error) {
	c := defaults()
	if fatal := gcfg.FatalOnly(gcfg.ReadInto(c, bytes.NewReader(data))); fatal != nil {
		return nil, fmt.Errorf("reading the cloud config: %w", fatal)
	}
	return c, nil
}

// CheckClouds refuses a cloud.conf that takes credentials from this machine's clouds.yaml and says itself whom they are
// sent to. A file that was read from a host would give them to the host's owner.
func CheckClouds(data []byte) error {
	c, err := parseConfig(data)
	if err != nil || !c.Global.UseClouds {
		return err
	}
	if c.Global.AuthURL != "" || c.Global.TLSInsecure || c.Global.CAFile != "" {
		return errors.New("[Global] use-clouds takes the credentials of this machine's clouds.yaml, and auth-url, " +
			"ca-file or tls-insecure of the cloud config say whom they are sent to: set those in clouds.yaml")
	}
	return nil
}

func (c *Config) check() error {
	var problems []error
	complain := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if c.Global.AuthURL == "" {
		complain("[Global] auth-url is missing")
	}
	switch c.Global.EndpointType {
	case "", "public", "internal", "admin", "publicURL", "internalURL", "adminURL":
	default:
		complain("[Global] os-endpoint-type is %q: it is public, internal or admin", c.Global.EndpointType)
	}
	if (c.Global.CertFile == "") != (c.Global.KeyFile == "") {
		complain("[Global] cert-file and key-file: set both or none")
	}
	for _, file := range []struct{ key, path string }{
		{"ca-file", c.Global.CAFile},
		{"cert-file", c.Global.CertFile},
		{"key-file", c.Global.KeyFile},
	} {
		if file.path == "" {
			continue
		}
		if _, err := os.Stat(file.path); err != nil {
			complain("[Global] %s: %w", file.key, err)
		}
	}
	problems = append(problems, c.Global.checkCredential()...)
	if v := c.LoadBalancer.LBVersion; v != "" && v != "v2" {
		complain("[LoadBalancer] lb-version is %q: only v2 (Octavia) is there", v)
	}
	switch c.LoadBalancer.LBMethod {
	case "ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP", "SOURCE_IP_PORT":
	default:
		complain("[LoadBalancer] lb-method is %q: Octavia has ROUND_ROBIN, LEAST_CONNECTIONS, SOURCE_IP and SOURCE_IP_PORT",
			c.LoadBalancer.LBMethod)
	}
	if c.LoadBalancer.MaxSharedLB < 1 {
		complain("[LoadBalancer] max-shared-lb is %d: it is at least 1", c.LoadBalancer.MaxSharedLB)
	}
	if c.Metadata.RequestTimeout.Duration <= 0 {
		complain("[Metadata] request-timeout is %s: it is longer than 0", c.Metadata.RequestTimeout)
	}
	if _, err := c.Networking.SortOrder(); err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return fmt.Errorf("the cloud config cannot be used: %w", errors.Join(problems...))
	}
	return nil
}

// checkCredential says what an application credential lacks. A password or a token goes before it.
func (g *Global) checkCredential() (problems []error) {
	if g.Password != "" || g.Token != "" || g.ApplicationCredentialID == "" && g.ApplicationCredentialName == "" {
		return nil
	}
	if g.ApplicationCredentialSecret == "" {
		problems = append(problems, errors.New("[Global] application-credential-secret is missing"))
	}
	if g.ApplicationCredentialID != "" {
		return problems
	}
	noDomain := g.UserDomainID == "" && g.UserDomainName == "" && g.DomainID == "" && g.DomainName == ""
	if g.UserID == "" && (g.Username == "" || noDomain) {
		problems = append(problems, errors.New("[Global] application-credential-name is of a user: "+
			"set user-id, or username with user-domain-name, or use application-credential-id"))
	}
	return problems
}
