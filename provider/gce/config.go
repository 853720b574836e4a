package gce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"gopkg.in/gcfg.v1"
	upstream "k8s.io/cloud-provider-gcp/providers/gce"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/provider/gce/client"
)

// settingsOf are what a gce.conf says, and what is derived from it.
type settingsOf struct {
	upstream.ConfigGlobal

	// Endpoint is the address of the API with a slash at its end; empty for Google's own.
	Endpoint string
	// Region is that of the local zone.
	Region string
}

// readConfig reads the text of a gce.conf. Its values are not logged: token-body may be a secret.
func readConfig(text []byte) (*settingsOf, error) {
	file := &upstream.ConfigFile{}
	err := gcfg.ReadInto(file, bytes.NewReader(text))
	if fatal := gcfg.FatalOnly(err); fatal != nil {
		return nil, fmt.Errorf("reading the cloud config: %w", fatal)
	}
	if err != nil { // a key of another version, or a misspelt one
		klog.Warningf("Cloud config: left aside: %v", err)
	}
	conf := &settingsOf{ConfigGlobal: file.Global, Endpoint: file.Global.APIEndpoint}
	if conf.Endpoint != "" && !strings.HasSuffix(conf.Endpoint, "/") {
		conf.Endpoint += "/"
	}
	return conf, nil
}

// zoneName is how zones are called: the region, and a letter.
var zoneName = regexp.MustCompile(`^([a-z]+-[a-z]+[0-9]+)-[a-z][a-z0-9-]*$`)

// completeFrom asks the metadata server for what the config lacks, as upstream does.
func (s *settingsOf) completeFrom(ctx context.Context, metadata client.Metadata) error {
	for _, missing := range []struct {
		value         *string
		setting, path string
	}{
		{&s.ProjectID, "project-id", "project/project-id"},
		{&s.LocalZone, "local-zone", "instance/zone"},
		{&s.NetworkName, "network-name", "instance/network-interfaces/0/network"},
	} {
		if *missing.value != "" {
			continue
		}
		found, err := metadata.Get(ctx, missing.path)
		if err == nil && found == "" {
			err = errors.New("the answer is empty")
		}
		if err != nil {
			return fmt.Errorf("[global] %s is not set, and this machine does not know it: %w", missing.setting, err)
		}
		*missing.value = path.Base(found)
	}
	zone := zoneName.FindStringSubmatch(s.LocalZone)
	if zone == nil {
		return fmt.Errorf("[global] local-zone %q is no zone, such as europe-west3-a", s.LocalZone)
	}
	s.Region = zone[1]
	return nil
}

// tokens are the credentials that the config asks for.
func (s *settingsOf) tokens(metadata client.Metadata) client.TokenSource {
	switch s.TokenURL {
	case "":
		return metadata
	case "nil":
		return client.Default{}
	default:
		return client.Exchange{URL: s.TokenURL, Body: s.TokenBody, Instance: metadata}
	}
}
