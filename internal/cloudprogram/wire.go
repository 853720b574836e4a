// Package cloudprogram decides how a cloud is asked through its provider's own program. The cloud's SDK is linked
// there and not here, so that the command line holds no cloud's.
//
// The program is <cloud>-cloud-controller-manager. It is started with a sub-command, reads one question as JSON on its
// standard input, and writes one answer to its standard output. Credentials are those of the environment, as for the
// cloud's own tools. A cloud config goes in with the question, so that no command line shows it.
package cloudprogram

import v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"

// Protocol is the number of what is asked and answered. It grows when a field changes its meaning.
const Protocol = 1

// Sub-commands of a provider's program.
const (
	Inventory = "inventory"
	Preview   = "preview"
	// Orphans is the only one that may change something in the cloud: it removes the one object that a question names.
	Orphans = "orphans"
)

// Question is what a program reads.
type Question struct {
	Protocol int `json:"protocol"`
	// OnlyOpen asks whether the settings are such that the cloud can be asked; nothing is asked of it.
	OnlyOpen bool `json:"onlyOpen,omitempty"`
	// Settings are what stands behind the cloud's name in --cloud.
	Settings map[string]string `json:"settings,omitempty"`
	// CloudConfig is that of the provider, for a preview.
	CloudConfig []byte    `json:"cloudConfig,omitempty"`
	Nodes       []v1.Node `json:"nodes,omitempty"`
	// Orphans is about objects of Services that may be gone.
	Orphans *OrphanQuestion `json:"orphans,omitempty"`
}

// OrphanQuestion names cloud objects, and what of the cluster says whose they are.
type OrphanQuestion struct {
	// IDs are all objects that the administrator has named.
	IDs []string `json:"ids"`
	// Services are all of the cluster. What was made for one of them is no orphan.
	Services []OrphanService `json:"services,omitempty"`
	// AssumeOwned takes objects for this cluster's where nothing says whose they are.
	AssumeOwned bool `json:"assumeOwned,omitempty"`
	// Remove is the one of IDs that is removed now, as far as that can be done without waiting; empty for none.
	Remove string `json:"remove,omitempty"`
	// Approved are the IDs of all that was shown to go with it. Nothing else is deleted.
	Approved []string `json:"approved,omitempty"`
}

// OrphanService is a Service of the cluster, of any type.
type OrphanService struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// Annotations are those whose name speaks of a load balancer's ID.
	Annotations map[string]string `json:"annotations,omitempty"`
	Addresses   []string          `json:"addresses,omitempty"`
}

// Answer is what a program writes.
type Answer struct {
	Protocol int `json:"protocol"`
	// Version is that of the program.
	Version string `json:"version,omitempty"`
	// Error is why there is no answer: settings that are wrong, or a cloud that cannot be opened.
	Error     string             `json:"error,omitempty"`
	Inventory *v1.CloudInventory `json:"inventory,omitempty"`
	Preview   *v1.Preview        `json:"preview,omitempty"`
	// Orphans are the objects that were asked about, each once.
	Orphans []v1.Orphan `json:"orphans,omitempty"`
}
