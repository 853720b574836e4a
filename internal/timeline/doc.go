// Package timeline decides what of a run is worth an entry, and puts the entries of all sources into the order of time.
// Entries are the journal's steps, handovers and pauses, and leases that changed hands. Others are what Kubernetes
// reported about nodes, the control plane and load balancers, and what probes missed. It reads values and returns
// values. The clocks of the sources may differ. Times are shown as each source has them, but for a run whose lock tells
// how far its clock is off.
package timeline
