package file

import (
	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step"
)

// Executors are the kinds of steps that act on files of a host, and what executes each.
var Executors = map[v1.StepKind]func(*step.Env) step.Executor{
	v1.StepWriteFile:  func(env *step.Env) step.Executor { return WriteFile{env} },
	v1.StepCopyFile:   func(env *step.Env) step.Executor { return CopyFile{env} },
	v1.StepRemoveFile: func(env *step.Env) step.Executor { return removeFile{env} },
}
