package fleet

import (
	"path/filepath"
	"testing"

	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/lab/rights"
)

// operatorAccount is whom the seed's API server takes the operator for.
const operatorAccount = "system:serviceaccount:transplant-system:transplant-operator"

// situations are the rights of the operator that moving two clusters forward does not use, by how their texts begin, each with what takes it.
var situations = map[string]string{
	"create subjectaccessreviews": "the page is asked for",
	"create tokenreviews":         "the page is asked for",
	"get pods/log":                "a pod that is waited for ends again and again",
	"list events in default":      "the page is asked for",
	"patch events in default":     "an event is said again",
	"delete deployments":          "the feature is taken back in the middle of a migration",
	"delete secrets":              "the feature is taken back in the middle of a migration",
	"update secrets":              "the manager's credentials change",

	"patch mutatingwebhookconfigurations.admissionregistration.k8s.io named transplant-operator-strict":   "webhooks that fail closed are applied",
	"patch validatingwebhookconfigurations.admissionregistration.k8s.io named transplant-operator-strict": "webhooks that fail closed are applied",
}

// leastPrivilege fails the test when the operator was refused something, or has a right that nothing takes.
func leastPrivilege(t *testing.T, w *World) {
	t.Helper()
	requests, err := w.API().Requests()
	must(t, err)
	granted := apitest.Granted(t, filepath.Join(w.root, "deploy", "operator", "rbac.yaml"))
	rights.Used(t, granted, rights.Needed(t, requests, operatorAccount), situations)
}
