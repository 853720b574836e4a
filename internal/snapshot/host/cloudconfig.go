package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cloudconfig"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask"
)

// cloudConfigs describes every cloud config that a component of the host names. The manager's is Host.CloudConfig: the
// external provider's is derived from it.
func (l *hostReader) cloudConfigs(ctx context.Context) {
	var all []v1.CloudConfig
	add := func(name, at string) {
		i := slices.IndexFunc(all, func(c v1.CloudConfig) bool { return c.Path == at })
		if i < 0 {
			i, all = len(all), append(all, v1.CloudConfig{Path: at})
		}
		if !slices.Contains(all[i].UsedBy, name) {
			all[i].UsedBy = append(all[i].UsedBy, name)
			slices.Sort(all[i].UsedBy)
		}
	}
	for _, c := range l.host.Components {
		if in := c.Flags["cloud-config"]; in != "" && (c.Name == component.KCM || c.Name == component.KAS) {
			add(c.Name, hostPath(c, in))
		}
	}
	if k := l.host.Kubelet; k != nil && k.Flags["cloud-config"] != "" {
		add(component.Kubelet, k.Flags["cloud-config"])
	}
	slices.SortFunc(all, func(a, b v1.CloudConfig) int { return strings.Compare(a.Path, b.Path) })
	for _, c := range all {
		l.describeCloudConfig(ctx, &c)
		if l.host.CloudConfig == nil && slices.Contains(c.UsedBy, component.KCM) {
			l.host.CloudConfig = &c
		} else {
			l.host.CloudConfigs = append(l.host.CloudConfigs, c)
		}
	}
}

func (l *hostReader) describeCloudConfig(ctx context.Context, out *v1.CloudConfig) {
	user := out.UsedBy[0]
	if slices.Contains(out.UsedBy, component.KCM) {
		user = component.KCM
	}
	file, err := l.access.ReadFile(ctx, out.Path)
	if err != nil {
		out.Error = err.Error()
		l.Unknown(l.fact("cloud-config"), fmt.Sprintf("cloud config of %s: %v", user, err))
		return
	}
	out.SHA256 = hostaccess.SHA256(file.Data)
	out.Provider = l.providerOf(out.UsedBy)
	if err := DescribeConfig(out, file.Data, user == component.KCM); err != nil {
		out.Error = mask.Text(err.Error())
	}
}

// providerOf is the in-tree provider that the components of a config name; the external provider's manager does not
// name it.
func (l *hostReader) providerOf(users []string) string {
	for _, c := range l.host.Components {
		if p := c.Flags["cloud-provider"]; slices.Contains(users, c.Name) && p != "" && p != External {
			return p
		}
	}
	if k := l.host.Kubelet; k != nil && slices.Contains(users, component.Kubelet) && k.Flags["cloud-provider"] != External {
		return k.Flags["cloud-provider"]
	}
	for _, c := range l.host.Components {
		if p := c.Flags["cloud-provider"]; c.Name == component.CCM && p != External {
			return p
		}
	}
	return ""
}

// External is the value of --cloud-provider for a component that leaves the cloud to another one.
const External = "external"

// DescribeConfig fills in what a config says, and tries the derivation of the external provider's.
func DescribeConfig(out *v1.CloudConfig, data []byte, derive bool) error {
	if out.Provider == "" {
		return errors.New("no component names a cloud provider, so that it is not known whose config this is")
	}
	d, err := cloudconfig.Describe(out.Provider, data)
	if err != nil {
		return err
	}
	out.Format, out.Keys, out.ServiceOverrides, out.Problems = d.Format, d.Keys, d.ServiceOverrides, mask.Texts(d.Problems)
	out.Settings = mask.Map(d.Settings)
	if !derive {
		return nil
	}
	derived, err := cloudconfig.Derive(out.Provider, data)
	if err != nil {
		return err
	}
	if len(derived.Problems) > 0 {
		return fmt.Errorf("the external provider's config cannot be made of it: %s", strings.Join(derived.Problems, "; "))
	}
	out.DerivedChanges, out.DerivedSHA256 = derived.Changes, hostaccess.SHA256(derived.Data)
	return nil
}
