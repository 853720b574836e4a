package kubelet

import "fmt"

// batcher names the batches of steps that come one after the other; steps of batches of one are done alone, and have no
// name.
type batcher struct{ size, steps int }

func (b *batcher) next() string {
	if b.size < 2 {
		return ""
	}
	b.steps++
	return fmt.Sprintf("kubelets-%d", (b.steps+b.size-1)/b.size)
}
