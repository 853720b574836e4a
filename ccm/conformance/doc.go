// Package conformance decides whether our controllers do what those of k8s.io/cloud-provider do. Each scenario happens
// twice, to a cluster and a cloud in memory: once with upstream's controller, once with ours. Both are made by the
// constructor that a manager registers. What both called of the cloud, wrote to the API server, told as events and
// counted is compared.
//
//	Scenario --> World(upstream) --> Observed --\
//	        \--> World(ours)     --> Observed ---> Differences: none, or one that is meant and documented
//
// A scenario runs in a bubble of testing/synctest: time passes only when everything waits, so that an hour of nothing
// is nothing for certain.
package conformance

// Difference is one that is meant, as the table in "Change one import" of
// docs/explanation/cloud-controller-manager.md says it.
type Difference string

// The differences that are meant.
const (
	OneLifeOfTheProvider     Difference = "the provider is started once, under the first lease that is won, and ended after the last controller"
	CachesOfTheirOwn         Difference = "our controllers have caches of their own, filled on standby"
	WorkOnlyWithALease       Difference = "a lease and its work go together: no write or call without the lease, and no lease without work"
	NothingHoldsUpTheRest    Difference = "what hangs or fails does not hold up the rest: more workers by default, a budget and a time limit for each call"
	ComparedWithWhatShouldBe Difference = "load balancers, routes and Nodes are compared with what they should be, and the cloud is called where they differ"
	CarefulDeletion          Difference = "a node is deleted after two looks, and not many at once"
)

// Differences are all differences that are meant.
var Differences = []Difference{
	OneLifeOfTheProvider, CachesOfTheirOwn, WorkOnlyWithALease, NothingHoldsUpTheRest, ComparedWithWhatShouldBe,
	CarefulDeletion,
}
