package cloudconfig

import (
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
)

var inventoryComplete = rule.Check{
	Code:     "CLOUD-001",
	Reason:   "InventoryIncomplete",
	Category: findings.CategoryCloud,
	Level:    findings.LevelError,
	Impact:   findings.ImpactNodeDeletion,
	LookFor:  "the account or project; if there is an error instead, it says why the cloud refuses",
	Judge: func(f facts.Facts) v1.Finding {
		const expected = "load balancers, routes and instances"
		name := f.CloudName()
		_, readable := cloudprovider.InventoryOf(name)
		reads := cloudprovider.InventoryOrDefault(name)
		fix := "transplant check " + reads.Flag
		if f.Cloud == nil {
			if finding, ok := f.Missing("cloud"); ok {
				return findings.With(finding, expected, "the cloud's API", reads.Credentials)
			}
			if name != "" && !readable {
				return findings.With(
					findings.Unknown(
						"transplant reads no inventory of %s: nodes that the new manager would delete are not known, and before cannot be compared with after",
						name,
					),
					expected,
					"the cloud's API",
					`transplant check --accept CLOUD-001="instances, load balancers and routes are compared by hand"`,
				)
			}
			return findings.With(
				findings.Unknown(
					"the cloud was not asked (no --cloud). Which nodes the new manager would delete is not known, and nothing can be compared after the migration",
				),
				expected,
				"the cloud's API",
				fix,
			)
		}
		if errs := f.CloudErrors(""); len(errs) > 0 {
			return findings.With(
				findings.Unknown("the inventory is incomplete: %s", strings.Join(errs, "; ")),
				expected,
				"the cloud's API",
				reads.Credentials,
			)
		}
		return findings.Pass(
			"the cloud holds %s, %s and the instances of %s",
			findings.Plural(len(f.Cloud.LoadBalancers), "load balancer"),
			findings.Plural(len(f.Cloud.Routes), "route"),
			findings.Plural(len(f.Cloud.Instances), "node"),
		)
	},
}
