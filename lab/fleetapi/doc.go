// Package fleetapi decides whether real API servers take the Cluster API as deploy/ installs it: the guide's objects,
// objects of the original with all their fields, the rules that hold without any webhook, and webhooks that answer, are
// replaced, or are dead.
package fleetapi
