package verify

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// Executors are the kinds of steps that change nothing, and what executes each.
var Executors = map[v1.StepKind]func(*step.Env) step.Executor{
	v1.StepAwait:  func(env *step.Env) step.Executor { return Await{env} },
	v1.StepVerify: func(env *step.Env) step.Executor { return verify{env} },
}
