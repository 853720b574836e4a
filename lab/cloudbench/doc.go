// Package cloudbench decides how the cost of our providers for OpenStack and vSphere is compared: with plain
// gophercloud, with what Octavia's workers can do, and with upstream's provider.
//
// Its benchmarks print ratios of one run (make bench-clouds). None fails for a time.
package cloudbench
