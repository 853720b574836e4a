package catalogue

// always is later than any minor of the tables: nothing has ended it yet.
const always = 999

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
