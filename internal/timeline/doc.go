// Package timeline decides what of a run is worth an entry, and puts the entries of all sources into the order of time:
// the journal's steps, handovers and pauses, leases that changed hands, what Kubernetes reported about nodes, the
// control plane and load balancers, and what probes missed. It reads values and returns values. The clocks of the
// sources may differ; times are shown as each source has them, but for a run whose lock tells how far its clock is off.
package timeline
