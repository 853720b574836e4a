package staticpod

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
)

// changesVersions reports whether the plan takes a component to another version, or back from it. Its flags then do not
// distinguish the old process from the new one.
func changesVersions(e *step.Env, program string) bool {
	o := e.Plan.Options
	return o.TargetVersion != "" && !o.ReplaceHosts &&
		slices.Contains([]string{component.KAS, component.KCM, component.Scheduler}, program)
}

// ofVersion proves that what runs is of the version in the manifest: by the mirror pod, and by what the process says of
// itself. Its error is a pendingError that says what is missing.
func ofVersion(ctx context.Context, e *step.Env, s v1.Step, m *controlplane.Manifest, pod *corev1.Pod) error {
	if !changesVersions(e, s.Component) {
		return nil
	}
	_, want, err := controlplane.SplitImage(m.Image())
	if err != nil {
		return step.PendingError(err.Error())
	}
	if !hasImage(pod, want) {
		return step.PendingError(
			fmt.Sprintf("the mirror pod of %s on host %s does not show %s yet", s.Component, s.Host, m.Image()),
		)
	}
	if e.Version == nil || !object.IsReady(pod) || m.Address() == "" {
		return nil // readiness is looked at by who asks
	}
	have, err := e.Version(ctx, s.Component, s.Host, m.Address())
	switch {
	case err != nil:
		return step.PendingError(fmt.Sprintf("%s on host %s does not say its version: %v", s.Component, s.Host, err))
	case have == "":
		unproven(e, s)
	case !matchesTag(have, want):
		return step.PendingError(fmt.Sprintf("%s on host %s says that it is %s, not %s", s.Component, s.Host, have, want))
	}
	return nil
}

// unproven says once that a component answers and does not tell its version.
func unproven(e *step.Env, s v1.Step) {
	key := "version of " + s.ID
	if !e.Said[key] {
		e.Said[key] = true
		e.Report(
			s,
			step.EventProgress,
			fmt.Sprintf(
				"%s on %s does not say its version to this account; its mirror pod and its flags have to do",
				s.Component,
				s.Host,
			),
		)
	}
}

// hasImage reports whether a pod has a container whose image has the tag. Registries may be rewritten on the way into
// the API, tags are not.
func hasImage(pod *corev1.Pod, tag string) bool {
	return slices.ContainsFunc(
		pod.Spec.Containers,
		func(c corev1.Container) bool { return strings.HasSuffix(c.Image, ":"+tag) },
	)
}

// matchesTag compares what a program says of itself with a tag. A distribution's build has more behind the version.
func matchesTag(have, tag string) bool {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(have, "v"), strings.TrimPrefix(tag, "v"))
	return ok && (rest == "" || rest[0] == '-' || rest[0] == '+')
}
