// Package cloudprogram decides how a cloud is looked at through its provider's own program. The cloud's SDK is linked
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
}
