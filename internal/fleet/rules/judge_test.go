package rules

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	kubermatic "github.com/transplant-dev/transplant/api/kubermatic/v1"
)

func TestWhatIsRefused(t *testing.T) {
	otherGroup := Facts{OtherGroups: []string{"kubermatic.k8s.io"}}
	driver23, noDriver := Facts{VSphereCSI: "v2.3.0"}, Facts{Driver: func(string, int) bool { return false }}
	two := func(c *kubermatic.Cluster) {
		c.Spec.Cloud.AWS, c.Spec.Cloud.Azure = &kubermatic.ProviderSpec{}, &kubermatic.ProviderSpec{}
	}
	settings := func(c *kubermatic.Cluster) { c.Spec.Cloud.AWS = &kubermatic.ProviderSpec{} }
	dc := func(name string) func(*kubermatic.Cluster) {
		return func(c *kubermatic.Cluster) { c.Spec.Cloud.DatacenterName = name }
	}
	version := func(p, v string, edits ...func(*kubermatic.Cluster)) *kubermatic.Cluster {
		return cluster(p, v, edits...)
	}
	says := func(key, value string) func(*kubermatic.Cluster) {
		return func(c *kubermatic.Cluster) { c.Annotations = map[string]string{key: value} }
	}
	running := []func(*kubermatic.Cluster){on, annotated}

	for name, test := range map[string]struct {
		before, after *kubermatic.Cluster
		facts         Facts
		want          []string // parts of the messages, in order; none means that it is allowed
	}{
		"a new cluster":                                {after: version("aws", "1.26.0")},
		"a new cluster with an explicit false":         {after: version("aws", "1.26.0", off)},
		"the guide's object":                           {after: version("", "", on)},
		"a new cluster of an unsupported provider":     {after: version("nutanix", "1.26.0")},
		"the same with the feature":                    {after: version("nutanix", "1.26.0", on), want: []string{"spec.features[externalCloudProvider]: Invalid value: true: " + notSupported}},
		"a new cluster that exists in the other group": {after: version("aws", "1.26.0"), facts: otherGroup, want: []string{"metadata.name: Forbidden: cluster \"crh4xbxz5f\" exists in the group kubermatic.k8s.io as well"}},
		"a new cluster in two clouds":                  {after: version("", "1.26.0", two), want: []string{"settings of aws, azure"}},
		"a new cluster that mistakes its cloud":        {after: version("azure", "1.26.0", settings), want: []string{"spec.cloud.providerName: Invalid value: \"azure\": does not match"}},
		"a new cluster in tree after its end":          {after: version("aws", "1.27.0", off), want: []string{"needs spec.features.externalCloudProvider: Kubernetes 1.27 has no in-tree provider for AWS"}},
		"a new vsphere cluster beyond its driver":      {after: version("vsphere", "1.22.0"), facts: driver23, want: []string{"spec.version: Invalid value: \"1.22.0\": new clusters on vSphere need the CSI driver"}},

		"disabling":                           {before: version("aws", "1.26.0", on), after: version("aws", "1.26.0", off), want: []string{`spec.features[externalCloudProvider]: Invalid value: false: feature gate "externalCloudProvider" cannot be disabled once it's enabled`}},
		"taking the feature away":             {before: version("aws", "1.26.0", on), after: version("aws", "1.26.0"), want: []string{cannotBeDisabled}},
		"enabling":                            {before: version("aws", "1.26.0", off), after: version("aws", "1.26.0", on)},
		"enabling after an explicit false":    {before: version("aws", "1.26.0", off), after: version("aws", "1.26.0", on, annotated)},
		"leaving an explicit false":           {before: version("aws", "1.26.0", off), after: version("aws", "1.26.0")},
		"enabling where it is not supported":  {before: version("gcp", "1.24.0"), after: version("gcp", "1.24.0", on), want: []string{notSupported + ": no cloud-controller-manager for Google Cloud"}},
		"enabling in both groups":             {before: version("aws", "1.26.0"), after: version("aws", "1.26.0", on), facts: otherGroup, want: []string{"one of them has to go"}},
		"anything else in both groups":        {before: version("aws", "1.26.0", off), after: version("aws", "1.26.0"), facts: otherGroup},
		"enabling vsphere 1.22, driver 2.3":   {before: version("vsphere", "1.22.0"), after: version("vsphere", "1.22.0", on), facts: driver23, want: []string{"not 1.22"}},
		"upgrading one beyond every driver":   {before: version("vsphere", "1.36.0", on, completed), after: version("vsphere", "1.37.0", on, completed), want: []string{"supports Kubernetes 1.37"}},
		"a new one beyond every driver":       {after: version("vsphere", "1.37.0"), want: []string{"new clusters on vSphere need the CSI driver: no release", "needs spec.features.externalCloudProvider"}},
		"upgrading a migrated one to it":      {before: version("vsphere", "1.21.0", on, completed), after: version("vsphere", "1.22.0", on, completed), facts: driver23, want: []string{"not 1.22"}},
		"other writes when a rule came later": {before: version("nutanix", "1.26.0", on), after: version("nutanix", "1.26.0", on, feature("other", true))},
		"deleting one that breaks every rule": {before: version("aws", "1.26.0", on), after: version("nutanix", "1.20.0", off, deleting), facts: otherGroup},

		"another cloud":             {before: version("aws", "1.26.0"), after: version("azure", "1.26.0"), want: []string{"spec.cloud: Forbidden: not allowed to change the cloud provider"}},
		"the cloud's settings":      {before: version("aws", "1.26.0"), after: version("aws", "1.26.0", settings)},
		"a second cloud":            {before: version("aws", "1.26.0", settings), after: version("aws", "1.26.0", two), want: []string{"settings of aws, azure"}},
		"the cloud, named later":    {before: version("", "1.26.0", settings), after: version("aws", "1.26.0", settings)},
		"no cloud any longer":       {before: version("aws", "1.26.0"), after: version("", "1.26.0"), want: []string{cloudChanged}},
		"another datacenter":        {before: version("aws", "1.26.0", dc("a")), after: version("aws", "1.26.0", dc("b")), want: []string{"change the datacenter"}},
		"a datacenter, named later": {before: version("aws", "1.26.0"), after: version("aws", "1.26.0", dc("b"))},

		"an upgrade in tree, before the end":  {before: version("aws", "1.25.0"), after: version("aws", "1.26.0")},
		"an upgrade in tree, past the end":    {before: version("aws", "1.26.0"), after: version("aws", "1.27.0"), want: []string{"let the migration end first: Kubernetes 1.27 has no in-tree provider for AWS"}},
		"the same for every provider":         {before: version("azure", "1.28.0"), after: version("azure", "1.29.0"), want: []string{"Kubernetes 1.29 switches in-tree providers off"}},
		"a patch of one past the end":         {before: version("aws", "1.27.0"), after: version("aws", "1.27.4")},
		"an upgrade of one never in tree":     {before: version("kubevirt", "1.28.0"), after: version("kubevirt", "1.29.0")},
		"an upgrade after the migration":      {before: version("aws", "1.26.0", on, annotated, completed), after: version("aws", "1.27.0", on, annotated, completed)},
		"an upgrade while migrating":          {before: version("aws", "1.24.0", running...), after: version("aws", "1.25.0", running...)},
		"a patch back while migrating":        {before: version("aws", "1.26.3", running...), after: version("aws", "1.26.0", running...), want: []string{"cannot go back from 1.26.3"}},
		"a minor back while migrating":        {before: version("aws", "1.26.0", running...), after: version("aws", "1.25.0", running...), want: []string{"cannot go back from 1.26.0"}},
		"a minor back, not migrating":         {before: version("aws", "1.26.0"), after: version("aws", "1.25.0")},
		"a jump while migrating":              {before: version("aws", "1.24.0", running...), after: version("aws", "1.26.0", running...), want: []string{"more than one minor"}},
		"a jump with the feature":             {before: version("aws", "1.24.0"), after: version("aws", "1.26.0", on), want: []string{"more than one minor"}},
		"past the end while migrating":        {before: version("aws", "1.26.0", running...), after: version("aws", "1.27.0", running...), want: []string{"wait until the migration is over"}},
		"no version while migrating":          {before: version("aws", "1.26.0", running...), after: version("aws", "", running...), want: []string{"taken away"}},
		"a first version while migrating":     {before: version("aws", "", running...), after: version("aws", "1.26.0", running...)},
		"the feature and an upgrade past end": {before: version("aws", "1.26.0"), after: version("aws", "1.27.0", on), want: []string{"wait until the migration is over"}},

		"removing the annotations while it runs": {
			before: version("aws", "1.26.0", running...),
			after:  version("aws", "1.26.0", on),
			want:   []string{"metadata.annotations[ccm-migration.k8c.io/migration-needed]: Forbidden", "metadata.annotations[csi-migration.k8c.io/migration-needed]: Forbidden"},
		},
		"removing them afterwards":          {before: version("aws", "1.26.0", on, annotated, completed), after: version("aws", "1.26.0", on, completed)},
		"removing them without the feature": {before: version("aws", "1.26.0", annotated), after: version("aws", "1.26.0")},

		"a strategy that there is not": {
			before: version("aws", "1.26.0"),
			after:  version("aws", "1.26.0", says(kubermatic.AnnotationStrategy, "hope")),
			want:   []string{"metadata.annotations[transplant.dev/strategy]: Invalid value: \"hope\": has to be \"downtime\""},
		},
		"a strategy that there is": {before: version("aws", "1.26.0"), after: version("aws", "1.26.0", says(kubermatic.AnnotationStrategy, "downtime"))},
		"one that was there before the rule": {
			before: version("aws", "1.26.0", says(kubermatic.AnnotationStrategy, "hope")),
			after:  version("aws", "1.26.0", says(kubermatic.AnnotationStrategy, "hope"), on),
		},
		"a new cluster with a budget below 0": {after: version("aws", "1.26.0", says(kubermatic.AnnotationMaxUnavailable, "-1")), want: []string{"a number of machines"}},
		"a budget of more than all":           {after: version("aws", "1.26.0", says(kubermatic.AnnotationMaxUnavailable, "101%")), want: []string{"100%"}},
		"a budget of words":                   {after: version("aws", "1.26.0", says(kubermatic.AnnotationMaxUnavailable, "many")), want: []string{"100%"}},
		"a budget":                            {after: version("aws", "1.26.0", says(kubermatic.AnnotationMaxUnavailable, "0"))},
		"a budget in percent":                 {after: version("aws", "1.26.0", says(kubermatic.AnnotationMaxUnavailable, "25%"))},
		"a restart that is not asked for":     {after: version("aws", "1.26.0", says(kubermatic.AnnotationRestartMachines, "false"))},
		"a restart of perhaps":                {after: version("aws", "1.26.0", says(kubermatic.AnnotationRestartMachines, "perhaps")), want: []string{"\"true\" or \"false\""}},

		"the driver, disabled": {before: version("aws", "1.26.0"), after: version("aws", "1.26.0", noCSI)},
		"the driver, disabled and in use": {
			before: version("aws", "1.26.0", inUse(corev1.ConditionTrue)),
			after:  version("aws", "1.26.0", noCSI),
			want:   []string{"spec.disableCsiDriver: Forbidden: CSI addon is in use or unknown state PVs"},
		},
		"the driver, disabled and perhaps in use": {before: version("aws", "1.26.0", inUse(corev1.ConditionUnknown)), after: version("aws", "1.26.0", noCSI), want: []string{driverInUse}},
		"the driver, disabled and not in use":     {before: version("aws", "1.26.0", inUse(corev1.ConditionFalse)), after: version("aws", "1.26.0", noCSI)},
		"the driver, disabled while volumes move": {
			before: version("aws", "1.26.0", running...),
			after:  version("aws", "1.26.0", on, annotated, noCSI),
			want:   []string{"wait until the migration is over"},
		},
		"a driver that nobody has, disabled on the way": {before: version("aws", "1.26.0", running...), after: version("aws", "1.26.0", on, annotated, noCSI), facts: noDriver},
		"enabled without a driver":                      {before: version("aws", "1.26.0"), after: version("aws", "1.26.0", on), facts: noDriver, want: []string{"no release of the CSI driver of AWS is known here for Kubernetes 1.26"}},
		"enabled without a driver that is wanted":       {before: version("aws", "1.26.0", noCSI), after: version("aws", "1.26.0", on, noCSI), facts: noDriver},
		"new without a driver":                          {after: version("aws", "1.26.0", on), facts: noDriver},
		"the driver, enabled":                           {before: version("aws", "1.26.0", noCSI), after: version("aws", "1.26.0")},
		"the driver, enabled against its datacenter": {
			before: version("aws", "1.26.0", noCSI),
			after:  version("aws", "1.26.0"),
			facts:  Facts{Datacenter: &Datacenter{DisableCSIDriver: true}},
			want:   []string{driverNotAllowed},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Judge(test.before, test.after, test.facts)
			if len(got) != len(test.want) {
				t.Fatalf("refused for %d reasons, want %d: %v", len(got), len(test.want), got)
			}
			for i, want := range test.want {
				if !strings.Contains(got[i].Error(), want) {
					t.Errorf("%s\nwant in it: %s", got[i], want)
				}
			}
		})
	}
}

