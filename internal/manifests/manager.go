// Package manifests decides with which objects a cloud-controller-manager is installed where no migration starts it.
// kubectl, kustomize and Helm install them. Its pod, its account and its rights are those that a plan makes, from the
// same code. What is in deploy/kustomize and deploy/manifests is rendered here.
package manifests

import (
	"fmt"
	"slices"

	"github.com/transplant-dev/transplant/ccm/proven"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/plan/ccm"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/program"
)

// The Secret with the cloud config, its key, and where a manager finds it. A directory is mounted and not the file, so
// that a changed Secret is seen.
const (
	CloudConfigSecret = "cloud-config"
	CloudConfigKey    = "cloud.conf"
	cloudConfigDir    = "/etc/kubernetes/cloud-config"
)

// unprivileged is the user that the manager's processes have.
const unprivileged = 65532

// credentials are the Secrets of kube-system with the credentials that a cloud config may name. A manager may get the
// one of its provider by its name, and no other.
var credentials = map[string]string{cloudprovider.VSphere: "vsphere-cloud-secret"}

// Providers are those whose managers are installed: the ones that this project has a program for.
func Providers() []string { return cloudprovider.OwnProviders() }

// Manager returns what the manager of a provider is installed with, in the order in which it is applied.
func Manager(provider string) ([]layout.Object, error) {
	// The oldest Kubernetes that our managers run on stands for all of them: its image is the image of each.
	oldest, _ := proven.Minors()
	image, ok := cloudprovider.OwnImage(provider, oldest)
	if !ok {
		return nil, fmt.Errorf("there is no cloud-controller-manager of this project for provider %q", provider)
	}
	p, err := program.Identify(provider, image.Ref)
	if err != nil {
		return nil, fmt.Errorf("image of the %s manager: %w", provider, err)
	}
	out := layout.IdentityObjects(provider, layout.Manager{
		Ours: p.Ours, Secrets: layout.Secrets{Name: credentials[provider]},
	})
	out = append(out, layout.StateObjects(provider, "")...)
	out = append(out, daemonSet(provider, p), ccm.DisruptionBudget(oldest))
	for _, o := range out {
		label(o)
	}
	return out, nil
}

// commonFlags are those of every provider. Routes are off: --cluster-cidr has to say which ones are the cluster's. With
// true, upstream's default, the manager refuses to start its route loop without it.
func commonFlags() []string {
	return []string{
		"--leader-elect=true",
		"--leader-elect-retry-period=" + ccm.RetryPeriod,
		"--use-service-account-credentials=false",
		"--configure-cloud-routes=false",
	}
}

// daemonSet is the manager on every control-plane node. Its pods are replaced one after the other. Each releases its
// leases when it ends, so that the next one leads at once.
func daemonSet(provider string, p program.Program) layout.Object {
	flags := []controlplane.Flag{{Name: "cloud-provider", Value: provider}}
	hasConfig := needsConfig(provider)
	if hasConfig {
		flags = append(flags, controlplane.Flag{Name: "cloud-config", Value: cloudConfigDir + "/" + CloudConfigKey})
	}
	rendered := ccm.Pod{Program: p, Priority: ccm.NodeCritical}
	if p.Ours {
		rendered.Own = ccm.OwnVariables()
	}
	pod := rendered.Render(flags, nil, nil)
	pod["nodeSelector"] = layout.Object{layout.LabelControlPlane: ""}
	pod["tolerations"] = ccm.Tolerations()
	container := pod["containers"].([]any)[0].(layout.Object)
	container["args"] = commonFlags()
	// It reads no file of its host, unlike the manager of a plan, and needs no user of its host's.
	pod["securityContext"] = layout.Object{
		"runAsNonRoot":   true,
		"runAsUser":      unprivileged,
		"runAsGroup":     unprivileged,
		"seccompProfile": layout.Object{"type": "RuntimeDefault"},
	}
	container["securityContext"] = layout.Object{
		"allowPrivilegeEscalation": false,
		"readOnlyRootFilesystem":   true,
		"capabilities":             layout.Object{"drop": []string{"ALL"}},
	}
	delete(container, "volumeMounts")
	delete(pod, "volumes")
	if hasConfig {
		container["volumeMounts"] = []any{
			layout.Object{"name": CloudConfigSecret, "mountPath": cloudConfigDir, "readOnly": true},
		}
		pod["volumes"] = []any{
			layout.Object{"name": CloudConfigSecret, "secret": layout.Object{"secretName": CloudConfigSecret}},
		}
	}
	return ccm.DaemonSetObject(component.CCM, "RollingUpdate", pod)
}

// needsConfig reports whether the manager of a provider does nothing without a cloud config.
func needsConfig(provider string) bool {
	p, _ := cloudprovider.Lookup(provider)
	return !p.ConfigOptional
}

// label says what an object belongs to. The label of a plan's objects would say that a migration made it.
func label(o layout.Object) {
	o["metadata"].(layout.Object)["labels"] = layout.Object{"app.kubernetes.io/name": component.CCM}
}

// LeaderMigration returns the rights that let kube-controller-manager and cloud-controller-manager share the migration
// lease.
func LeaderMigration() []layout.Object {
	out := layout.MigrationObjects(component.MigrationLease)
	for _, o := range out {
		label(o)
	}
	return out
}

// find returns the object of a kind; nil where there is none. A manager has one of each, but ConfigMaps.
func find(objects []layout.Object, kind string) layout.Object {
	i := slices.IndexFunc(objects, func(o layout.Object) bool { return o["kind"] == kind })
	if i < 0 {
		return nil
	}
	return objects[i]
}
