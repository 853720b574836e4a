// Package gcesim decides what a simulated Google Compute Engine answers: the Compute API of one project, and the
// metadata server with tokens, on one HTTP address, as far as this project's provider and upstream's use them.
//
//	request --token?--> 401
//	        --fault?--> the fault's answer, with or without the effect
//	        --known?--> effect under one lock --> answer, an operation for a change
//	        --unknown-> 501, and marked in the log of calls
//
// What it does not know it refuses: an invented empty answer would read as "gone", and managers delete what is gone. It
// was written after the API's reference and upstream's code; no real Compute Engine has been asked.
package gcesim
