// Package install is about what a cloud-controller-manager and the operator are installed with: kustomizations, plain
// manifests and Helm charts. Its tests have kubectl and Helm themselves render them, give them to API servers, and run
// what they install.
package install
