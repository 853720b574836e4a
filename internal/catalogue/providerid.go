package catalogue

// ProviderIDRequired is the first minor of k8s.io/cloud-provider whose node controller leaves a node uninitialised for as long as neither the node nor
// the provider knows a providerID (controllers/node/node_controller.go; https://github.com/kubernetes/kubernetes/pull/123713).
const ProviderIDRequired = 30
