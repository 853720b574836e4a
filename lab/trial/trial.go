// Package trial decides what a trial of the product is: a lab with a workload, the command line as an operator would
// use it, and a recorder and an audit log of the lab's own that judge what happened. The demo and the lab tests are
// both made of it.
package trial

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/transplant-dev/transplant/internal/ownership"
	"github.com/transplant-dev/transplant/lab/build"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/kubelet"
	"github.com/transplant-dev/transplant/lab/poll"
)

// Options of a trial.
type Options struct {
	// Dir holds the lab and everything that the trial writes.
	Dir     string
	Workers int
	// ControlPlanes, Spares and DiskSize are the cluster's.
	ControlPlanes int
	Spares        int
	DiskSize      int64
	Profile       kubelet.Profile
	// Shape is the cluster's.
	Shape cluster.Shape
	// RunPods is the cluster's.
	RunPods bool
	// Kind is the cluster's cloud; nil for AWS. Flags are those of check, plan and apply for it, and Program is the
	// command of its cloud-controller-manager.
	Kind    cluster.Kind
	Flags   []string
	Program string
	// Version, Gates and Volumes are the cluster's.
	Version, Gates string
	Volumes        bool
	// NoCloudConfig and Audit are the cluster's.
	NoCloudConfig, Audit bool
	// Progress is told what takes long.
	Progress io.Writer
}

// driverSet has the CSI driver, for labs whose hosts mount volumes.
const driverSet = "ebs-csi-v1.63.1"

// sets are the programs of every lab and those of the cluster's version; see build.Sets.
func (o Options) sets() []string {
	version := cmp.Or(o.Version, cluster.Version)
	if o.Version == "" && o.Kind != nil {
		version = o.Kind.Version()
	}
	sets := slices.Clone(build.DefaultSets)
	if set := "kubernetes-" + version; !slices.Contains(sets, set) {
		sets = append(sets, set)
	}
	if o.Volumes {
		sets = append(sets, driverSet)
	}
	return sets
}

// Trial is a lab under an operator's hands.
type Trial struct {
	*cluster.Cluster
	dir     string
	shape   cluster.Shape
	product build.Product
	kubectl string
	flags   []string
	// kubeconfig is that of the operator.
	kubeconfig string
	// namesNodes reports whether the operator names every Node of the control plane.
	namesNodes bool
}

// credentials is where an operator puts the cloud-controller-manager's, on each control-plane host, before a migration.
const credentials = "/etc/kubernetes/cloud-controller-manager.credentials"

