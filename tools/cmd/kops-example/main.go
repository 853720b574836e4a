// Command kops-example writes a cluster for kOps whose cloud loops an external manager runs. It says how kOps creates
// it.
//
//	cd tools && go run ./cmd/kops-example --out ../out/kops-example
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/transplant-dev/transplant/tools/kops"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "kops-example:", err)
		os.Exit(1)
	}
}

func run() error {
	var o kops.Options
	flag.StringVar(&o.Dir, "dir", "../examples/kops-new-cluster/overlays/cloud-controller-manager",
		"directory of the kustomization")
	flag.StringVar(&o.Name, "name", "", "name of the cluster (default: that of the manifests)")
	flag.StringVar(&o.Zone, "zone", "", "availability zone of the hosts (default: that of the manifests)")
	flag.StringVar(&o.State, "state", "", "kOps' state store, such as s3://my-bucket (default: that of the manifests)")
	flag.StringVar(&o.Image, "image", "", "image of the cloud-controller-manager (default: that of the manifests)")
	out := flag.String("out", "out/kops-example", "directory for the manifest")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	example, err := kops.Render(o)
	if err != nil {
		return err
	}
	file := filepath.Join(*out, "cluster.yaml")
	words, err := example.Words(file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(file, example.Manifest, 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprint(os.Stdout, words)
	return err
}