func TestTheOperatorRefusesWhatSlippedPastTheWebhook(t *testing.T) {
	two := func(c *kubermatic.Cluster) {
		c.Spec.Cloud.AWS, c.Spec.Cloud.Azure = &kubermatic.ProviderSpec{}, &kubermatic.ProviderSpec{}
	}
	for name, test := range map[string]struct {
		cluster *kubermatic.Cluster
		facts   Facts
		want    []string
	}{
		"nothing wrong":      {cluster: cluster("aws", "1.26.0", on)},
		"not asked for":      {cluster: cluster("nutanix", "1.26.0")},
		"unsupported":        {cluster: cluster("nutanix", "1.26.0", on), want: []string{notSupported}},
		"no cloud":           {cluster: cluster("", "1.26.0", on), want: []string{"spec.cloud.providerName"}},
		"both groups":        {cluster: cluster("aws", "1.26.0", on), facts: Facts{OtherGroups: []string{"kubermatic.k8c.io"}}, want: []string{"kubermatic.k8c.io"}},
		"two clouds, sorted": {cluster: cluster("", "1.26.0", two, on), want: []string{"a cluster is in one cloud", "does not say which cloud"}},
		"no driver is known": {cluster: cluster("vsphere", "1.28.0", on), facts: Facts{RunsInTree: true, Driver: func(p string, minor int) bool { return p != "vsphere" || minor < 27 }},
			want: []string{"no release of the CSI driver of vSphere is known here for Kubernetes 1.28"}},
		"no driver is known, and none is needed": {cluster: cluster("vsphere", "1.28.0", on), facts: Facts{Driver: func(string, int) bool { return false }}},
		"vsphere, driver 2.3":                    {cluster: cluster("vsphere", "1.22.0", on), facts: Facts{VSphereCSI: "2.3.0"}, want: []string{"not 1.22"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Refusals(test.cluster, test.facts)
			if len(got) != len(test.want) {
				t.Fatalf("refused for %q, want %q", got, test.want)
			}
			for i, want := range test.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("%s\nwant in it: %s", got[i], want)
				}
			}
		})
	}
}
