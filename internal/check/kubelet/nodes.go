package kubelet

import (
	"fmt"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/catalogue"
	"github.com/transplant-dev/transplant/internal/catalogue/cloudprovider"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/check/rule"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/servingrequest"
	"github.com/transplant-dev/transplant/internal/shell"
)

var nameFromCloud = rule.Check{
	Code:      "KUBELET-004",
	Reason:    "NodeNameFromCloud",
	Category:  findings.CategoryKubelets,
	Level:     findings.LevelCritical,
	Impact:    findings.ImpactNodeDeletion,
	LookFor:   "nodes whose hostname label differs from their name",
	DependsOn: []string{"API-001"},
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := f.Missing("nodes"); ok {
			return finding
		}
		names := keptNames(f)
		var failing, planned, warning findings.Problems
		labelled := 0
		for _, n := range f.Nodes {
			hostname := n.Labels[facts.LabelHostname]
			if hostname != "" {
				labelled++
			}
			if hostname == "" || hostname == n.Name {
				continue
			}
			switch names[n.Name] {
			case nameKept:
			case namePlanned:
				planned.Add(n.Name, "%s would come back as %s, and the plan keeps its name", n.Name, hostname)
			case nameLost:
				failing.Add(n.Name, "%s would come back as %s", n.Name, hostname)
			case nameUnread:
				warning.Add(n.Name, "%s would come back as %s", n.Name, hostname)
			}
		}
		const source, fix = "/api/v1/nodes", "kubectl get nodes -L " + facts.LabelHostname
		bad, outcome, found := findings.Worst(failing, warning)
		switch {
		case found:
			return findings.With(
				bad.Some(
					outcome,
					"%s another name from an external kubelet",
					findings.HowMany(len(bad), "1 node would get", "nodes would get"),
				),
				facts.LabelHostname+" equal to the node's name, or --hostname-override with it",
				source,
				fix,
			)
		case !planned.Empty():
			return findings.With(
				planned.Some(
					v1.Warn,
					"%s from the cloud: the plan gives --hostname-override to the kubelets, and the label %s changes to the node's name",
					findings.HowMany(len(planned), "1 node has its name", "nodes have their names"),
					facts.LabelHostname,
				),
				"nothing that selects nodes by the old value of "+facts.LabelHostname,
				source,
				fix,
			)
		}
		return findings.Pass(
			"all %s with the label %s have the host's name, or keep their own",
			findings.Plural(labelled, "node"),
			facts.LabelHostname,
		)
	},
}

// naming is what becomes of a Node's name when its kubelet is external.
type naming int

const (
	// nameUnread is that of a node whose kubelet was not read.
	nameUnread naming = iota
	// nameKept is safe by itself.
	nameKept
	// namePlanned is kept by the plan, which adds --hostname-override.
	namePlanned
	// nameLost is that of a kubelet that no plan changes, and that comes back under another name.
	nameLost
)

// keptNames returns what becomes of the names of nodes whose kubelets were read.
func keptNames(f facts.Facts) map[string]naming {
	cloud := f.CloudName()
	out := map[string]naming{}
	for _, k := range f.Kubelets() {
		switch {
		case strings.EqualFold(k.Flags["hostname-override"], k.Host.NodeName) || k.Provider() == facts.External:
			out[k.Host.NodeName] = nameKept
		case f.Stage() != facts.StageExternal && !k.Host.APIOnly && cloud != "" && k.Flags["cloud-provider"] == cloud:
			out[k.Host.NodeName] = namePlanned
		default:
			out[k.Host.NodeName] = nameLost
		}
	}
	return out
}

