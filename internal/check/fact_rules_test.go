package check

import v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"

var factRules = []ruleCase{
	{name: "everything is known", code: "FACT-001", want: pass_, says: []string{"nothing that was looked for is unknown"}},
	{
		name:   "a file of a host that only the plan reads",
		code:   "FACT-001",
		want:   unknwn,
		says:   []string{"1 fact is unknown: hosts/cp-1/files/etc/kubernetes/controller-manager.conf", "errors of the snapshot"},
		change: func(s *v1.Snapshot) { cannotGather(s, "hosts/cp-1/files/etc/kubernetes/controller-manager.conf") },
	},
	{name: "an object that the migration writes", code: "FACT-001", want: unknwn, says: []string{"2 facts are unknown"},
		change: func(s *v1.Snapshot) {
			cannotGather(s, "objects/Lease/kube-system/cloud-provider-extraction-migration", "objects/ServiceAccount/kube-system/transplant-observer")
		}},
	{name: "another check blocks", code: "FACT-001", want: skipped, says: []string{"needs NODE-001 first"}, change: func(s *v1.Snapshot) {
		s.Nodes[0].ProviderID = ""
		cannotGather(s, "objects/Lease/kube-system/cloud-provider-extraction-migration")
	}},
	{
		name:   "another check says it",
		code:   "FACT-001",
		want:   skipped,
		says:   []string{"other checks say which"},
		change: func(s *v1.Snapshot) { cannotGather(s, "nodes") },
	},
}
