// Package cloud decides what stands between the controllers and a provider: who may call it, how often, and what is known of how its calls went.
//
//	controllers --> Shell.For(fence) --class, budget, fence, deadline, metrics--> provider
//	            --> Instances --cache, single flight, batch--'  (InstancesLister, or InstancesV2, or Instances and Zones)
//
// It works with any cloudprovider.Interface, unmodified. What is near the wire (an SDK's middleware, an HTTP transport) is the provider's to add
// with package election: one EnsureLoadBalancer is ten to twenty requests, and this package sees one.
//
// A provider that hangs costs its caller one timeout: the call is given up, and until it returns nothing is asked or done about the same load balancer
// or route. Only a restart helps against one that never returns, which is what Shell.Check is for.
package cloud
