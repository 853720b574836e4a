// Package ownership decides who ran which cloud loop when: whether two managers ever ran one loop, how long nobody did, and where nobody can
// know because a look was missing.
//
// It has two halves. The Recorder looks, all the time, at three things (the leases, each manager's gauges, each manager's processes) and writes an
// ownership log. Judge is a pure function of such a log and, where there is one, of the cloud's own audit log.
//
//	leases ----watch--.
//	/metrics --scrape--+--> Recorder --> ownership log --.
//	processes --look--'                                  +--> Judge --> tenures, gaps, overlaps, late effects, unknowns
//	cloud audit log -------------------------------------'
//
// A failed look is unknown, never "ended": a killed manager vanishes with its gauges at 1, and so does one that is paused and will go on
// writing when it is resumed. The only proof of an end is that the process (pid and start time) is gone from its host.
package ownership
