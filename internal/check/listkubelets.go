package check

// kubeletChecks are the checks about kubelets that become external, and the images they pull.
var kubeletChecks = []Check{}
