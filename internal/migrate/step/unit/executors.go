// Package unit executes the steps that change, stop and start a systemd unit, and decides whether its process runs as
// the unit says.
package unit

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// Executors are the kinds of steps that act on units of a host, and what executes each.
var Executors = map[v1.StepKind]func(*step.Env) step.Executor{
	v1.StepEditUnit:  func(env *step.Env) step.Executor { return Unit{env} },
	v1.StepStopUnit:  func(env *step.Env) step.Executor { return Unit{env} },
	v1.StepStartUnit: func(env *step.Env) step.Executor { return Unit{env} },
}
