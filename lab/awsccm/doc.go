// Package awsccm decides whether our AWS provider behaves on the wire as it should: its tests run it, on real SDK
// clients, against the simulated AWS.
package awsccm
