package catalogue

// always is later than any minor of the tables: nothing has ended it yet.
const always = 999

// gates: k8s.io/kubernetes pkg/features/kube_features.go and k8s.io/controller-manager/pkg/features of each minor.
var gates = map[string][]span{
	"DisableCloudProviders": {
		{22, 28, Gate{Known: true, Stage: "alpha"}},
		{29, 30, Gate{Known: true, Stage: "beta", Default: true}},
		{31, 32, Gate{Known: true, Stage: "GA", Default: true, Locked: true}},
	},
	"DisableKubeletCloudCredentialProviders": {
		{23, 28, Gate{Known: true, Stage: "alpha"}},
		{29, 30, Gate{Known: true, Stage: "beta", Default: true}},
		{31, 32, Gate{Known: true, Stage: "GA", Default: true, Locked: true}},
	},
}

// flags: the options of each component in each minor.
var flags = map[string]map[string][]flagSpan{
	"kube-controller-manager": {
		"cloud-provider":               {{0, always, ""}},
		"cloud-config":                 {{0, always, ""}},
		"external-cloud-volume-plugin": {{0, always, ""}},
		"enable-leader-migration":      {{21, always, ""}},
		"leader-migration-config":      {{21, always, ""}},
	},
}
