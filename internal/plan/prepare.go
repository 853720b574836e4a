package plan

import (
	"fmt"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controllernames"
	"github.com/transplant-dev/transplant/internal/migrationconfig"
)

// prepare makes everything that the later phases need and that changes nothing yet: rights, files, binaries.
func (b *builder) prepare() {
	b.fact("cluster:uid", b.snap.Cluster.UID, "")
	b.ensure(PhasePrepare, "reads the managers' /metrics with a token that may do nothing else", observerObjects())
	if b.opts.Strategy == LeaderMigration {
		b.ensure(PhasePrepare, "the built-in role does not cover the migration lease: without this no cloud loop runs, and nothing says so", migrationObjects(b.opts.LeaseName))
	}
	b.ensure(PhasePrepare, "identity and rights of the cloud-controller-manager", b.identity())
	for _, h := range b.hosts {
		b.configs(h)
	}
	b.credentialProviders()
}

// configs are the files of the managers of a host.
func (b *builder) configs(h v1.Host) {
	m := component(h, KCM)
	if err := b.withoutConfig(m, "host "+h.Name); err != nil {
		b.refused = append(b.refused, err)
		return
	}
	if !b.isUnconfigured(m) && (h.CloudConfig == nil || h.CloudConfig.Error != "") {
		b.refused = append(b.refused, fmt.Errorf("cloud config %s on host %s could not be read or turned into the external provider's: see transplant check", m.Flags[flagCloudConfig], h.Name))
		return
	}
	if b.opts.Strategy == LeaderMigration {
		b.migrationConfigs(h, m)
	}
	if !b.isUnconfigured(m) {
		b.derive(h, CCMCloudConf, DeriveCloudConfig, h.CloudConfig.Path, "0600", h.CloudConfig.DerivedChanges)
	}
	if b.shape == v1.ShapeStaticPod {
		source := kubeconfigOf(h, m)
		b.token(h)
		b.derive(h, CCMKubeconfig, DeriveKubeconfig, source, "0600", []string{"server and CA of " + source + ", token in " + CCMToken})
	}
}

// IsToken reports whether a step writes a token of the cloud-controller-manager's account.
func IsToken(s v1.Step) bool {
	return s.Kind == v1.StepWriteFile && (s.Derive == DeriveToken || s.Derive == DeriveRenewingToken)
}

// token puts a token of the cloud-controller-manager's account on a host: a static pod is given none by its kubelet.
func (b *builder) token(h v1.Host) {
	derivation, note := b.tokenKind()
	b.add(v1.Step{
		ID: "write/" + CCMToken + "@" + h.Name, Phase: PhasePrepare, Kind: v1.StepWriteFile, Title: "write " + CCMToken + " on " + h.Name,
		Why: "a static pod gets no token from its kubelet; this one ends by itself, and is in no other place", Host: h.Name, Path: CCMToken, Derive: derivation,
		Source: AccountRef, Mode: "0600", Requires: []string{"cluster:uid", b.fileFact(h, CCMToken)}, Undo: "restore what was there", EstimateSeconds: 0.2,
		Changes: []v1.Change{{Field: CCMToken, After: "a token of " + AccountRef + note}},
	})
}

// tokenKind returns which token a manager on a host gets, and what is said of it.
func (b *builder) tokenKind() (derivation, note string) {
	if b.renewsToken() {
		return DeriveRenewingToken, ", for 90 days; the manager renews it from the 30th on"
	}
	return DeriveToken, ", for 365 days; transplant renew renews it"
}

// isUnconfigured reports whether a kube-controller-manager has no cloud config and its provider needs none. An empty --cloud-config is none.
func (b *builder) isUnconfigured(m *v1.Component) bool {
	return b.provider.ConfigOptional && m.Flags[flagCloudConfig] == ""
}

// envMetadataOff is the variable that keeps the AWS SDKs from the metadata service of the instance.
const envMetadataOff = "AWS_EC2_METADATA_DISABLED"

// withoutConfig returns why a manager that has no cloud config, on the host or in the workload that is named, cannot be followed; nil where it can.
func (b *builder) withoutConfig(m *v1.Component, where string) error {
	if m.Flags[flagCloudConfig] != "" {
		return nil
	}
	if !b.provider.ConfigOptional {
		return fmt.Errorf("%s on %s has no --cloud-config, and with provider %s %s: write its configuration to a file, name it with --cloud-config, and plan again",
			KCM, where, b.provider.Name, b.provider.WithoutConfig)
	}
	for _, e := range b.opts.Env {
		name, value, _ := strings.Cut(e, "=")
		if b.provider.Name == ProviderAWS && name == envMetadataOff && strings.EqualFold(value, "true") {
			return fmt.Errorf("%s=%s in --ccm-env: %s on %s has no --cloud-config, so %s; leave the variable out", name, value, KCM, where, b.provider.WithoutConfig)
		}
	}
	b.noteOnce(fmt.Sprintf("cloud config: %s has none, and so has the %s; %s", KCM, CCM, b.provider.WithoutConfig))
	return nil
}

// kubeconfigOf is the kubeconfig of a kube-controller-manager, whose API server and CA its successor gets.
func kubeconfigOf(h v1.Host, m *v1.Component) string {
	for _, f := range h.Files {
		if f.Present && f.Path == m.Flags["kubeconfig"] {
			return f.Path
		}
	}
	return KCMKubeconfig
}

func (b *builder) migrationConfigs(h v1.Host, m *v1.Component) {
	n, _ := b.minorOf(m) // aim has asked
	for _, file := range []struct {
		comp      controllernames.Component
		minor     int
		path, why string
	}{
		{controllernames.KubeControllerManager, n, KCMMigration, "names of the loops in the dialect of this kube-controller-manager"},
		{controllernames.CloudControllerManager, b.program.minor, CCMMigration, "the same loops in the dialect of the cloud-controller-manager: one file for both would make two owners"},
	} {
		content, err := migrationconfig.Render(file.comp, file.minor, b.loops(), b.opts.LeaseName)
		if err != nil {
			b.refused = append(b.refused, fmt.Errorf("rendering the leader migration config of %s on host %s: %w", file.comp, h.Name, err))
			return
		}
		b.writeFile(h, file.path, string(content), file.why)
	}
}

func (b *builder) writeFile(h v1.Host, path, content, why string) {
	b.add(v1.Step{
		ID: "write/" + path + "@" + h.Name, Phase: PhasePrepare, Kind: v1.StepWriteFile, Title: "write " + path + " on " + h.Name, Why: why,
		Host: h.Name, Path: path, Content: content, Mode: "0644", Requires: []string{"cluster:uid", b.fileFact(h, path)},
		Undo: "restore what was there", EstimateSeconds: 0.1, Changes: []v1.Change{{Field: path, After: strings.TrimSpace(content)}},
	})
}

func (b *builder) derive(h v1.Host, path, derivation, source, mode string, changes []string) {
	s := v1.Step{
		ID: "write/" + path + "@" + h.Name, Phase: PhasePrepare, Kind: v1.StepWriteFile, Title: "write " + path + " on " + h.Name,
		Why: "derived on the host from " + source + ", which stays as it is", Host: h.Name, Path: path, Derive: derivation, Source: source, Mode: mode,
		Requires: []string{"cluster:uid", b.fileFact(h, path), b.fileFact(h, source)}, Undo: "restore what was there", EstimateSeconds: 0.1,
	}
	for _, c := range changes {
		s.Changes = append(s.Changes, v1.Change{Field: path, After: c})
	}
	b.add(s)
}
