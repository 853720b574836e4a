package report

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/english"
	"github.com/transplant-dev/transplant/internal/mask"
	"github.com/transplant-dev/transplant/internal/objectives"
	"github.com/transplant-dev/transplant/internal/probe"
)

// VerifyInput is what a verification judges.
type VerifyInput struct {
	Report v1.Report
	Phase  string
	// Owners is why the loops do not have the owners that the last state promises; empty when they do. OwnersLine says who
	// they are.
	Owners, OwnersLine string
	// Remains are sentences about hosts that were excluded from the migration, and that stand in its way.
	Remains []string
	// Errors are the facts that could not be gathered now.
	Errors []v1.GatherError
	// CloudBefore and CloudNow say that the cloud was looked at.
	CloudBefore, CloudNow bool
}

// Verify judges whether the cluster is as it was promised.
func Verify(in VerifyInput) v1.Verification {
	v := &verifier{in: in}
	r := in.Report
	v.out = v1.Verification{
		TypeMeta: v1.Type(v1.KindVerification),
		Cluster:  r.Cluster,
		Run:      r.Run,
		Phase:    in.Phase,
		TakenAt:  r.Created,
		Result:   v1.ResultOK,
		Problems: []string{},
	}
	v.finished()
	v.simple("owners", "each loop has one owner ("+in.OwnersLine+")", in.Owners)
	if len(in.Remains) > 0 {
		v.add(
			v1.VerificationCheck{
				Name:     "hosts",
				Outcome:  v1.Fail,
				Summary:  "hosts that were excluded from the migration stand in its way",
				Problems: in.Remains,
			},
		)
	}
	inv := r.Inventory
	v.inventory(
		"nodes",
		[]string{"Node/"},
		"nodes",
		nil,
		counted(inv.Nodes.Before, inv.Nodes.After)+", with their addresses, labels, taints and provider ids",
	)
	v.inventory(
		"services",
		[]string{"Service/"},
		"services",
		func(d v1.Difference) bool { return d.Field != "endpoints" },
		counted(inv.Services.Before, inv.Services.After)+" of type LoadBalancer, with their addresses",
	)
	v.inventory(
		"endpoints",
		[]string{"Service/"},
		"endpoints",
		func(d v1.Difference) bool { return d.Field == "endpoints" },
		counted(inv.Serving.Before, inv.Serving.After)+" Services have ready endpoints",
	)
	v.inventory(
		"volumes",
		[]string{"PersistentVolume"},
		"persistentvolume",
		nil,
		counted(inv.Volumes.Before, inv.Volumes.After)+" PersistentVolumes, with their claims and disks",
	)
	v.inventory(
		"attachments",
		[]string{"VolumeAttachment/"},
		"volumeattachments",
		nil,
		counted(inv.Attachments.Before, inv.Attachments.After)+" volumes attached",
	)
	v.inventory(
		"csi-drivers",
		[]string{"CSINode/"},
		"csinodes",
		nil,
		counted(inv.Drivers.Before, inv.Drivers.After)+" CSI drivers on nodes, with what they can attach",
	)
	v.cloud(
		"load-balancers",
		"LoadBalancer/",
		fmt.Sprintf(
			"%s in the cloud, %d recreated",
			counted(inv.LoadBalancers.Before, inv.LoadBalancers.After),
			inv.LoadBalancers.Recreated,
		),
	)
	v.cloud("routes", "Route/", counted(inv.Routes.Before, inv.Routes.After)+" in the cloud")
	v.disruption()
	v.objectives()
	v.facts()
	for _, c := range v.out.Checks {
		v.out.Problems = append(v.out.Problems, c.Problems...)
		switch {
		case c.Outcome == v1.Fail:
			v.out.Result = v1.ResultFailed
		case c.Outcome == v1.Unknown && v.out.Result == v1.ResultOK:
			v.out.Result = v1.VerificationUnknown
		}
	}
	return v.out
}

type verifier struct {
	in  VerifyInput
	out v1.Verification
}

func counted(before, after int) string {
	if before == after {
		return fmt.Sprint(after)
	}
	return fmt.Sprintf("%d before, %d now", before, after)
}

func (v *verifier) add(c v1.VerificationCheck) { v.out.Checks = append(v.out.Checks, c) }

