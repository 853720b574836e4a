package plan

import (
	"errors"
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
)

// seedInstall plans the cloud-controller-manager of a control plane that was external from the start. It is what a handover ends with, without the steps by
// which an in-tree manager gives the loops up.
func (b *builder) seedInstall(m *v1.Component) {
	b.seedPrepare(m)
	b.seedManager(m)
	b.seedVerify(PhaseVerify, "verify/installed", owners(CCM))
}

// seedInstallable says what keeps a first cloud-controller-manager from being planned.
func (b *builder) seedInstallable(m *v1.Component) error {
	var errs []error
	switch p := m.Flags["cloud-provider"]; {
	case p != "" && p != "external":
		return fmt.Errorf("%s runs the in-tree provider %s: its loops are handed over, and no other manager is started beside it", m.Manifest, p)
	case b.provider.Name == "":
		return errors.New("the cluster does not say which cloud it is in: name it in spec.cloud.providerName")
	case m.Replicas != nil && *m.Replicas == 0:
		errs = append(errs, fmt.Errorf("%s has no replicas: wake the control plane up first", m.Manifest))
	}
	if b.kcm < catalogue.Oldest || b.kcm > catalogue.Newest {
		errs = append(errs, fmt.Errorf("%s is of 1.%d: managers are installed for 1.%d to 1.%d", m.Manifest, b.kcm, catalogue.Oldest, catalogue.Newest))
	}
	if c := hosted(b.snap, CCM); c != nil {
		errs = append(errs, fmt.Errorf("%s runs a %s already: it is left alone", c.Manifest, CCM))
	}
	return errors.Join(append(errs, b.seedBefore(m))...)
}

// seedConfigPath is where the kube-controller-manager mounts the cloud config that the external provider's is derived from; empty when it mounts none.
func (b *builder) seedConfigPath(m *v1.Component) string {
	if at := m.Flags[flagCloudConfig]; at != "" {
		return at
	}
	if b.opts.Part == v1.PartInstall && m.CloudConfig != nil && strings.HasPrefix(m.CloudConfig.Path, "/") {
		return m.CloudConfig.Path
	}
	return ""
}

// seedConfigGiven reports whether a person made the Secret with the cloud config: it is mounted as it is.
func (b *builder) seedConfigGiven(m *v1.Component) bool {
	return b.opts.Part == v1.PartInstall && m.Flags[flagCloudConfig] == "" && m.CloudConfig != nil && strings.HasPrefix(m.CloudConfig.Path, "Secret/")
}
