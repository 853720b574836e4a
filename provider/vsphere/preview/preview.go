// Package preview decides how the vSphere provider is opened to be asked about nodes from another machine than those of
// the cluster, with nothing changed.
package preview

import (
	"context"
	"fmt"
	"sync/atomic"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/preview"
	"github.com/transplant-dev/transplant/provider/vsphere"
	"github.com/transplant-dev/transplant/provider/vsphere/client"
	"github.com/transplant-dev/transplant/provider/vsphere/cloudconf"
)

// Open opens the provider with the text of its cloud config, as the new manager would. The vCenters and their
// credentials are in it. A Secret of the cluster is not read.
func Open(_ context.Context, cloudConfig []byte, _ []v1.Node) (*preview.Source, error) {
	var calls atomic.Int64
	made, err := OpenProvider(cloudConfig, client.Options{Sent: &calls})
	if err != nil {
		return nil, err
	}
	return &preview.Source{Interface: made, Calls: calls.Load, Finish: made.Finish}, nil
}

// OpenProvider opens the provider so that it sends no request that changes something.
func OpenProvider(cloudConfig []byte, o client.Options) (*vsphere.Cloud, error) {
	conf, _, err := cloudconf.Read(cloudConfig)
	if err != nil {
		return nil, fmt.Errorf("opening provider vsphere: %w", err)
	}
	for _, v := range conf.VCenters {
		if v.SecretName != "" {
			return nil, fmt.Errorf("opening provider vsphere: the credentials of vCenter %s are in the Secret %s/%s, which is not "+
				"read from here: name a cloud config that has them, or a secrets-directory", v.Name, v.SecretNamespace, v.SecretName)
		}
	}
	made, err := vsphere.Open(cloudConfig, o)
	if err != nil {
		return nil, fmt.Errorf("opening provider vsphere: %w", err)
	}
	made.UseFences() // none: a request that changes something is not sent
	return made, nil
}
