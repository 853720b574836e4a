package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
	"github.com/transplant-dev/transplant/internal/controlplane/kubeletfile"
	"github.com/transplant-dev/transplant/internal/controlplane/systemdunit"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/safeyaml"
)

const (
	kubeletUnit = "kubelet.service"
	// kubeadmConfig is where kubeadm puts the kubelet's configuration.
	kubeadmConfig = "/var/lib/kubelet/config.yaml"
)

// kubelet reads how the kubelet is started, what it is configured with, and what runs.
func (l *hostReader) kubelet(ctx context.Context) {
	k := &v1.Kubelet{}
	l.host.Kubelet = k
	u, err := systemdunit.ReadUnit(hostaccess.Reading(ctx, l.access), kubeletUnit)
	switch {
	case err == nil:
		l.kubeletByUnit(ctx, k, u)
	case errors.Is(err, fs.ErrNotExist):
		l.kubeletByFiles(ctx, k)
	default:
		k.Source, k.Error = kubeletfile.KubeletFlagsFile, mask.Text(err.Error())
		l.Unknown(l.fact(component.Kubelet), k.Error)
	}
	l.kubeletProcess(ctx, k)
	l.kubeletConfig(ctx, k)
	l.credentialProviders(ctx, k)
}

func (l *hostReader) kubeletByUnit(ctx context.Context, k *v1.Kubelet, u *systemdunit.Unit) {
	k.Source = u.Home()
	k.SHA256 = hostaccess.SHA256(u.Data(k.Source))
	k.Flags = mask.Map(u.Flags())
	k.Sources = programsElsewhere(u.Sources(), k.Source)
	if also := u.Also(); len(also) > 0 {
		k.Also = also
	}
	l.kubeletFiles(ctx, k, u.Paths())
}

func (l *hostReader) kubeletFiles(ctx context.Context, k *v1.Kubelet, paths []string) {
	for _, at := range paths {
		f, err := l.file(ctx, at)
		if err != nil {
			l.Unknown(l.fact(component.Kubelet), err.Error())
			continue
		}
		k.Files = append(k.Files, f)
	}
}

// kubeletByFiles reads the files that the units of the usual packages read.
func (l *hostReader) kubeletByFiles(ctx context.Context, k *v1.Kubelet) {
	sources := map[string]string{}
	sums := map[string]string{}
	var present []string
	for _, at := range kubeletfile.KubeletFlagFiles {
		file, err := l.access.ReadFile(ctx, at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			k.Source, k.Error = at, err.Error()
			l.Unknown(l.fact(component.Kubelet), err.Error())
			return
		}
		flags, err := kubeletfile.ParseKubeletFlags(file.Data)
		if err != nil {
			k.Source, k.SHA256, k.Error = at, hostaccess.SHA256(file.Data), at+": "+mask.Text(err.Error())
			return
		}
		present, sums[at] = append(present, at), hostaccess.SHA256(file.Data)
		if k.Flags == nil {
			k.Flags = map[string]string{}
		}
		for name, value := range mask.Map(flags) {
			if before := sources[name]; before != "" {
				k.Also = withAlso(k.Also, name, before)
			}
			k.Flags[name], sources[name] = value, at
		}
	}
	k.Source = kubeletfile.KubeletFlagsFile
	if len(present) == 0 {
		k.Error = fmt.Sprintf(
			"there is neither a unit %s nor any of %s, so that the kubelet's flags are not known",
			kubeletUnit,
			strings.Join(kubeletfile.KubeletFlagFiles, ", "),
		)
		return
	}
	if !slices.Contains(present, k.Source) {
		k.Source = present[0]
	}
	if at := sources["cloud-provider"]; at != "" {
		k.Source = at
	}
	k.SHA256, k.Sources = sums[k.Source], programsElsewhere(sources, k.Source)
	l.kubeletFiles(ctx, k, present)
}

// withAlso notes another file in which a flag stands.
func withAlso(also map[string][]string, flag, file string) map[string][]string {
	if also == nil {
		also = map[string][]string{}
	}
	also[flag] = append(also[flag], file)
	slices.Sort(also[flag])
	return also
}

// kubeletProcess looks at what runs: its arguments are the proof of what a kubelet runs with, whatever the files say.
func (l *hostReader) kubeletProcess(ctx context.Context, k *v1.Kubelet) {
	found, err := l.access.Processes(ctx, component.Kubelet)
	switch {
	case err != nil:
		l.Unknown(l.fact("kubelet-process"), err.Error())
	case len(found) > 1:
		var pids []string
		for _, p := range found {
			pids = append(pids, fmt.Sprint(p.PID))
		}
		l.Unknown(
			l.fact("kubelet-process"),
			fmt.Sprintf(
				"several kubelets run on host %s (processes %s), so that it is not known which is its own",
				l.host.Name,
				strings.Join(pids, ", "),
			),
		)
	case len(found) == 1:
		found[0].Args = mask.Command(found[0].Args)
		k.Process = &found[0]
	}
}

