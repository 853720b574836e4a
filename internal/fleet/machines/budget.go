package machines

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

// Budget is how many of so many machines may be missing: a number, or a percentage, which is rounded down and is never less than one. Empty means one.
// "0" means none, which MachineDeployments that make the new machine first can keep.
func Budget(value string, machines int) (int, error) {
	value = strings.TrimSpace(value)
	if value == "" {
		return 1, nil
	}
	percent, isPercent := strings.CutSuffix(value, "%")
	n, err := strconv.Atoi(percent)
	if err != nil || n < 0 || isPercent && n > 100 {
		return 0, fmt.Errorf("annotation %s is %q, which is neither a number nor a percentage: nothing is restarted until it is one", kubermatic.AnnotationMaxUnavailable, value)
	}
	if isPercent {
		return max(1, machines*n/100), nil
	}
	return n, nil
}

// unavailable is how many machines a rollout may take away before their successors work, as machine-controller computes it: 0 by default, and 1 when
// neither that nor a surplus is allowed.
func unavailable(d Deployment) int {
	out, surge := 0, 1
	if d.MaxUnavailable != nil {
		out = resolve(*d.MaxUnavailable, d.Replicas, false)
	}
	if d.MaxSurge != nil {
		surge = resolve(*d.MaxSurge, d.Replicas, true)
	}
	if out == 0 && surge == 0 {
		return 1
	}
	return min(out, d.Replicas)
}

func resolve(v intstr.IntOrString, replicas int, up bool) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&v, replicas, up)
	if err != nil {
		return replicas // what cannot be read may be all of them
	}
	return max(0, n)
}
