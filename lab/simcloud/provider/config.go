// Package provider decides how the simulated cloud looks to a cloud controller manager: a provider like others, with
// InstancesV2, load balancers and routes, and with many instances in one call for managers that ask so.
//
// It is also an example of what a provider does for a fenced manager: its HTTP transport asks the fence before each
// request that changes something, so that an operation of several requests ends between two of them when the lease is
// lost.
package provider

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"

	"sigs.k8s.io/yaml"
)

// Name is the provider's name, for --cloud-provider and for provider ids.
const Name = "sim"

// CallerVariable is the environment variable that names the caller.
const CallerVariable = "SIM_CLOUD_CALLER"

// Config is the cloud config file.
type Config struct {
	// Endpoint is the URL of the cloud.
	Endpoint string `json:"endpoint"`
	// Caller is who calls, in the cloud's audit log: a name for each process. Default: the environment variable
	// CallerVariable, so that processes can share a file: a manager may take a change of its cloud config for a reason to
	// look at everything again.
	Caller string `json:"caller,omitempty"`
	// EnsureRequests is of how many requests one EnsureLoadBalancer consists; each but the last leaves the load balancer
	// without members. Real providers need ten to twenty. Default: 1.
	EnsureRequests int `json:"ensureRequests,omitempty"`
	// NoLister hides that the cloud can describe many instances in one call.
	NoLister bool `json:"noLister,omitempty"`
}

// ReadConfig reads a cloud config.
func ReadConfig(r io.Reader) (Config, error) {
	var c Config
	data, err := io.ReadAll(r)
	if err != nil {
		return c, fmt.Errorf("reading cloud config: %w", err)
	}
	if err := yaml.UnmarshalStrict(data, &c); err != nil {
		return c, fmt.Errorf("reading cloud config: %w", err)
	}
	if c.Caller == "" {
		c.Caller = os.Getenv(CallerVariable)
	}
	return c, c.validate()
}

// ReadConfigFile reads the cloud config of --cloud-config.
func ReadConfigFile(path string) (Config, error) {
	file, err := os.Open(path)
	if err != nil {
		return Config{}, fmt.Errorf("opening cloud config: %w", err)
	}
	defer file.Close()
	return ReadConfig(file)
}

// WriteFile writes the config for --cloud-config.
func (c Config) WriteFile(path string) error {
	data, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding cloud config: %w", err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("writing cloud config: %w", err)
	}
	return nil
}

func (c Config) validate() error {
	var errs []error
	if u, err := url.Parse(c.Endpoint); err != nil || u.Scheme == "" || u.Host == "" {
		errs = append(errs, fmt.Errorf("endpoint %q of the cloud config is not a URL", c.Endpoint))
	}
	if c.Caller == "" {
		errs = append(errs, errors.New("caller of the cloud config is empty"))
	}
	if c.EnsureRequests < 0 {
		errs = append(errs, fmt.Errorf("ensureRequests %d of the cloud config is negative", c.EnsureRequests))
	}
	return errors.Join(errs...)
}
