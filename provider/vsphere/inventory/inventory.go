// Package inventory decides which virtual machines of vSphere are those of a cluster's nodes. It reads only. vSphere
// has no load balancers and no routes.
package inventory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/inventory"
	"github.com/transplant-dev/transplant/internal/inventory/instances"
	"github.com/transplant-dev/transplant/provider/vsphere"
	"github.com/transplant-dev/transplant/provider/vsphere/client"
	"github.com/transplant-dev/transplant/provider/vsphere/preview"
)

// source reads the vCenters of a cloud config.
type source struct{ cloud *vsphere.Cloud }

// Open makes a source by the settings behind --cloud=vsphere: config. Without it, address and credentials are those of
// the environment, as for the command govc. Nothing is asked of a vCenter.
func Open(_ context.Context, settings map[string]string) (inventory.Source, error) {
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if key != "config" {
			return nil, fmt.Errorf("there is no setting %q; there is config", key)
		}
	}
	config, err := fromEnvironment(os.Getenv)
	if path := settings["config"]; path != "" {
		if config, err = os.ReadFile(path); err != nil {
			err = fmt.Errorf("reading the cloud config: %w", err)
		}
	}
	if err != nil {
		return nil, err
	}
	made, err := preview.OpenProvider(config, client.Options{})
	if err != nil {
		return nil, err
	}
	return &source{made}, nil
}

// fromEnvironment is a cloud config of the variables of govc, for one vCenter.
func fromEnvironment(get func(string) string) ([]byte, error) {
	text := get("GOVC_URL")
	if text == "" {
		return nil, errors.New("opening vSphere: there are no credentials; export GOVC_URL, GOVC_USERNAME and GOVC_PASSWORD, " +
			"or name the cloud config with --cloud=vsphere:config=FILE")
	}
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	at, err := url.Parse(text)
	if err != nil || at.Hostname() == "" || at.Scheme != "https" {
		return nil, errors.New("GOVC_URL is no address of a vCenter: it has to be https://HOST/sdk") // it may hold a password
	}
	center := map[string]any{
		"server": at.Hostname(), "user": get("GOVC_USERNAME"), "password": get("GOVC_PASSWORD"),
		"caFile": get("GOVC_TLS_CA_CERTS"),
	}
	if password, given := at.User.Password(); given {
		center["user"], center["password"] = at.User.Username(), password
	}
	if at.Port() != "" {
		if center["port"], err = strconv.Atoi(at.Port()); err != nil {
			return nil, errors.New("GOVC_URL has no number for a port")
		}
	}
	if insecure, _ := strconv.ParseBool(get("GOVC_INSECURE")); insecure { // govc takes another word for false, too
		center["insecureFlag"] = true
	}
	if datacenter := get("GOVC_DATACENTER"); datacenter != "" {
		center["datacenters"] = []string{datacenter}
	}
	name := net.JoinHostPort(at.Hostname(), at.Port())
	return yaml.Marshal(map[string]any{"vcenter": map[string]any{strings.TrimSuffix(name, ":"): center}})
}

// Inventory asks as the manager does, in one session that it ends.
func (s *source) Inventory(ctx context.Context, nodes []v1.Node) *v1.CloudInventory {
	defer s.cloud.Finish(ctx)
	out := &v1.CloudInventory{Provider: vsphere.Name}
	var err error
	out.Instances, err = instances.Question{
		Provider: s.cloud, IDOf: machineOf, None: "the vCenters, or their datacenters, are not the cluster's",
	}.List(ctx, nodes)
	if err != nil {
		out.Errors = append(out.Errors, inventory.PartInstances+": "+err.Error())
	}
	s.addDiskUUIDs(out.Instances, nodes)
	return out
}

// addDiskUUIDs says of the machines that were found whether their guests see the UUIDs of disks.
func (s *source) addDiskUUIDs(found []v1.CloudInstance, nodes []v1.Node) {
	for i := range found {
		at := slices.IndexFunc(nodes, func(n v1.Node) bool { return n.Name == found[i].Node })
		if !found[i].Found || at < 0 {
			continue
		}
		found[i].DiskUUID = s.cloud.ShowsDiskUUIDs(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: nodes[at].Name}, Spec: corev1.NodeSpec{ProviderID: nodes[at].ProviderID},
			Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: nodes[at].SystemUUID}},
		})
	}
}

// machineOf is the UUID of the machine that a providerID names.
func machineOf(providerID string) string {
	uuid, ok := strings.CutPrefix(providerID, vsphere.Name+"://")
	if !ok {
		return ""
	}
	return strings.ToLower(uuid)
}
