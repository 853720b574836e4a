// Package node decides what of a cloud's instance belongs on its Node: provider ID, addresses, the labels of type, zone and region, and when the taint
// goes that keeps pods away until then. It behaves as upstream's cloud-node-controller where a user or another component can see it:
//
//	registered --taint uninitialized--> metadata and provider ID are known --> addresses --> labels, provider ID, no taint --> event Synced
//	    ^                                    | nil metadata, no provider ID, an error, provided IP is not the instance's
//	    +------------ back-off, event -------+
//	initialised: labels are kept equal to their beta pairs; addresses are compared once per period
//
// What differs, and why:
//   - Nodes that join together are read in one call, where the provider lists instances (see cloud.InstancesLister). A lone node waits 50 ms for company.
//   - Addresses are written before the taint goes: pods that are scheduled to the node may need them (k/k#123024 is the same for the provider ID).
//   - Nil metadata and a missing provider ID are retried and told in an event. Upstream forgets the first until the node changes.
//   - A label value that the API server would refuse, such as a zone with a blank, is left out and named in an event, and the rest is done. Upstream sends it
//     with everything else, for ever, and the node stays tainted (kubernetes/cloud-provider-openstack#1379). The price: such a node has no zone.
//   - Two small patches replace a PUT of the whole node, which conflicts with every heartbeat. They carry the node's UID: a node that was deleted and
//     created again under its name gets nothing that was read for the first.
//   - Addresses that are the same are not patched. Upstream sends an empty patch for each dual-stack node in each period.
package node
