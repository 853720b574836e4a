// Package plan decides which steps take a cluster out of tree, in which order, and which facts each of them needs: a pure function of a
// snapshot and of options. The same snapshot and options give the same plan, byte for byte.
//
// The order keeps two promises. One owner: whoever may run a loop needs the lease that the present owner holds. One planned handover of the
// loops: the host that owns them is rolled last, and no kube-apiserver is restarted while a manager that owns a loop depends on it.
//
//	prepare          RBAC, files on the hosts, image credential providers
//	leader-migration each in-tree kube-controller-manager learns the migration lease      owner last: handover KCM -> KCM
//	handover         host by host: KCM external, kube-apiserver external, CCM starts      owner last: handover KCM -> CCM
//	upgrade          the schedulers get the target version, where there is one; see upgrade.go for the rest of an upgrade on the way
//	volumes          the schedulers count volumes as CSI's, where volumes move
//	kubelets         --cloud-provider=external, one at a time
//	nodes            nodes without providerID get one
//	volumes-done     the in-tree volume plugins go, when the last kubelet is done
//	kubeadm          what kubeadm would write at the next upgrade
//	verify           owners and inventory
//	finish           leader migration off, lease and files gone                           owner last: handover CCM -> CCM
//
// With the strategy downtime the phases leader-migration and handover are one: each kube-controller-manager becomes external, the owner's last,
// and then the cloud-controller-managers start; between the two nobody runs the loops, and the plan says for how long.
package plan

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
)

// Directions of a plan.
const (
	Forward  = "forward"
	Rollback = "rollback"
)

// LeaderMigration is the strategy for replicated control planes; see also Downtime.
const LeaderMigration = "leader-migration"

// Names of providers that a plan has to tell apart.
const (
	ProviderAWS       = "aws"
	providerAzure     = "azure"
	providerGCE       = "gce"
	providerOpenStack = "openstack"
	providerVSphere   = "vsphere"
)

// Defaults of the options.
const (
	DefaultImage         = "ghcr.io/transplant-dev/aws-cloud-controller-manager:v0.1.0"
	DefaultLease         = "cloud-provider-extraction-migration"
	DefaultRetryPeriod   = "250ms"
	DefaultRenewDeadline = "5s"
)

// ccmMinor is the minor of k8s.io/cloud-provider that our cloud-controller-manager is built from: it decides the dialect of controller names.
const ccmMinor = 37

// Defaults fills in what was not chosen and does not depend on the cluster; Make chooses strategy, image and shape by the snapshot.
func Defaults(o v1.Options) v1.Options {
	if o.LeaseName == "" {
		o.LeaseName = DefaultLease
	}
	if o.RetryPeriod == "" {
		o.RetryPeriod = DefaultRetryPeriod
	}
	if o.RenewDeadline == "" {
		o.RenewDeadline = DefaultRenewDeadline
	}
	return o
}

// Validate reports every option that cannot be used, at once.
func Validate(o v1.Options) error {
	var errs []error
	errs = append(errs, validateChoices(o)...)
	retry, err := time.ParseDuration(o.RetryPeriod)
	if err != nil || retry < 50*time.Millisecond {
		errs = append(errs, fmt.Errorf("retry period %q: give a duration of at least 50ms; each standby reads its lease that often", o.RetryPeriod))
	}
	deadline, err := time.ParseDuration(o.RenewDeadline)
	if err != nil || deadline < time.Second || deadline >= 15*time.Second {
		errs = append(errs, fmt.Errorf("renew deadline %q: give a duration from 1s to below the lease duration of 15s", o.RenewDeadline))
	} else if retry*6/5 >= deadline {
		errs = append(errs, fmt.Errorf("retry period %s is too long for renew deadline %s: the managers refuse a deadline below 1.2 retry periods", o.RetryPeriod, o.RenewDeadline))
	}
	if !objectName.MatchString(o.LeaseName) {
		errs = append(errs, fmt.Errorf("lease name %q: an object is named with lower-case letters, digits, dots and dashes", o.LeaseName))
	}
	if strings.ContainsAny(o.ClusterName, " \t\n\"'") {
		errs = append(errs, fmt.Errorf("cluster name %q: it stands in a flag and in names of load balancers, give it without spaces and quotes", o.ClusterName))
	}
	for _, e := range o.Env {
		name, _, ok := strings.Cut(e, "=")
		if !ok || name == "" {
			errs = append(errs, fmt.Errorf("environment %q: give NAME=VALUE", e))
			continue
		}
		if secretEnv(name) {
			errs = append(errs, fmt.Errorf("environment variable %s is a secret, and a plan is kept in the cluster and printed: "+
				"put the credentials into a file on each host and name it, e.g. AWS_SHARED_CREDENTIALS_FILE=/etc/kubernetes/ccm.credentials", name))
		}
	}
	return errors.Join(errs...)
}

// objectName is what the API server takes for the name of a Lease.
var objectName = regexp.MustCompile(`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`)

func secretEnv(name string) bool {
	for _, s := range []string{"SECRET", "PASSWORD", "SESSION_TOKEN", "PRIVATE_KEY"} {
		if strings.Contains(strings.ToUpper(name), s) {
			return true
		}
	}
	return false
}

// builder collects the steps and facts of one plan.
type builder struct {
	target
	snap  *v1.Snapshot
	opts  v1.Options
	facts map[string]v1.Fact
	steps []v1.Step
	// flags of each component as they are after the steps so far, by host/component.
	flags map[string]map[string]string
	// images are those that steps so far have changed, by host/component.
	images map[string]string
	// notes are effects that were found on the way.
	notes []string
	// refused are the reasons why no plan can be made of what was found on the way; Make returns them.
	refused []error
}