// flagOf is what the files say of a flag of the kubelet, else what its process does.
func flagOf(k *v1.Kubelet, name string) string {
	if value, ok := k.Flags[name]; ok || k.Process == nil {
		return value
	}
	return commandline.FlagsOf(k.Process.Args)[name]
}

// kubeletConfiguration is as much of kubelet.config.k8s.io/v1beta1 as is looked at.
type kubeletConfiguration struct {
	Kind               string          `json:"kind"`
	StaticPodPath      string          `json:"staticPodPath"`
	ProviderID         string          `json:"providerID"`
	FeatureGates       map[string]bool `json:"featureGates"`
	ServerTLSBootstrap bool            `json:"serverTLSBootstrap"`
	RotateCertificates bool            `json:"rotateCertificates"`
	RegisterWithTaints []struct {
		Key    string `json:"key"`
		Value  string `json:"value"`
		Effect string `json:"effect"`
	} `json:"registerWithTaints"`
	ShutdownGracePeriod any `json:"shutdownGracePeriod"`
}

// kubeletConfig reads the configuration that --config names, with its drop-ins; kubeadm's where no flag is known to
// name one.
func (l *hostReader) kubeletConfig(ctx context.Context, k *v1.Kubelet) {
	at := flagOf(k, "config")
	named := at != ""
	if !named {
		at = kubeadmConfig
	}
	file, err := l.access.ReadFile(ctx, at)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return // a kubelet without a configuration file
	}
	k.Config = &v1.KubeletConfig{Path: at}
	if err == nil {
		k.Config.SHA256 = hostaccess.SHA256(file.Data)
		l.kubeletFiles(ctx, k, []string{at})
		err = l.readKubeletConfig(ctx, k, file.Data)
	}
	if err != nil {
		k.Config.Error = mask.Text(err.Error())
		l.Unknown(l.fact("kubelet-config"), k.Config.Error)
	}
}

func (l *hostReader) readKubeletConfig(ctx context.Context, k *v1.Kubelet, data []byte) error {
	var c kubeletConfiguration
	if err := safeyaml.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("%s is no kubelet configuration: %w", k.Config.Path, err)
	}
	if c.Kind != "" && c.Kind != "KubeletConfiguration" {
		return fmt.Errorf("%s is no kubelet configuration: its kind is %q", k.Config.Path, c.Kind)
	}
	if dir := flagOf(k, "config-dir"); dir != "" {
		if err := l.mergeKubeletConfigs(ctx, k, dir, &c); err != nil {
			return err
		}
	}
	out := k.Config
	out.StaticPodPath, out.ProviderID, out.FeatureGates = c.StaticPodPath, c.ProviderID, c.FeatureGates
	out.ServerTLSBootstrap, out.RotateCertificates = c.ServerTLSBootstrap, c.RotateCertificates
	for _, t := range c.RegisterWithTaints {
		out.RegisterWithTaints = append(out.RegisterWithTaints, t.Key+"="+t.Value+":"+t.Effect)
	}
	if period, ok := c.ShutdownGracePeriod.(string); ok {
		out.ShutdownGracePeriod = period
	}
	return nil
}

// mergeKubeletConfigs puts the drop-ins of --config-dir on top, in the order of their names: a later value wins, and
// maps are merged.
func (l *hostReader) mergeKubeletConfigs(
	ctx context.Context,
	k *v1.Kubelet,
	dir string,
	c *kubeletConfiguration,
) error {
	names, err := l.access.List(ctx, dir)
	if err != nil {
		return err
	}
	gates := maps.Clone(c.FeatureGates)
	for _, name := range names {
		if !strings.HasSuffix(name, ".conf") {
			continue
		}
		at := path.Join(dir, name)
		file, err := l.access.ReadFile(ctx, at)
		if err != nil {
			return err
		}
		if err := safeyaml.Unmarshal(file.Data, c); err != nil {
			return fmt.Errorf("%s is no kubelet configuration: %w", at, err)
		}
		if gates == nil {
			gates = map[string]bool{}
		}
		said, err := gatesOf(file.Data)
		if err != nil {
			return fmt.Errorf("%s is no kubelet configuration: %w", at, err)
		}
		for gate := range said {
			if k.Config.GateFiles == nil {
				k.Config.GateFiles = map[string]string{}
			}
			k.Config.GateFiles[gate] = at
		}
		maps.Copy(gates, said)
		c.FeatureGates = maps.Clone(gates)
		l.kubeletFiles(ctx, k, []string{at})
	}
	return nil
}

// gatesOf are the gates that one configuration file names.
func gatesOf(data []byte) (map[string]bool, error) {
	var c struct {
		FeatureGates map[string]bool `json:"featureGates"`
	}
	err := safeyaml.Unmarshal(data, &c)
	return c.FeatureGates, err
}
