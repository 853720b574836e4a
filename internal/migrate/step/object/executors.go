package object

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// Executors are the kinds of steps that act on objects of the API, and what executes each.
var Executors = map[v1.StepKind]func(*step.Env) step.Executor{
	v1.StepEnsureObject:   func(env *step.Env) step.Executor { return EnsureObject{Env: env} },
	v1.StepDeleteObject:   func(env *step.Env) step.Executor { return DeleteObject{env} },
	v1.StepPatchObject:    func(env *step.Env) step.Executor { return patchObject{env} },
	v1.StepUnpatchObject:  func(env *step.Env) step.Executor { return unpatchObject{env} },
	v1.StepInitializeNode: func(env *step.Env) step.Executor { return initializeNode{env} },
}
