//go:build race

package conformance

func init() { isRaced = true }