// Make plans the migration of the cluster in the snapshot.
func Make(snap *v1.Snapshot, opts v1.Options, findings []v1.Finding, now time.Time) (*v1.Plan, error) {
	opts = Defaults(opts)
	if err := Validate(opts); err != nil {
		return nil, err
	}
	b := &builder{snap: snap, opts: opts, facts: map[string]v1.Fact{}}
	if err := errors.Join(b.identify(), checkCandidates(snap)); err != nil {
		return nil, err
	}
	if handled, err := b.otherControlPlane(); err != nil {
		return nil, err
	} else if !handled {
		if err := b.aim(); err != nil {
			return nil, err
		}
		b.forward()
	}
	if err := errors.Join(b.refused...); err != nil {
		return nil, err
	}
	p := &v1.Plan{
		TypeMeta: v1.Type(v1.KindPlan), Created: now.UTC(), ToolVersion: snap.ToolVersion, Cluster: snap.Cluster,
		Strategy: b.opts.Strategy, Direction: Forward, Options: b.opts, Facts: b.sortedFacts(), Steps: b.steps,
		Effects: append(b.effects(), b.managerNote()...), Findings: notPassed(findings),
	}
	if b.opts.PauseAfterCanary {
		p.Until = Canary(p)
	}
	if err := unique(p.Steps); err != nil {
		return nil, err
	}
	return p, Verify(p, snap)
}

// add puts a step at the end and remembers what it makes of the flags of its component.
func (b *builder) add(s v1.Step) {
	flags := b.flagsAt(s.Host, s.Component)
	if len(s.Manual) == 0 && b.provider.Name != "" {
		s.Manual = manual(s, flags)
	}
	b.steps = append(b.steps, s)
	if start, err := readStart(s); err == nil && s.Kind == v1.StepAddManifest {
		b.flags[s.Host+"/"+s.Component] = start.flags // by hand, its later changes begin with these
	}
	if flags == nil {
		return
	}
	for _, e := range s.Edits {
		switch e.Op {
		case "setFlag":
			flags[e.Name] = e.Value
		case "unsetFlag":
			delete(flags, e.Name)
		}
	}
	b.reimage(s)
}

// reimage remembers the image that a step gives to its component.
func (b *builder) reimage(s v1.Step) {
	if !slices.ContainsFunc(s.Edits, func(e v1.Edit) bool { return e.Op == opImage }) {
		return
	}
	for _, c := range s.Changes {
		if c.Field == fieldImage {
			if b.images == nil {
				b.images = map[string]string{}
			}
			b.images[s.Host+"/"+s.Component] = c.After
		}
	}
}

// flagsAt are the flags of a component on a host after the steps so far; nil when the snapshot knows no such component.
func (b *builder) flagsAt(host, name string) map[string]string {
	if b.flags == nil {
		b.flags = map[string]map[string]string{}
		for _, h := range b.snap.Hosts {
			for _, c := range h.Components {
				flags := maps.Clone(c.Flags)
				if flags == nil {
					flags = map[string]string{}
				}
				if merged := allGates(c.Command, flags[gatesFlag]); merged != "" {
					flags[gatesFlag] = merged
				}
				b.flags[h.Name+"/"+c.Name] = flags
			}
		}
	}
	return b.flags[host+"/"+name]
}

func (b *builder) flagsOf(h v1.Host, name string) map[string]string { return b.flagsAt(h.Name, name) }

// now is a component with the flags that it has after the steps so far; nil when the host has none of that name.
func (b *builder) now(h v1.Host, name string) *v1.Component {
	c := component(h, name)
	if c == nil {
		return nil
	}
	after := *c
	after.Flags = maps.Clone(b.flagsOf(h, name))
	if image, changed := b.images[h.Name+"/"+name]; changed {
		after.Image = image
	}
	return &after
}

// fact records a fact and returns its ID, to be required by a step.
func (b *builder) fact(id, value, detail string) string {
	b.facts[id] = v1.Fact{ID: id, Value: value, Detail: detail}
	return id
}

// fileFact records what a file holds now; "absent" when it is not there.
func (b *builder) fileFact(h v1.Host, path string) string {
	value, detail := "absent", ""
	for _, f := range h.Files {
		if f.Path == path && f.Present {
			value = f.SHA256
		}
	}
	for _, c := range h.Components {
		if c.Manifest == path {
			value, detail = c.SHA256, strings.Join(c.Command, "\n")
		}
	}
	if h.Kubelet != nil {
		for _, f := range h.Kubelet.Files {
			if f.Path == path && f.Present {
				value = f.SHA256
			}
		}
		if h.Kubelet.Source == path && h.Kubelet.SHA256 != "" {
			value = h.Kubelet.SHA256
		}
	}
	return b.fact(FileFact(h.Name, path), value, detail)
}

// FileFact is the ID of the fact that a file on a host has the content it had.
func FileFact(host, path string) string { return "file:" + host + ":" + path }

func (b *builder) sortedFacts() []v1.Fact {
	out := make([]v1.Fact, 0, len(b.facts))
	for _, f := range b.facts {
		out = append(out, f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}

func notPassed(in []v1.Finding) []v1.Finding {
	var out []v1.Finding
	for _, f := range in {
		if f.Outcome != v1.Pass && f.Outcome != v1.Skip {
			out = append(out, f)
		}
	}
	return out
}

func unique(steps []v1.Step) error {
	seen := map[string]bool{}
	for _, s := range steps {
		if seen[s.ID] {
			return fmt.Errorf("step %q is there twice", s.ID)
		}
		seen[s.ID] = true
	}
	return nil
}
