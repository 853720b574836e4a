package check

// volumeChecks are the checks about volumes while the in-tree plugins go.
var volumeChecks = []Check{}
