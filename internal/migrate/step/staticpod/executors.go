// Package staticpod executes the steps that change the manifest of a static pod, and decides whether it runs as its
// manifest says.
package staticpod

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// Executors are the kinds of steps that act on static pods, and what executes each.
var Executors = map[v1.StepKind]func(*step.Env) step.Executor{
	v1.StepEditManifest:    func(env *step.Env) step.Executor { return editManifest{env} },
	v1.StepAddManifest:     func(env *step.Env) step.Executor { return addManifest{env} },
	v1.StepRemoveManifest:  func(env *step.Env) step.Executor { return removeManifest{env} },
	v1.StepRestoreManifest: func(env *step.Env) step.Executor { return RestoreManifest{env} },
}
