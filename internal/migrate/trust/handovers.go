package trust

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/plan/allowed"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// MovingInfix is between the ID of a step and the component that hands over before it.
const MovingInfix = planstep.MovingInfix

// handoverScope is what the record of a step may say of handovers.
type handoverScope struct {
	component, host string
	leases          []string
	// seed reports whether the holder is a pod of the seed, whose name no plan knows.
	seed bool
	// anyHost reports whether the holder may be on each host of the control plane.
	anyHost bool
}

// JudgeHandovers returns why the handovers of a record are none that its step makes. It also returns why the handover
// part of a step is none. live is how the cluster is now, and nil where that is not known.
func JudgeHandovers(doc v1.Journal, steps map[string]v1.Step, r v1.StepRecord, live *v1.Snapshot) error {
	isMoving := strings.Contains(r.ID, MovingInfix)
	if len(r.Handovers) == 0 && !isMoving {
		return nil
	}
	scope, err := scopeOf(doc, steps, r.ID)
	if err != nil {
		return err
	}
	if isMoving {
		if err := judgeMoving(doc, r, scope, live); err != nil {
			return err
		}
	}
	seen, others := map[string]bool{}, hostNames(doc, live)
	for _, h := range r.Handovers {
		if seen[h.Lease] {
			return fmt.Errorf("lease %s is handed over twice", h.Lease)
		}
		seen[h.Lease] = true
		if err := scope.checkRecord(h, others); err != nil {
			return fmt.Errorf("the handover of lease %q: %w", h.Lease, err)
		}
	}
	return nil
}

// scopeOf returns what the record of a step, or of a part of it, may hand over.
func scopeOf(doc v1.Journal, steps map[string]v1.Step, id string) (handoverScope, error) {
	parent, program, isMoving := strings.Cut(id, MovingInfix)
	s, known := steps[parent]
	if !known {
		return handoverScope{}, fmt.Errorf("no plan in the journal has step %s", parent)
	}
	if isMoving {
		return scopeOfMoving(doc, s, program)
	}
	if s.Component != component.KCM && s.Component != component.CCM {
		return handoverScope{}, errors.New("the step changes no manager, and hands nothing over")
	}
	allowed := []string{component.KCM, component.CCM, doc.Plan.Options.LeaseName}
	isOther := func(lease string) bool { return !slices.Contains(allowed, lease) }
	scope := handoverScope{
		component: s.Component,
		host:      s.Host,
		leases:    slices.DeleteFunc(slices.Clone(s.Leases), isOther),
	}
	switch {
	case restartsHost(s.Kind) && s.Host != "":
	case s.Kind == v1.StepScale || s.Kind == v1.StepEditWorkload:
		if scope.seed = isJournaledInSeed(doc, s.Ref); !scope.seed {
			return handoverScope{}, fmt.Errorf("%s is not in the seed: its pods hand nothing over", s.Ref)
		}
	case s.Kind == v1.StepDeleteObject && s.Ref == layout.CCMDaemonSet:
		scope.anyHost = true
	default:
		return handoverScope{}, fmt.Errorf("a step of kind %s hands nothing over", s.Kind)
	}
	return scope, nil
}

// scopeOfMoving is scopeOf for the part of a step before which a manager hands over.
func scopeOfMoving(doc v1.Journal, s v1.Step, program string) (handoverScope, error) {
	if s.Component != component.KAS || s.Host == "" || !restartsHost(s.Kind) {
		return handoverScope{}, fmt.Errorf("step %s restarts no API server: no manager hands over before it", s.ID)
	}
	if program != component.KCM && program != component.CCM {
		return handoverScope{}, fmt.Errorf("%q is no manager that hands over", program)
	}
	return handoverScope{component: program, host: s.Host, leases: []string{program, doc.Plan.Options.LeaseName}}, nil
}

func isJournaledInSeed(doc v1.Journal, ref string) bool {
	parts := strings.Split(ref, "/")
	return len(parts) == 3 && doc.Plan.Cluster.Seed != "" && parts[1] == doc.Plan.Cluster.Seed
}

// restartsHost reports whether steps of a kind restart a component of a host.
func restartsHost(kind v1.StepKind) bool {
	switch kind {
	case v1.StepEditManifest, v1.StepAddManifest, v1.StepRemoveManifest, v1.StepRestoreManifest,
		v1.StepEditUnit, v1.StepStopUnit, v1.StepStartUnit, v1.StepReplacePod:
		return true
	default:
		return false
	}
}

// checkRecord returns why a handover is none of the scope. others are the names of all hosts, by host.
func (scope handoverScope) checkRecord(h v1.HandoverRecord, others map[string][]string) error {
	switch {
	case !slices.Contains(scope.leases, h.Lease):
		return fmt.Errorf("the step hands over %s", strings.Join(scope.leases, ", "))
	case h.Component != scope.component:
		return fmt.Errorf("the holder is a %s, and the step stops %s", h.Component, scope.component)
	case h.Holder == "" || h.PID <= 0 || h.StartTicks == 0:
		return errors.New("it names no holder and process")
	case h.Released != nil && (h.Ended == nil || h.Note != ""):
		return errors.New("it was released without an end of its holder, or left alone as well")
	case !scope.seed:
		return scope.judgeHost(h, others)
	case h.Host == "" || strings.Contains(h.Host, "/"):
		return fmt.Errorf("%q is no name of a pod", h.Host)
	}
	return nil
}

