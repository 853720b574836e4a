package ccm

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

const (
	// probePeriod is how often a cloud is asked that has not answered yet.
	probePeriod = 2 * time.Second
	// probePatience is after how long a question to the cloud counts as unanswered. A provider that hangs in it keeps nothing else waiting.
	probePatience = 20 * time.Second
)

// probe asks a cloud something, to see that it answers. A cloud of which nothing can be asked, because there is no node yet, is not waited for.
func probe(ctx context.Context, shell *cloud.Shell, nodes corelisters.NodeLister) error {
	all, err := nodes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	var node *corev1.Node
	if len(all) > 0 {
		node = all[0]
	}
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	if err := shell.Probe(ctx, node); !errors.Is(err, cloud.ErrNothingToProbe) {
		return err
	}
	return nil
}

// untilAnswered asks until the cloud has answered once. Whether it still does is for metrics and alerts to say: a process that became unready would
// stop serving its webhooks and hold up a rollout, and no other process would reach the cloud either.
func untilAnswered(ctx context.Context, ask func(context.Context) error, answers *state) {
	for {
		err := ask(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			answers.set(nil)
			return
		}
		answers.set(fmt.Errorf("the cloud does not answer: %s", cloud.Classify(err)))
		klog.ErrorS(err, "The cloud does not answer")
		if !pause(ctx, probePeriod) {
			return
		}
	}
}

// pause waits, and tells whether ctx went on for as long.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
