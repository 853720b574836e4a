// Package hosted decides how one cluster is migrated whose control plane runs as Deployments in a namespace of another cluster, the seed: it puts the
// engine of the command line (snapshot, check, plan, migrate) together for such a cluster, and the operator and the command line call it.
//
// What is where:
//
//	seed, namespace of the cluster          user cluster
//	Deployments and their pods              Nodes, Services, volumes
//	ConfigMaps and Secrets beside them      leases of the managers, their rights
//	journal, lock, the snapshot before
//
// The journal and the lock are in the seed, since the user cluster may be down and its admins must not edit them.
//
// The process of a manager is the container of a pod. It has ended when the pod's object is gone, or when its status says that the container terminated
// and the pod is not to start it again. That a pod is not Ready proves nothing, nor does a look that failed.
//
// The order, by strategy:
//
//	downtime            controller-manager without cloud loops -> old pods gone, every gauge says so -> cloud-controller-manager
//	leader-migration    lease rights -> controller-manager learns the lease -> cloud-controller-manager on standby -> controller-manager gives up
//	                    the loops -> leases of ended pods released -> leader migration off
//	finish              when the machines are done: controller-manager and apiserver external
package hosted