// judgeHost returns why the holder is not on the host of the scope. Its identity may not be known by any name that
// there is, but must not be another host's.
func (scope handoverScope) judgeHost(h v1.HandoverRecord, others map[string][]string) error {
	if scope.anyHost {
		if _, known := others[h.Host]; !known {
			return fmt.Errorf("the holder is on host %q, which the plan does not know", h.Host)
		}
		scope.host = h.Host
	}
	if h.Host != scope.host || h.Node != "" {
		return fmt.Errorf("the holder is on host %q (pod on %q), and the step is on %s", h.Host, h.Node, scope.host)
	}
	isOf := func(host string) bool {
		return slices.ContainsFunc(others[host], func(name string) bool { return IsHostOf(name, h.Holder) })
	}
	if isOf(scope.host) {
		return nil
	}
	for host := range others {
		if isOf(host) {
			return fmt.Errorf("holder %s is on host %s, and the step is on %s", h.Holder, host, scope.host)
		}
	}
	return nil
}

// CheckSeed returns why a plan is not for a control plane in a namespace of a seed. If the namespace is empty, the plan
// has to be for a cluster that runs its own.
func CheckSeed(p *v1.Plan, namespace string) error {
	switch {
	case p.Cluster.Seed == namespace:
		return nil
	case namespace == "":
		return &UntrustedError{
			What: "the plan",
			Err: fmt.Errorf(
				"it is for a control plane in namespace %s of a seed, and this cluster runs its own",
				p.Cluster.Seed,
			),
		}
	}
	return &UntrustedError{
		What: "the plan",
		Err: fmt.Errorf(
			"it is for a control plane in namespace %q, and this one is in namespace %s",
			p.Cluster.Seed,
			namespace,
		),
	}
}

// hostNames are the names by which managers may call the hosts: those of the access, and of their nodes.
func hostNames(doc v1.Journal, live *v1.Snapshot) map[string][]string {
	out := map[string][]string{}
	for _, name := range journal.PlanHosts(doc) {
		out[name] = []string{name}
	}
	for _, h := range BeforeHosts(live) {
		out[h.Name] = []string{h.Name}
		if h.NodeName != "" {
			out[h.Name] = append(out[h.Name], h.NodeName)
		}
	}
	return out
}

// judgeMoving holds the record of a manager that hands over to the file that the manager is started from, and to its
// own backup.
func judgeMoving(doc v1.Journal, r v1.StepRecord, scope handoverScope, live *v1.Snapshot) error {
	if r.Backup != "" && r.Backup != BackupDir(doc.Run)+"/"+BackupName(r.ID) {
		return fmt.Errorf("backup %s is another step's", r.Backup)
	}
	if !path.IsAbs(r.Path) || path.Clean(r.Path) != r.Path {
		return fmt.Errorf("path %q is not an absolute path without detours", r.Path)
	}
	if live == nil { // it is asked again when the hosts were looked at
		return nil
	}
	s, err := MovingStep(v1.Step{
		ID:        r.ID,
		Host:      scope.host,
		Component: scope.component,
		Path:      r.Path,
	})
	if err != nil {
		return err
	}
	if err := allowed.CheckStep(&doc.Plan, s, live); err != nil {
		return err
	}
	if r.Result == v1.StepResultStarted && s.Kind != v1.StepStartUnit {
		return scope.checkManifest(r.Path, live)
	}
	return nil
}

// checkManifest returns why a path is not that of the manifest which the host has now for the component.
func (scope handoverScope) checkManifest(path string, live *v1.Snapshot) error {
	for _, h := range live.Hosts {
		if h.Name != scope.host || h.APIOnly {
			continue
		}
		for _, c := range h.Components {
			if c.Name == scope.component && c.Manifest != "" && c.Manifest != path {
				return fmt.Errorf("path %s is not the manifest of %s on host %s, which is %s", path, c.Name, h.Name, c.Manifest)
			}
		}
	}
	return nil
}

// MovingStep gives the part of a step in which a manager hands over its kind, by what the manager is started from.
func MovingStep(s v1.Step) (v1.Step, error) {
	isManifest := strings.HasPrefix(s.Path, controlplane.ManifestDir+"/")
	isUnit := strings.HasSuffix(s.Path, ".service") || strings.Contains(s.Path, "/systemd/")
	switch {
	case isManifest == isUnit:
		return s, fmt.Errorf(
			"path %s is neither in the directory of static pods %s nor a unit's",
			s.Path,
			controlplane.ManifestDir,
		)
	case isManifest:
		s.Kind = v1.StepRestoreManifest
	default:
		s.Kind, s.Unit = v1.StepStartUnit, s.Component+".service"
	}
	return s, nil
}

// MovingID is the name of the part of a step in which a manager hands over.
func MovingID(s v1.Step, component string) string { return s.ID + MovingInfix + component }
