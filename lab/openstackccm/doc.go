// Package openstackccm decides whether our OpenStack provider behaves on the wire as it should: its tests run it, on
// real gophercloud, against the simulated OpenStack.
package openstackccm
