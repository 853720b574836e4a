package workload

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// Executors are the kinds of steps that act on workloads, and what executes each.
var Executors = map[v1.StepKind]func(*step.Env) step.Executor{
	v1.StepScale:        func(env *step.Env) step.Executor { return Workload{env} },
	v1.StepEditWorkload: func(env *step.Env) step.Executor { return Workload{env} },
	v1.StepReplacePod:   func(env *step.Env) step.Executor { return replacePod{env} },
}
