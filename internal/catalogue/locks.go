package catalogue

// lastLockMinor is the last minor whose client-go makes a kind of election lock other than leases (tools/leaderelection/resourcelock/interface.go).
var lastLockMinor = map[string]int{"endpoints": 23, "configmaps": 23, "endpointsleases": 27, "configmapsleases": 27}

// LockKnown tells whether managers of a minor start with this --leader-elect-resource-lock.
func LockKnown(kind string, minor int) bool {
	last, ok := lastLockMinor[kind]
	return kind == "leases" || ok && minor <= last
}