// Start builds what is missing and starts a lab with a workload. The caller stops it with Stop.
func Start(ctx context.Context, o Options) (*Trial, error) {
	bins, err := build.Ensure(ctx, build.Options{Progress: o.Progress, Sets: o.sets()})
	if err != nil {
		return nil, err
	}
	root, err := build.FindRoot()
	if err != nil {
		return nil, err
	}
	kubectl, err := bins.Path("kubectl", cluster.Version)
	if err != nil {
		return nil, err
	}
	// The command line of a release runs no program that lies in a host's directory, and such is this lab's systemctl.
	fmt.Fprintln(o.Progress, "building transplant and aws-cloud-controller-manager")
	product, err := build.BuildProduct(ctx, root, filepath.Join(o.Dir, "bin"), "faults")
	if err != nil {
		return nil, err
	}
	programs := map[string]string{
		build.CCMImage:         product.CCM,
		build.UpstreamCCMImage: build.UpstreamCCM(filepath.Dir(product.CCM)), // built by whoever needs it
	}
	if o.Program != "" {
		fmt.Fprintln(o.Progress, "building "+o.Program)
		file, err := build.BuildCommand(ctx, root, filepath.Join(o.Dir, "bin"), o.Program)
		if err != nil {
			return nil, err
		}
		programs[build.ImageRegistry+o.Program] = file
	}
	fmt.Fprintln(o.Progress, "starting the lab: control-plane hosts, their in-tree managers, workers, a simulated cloud")
	begin := time.Now()
	c, err := cluster.Start(ctx, cluster.Options{
		Dir: filepath.Join(
			o.Dir,
			"lab",
		),
		Binaries:      bins,
		ControlPlanes: o.ControlPlanes,
		Spares:        o.Spares,
		Workers:       o.Workers,
		DiskSize:      o.DiskSize,
		Profile:       o.Profile,
		NoCloudConfig: o.NoCloudConfig,
		Audit:         o.Audit,
		Shape:         o.Shape,
		RunPods:       o.RunPods,
		Kind:          o.Kind,
		Version:       o.Version,
		Gates:         o.Gates,
		Volumes:       o.Volumes,
		Programs:      programs,
	})
	if err != nil {
		return nil, err
	}
	t := &Trial{
		Cluster: c, dir: o.Dir, shape: o.Shape, product: product, kubectl: kubectl, flags: o.Flags,
		kubeconfig: c.Kubeconfig(),
	}
	if o.Kind == nil {
		t.flags = append(MigrationFlags(), "--cloud", Cloud)
	}
	if err := t.prepare(ctx); err != nil {
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	fmt.Fprintf(
		o.Progress,
		"the lab is up after %s, with %d load balancers\n",
		time.Since(begin).Round(100*time.Millisecond),
		len(c.Kind().Services()),
	)
	return t, nil
}

// prepare waits for the lab, gives it something to lose, and puts the new manager's credentials on the hosts.
func (t *Trial) prepare(ctx context.Context) error {
	if err := t.WaitReady(ctx); err != nil {
		return err
	}
	if err := t.Workload(ctx); err != nil {
		return err
	}
	if err := t.awaitControllers(ctx); err != nil {
		return err
	}
	keys := map[string]string{}
	for _, h := range t.Machines() {
		for _, component := range []string{cluster.CloudControllerManager, cluster.ControllerManager} {
			keys[t.Kind().Key(h, component)] = component + "@" + h.Name
		}
	}
	if err := PutCredentials(t.Cluster); err != nil {
		return err
	}
	data, err := json.MarshalIndent(keys, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(t.KeysFile(), append(data, '\n'), 0o644)
}

// PutCredentials puts the new manager's credentials on the control-plane hosts of a lab on a simulated AWS, where
// MigrationFlags look for them. On other clouds they are in the cloud config.
func PutCredentials(c *cluster.Cluster) error {
	if c.AWS() == nil {
		return nil
	}
	for _, h := range c.ControlPlanes() {
		if err := putCredentials(h); err != nil {
			return err
		}
	}
	return nil
}

func putCredentials(h *cluster.Host) error {
	key := cluster.AccessKey(h.Name, cluster.CloudControllerManager)
	text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = lab-only\n", key)
	if err := os.WriteFile(h.Path(credentials), []byte(text), 0o600); err != nil {
		return fmt.Errorf("putting the new manager's credentials on host %s: %w", h.Name, err)
	}
	return nil
}

// awaitControllers waits until the controllers that fill in what every cluster has (aggregated roles, default accounts)
// have been through: a lab that still grows would look as if a migration had changed it. kube-controller-manager 1.26
// takes its time to start them all.
func (t *Trial) awaitControllers(ctx context.Context) error {
	return poll.Within(ctx, 200*time.Millisecond, 2*time.Minute, "the controllers", func(ctx context.Context) error {
		for _, name := range []string{"admin", "edit", "view"} {
			role, err := t.Client().RbacV1().ClusterRoles().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if len(role.Rules) == 0 {
				return fmt.Errorf("ClusterRole %s has no rules", name)
			}
		}
		for _, namespace := range []string{"kube-system", cluster.WorkloadNamespace} {
			if _, err := t.Client().CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{}); err != nil {
				return fmt.Errorf("the default ServiceAccount of namespace %s: %w", namespace, err)
			}
		}
		return nil
	})
}

// KeysFile says which manager has which access key, as transplant report --cloud-keys wants it.
func (t *Trial) KeysFile() string { return filepath.Join(t.dir, "keys.json") }

// Keys says which manager has which access key.
func (t *Trial) Keys() map[string]ownership.Owner {
	out := map[string]ownership.Owner{}
	for _, h := range t.Machines() {
		for _, component := range []string{cluster.CloudControllerManager, cluster.ControllerManager} {
			out[t.Kind().Key(h, component)] = ownership.Owner{Component: component, Host: h.Name}
		}
	}
	return out
}

// HostAccess is what --host-access takes.
func (t *Trial) HostAccess() string { return "local:" + filepath.Join(t.Dir(), "hosts") }
