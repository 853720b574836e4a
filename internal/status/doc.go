// Package status decides how a run goes, from what the API shows of it. It reads the journal, the lock and what its
// holder publishes on it, and the pause that was asked for. It also reads the managers' leases, nodes, pods and events.
// No host is asked and nothing is written. So a user who may read a few objects can watch from any machine while
// another one executes the run. What may not be read is named, and the rest is said all the same.
//
//	journal      lock                pause   state
//	none                                     not-started
//	applying     none, error                 failed
//	applying     none                yes     paused
//	applying     none                        stopped
//	applying     not renewed                 stalled
//	applying     held                yes     paused
//	applying     held                        applying, rolling-back
//	applied                                  applied, rolled-back
package status
