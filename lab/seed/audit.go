package seed

import "github.com/transplant-dev/transplant/lab/awssim"

// mutations chooses the calls that changed something.
func mutations() awssim.Filter { return awssim.Filter{Mutating: new(true)} }