var nodeIPAbsent = rule.Check{
	Code:      "KUBELET-005",
	Reason:    "NodeIPAbsent",
	Category:  findings.CategoryKubelets,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "the annotation alpha.kubernetes.io/provided-node-ip, which says the address that the kubelet was told",
	DependsOn: []string{"API-001"},
	Judge: func(f facts.Facts) v1.Finding {
		if finding, ok := f.Missing("nodes"); ok {
			return finding
		}
		told := f.NodeIPFlags()
		var bad findings.Problems
		old := 0
		for _, n := range f.Nodes {
			minor, ok := facts.VersionMinor(n.KubeletVersion)
			switch {
			case !ok || !catalogue.WaitsForAddresses(minor):
				old++
			case n.Annotations[facts.AnnotationProvidedIP] == "" && told[n.Name] == "":
				bad.Add(n.Name, "%s (%s) is told no address", n.Name, n.KubeletVersion)
			}
		}
		if old == len(f.Nodes) {
			return findings.Pass("the kubelets of all %s fill in their addresses themselves", findings.Plural(old, "node"))
		}
		if bad.Empty() {
			return findings.Pass(
				"%d of %s fill in their addresses themselves, the others are told theirs",
				old,
				findings.Plural(len(f.Nodes), component.Kubelet),
			)
		}
		return findings.With(
			bad.Some(
				v1.Warn,
				"%s new Nodes without address until the cloud-controller-manager runs",
				findings.HowMany(len(bad), "1 external kubelet would register", "external kubelets would register"),
			),
			"--node-ip on each kubelet",
			"/api/v1/nodes, flags of the kubelets",
			"kubectl get node "+shell.Quote(bad[0].Object)+" -o jsonpath='{.metadata.annotations}'",
		)
	},
}

var kubeletDefaults = rule.Check{
	Code:      "KUBELET-007",
	Reason:    "KubeletDefaultsDiffer",
	Category:  findings.CategoryKubelets,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeJoin,
	DependsOn: rule.OnVolumes,
	Judge:     judgeKubeletDefaults,
}

func judgeKubeletDefaults(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("kubelet-defaults"); ok {
		return finding
	}
	if _, missing := f.Missing(facts.KubeletFacts...); missing {
		return findings.Dependent("KUBELET-001")
	}
	if f.KubeletDefaults == nil {
		return findings.Skip(
			"there is no ConfigMap kube-system/kubelet-config: give the new flags to whatever makes the Nodes",
		)
	}
	d := f.KubeletDefaults
	name := "ConfigMap/kube-system/" + findings.OrElse(d.Name, "kubelet-config")
	var failing, warning findings.Problems
	if d.ProviderID != "" {
		failing.Add(name, "%s gives every node the providerID %s", name, d.ProviderID)
	}
	compared := 0
	for _, k := range f.Kubelets() {
		if k.Config == nil || k.Config.Error != "" {
			continue
		}
		compared++
		if gates := gateDiff(k.Config.FeatureGates, d.FeatureGates); gates != "" {
			warning.Add(k.String(), "%s has %s", k, gates)
		}
		if k.Config.ServerTLSBootstrap != d.ServerTLSBootstrap {
			warning.Add(
				k.String(),
				"%s has serverTLSBootstrap %t, %s %t",
				k,
				k.Config.ServerTLSBootstrap,
				name,
				d.ServerTLSBootstrap,
			)
		}
	}
	all, outcome, bad := findings.Worst(failing, warning)
	configMap := shell.Quote(findings.OrElse(d.Name, "kubelet-config"))
	fix := "kubectl -n kube-system edit configmap " + configMap
	switch {
	case bad && outcome == v1.Fail:
		return findings.With(
			all.Some(outcome, "%s", failing[0].Text),
			"no providerID there",
			name,
			"kubectl -n kube-system get configmap "+configMap+" -o yaml | sed '/^ *providerID:/d' | kubectl replace -f -",
		)
	case bad:
		return findings.With(
			all.Some(
				outcome,
				"kubeadm would change %s at its next upgrade",
				findings.HowMany(len(warning), "a kubelet", "settings of kubelets"),
			),
			"the same gates in the ConfigMap and on the nodes",
			name,
			fix,
		)
	}
	return findings.Pass(
		"%s agrees with the configuration of %s and names no providerID",
		name,
		findings.Plural(compared, component.Kubelet),
	)
}