// simple passes without a problem.
func (v *verifier) simple(name, good, problem string) {
	c := v1.VerificationCheck{Name: name, Outcome: v1.Pass, Summary: good}
	if problem != "" {
		c.Outcome, c.Summary, c.Problems = v1.Fail, problem, []string{problem}
	}
	v.add(c)
}

func (v *verifier) finished() {
	problem := ""
	if v.in.Phase != v1.RunApplied && v.in.Phase != v1.RunRolledBack {
		problem = fmt.Sprintf("migration %s is not finished (%s): transplant status says whether a process executes it", v.out.Run, v.in.Phase)
	}
	v.simple("finished", fmt.Sprintf("migration %s is %s", v.out.Run, v.in.Phase), problem)
}

// inventory judges the differences of a kind of objects; fact is how the errors and unknown parts about them begin.
func (v *verifier) inventory(name string, objects []string, fact string, only func(v1.Difference) bool, good string) {
	c := v1.VerificationCheck{Name: name, Outcome: v1.Pass, Summary: good}
	unexplained, accepted := 0, 0
	for _, d := range v.in.Report.Inventory.Differences {
		if !slices.ContainsFunc(objects, func(p string) bool { return strings.HasPrefix(d.Object, p) }) ||
			only != nil && !only(d) {
			continue
		}
		switch {
		case d.Expected:
		case d.Accepted != "":
			accepted++
		default:
			unexplained++
			c.Problems = append(c.Problems, withWho(d))
		}
		c.Differences = append(c.Differences, d)
	}
	unknown := v.unknownReasons(fact)
	switch {
	case unexplained > 0:
		c.Outcome, c.Summary = v1.Fail, fmt.Sprintf(
			"%s: %s that nothing explains",
			good,
			english.Count(unexplained, "difference"),
		)
	case len(unknown) > 0:
		c.Outcome, c.Summary = v1.Unknown, "not compared: "+unknown[0]
	case accepted > 0:
		c.Summary += fmt.Sprintf("; %s accepted", english.Count(accepted, "difference"))
	}
	c.Problems = append(c.Problems, unknown...)
	v.add(c)
}

// unknownReasons are the reasons for which a part could not be compared.
func (v *verifier) unknownReasons(fact string) []string {
	var out []string
	for _, u := range v.in.Report.Inventory.Unknown {
		if strings.HasPrefix(u, fact) || fact == "endpoints" && strings.HasPrefix(u, "endpointslices") {
			out = append(out, u)
		}
	}
	for _, e := range v.in.Errors {
		if e.Fact == fact && fact != "endpoints" {
			out = append(out, e.Fact+" is unknown: "+e.Error)
		}
	}
	return out
}

// withWho is the sentence of a difference, with who made it where that is known.
func withWho(d v1.Difference) string {
	s := sentence(d)
	if d.By != "" {
		s += " (" + d.By + ")"
	}
	return s
}

// accept writes next to differences that nothing explains why the operator lives with them. What is given now comes
// before what a run has written down.
func accept(differences []v1.Difference, now map[string]string, before []v1.AcceptedDifference) {
	keys := slices.Sorted(maps.Keys(now))
	for i := range differences {
		d := &differences[i]
		if d.Expected {
			continue
		}
		for _, key := range keys {
			if d.Accepted == "" && isMeant(key, *d) {
				d.Accepted = mask.Text(now[key])
			}
		}
		for _, a := range slices.Backward(before) {
			if d.Accepted == "" && isMeant(a.Difference, *d) {
				d.Accepted = mask.Text(findings.Reason(a.Reason, a.By, &a.At))
			}
		}
	}
}

// IsMet reports whether a value of --accept means one of the differences that nothing explains.
func IsMet(key string, differences []v1.Difference) bool {
	return slices.ContainsFunc(differences, func(d v1.Difference) bool { return !d.Expected && isMeant(key, d) })
}

// isMeant reports whether a value of --accept means a difference.
func isMeant(key string, d v1.Difference) bool {
	if key == d.Object || key == d.Object+" "+d.Field {
		return true
	}
	object, field, hasField := strings.Cut(key, " ")
	ok, err := path.Match(object, d.Object)
	return err == nil && ok && (!hasField || field == d.Field)
}

