package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/ownership"
	"github.com/transplant-dev/transplant/lab/cluster"
)

// watch starts to record, and returns when the judge knows who runs the loops now.
func watch(t *testing.T, op *operator) *Watch {
	t.Helper()
	w, err := op.lab.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.cancel)
	awaitJudgement(t, w, "the owners of now", func(j ownership.Judgement) string {
		for _, loop := range cloudLoops {
			if !slices.ContainsFunc(j.Tenures, func(tenure v1.Tenure) bool { return tenure.Loop == loop }) {
				return fmt.Sprintf("%s is not among %+v", loop, j.Tenures)
			}
		}
		return ""
	})
	return w
}

// awaitJudgement waits until the judge finds nothing missing in what the watch has recorded so far, together with the cloud's audit log.
func awaitJudgement(t *testing.T, w *Watch, what string, missing func(ownership.Judgement) string) {
	t.Helper()
	await(t, "the judge to see "+what, func(context.Context) (string, error) {
		calls, err := auditLog(w.trial)
		if err != nil {
			return err.Error(), nil // its last line is not whole yet
		}
		w.mu.Lock()
		events := slices.Clone(w.events)
		w.mu.Unlock()
		return missing(ownership.Judge(events, calls, w.trial.Keys(), ownership.Options{})), nil
	})
}

// requireTwoOwners fails the test unless the judge sees each of the loops, and no other, in both kinds of manager at once.
func requireTwoOwners(t *testing.T, w *Watch, evidence string, loops ...string) {
	t.Helper()
	var seen map[string]v1.Overlap
	awaitJudgement(t, w, fmt.Sprintf("two owners of %v by %s", loops, evidence), func(j ownership.Judgement) string {
		seen = map[string]v1.Overlap{}
		for _, o := range j.Overlaps {
			kinds := []string{componentOf(o.Old), componentOf(o.New)}
			if slices.Sort(kinds); o.Evidence == evidence && slices.Equal(kinds, []string{cluster.CloudControllerManager, cluster.ControllerManager}) {
				seen[o.Loop] = o
			}
		}
		for _, loop := range loops {
			if _, ok := seen[loop]; !ok {
				return fmt.Sprintf("%s is not among the overlaps %+v", loop, j.Overlaps)
			}
		}
		return ""
	})
	for loop, o := range seen {
		t.Logf("two owners of %s by %s for %.1f s: %s and %s, %d calls", loop, evidence, o.End.Sub(o.Start).Seconds(), o.Old, o.New, len(o.Calls))
		if !slices.Contains(loops, loop) {
			t.Errorf("%s has two owners too", loop)
		}
	}
}

func componentOf(owner string) string {
	c, _, _ := strings.Cut(owner, "@")
	return c
}

// requireNoOwner fails the test unless the judge sees an owner of each loop end and nobody come after it for longer than a lease lasts.
func requireNoOwner(t *testing.T, w *Watch, loops ...string) {
	t.Helper()
	awaitJudgement(t, w, fmt.Sprintf("that nobody runs %v", loops), func(j ownership.Judgement) string {
		for _, loop := range loops {
			i := slices.IndexFunc(j.Gaps, func(g v1.Gap) bool { return g.Loop == loop && g.To == "" && g.Seconds > quickLease.Seconds() })
			if i < 0 {
				return fmt.Sprintf("%s has the gaps %+v", loop, j.Gaps)
			}
			t.Logf("no manager runs %s since %.1f s, after %s", loop, j.Gaps[i].Seconds, j.Gaps[i].From)
		}
		return ""
	})
}

// refused fails the test unless check ends with exit code 3 because of exactly these checks of leader migration (and others, since the cluster is
// half-way). Without any, none of leader migration may fail.
func refused(t *testing.T, op *operator, codes ...string) {
	t.Helper()
	r := cli(t, op.lab, 3, nil, append([]string{"check", "--cloud", Cloud, "-o", "json"}, MigrationFlags()...)...)
	var report v1.CheckReport
	if err := json.Unmarshal([]byte(r.Stdout), &report); err != nil {
		t.Fatal(err)
	}
	var failed, others []string
	said := map[string]string{}
	for _, f := range report.Findings {
		said[f.Code] = f.Summary
		switch {
		case f.Outcome != v1.Fail && f.Outcome != v1.Unknown:
		case strings.HasPrefix(f.Code, "LM-"):
			failed = append(failed, f.Code)
		default:
			others = append(others, f.Code)
		}
	}
	for _, code := range failed {
		t.Logf("check refuses it: %s %s", code, said[code])
	}
	slices.Sort(failed)
	if !slices.Equal(failed, codes) {
		t.Errorf("check refuses it by %v (and %v), want %v: %v", failed, others, codes, said)
	}
}

// healthy fails the test unless everything that a kubelet and a node show is as it should be, and so is the cloud-controller-manager of each host.
func healthy(t *testing.T, op *operator, hosts ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := op.lab.WaitReady(ctx); err != nil {
		t.Errorf("the break is not silent: %v", err)
	}
	for _, host := range hosts {
		await(t, "the "+cluster.CloudControllerManager+" of "+host+" to be ready", func(ctx context.Context) (string, error) {
			pod, err := ccmPod(ctx, op, host)
			if err != nil {
				return err.Error(), nil
			}
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
					return "", nil
				}
			}
			return fmt.Sprintf("its containers are %+v", pod.Status.ContainerStatuses), nil
		})
	}
}

// awaitWrite waits until the cloud-controller-manager of a host has changed something in the cloud since then: it is through with its caches.
func awaitWrite(t *testing.T, op *operator, host string, since time.Time) {
	t.Helper()
	key := cluster.AccessKey(host, cluster.CloudControllerManager)
	await(t, key+" to write to the cloud", func(context.Context) (string, error) {
		calls, err := auditLog(op.lab)
		if err != nil {
			return err.Error(), nil // its last line is not whole yet
		}
		if slices.ContainsFunc(calls, func(c v1.CloudCall) bool { return c.Key == key && c.Mutating && c.Arrived.After(since) }) {
			return "", nil
		}
		return "it has not", nil
	})
}

func auditLog(lab *Trial) ([]v1.CloudCall, error) {
	data, err := os.ReadFile(lab.AuditFile())
	if err != nil {
		return nil, err
	}
	return ownership.ReadCalls(bytes.NewReader(data))
}

func ccmPod(ctx context.Context, op *operator, host string) (*corev1.Pod, error) {
	h, err := op.lab.Host(host)
	if err != nil {
		return nil, err
	}
	return op.lab.Client().CoreV1().Pods(metav1.NamespaceSystem).Get(ctx, cluster.CloudControllerManager+"-"+h.NodeName, metav1.GetOptions{})
}
