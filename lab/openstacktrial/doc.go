// Package openstacktrial has openstack-cloud-controller-manager, on a real API server, go through the life of a cluster
// on OpenStack: one scenario, on the simulator and on the real services of package openstackreal. What it has done is
// read from OpenStack's own API.
package openstacktrial
