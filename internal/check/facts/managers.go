package facts

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/shell"
)

// ManagerOf is the container that is the manager: the first one that names a cloud provider, else the first. The
// workload has a container.
func ManagerOf(w v1.Workload) v1.Container {
	for _, c := range w.Containers {
		if _, ok := c.Flags["cloud-provider"]; ok {
			return c
		}
	}
	return w.Containers[0]
}

// Deployed is the first component of a name in the seed; nil when there is none.
func (f Facts) Deployed(name string) *v1.Component {
	for i := range f.Hosted {
		if f.Hosted[i].Name == name {
			return &f.Hosted[i]
		}
	}
	return nil
}

// CCMs are the cloud-controller-managers that exist: those on hosts, and those that run as a workload of the cluster.
func (f Facts) CCMs() []Instance {
	out := slices.Clone(f.InstancesOf(component.CCM))
	known := map[string]bool{}
	for _, p := range out {
		known[p.Manifest] = true
	}
	for _, w := range f.Workloads {
		if w.Role != v1.RoleCCM || known[w.Ref] {
			continue
		}
		for _, c := range w.Containers {
			if len(c.Flags) > 0 {
				out = append(out, Instance{
					Component: v1.Component{
						Name:     component.CCM,
						Runs:     v1.RunsDeployment,
						Manifest: w.Ref,
						Image:    c.Image,
						Command:  c.Command,
						Flags:    c.Flags,
					},
					Host: v1.Host{Name: w.Ref},
				})
				break
			}
		}
	}
	return out
}

// LeaseAnswer finds an access review. Creating cannot be limited to a name.
func (f Facts) LeaseAnswer(user, verb string) (v1.AccessAnswer, bool) {
	name := f.Opts.LeaseName
	if verb == "create" {
		name = ""
	}
	for _, a := range f.Access {
		if a.Who == user && a.Verb == verb && a.Resource == "leases" && a.Namespace == component.Namespace && a.Name == name {
			return a, true
		}
	}
	return v1.AccessAnswer{}, false
}

// Expired reports whether a lease had run out at the given time.
func Expired(l v1.Lease, now time.Time) bool {
	return l.RenewTime == nil || l.RenewTime.Add(time.Duration(l.DurationSeconds)*time.Second).Before(now)
}

// Now is the time at which the facts were gathered by the cluster's clock, by which managers renew their leases. If
// only the clock of the machine that runs transplant is off, every lease would seem expired and without a holder.
func (f Facts) Now() time.Time {
	for _, c := range f.Clocks {
		if c.Who == "api" {
			return f.TakenAt.Add(time.Duration(c.OffsetMillis) * time.Millisecond)
		}
	}
	return f.TakenAt
}

// TolerableClockOffset is the difference between two clocks that a check tolerates. Default elections tolerate lease
// duration - renew deadline = 5 s, and a shorter election of the migration should not use it up.
const TolerableClockOffset = 2 * time.Second

// Remove is the command that ends a cloud-controller-manager for good.
func Remove(ccms []Instance) string {
	if len(ccms) == 0 {
		return ""
	}
	p := ccms[0]
	switch p.RunKind() {
	case v1.RunsDeployment:
		return DeleteCommand(p.Manifest)
	case v1.RunsSystemd:
		return fmt.Sprintf("systemctl disable --now %s   # on host %s", shell.Quote(p.Unit), QuotedNames(ccms))
	}
	return fmt.Sprintf("mv --backup=numbered %s /var/tmp/   # on host %s", shell.Quote(p.Manifest), QuotedNames(ccms))
}

// Names joins the hosts of components.
func Names(all []Instance) string { return strings.Join(hostsOf(all), ", ") }

// hostsOf are the hosts of components, sorted.
func hostsOf(all []Instance) []string {
	var out []string
	for _, p := range all {
		out = append(out, p.Host.Name)
	}
	slices.Sort(out)
	return out
}

// QuotedNames joins the hosts of components for the comment of a command. Some shells run what is in one.
func QuotedNames(all []Instance) string {
	return strings.Join(shell.QuoteAll(hostsOf(all)), ", ")
}

// DeleteCommand is kubectl for a workload's Ref.
func DeleteCommand(ref string) string {
	parts := strings.SplitN(ref, "/", 3)
	if len(parts) != 3 {
		return "kubectl -n kube-system get deployments,daemonsets"
	}
	return fmt.Sprintf(
		"kubectl -n %s delete %s %s   # or with the tool that installed it",
		shell.Quote(parts[1]),
		shell.Quote(strings.ToLower(parts[0])),
		shell.Quote(parts[2]),
	)
}

// EditManifest is the command that edits a static pod's manifest. sed makes its new file next to the old one, and the
// kubelet starts a pod for every file of that directory. So it works in the directory above. The file of before is
// kept.
func EditManifest(manifest, script string) string {
	aside := path.Join(path.Dir(path.Dir(manifest)), path.Base(manifest)+".new")
	return fmt.Sprintf(
		"cp -p --backup=numbered %[1]s /var/tmp/ && cp -p %[1]s %[2]s && sed -i %[3]s %[2]s && mv %[2]s %[1]s",
		shell.Quote(manifest),
		shell.Quote(aside),
		shell.InQuotes(script),
	)
}

// DefaultRenewDeadline is that of upstream's leader election.
const DefaultRenewDeadline = 10 * time.Second
