// Package boottime decides by which clock a process measures for how long it may still act: one that goes on while the
// machine is suspended. Go's own monotonic clock stands still then, and a process that wakes up would take a lease for
// fresh that others have seen expire.
package boottime
