package cluster

import (
	"slices"

	"github.com/transplant-dev/transplant/lab/build"
)

// Provide makes further programs known to the lab's kubelets, by the images that manifests may name from now on:
// another version of a component.
func (c *Cluster) Provide(b build.Binaries) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.provided = append(c.provided, b)
}

// binaries are the programs that the lab was started with, and those that it was provided with since.
func (c *Cluster) binaries() []build.Binaries {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]build.Binaries{c.opts.Binaries}, slices.Clone(c.provided)...)
}
