//go:build !faults

package fault

const inLabs = false