// cloud judges what the cloud holds. When it was looked at neither before nor now, there is nothing to judge; once only
// is unknown.
func (v *verifier) cloud(name, objects, good string) {
	switch {
	case !v.in.CloudBefore && !v.in.CloudNow:
		v.add(
			v1.VerificationCheck{
				Name:    name,
				Outcome: v1.Skip,
				Summary: "the cloud was not looked at, neither before nor now (--cloud)",
			},
		)
	case !v.in.CloudNow:
		v.add(
			v1.VerificationCheck{
				Name:     name,
				Outcome:  v1.Unknown,
				Summary:  "the cloud was looked at before the migration and not now",
				Problems: []string{name + " are unknown: give --cloud as apply had it"},
			},
		)
	case !v.in.CloudBefore:
		v.add(
			v1.VerificationCheck{
				Name:    name,
				Outcome: v1.Skip,
				Summary: "the cloud was not looked at before the migration: there is nothing to compare with",
			},
		)
	default:
		fact := map[string]string{"load-balancers": "cloud/loadbalancers", "routes": "cloud/routes"}[name]
		v.inventory(name, []string{objects}, fact, nil, good)
	}
}

func (v *verifier) disruption() {
	d := v.in.Report.Disruption
	if d == nil {
		v.add(
			v1.VerificationCheck{
				Name:    "disruption",
				Outcome: v1.Skip,
				Summary: "the run was not probed from this machine (apply --probe)",
			},
		)
		return
	}
	c := v1.VerificationCheck{
		Name:     "disruption",
		Outcome:  v1.Pass,
		Summary:  probe.Summary(*d),
		Problems: d.Reasons,
	}
	switch d.Result {
	case v1.DisruptionOver:
		c.Outcome = v1.Fail
	case v1.DisruptionUnknown:
		c.Outcome = v1.Unknown
	}
	v.add(c)
}

// objectives judges what managers have counted since the migration. What they did not keep during it is told, and no
// reason to take the migration back.
func (v *verifier) objectives() {
	c := v1.VerificationCheck{Name: "objectives", Outcome: v1.Pass}
	during, after := objectives.Window(v.in.Report.Objectives, v1.WindowDuring), objectives.Window(
		v.in.Report.Objectives,
		v1.WindowAfter,
	)
	if after == nil {
		c.Outcome = v1.Skip
		c.Summary = "no manager shows the series of KEP-2395 (errors and latency of node syncs) from the migration until now"
		v.add(c)
		return
	}
	c.Problems = objectives.Breaches(after.Series)
	c.Summary = "node syncs have failed and lasted no more since the migration than KEP-2395 allows"
	if len(c.Problems) > 0 {
		c.Outcome, c.Summary = v1.Fail, c.Problems[0]
	}
	if during != nil {
		if breaches := objectives.Breaches(during.Series); len(breaches) > 0 {
			c.Summary += "; during the migration: " + breaches[0]
		}
	}
	v.add(c)
}

// facts reports what is unknown and no check above has said.
func (v *verifier) facts() {
	c := v1.VerificationCheck{Name: "facts", Outcome: v1.Pass, Summary: "nothing else that was looked for is unknown"}
	said := map[string]bool{}
	for _, one := range v.out.Checks {
		for _, p := range one.Problems {
			said[p] = true
		}
	}
	for _, e := range v.in.Errors {
		sentence := e.Fact + " is unknown: " + e.Error
		if said[sentence] || e.Fact == "endpoints" || strings.HasPrefix(e.Fact, "volumes") && isComparedFact(e.Fact) {
			continue
		}
		c.Outcome, c.Problems = v1.Unknown, append(c.Problems, sentence)
	}
	if n := len(c.Problems); n > 0 {
		c.Summary = fmt.Sprintf("%s unknown", map[bool]string{true: "1 fact is", false: fmt.Sprint(n) + " facts are"}[n == 1])
	}
	v.add(c)
}

// isComparedFact reports whether a fact about volumes is one of those that the inventory compares, which say so
// themselves.
func isComparedFact(fact string) bool {
	return slices.Contains(
		[]string{"volumes", "volumes/claims", "volumes/persistentvolumes", "volumes/attachments", "volumes/csinodes"},
		fact,
	)
}
