package migrate

import (
	"maps"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/migrate/step"
	"github.com/transplant-dev/transplant/internal/migrate/step/file"
	"github.com/transplant-dev/transplant/internal/migrate/step/kubelet"
	"github.com/transplant-dev/transplant/internal/migrate/step/object"
	"github.com/transplant-dev/transplant/internal/migrate/step/staticpod"
	"github.com/transplant-dev/transplant/internal/migrate/step/unit"
	"github.com/transplant-dev/transplant/internal/migrate/step/verify"
	"github.com/transplant-dev/transplant/internal/migrate/step/workload"
)

// executors is the one list of what steps can do.
func executors() map[v1.StepKind]func(*step.Env) step.Executor {
	out := map[v1.StepKind]func(*step.Env) step.Executor{}
	for _, kinds := range []map[v1.StepKind]func(*step.Env) step.Executor{
		object.Executors,
		file.Executors,
		staticpod.Executors,
		unit.Executors,
		workload.Executors,
		kubelet.Executors,
		verify.Executors,
	} {
		maps.Copy(out, kinds)
	}
	return out
}
