package check

// schedulingChecks are the checks about what could keep the new manager from running at all.
var schedulingChecks = []Check{}
