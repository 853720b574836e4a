// Package cloud decides what stands between the controllers and a provider: who may call it, how often, and what is known of how its calls went.
//
//	controllers --> Shell.For(fence) --fence, class, budget, metrics--> provider
//	            --> Instances --batch, cache, single flight----------> InstancesLister, or InstancesV2, or Instances and Zones
//
// It works with any cloudprovider.Interface, unmodified. What is near the wire (an SDK's middleware, an HTTP transport) is the provider's to add
// with package election: one EnsureLoadBalancer is ten to twenty requests, and this package sees one.
package cloud
