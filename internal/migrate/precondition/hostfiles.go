package precondition

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/hostaccess"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/internal/safeyaml"
)

// MissingFilesError says which files the new manager would mount and its hosts do not have. A kubelet never starts such
// a pod.
type MissingFilesError struct{ Problems []string }

func (e *MissingFilesError) Error() string {
	return strings.Join(e.Problems, "; ") + ": put it there and run the same command again"
}

// FilesThere refuses a plan whose new manager mounts files that its hosts do not have. It is asked before the first
// step. The options need the hosts.
func FilesThere(ctx context.Context, o step.Options, p *v1.Plan) error {
	e := step.NewEnv(o, journal.Of(v1.Journal{}))
	e.Plan = p
	return HostFiles(ctx, e)
}

// HostFiles refuses a run whose remaining steps start a manager that mounts files which its hosts do not have. A host
// that cannot be asked now is asked again before its step.
func HostFiles(ctx context.Context, e *step.Env) error {
	if e.Plan.Direction == planstep.Rollback {
		return nil
	}
	var problems []string
	for _, s := range e.Plan.Steps {
		if e.Journal.Record(s.ID).Result == "" {
			problems = append(problems, missingFiles(ctx, e, s)...)
		}
	}
	if len(problems) > 0 {
		slices.Sort(problems)
		return &MissingFilesError{Problems: slices.Compact(problems)}
	}
	return nil
}

// hostFilesOf refuses one step for the same reason.
func hostFilesOf(ctx context.Context, e *step.Env, s v1.Step) error {
	if problems := missingFiles(ctx, e, s); len(problems) > 0 {
		return &MissingFilesError{Problems: problems}
	}
	return nil
}

// missingFiles says of a step which files its hosts lack that the manager mounts and no step of the plan writes.
func missingFiles(ctx context.Context, e *step.Env, s v1.Step) []string {
	out := missingInSeed(ctx, e, s)
	pod, hosts := startedBy(e, s)
	if pod == nil {
		return out
	}
	for _, v := range pod.Volumes {
		if v.HostPath == nil || v.HostPath.Type == nil || *v.HostPath.Type != corev1.HostPathFile {
			continue
		}
		for _, host := range hosts {
			if isWritten(e.Plan, host, v.HostPath.Path) || journal.IsExcluded(e.Journal.Doc(), host) {
				continue
			}
			if why := fileProblem(ctx, e, host, v.HostPath.Path); why != "" {
				out = append(out, fmt.Sprintf(
					"%s%s %s on host %s, and the pod of %s there mounts it",
					v.HostPath.Path,
					namedBy(e.Plan.Options.Env, host, v.HostPath.Path),
					why,
					host,
					component.CCM,
				))
			}
		}
	}
	return out
}

// startedBy is the pod of the cloud-controller-manager that a step starts, and the hosts that are to run it; nil for
// another step. A DaemonSet's pods run where the plan changes the control plane.
func startedBy(e *step.Env, s v1.Step) (*corev1.PodSpec, []string) {
	if s.Component != component.CCM {
		return nil, nil
	}
	switch {
	case s.Kind == v1.StepAddManifest:
		var pod corev1.Pod
		if safeyaml.Unmarshal([]byte(s.Content), &pod) != nil {
			return nil, nil // what is no pod is refused with the plan
		}
		return &pod.Spec, []string{s.Host}
	case s.Kind == v1.StepEnsureObject && strings.HasPrefix(s.Ref, "DaemonSet/"):
		var set struct {
			Spec struct{ Template corev1.PodTemplateSpec }
		}
		if safeyaml.Unmarshal([]byte(s.Object), &set) != nil {
			return nil, nil
		}
		var hosts []string
		for _, other := range e.Plan.Steps {
			isOfControlPlane := other.Component == component.KAS || other.Component == component.KCM
			if other.Host != "" && isOfControlPlane && !slices.Contains(hosts, other.Host) {
				hosts = append(hosts, other.Host)
			}
		}
		return &set.Spec.Template.Spec, hosts
	}
	return nil, nil
}

// isWritten reports whether a step of the plan puts a file on a host.
func isWritten(p *v1.Plan, host, at string) bool {
	return slices.ContainsFunc(p.Steps, func(s v1.Step) bool {
		return s.Host == host && path.Clean(s.Path) == path.Clean(at) &&
			(s.Kind == v1.StepWriteFile || s.Kind == v1.StepCopyFile)
	})
}

// fileProblem says why a kubelet could not mount a file; empty where it can, and where that is not known.
func fileProblem(ctx context.Context, e *step.Env, host, at string) string {
	h, known := e.HostsByName[host]
	if !known {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, step.LookTimeout)
	defer cancel()
	_, _, err := hostaccess.Digest(ctx, h, at)
	if errors.Is(err, fs.ErrNotExist) {
		return "is not"
	}
	if err == nil || hostaccess.IsUnreachable(err) || ctx.Err() != nil {
		return ""
	}
	if _, listErr := h.List(ctx, at); listErr == nil {
		return "is a directory, not a file,"
	}
	return ""
}

// namedBy says by which variable of --ccm-env a file is named; empty for none.
func namedBy(env []string, host, at string) string {
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if strings.ReplaceAll(value, "{host}", host) == at {
			return " (--ccm-env " + name + ")"
		}
	}
	return ""
}
