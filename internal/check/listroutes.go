package check

// routeChecks are the checks about pod CIDRs and the routes to them.
var routeChecks = []Check{
	routesHaveNodes, // ROUTE-001: a row that stops the route loop
}
