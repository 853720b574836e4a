// Package ccm decides how a cloud-controller-manager runs: which controllers under which lease, what ends them, and what it says about its health. It
// takes the place of k8s.io/cloud-provider/app: same command, flags, types and extension points, so that the author of a provider changes one import.
//
//	flags --+
//	file  --+--> groups: controllers by lease --> elector --won--> InitFuncs, with a context that carries the fence of the lease
//	                |                               |
//	                +--> fenced clients and cloud   +--lost--> exit 1
//	SIGTERM, SIGINT, stop channel --> drain --> release --> exit 0
//
// What differs from upstream is in docs/explanation/cloud-controller-manager.md.
package ccm