// gateDiff says which cloud gates differ; gates that have nothing to do with clouds, volumes or credentials are left to
// their owner.
func gateDiff(have, would map[string]bool) string {
	var out []string
	for _, gate := range cloudGates() {
		a, given := have[gate]
		b, kept := would[gate]
		if given != kept || a != b {
			out = append(out, fmt.Sprintf("%s=%s where the ConfigMap has %s", gate, boolOr(a, given), boolOr(b, kept)))
		}
	}
	return strings.Join(out, ", ")
}

func boolOr(v, given bool) string {
	if !given {
		return "nothing"
	}
	return fmt.Sprint(v)
}

// cloudGates are the gates that a migration sets on kubelets, sorted.
func cloudGates() []string {
	out := []string{
		facts.MasterGate,
		catalogue.DisableCloudProviders,
		catalogue.DisableKubeletCloudCredentialProviders,
		"KubeletCredentialProviders",
		"RotateKubeletServerCertificate",
	}
	for _, p := range cloudprovider.Providers() {
		for _, plugin := range p.Plugins {
			out = append(out, plugin.MigrationGate, plugin.UnregisterGate)
		}
	}
	slices.Sort(out)
	return out
}

// SignerServing is the signer of kubelets' serving certificates.
const SignerServing = "kubernetes.io/kubelet-serving"

var servingCertificates = rule.Check{
	Code:      "KUBELET-008",
	Reason:    "ServingCertificates",
	Category:  findings.CategoryKubelets,
	Level:     findings.LevelWarning,
	Impact:    findings.ImpactAPI,
	LookFor:   "the user, names and addresses of the request, which have to be those of the node",
	OnlyIf:    "the finding says that this request was denied or has failed; one that waits is never deleted",
	Warning:   "the request is gone, and the kubelet makes another one; until that is approved it has no new certificate",
	DependsOn: []string{"API-001"},
	Retryable: true,
	Judge:     judgeServing,
}

func judgeServing(f facts.Facts) v1.Finding {
	if finding, ok := f.Missing("csrs"); ok {
		return finding
	}
	if finding, ok := f.Missing("kubelet-defaults"); ok {
		return finding
	}
	if _, missing := f.Missing(facts.KubeletFacts...); missing {
		return findings.Dependent("KUBELET-001")
	}
	asking := askingKubelets(f)
	nodes := servingrequest.NodesOf(f.Snapshot)
	bad, serving := unansweredRequests(f, nodes)
	approver := slices.ContainsFunc(
		f.Workloads,
		func(w v1.Workload) bool { return w.Role == v1.RoleCSRApprover && w.Ready > 0 },
	)
	switch {
	case !bad.Empty():
		return findings.With(
			bad.Some(
				v1.Warn,
				"%s not answered",
				findings.HowMany(len(bad), "1 request of a kubelet is", "requests of kubelets are"),
			),
			"approved soon after they are made",
			"/apis/certificates.k8s.io/v1/certificatesigningrequests",
			describeAnswer(f, nodes, bad[0].Object),
		)
	case asking == "" && serving == 0:
		return findings.Pass("no kubelet asks the cluster for a serving certificate")
	case !approver && len(f.UnknownReasons("workloads")) > 0:
		finding, _ := f.Missing("workloads")
		return finding
	case !approver:
		return findings.With(
			v1.Finding{
				Outcome: v1.Warn,
				Summary: "kubelets ask for serving certificates, and no approver is known in the cluster",
				Found:   findings.OrElse(asking, findings.Plural(serving, "request")),
			},
			"a workload that approves them",
			"serverTLSBootstrap, workloads",
			"kubectl get csr --field-selector spec.signerName="+SignerServing,
		)
	}
	return findings.Pass(
		"kubelets ask for serving certificates (%s), and an approver answers: no request waits",
		findings.OrElse(asking, findings.Plural(serving, "request")),
	)
}

