package cloudconf

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// cloudsYAML is as much of a clouds.yaml as a cloud.conf can say too.
type cloudsYAML struct {
	Clouds map[string]cloudEntry `yaml:"clouds"`
}

type cloudEntry struct {
	Auth struct {
		AuthURL                     string `yaml:"auth_url"`
		UserID                      string `yaml:"user_id"`
		Username                    string `yaml:"username"`
		Password                    string `yaml:"password"`
		ProjectID                   string `yaml:"project_id"`
		ProjectName                 string `yaml:"project_name"`
		DomainID                    string `yaml:"domain_id"`
		DomainName                  string `yaml:"domain_name"`
		ProjectDomainID             string `yaml:"project_domain_id"`
		ProjectDomainName           string `yaml:"project_domain_name"`
		UserDomainID                string `yaml:"user_domain_id"`
		UserDomainName              string `yaml:"user_domain_name"`
		ApplicationCredentialID     string `yaml:"application_credential_id"`
		ApplicationCredentialName   string `yaml:"application_credential_name"`
		ApplicationCredentialSecret string `yaml:"application_credential_secret"`
		Token                       string `yaml:"token"`
	} `yaml:"auth"`
	RegionName   string `yaml:"region_name"`
	Interface    string `yaml:"interface"`
	EndpointType string `yaml:"endpoint_type"`
	CACert       string `yaml:"cacert"`
	Cert         string `yaml:"cert"`
	Key          string `yaml:"key"`
	Verify       *bool  `yaml:"verify"`
}

// fillFromClouds reads from clouds.yaml what the cloud config leaves out. The cloud config goes first.
func fillFromClouds(g *Global) error {
	path, data, err := readClouds(g.CloudsFile)
	if err != nil {
		return err
	}
	var file cloudsYAML
	if err := yaml.Unmarshal(data, &file); err != nil {
		// yaml's errors quote values, which are secrets here
		return fmt.Errorf("reading %s: it is no YAML of clouds", path)
	}
	name := g.Cloud
	if name == "" && len(file.Clouds) == 1 {
		for only := range file.Clouds {
			name = only
		}
	}
	entry, ok := file.Clouds[name]
	if !ok {
		return fmt.Errorf("%s has no cloud %q: set [Global] cloud to one of its %d", path, name, len(file.Clouds))
	}
	entry.fill(g)
	return nil
}

func (e cloudEntry) fill(g *Global) {
	for _, field := range []struct {
		into *string
		from string
	}{
		{&g.AuthURL, e.Auth.AuthURL},
		{&g.UserID, e.Auth.UserID},
		{&g.Username, e.Auth.Username},
		{&g.Password, e.Auth.Password},
		{&g.TenantID, e.Auth.ProjectID},
		{&g.TenantName, e.Auth.ProjectName},
		{&g.DomainID, e.Auth.DomainID},
		{&g.DomainName, e.Auth.DomainName},
		{&g.TenantDomainID, e.Auth.ProjectDomainID},
		{&g.TenantDomainName, e.Auth.ProjectDomainName},
		{&g.UserDomainID, e.Auth.UserDomainID},
		{&g.UserDomainName, e.Auth.UserDomainName},
		{&g.ApplicationCredentialID, e.Auth.ApplicationCredentialID},
		{&g.ApplicationCredentialName, e.Auth.ApplicationCredentialName},
		{&g.ApplicationCredentialSecret, e.Auth.ApplicationCredentialSecret},
		{&g.Token, e.Auth.Token},
		{&g.Region, e.RegionName},
		{&g.EndpointType, cmp.Or(e.Interface, e.EndpointType)},
		{&g.CAFile, e.CACert},
		{&g.CertFile, e.Cert},
		{&g.KeyFile, e.Key},
	} {
		*field.into = cmp.Or(*field.into, field.from)
	}
	if e.Verify != nil && !*e.Verify {
		g.TLSInsecure = true
	}
}

// readClouds reads the file that is named, or the first of the usual ones.
func readClouds(named string) (path string, data []byte, err error) {
	if named != "" {
		data, err = os.ReadFile(named)
		if err != nil {
			return "", nil, fmt.Errorf("[Global] clouds-file: %w", err)
		}
		return named, data, nil
	}
	usual := []string{os.Getenv("OS_CLIENT_CONFIG_FILE"), "clouds.yaml"}
	if home, err := os.UserConfigDir(); err == nil {
		usual = append(usual, filepath.Join(home, "openstack", "clouds.yaml"))
	}
	usual = append(usual, "/etc/openstack/clouds.yaml")
	for _, path := range usual {
		if path == "" {
			continue
		}
		switch data, err := os.ReadFile(path); {
		case err == nil:
			return path, data, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", nil, fmt.Errorf("[Global] use-clouds: %w", err)
		}
	}
	return "", nil, errors.New("[Global] use-clouds is set, and there is no clouds.yaml: set clouds-file to its path")
}
