package catalogue

// ShowsLoops tells that a manager (kube-controller-manager; a cloud-controller-manager by its library's minor) of a minor says on /metrics which loops it
// runs, as running_managed_controllers. Of an earlier one only its leases can be seen, and what runs under them has to be taken from its flags.
//
// Source: ControllerManagerMetrics in cmd/kube-controller-manager/app/controllermanager.go of k8s.io/kubernetes and app/controllermanager.go of
// k8s.io/cloud-provider, both since 1.25; the series itself is in k8s.io/component-base since 0.24.
func ShowsLoops(component string, minor int) bool {
	switch component {
	case "kube-controller-manager", "cloud-controller-manager":
		return minor >= 25
	}
	return false
}