// unansweredRequests are the requests of kubelets for serving certificates without an answer, and how many requests
// there are.
func unansweredRequests(f facts.Facts, nodes *servingrequest.Nodes) (bad findings.Problems, serving int) {
	for _, c := range f.CertificateRequests {
		if c.SignerName != SignerServing {
			continue
		}
		serving++
		node := strings.TrimPrefix(c.Username, servingrequest.UserPrefix)
		switch {
		case c.State == "Pending" && f.TakenAt.Sub(c.Created) > facts.VolumeGracePeriod:
			warning := ""
			if _, err := nodes.Approve(c); err != nil {
				warning = fmt.Sprintf("; do not approve it before you know why: %v", err)
			}
			bad.Add(c.Name, "%s of %s waits since %s%s", c.Name, node, c.Created.UTC().Format("2006-01-02 15:04"), warning)
		case c.State == "Denied" || c.State == "Failed":
			bad.Add(c.Name, "%s of %s is %s: the kubelet asks again when it is deleted", c.Name, node, strings.ToLower(c.State))
		}
	}
	return bad, serving
}

// describeAnswer is the command that gives a kubelet what it asked for, if its Node has all of that. A request that was
// denied or has failed can't be approved any more: its kubelet makes another one when it is gone.
func describeAnswer(f facts.Facts, nodes *servingrequest.Nodes, name string) string {
	look := servingrequest.Command("describe csr", name)
	i := slices.IndexFunc(f.CertificateRequests, func(c v1.CertificateRequest) bool { return c.Name == name })
	if i < 0 {
		return look
	}
	if f.CertificateRequests[i].State != "Pending" {
		return look + " && " + servingrequest.Command("delete csr", name)
	}
	command, err := nodes.Approve(f.CertificateRequests[i])
	if err != nil {
		return look
	}
	return look + " && " + command
}

// askingKubelets says where kubelets are told to ask for serving certificates; empty when nowhere.
func askingKubelets(f facts.Facts) string {
	if f.KubeletDefaults != nil && f.KubeletDefaults.ServerTLSBootstrap {
		return "kubelet-config has serverTLSBootstrap"
	}
	var on []string
	for _, k := range f.Kubelets() {
		if k.Config != nil && k.Config.ServerTLSBootstrap || k.Flags["rotate-server-certificates"] == "true" {
			on = append(on, k.String())
		}
	}
	return findings.Few(on)
}

var kubeletProviderID = rule.Check{
	Code:      "KUBELET-009",
	Reason:    "KubeletProviderID",
	Category:  findings.CategoryKubelets,
	Level:     findings.LevelError,
	Impact:    findings.ImpactNodeJoin,
	LookFor:   "the file with the providerID, which has to be that of the Node",
	DependsOn: rule.OnVolumes,
	Judge: func(f facts.Facts) v1.Finding {
		if finding, none := f.NoKubelets(); none {
			return finding
		}
		if finding, ok := f.Missing("nodes"); ok {
			return finding
		}
		var bad findings.Problems
		told := 0
		for _, k := range f.Kubelets() {
			id := k.Flags["provider-id"]
			if id == "" && k.Config != nil {
				id = k.Config.ProviderID
			}
			if id == "" {
				continue
			}
			told++
			if k.Node.Name != "" && k.Node.ProviderID != id {
				bad.Add(k.String(), "%s is told %s, and its Node has %s", k, id, findings.OrElse(k.Node.ProviderID, "none"))
			}
		}
		if told == 0 {
			return findings.Pass("none of %s is told a providerID", findings.Plural(len(f.Kubelets()), component.Kubelet))
		}
		if bad.Empty() {
			return findings.Pass(
				"%d of %s told a providerID, and none another than its Node's",
				told,
				findings.Plural(len(f.Kubelets()), component.Kubelet)+" "+english.Word(told, "is", "are"),
			)
		}
		return findings.With(
			bad.Some(
				v1.Fail,
				"%s another providerID than its Node has",
				findings.HowMany(len(bad), "1 kubelet is told", "kubelets are told"),
			),
			"none, or the Node's",
			"flags and configuration of the kubelets",
			"grep -rn -i provider.\\?id /var/lib/kubelet /etc/systemd/system/kubelet.service.d   # on host "+facts.HostIn(
				bad[0].Object,
			),
		)
	},
}
