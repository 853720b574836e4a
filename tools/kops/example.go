// Package kops makes the kOps example from its manifests, and decides whether kOps would take them. Each field is held
// to kOps' own types, and the flags of each program are those that kOps' own code makes of them.
package kops

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kops/pkg/apis/kops/v1alpha2"
	"k8s.io/kops/pkg/flagbuilder"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// What stands in the manifests for what the options say.
const (
	nameInFile  = "transplant.example.com"
	zoneInFile  = "eu-central-1a"
	stateInFile = "s3://state.example.com"
)

// Options are what differs between clusters. An empty one leaves what the manifests say.
type Options struct {
	Dir   string // directory of the kustomization
	Name  string // of the cluster, a DNS name
	Zone  string // availability zone of all hosts
	State string // kOps' state store, such as s3://bucket
	Image string // of the cloud-controller-manager
}

// Example is a cluster for kOps.
type Example struct {
	Manifest []byte // YAML documents for kops create -f or kops replace -f
	Cluster  v1alpha2.Cluster
	Groups   []v1alpha2.InstanceGroup
}

// Flags are the command lines that kOps makes of the cluster: what it adds by itself is not among them.
type Flags struct {
	CloudControllerManager, KubeControllerManager, Kubelet []string
}

var zones = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-[0-9][a-z]$`)

func (o Options) check() error {
	if problems := validation.IsDNS1123Subdomain(o.Name); o.Name != "" && len(problems) > 0 {
		return fmt.Errorf("name %q is no DNS name: %s", o.Name, strings.Join(problems, "; "))
	}
	if o.Zone != "" && !zones.MatchString(o.Zone) {
		return fmt.Errorf("zone %q is no availability zone of AWS, such as eu-central-1a", o.Zone)
	}
	if o.State != "" && (!strings.HasPrefix(o.State, "s3://") || strings.ContainsAny(o.State, " \n\"'")) {
		return fmt.Errorf("state store %q is no bucket, such as s3://my-bucket", o.State)
	}
	if strings.ContainsAny(o.Image, " \n\"'") {
		return fmt.Errorf("image %q has characters that no image has", o.Image)
	}
	return nil
}

// Render makes the example. It returns an error for a field that kOps does not know.
func Render(o Options) (*Example, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), o.Dir)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", o.Dir, err)
	}
	data, err := made.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", o.Dir, err)
	}
	text := string(data)
	for _, r := range [][2]string{{stateInFile, o.State}, {nameInFile, o.Name}, {zoneInFile, o.Zone}} {
		if r[1] != "" {
			text = strings.ReplaceAll(text, r[0], strings.TrimSuffix(r[1], "/"))
		}
	}
	e, err := read([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Dir, err)
	}
	if ccm := e.Cluster.Spec.ExternalCloudControllerManager; o.Image != "" && ccm != nil {
		e.Manifest = []byte(strings.ReplaceAll(text, ccm.Image, o.Image))
		ccm.Image = o.Image
	}
	return e, nil
}

// read decodes a cluster and its instance groups as kOps' types have them.
func read(data []byte) (*Example, error) {
	e := &Example{Manifest: data}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		one, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(one, &kind); err != nil {
			return nil, err
		}
		switch kind.Kind {
		case "Cluster":
			if e.Cluster.Name != "" {
				return nil, fmt.Errorf("it has more than one Cluster")
			}
			err = yaml.UnmarshalStrict(one, &e.Cluster)
		case "InstanceGroup":
			var group v1alpha2.InstanceGroup
			err = yaml.UnmarshalStrict(one, &group)
			e.Groups = append(e.Groups, group)
		default:
			err = fmt.Errorf("kOps has no kind %q", kind.Kind)
		}
		if err != nil {
			return nil, err
		}
	}
	if e.Cluster.Name == "" {
		return nil, fmt.Errorf("it has no Cluster")
	}
	return e, e.belongTogether()
}

// belongTogether returns an error where names lead to nothing, which kOps would say only when it creates the cluster.
func (e *Example) belongTogether() error {
	var subnets, groups []string
	for _, s := range e.Cluster.Spec.Subnets {
		subnets = append(subnets, s.Name)
	}
	for _, g := range e.Groups {
		groups = append(groups, g.Name)
		if of := g.Labels["kops.k8s.io/cluster"]; of != e.Cluster.Name {
			return fmt.Errorf("instance group %s is of cluster %q, not of %s", g.Name, of, e.Cluster.Name)
		}
		for _, s := range g.Spec.Subnets {
			if !slices.Contains(subnets, s) {
				return fmt.Errorf("instance group %s is in subnet %s, which the cluster does not have", g.Name, s)
			}
		}
	}
	for _, c := range e.Cluster.Spec.EtcdClusters {
		for _, m := range c.Members {
			if m.InstanceGroup == nil || !slices.Contains(groups, *m.InstanceGroup) {
				return fmt.Errorf("member %s of etcd cluster %s is in no instance group of the cluster", m.Name, c.Name)
			}
		}
	}
	return nil
}

// Flags are what kOps makes of the cluster's fields.
func (e *Example) Flags() (*Flags, error) {
	var out Flags
	for _, p := range []struct {
		of   any
		into *[]string
	}{
		{e.Cluster.Spec.ExternalCloudControllerManager, &out.CloudControllerManager},
		{e.Cluster.Spec.KubeControllerManager, &out.KubeControllerManager},
		{e.Cluster.Spec.Kubelet, &out.Kubelet},
	} {
		flags, err := flagbuilder.BuildFlagsList(p.of)
		if err != nil {
			return nil, fmt.Errorf("cluster %s: %w", e.Cluster.Name, err)
		}
		*p.into = flags
	}
	return &out, nil
}

// Words say what is in the example, which was written to a file, and how kOps creates it.
func (e *Example) Words(file string) (string, error) {
	flags, err := e.Flags()
	if err != nil {
		return "", err
	}
	name := e.Cluster.Name
	state := strings.TrimSuffix(e.Cluster.Spec.ConfigBase, "/"+name)
	return fmt.Sprintf(`%s: cluster %s. kOps makes these flags of it:

  cloud-controller-manager  %s
  kube-controller-manager   %s
  kubelet                   %s

Create it, which costs money, with kops and credentials of AWS:

  export KOPS_STATE_STORE=%s
  kops create -f %[1]s
  kops update cluster %[2]s --yes --admin
  kops validate cluster --wait 15m

Take it away again with: kops delete cluster %[2]s --yes
`,
		file,
		name,
		strings.Join(flags.CloudControllerManager, " "),
		strings.Join(flags.KubeControllerManager, " "),
		strings.Join(flags.Kubelet, " "),
		state,
	), nil
}
