// Package conformance decides whether a cloudprovider.Interface does what the controllers of ccm rely on. It is for
// authors of providers: Run is called by a test of theirs, with a simulated cloud.
//
//	Run --> Subject: provider --requests--> Wire --fault? count--> the cloud
//	          \--calls it as a controller does, and looks at what is left in the cloud
//
// The controllers delete the Nodes of servers that a provider says do not exist, and forget a load balancer that a
// provider says is deleted. So what a provider says of a cloud that fails is looked at as closely as what it does.
package conformance
