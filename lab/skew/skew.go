// Package skew decides which kube-apiservers our cloud-controller-manager may be run against: those against which its
// tests were run, on real ones, through the life of a node, of a load balancer, of a route and of a lease.
//
// What they prove is the range that the program itself reports with --version -o json, and that transplant check goes
// by.
package skew

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/kubernetes"

	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/apiserver/process"
	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/cluster"
)

const (
	clusterCIDR = "10.244.0.0/16"
	lease       = "cloud-controller-manager"
	// migrationLease holds the loops of a manager that runs with leader migration.
	migrationLease = "cloud-provider-extraction-migration"
)

// manager is one running aws-cloud-controller-manager. Its user in the API, and its access key in the cloud, is its
// name.
type manager struct {
	name string
	*process.Process
}

// world is a cluster without machines: an API server of some version, a cloud, and no kubelet.
type world struct {
	dir     string
	program string // aws-cloud-controller-manager
	api     *apiserver.Server
	admin   kubernetes.Interface
	cloud   *awssim.Server
	cloudAt string // host:port
}

// start starts a manager that serves its health on a port.
func (w *world) start(name string, port int) (manager, error) {
	kubeconfig, err := w.api.Kubeconfig(name)
	if err != nil {
		return manager{}, err
	}
	config := filepath.Join(w.dir, name+".conf")
	if err := os.WriteFile(config, []byte(cluster.CloudConfig("http://"+w.cloudAt)), 0o600); err != nil {
		return manager{}, fmt.Errorf("writing cloud config of %q: %w", name, err)
	}
	p, err := process.Start(process.Options{
		Name: name, Path: w.program, Dir: w.dir, Output: filepath.Join(w.dir, name+".log"),
		Args: []string{
			"--v=2",
			"--cloud-provider=aws",
			"--cloud-config=" + config,
			"--kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--authorization-always-allow-paths=/healthz,/readyz,/metrics",
			"--bind-address=127.0.0.1",
			fmt.Sprintf("--secure-port=%d", port),
			"--cert-dir=" + filepath.Join(w.dir, name+"-certificates"),
			"--cluster-name=" + cluster.Name,
			"--cluster-cidr=" + clusterCIDR,
			"--configure-cloud-routes=true",
			"--leader-elect=true",
			"--enable-leader-migration=true",
		},
		Env: []string{
			"AWS_REGION=" + cluster.Region,
			"AWS_ENDPOINT_URL=http://" + w.cloudAt,
			"AWS_ACCESS_KEY_ID=" + name,
			"AWS_SECRET_ACCESS_KEY=lab-only",
			"AWS_EC2_METADATA_DISABLED=true",
		},
	})
	return manager{name, p}, err
}
