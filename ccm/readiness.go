package ccm

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/transplant-dev/transplant/ccm/cloud"
)

const (
	// probePeriod is how often a cloud is asked that has not answered yet.
	probePeriod = 2 * time.Second
	// probePatience is after how long a question to the cloud counts as unanswered. The next one is asked when it has returned.
	probePatience = 20 * time.Second
)

// prober is what a provider may implement to be asked a cheap question.
type prober interface {
	Probe(ctx context.Context) error
}

// question returns what to ask a cloud, to see that it answers: the provider's own question, or else after the instance of a node, any node.
func question(provider cloudprovider.Interface, nodes corelisters.NodeLister) func(context.Context) error {
	if p, ok := cloud.Unwrap(provider).(prober); ok {
		return p.Probe
	}
	instances, ok := cloud.InstancesOf(provider)
	if !ok {
		return func(context.Context) error { return nil } // there is nothing to ask about without changing something
	}
	return func(ctx context.Context) error {
		all, err := nodes.List(labels.Everything())
		if err != nil || len(all) == 0 {
			return err
		}
		return instances.Read(ctx, []*corev1.Node{all[0]}, cloud.WantExists, time.Minute)[0].Err
	}
}

// untilAnswered asks until the cloud has answered once. Whether it still does is for metrics and alerts to say: a process that became unready would
// stop serving its webhooks and hold up a rollout, and no other process would reach the cloud either.
func untilAnswered(ctx context.Context, ask func(context.Context) error, answers *state) {
	for {
		err := attempt(ctx, ask, answers)
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

// attempt asks once and waits for the answer, however long the provider takes, or until ctx ends: the process goes on serving its health.
func attempt(ctx context.Context, ask func(context.Context) error, answers *state) error {
	call, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	answer := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				answer <- fmt.Errorf("asking the cloud: the provider panicked: %v", r)
			}
		}()
		answer <- ask(cloud.WithClass(call, cloud.ClassOther))
	}()
	late := time.NewTimer(probePatience + probePeriod)
	defer late.Stop()
	for {
		select {
		case err := <-answer:
			return err
		case <-late.C:
			answers.set(fmt.Errorf("the cloud does not answer: the provider hangs for more than %s", probePatience))
		case <-ctx.Done():
			return ctx.Err()
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
