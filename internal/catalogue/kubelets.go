package catalogue

// WaitsForAddresses tells whether a kubelet of a minor that has an external provider and no --node-ip leaves its new Node without any address until
// the cloud-controller-manager writes some; before, it wrote the address of its default route (kubernetes/kubernetes #121028).
func WaitsForAddresses(minor int) bool { return minor >= 29 }
