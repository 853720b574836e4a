// Package crds holds the CustomResourceDefinitions of the Cluster API, one for each group, as they are applied by hand
// and as the operator installs them.
package crds

import "embed"

// Files are the definitions, <group>_clusters.yaml each.
//
//go:embed *.yaml
var Files embed.FS
