//go:build faults

package fault

const inLabs = true
