package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/check/findings"
	"github.com/transplant-dev/transplant/internal/cli/console"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

// TestFlagsWithoutEffectAreRefused gives flags in combinations in which one of them was silently ignored once.
func TestFlagsWithoutEffectAreRefused(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null") // what gets as far as a cluster fails otherwise
	for _, tc := range []struct{ line, says string }{
		{"check --from-snapshot x.yaml --cloud=gce", "--cloud would have no effect: with --from-snapshot"},
		{"check --from-snapshot x.yaml --kubeconfig=a --context=b --host-access=none", "--context, --host-access, --kubeconfig would have no effect"},
		{"check --from-snapshot x.yaml --preview-cloud-config=c", "--preview-cloud-config would have no effect"},
		{"check --from-snapshot x.yaml --prove", "give --prove or --from-snapshot"},
		{"check --preview-cloud-config=c", "only --prove reads it"},
		{"snapshot --preview-cloud-config=c", "only --prove reads it"},
		{"check --list --strict", "--list judges nothing"},
		{"check --list --from-snapshot x.yaml", "--list judges nothing"},
		{"check --problems -o json", "-o json has every finding"},
		{"check --problems -v", "--verbose would have no effect: --problems leaves out what passed"},
		{"check --list --verbose", "--list judges nothing"},
		{"check --from-snapshot x.yaml --cloud-program=p", "--cloud-program would have no effect"},
		{"plan --from-snapshot x.yaml --cloud=aws", "--cloud would have no effect"},
		{"diff --from-snapshot x.yaml --host-access=none", "--host-access would have no effect"},
		{"explain LM-001 --strategy=downtime", "no cluster is judged without --from-snapshot"},
		{"explain LM-001 --from-snapshot x.yaml --cloud=aws", "--cloud would have no effect"},
		{"report --cloud-keys=k.json", "--cloud-keys would have no effect"},
		{"apply --probe-budget=5s", "--probe-budget would have no effect: nothing is probed without --probe"},
		{"rollback --probe-url=https://example.com/", "--probe-url would have no effect"},
		{"apply --probe-connect-to=a=127.0.0.1", "--probe-connect-to would have no effect"},
		{"status --as-group=ops", "--as-group needs --as"},
		{"status -q -v=2", "--verbose=2 would have no effect: --quiet writes no request"},
		{"fleet status --quiet --verbose=2", "--verbose=2 would have no effect: --quiet writes no request"},
		{"check -q -v=3 --from-snapshot x.yaml", "--verbose=2 would have no effect: --quiet writes no request"},
		{"check --from-snapshot x.yaml --as=jane --cluster=c", "--as, --cluster would have no effect: with --from-snapshot"},
		{"check --seed-namespace=cluster-x --as=jane", "--as would have no effect: the control plane runs as Deployments in a seed"},
		{"check --seed-direct", "--seed-direct needs --seed-namespace"},
		{"apply --part=finish", "--part needs --seed-namespace"},
		{"status --seed-context=s", "--seed-context needs --seed-namespace"},
		{"check --seed-namespace=cluster-x --shape=daemonset --cloud=aws", "--cloud, --shape would have no effect: the control plane runs as Deployments in a seed"},
		{"check --seed-namespace=cluster-x --from-snapshot=x.yaml --prove --cloud=aws", "--cloud, --from-snapshot, --prove would have no effect"},
		{"plan --seed-namespace=cluster-x --out=p.yaml --until=verify", "--out, --until would have no effect"},
		{"plan --seed-namespace=cluster-x --node-ipam=move --target-version=v1.27.4 --replace-hosts", "--replace-hosts, --target-version would have no effect"},
		{"apply --seed-namespace=cluster-x --probe --max-unavailable=3 --host-access=none", "--host-access, --max-unavailable, --probe would have no effect"},
		{"rollback --seed-namespace=cluster-x --without-host=a", "--without-host would have no effect"},
		{"status --seed-namespace=cluster-x --details=nodes", "--details would have no effect"},
		{"pause --seed-direct", "--seed-direct needs --seed-namespace"},
		{"unlock --seed-namespace=cluster-x --as=jane", "--as would have no effect"},
		{"timeline --seed-namespace=cluster-x --ownership-log=x", "--ownership-log would have no effect"},
	} {
		var out, narrated bytes.Buffer
		code := Run(t.Context(), strings.Fields(tc.line), console.Streams{In: strings.NewReader(""), Out: &out, Err: &narrated})
		if code != exitcode.Error && !(strings.HasPrefix(tc.line, "diff") && code == exitcode.DiffError) || !strings.Contains(narrated.String(), tc.says) ||
			out.Len() > 0 {
			t.Errorf("transplant %s: exit code %d\n%s%s\nwant: %s", tc.line, code, narrated.String(), out.String(), tc.says)
		}
	}
}

// TestAPlanHasItsOwnOptions: a flag that says otherwise is refused, one that says the same is not.
func TestAPlanHasItsOwnOptions(t *testing.T) {
	planned := options.Defaults(
		v1.Options{Strategy: planstep.LeaderMigration, Image: "registry.example.com/ccm:v1.26.0", MaxUnavailable: "2", Env: []string{"A=b"}},
	)
	for _, tc := range []struct{ line, says string }{
		{"", ""},
		{"--strategy=leader-migration --image=registry.example.com/ccm:v1.26.0 --max-unavailable=2 --ccm-env=A=b", ""},
		{"--lease-name=" + component.MigrationLease + " --retry-period=" + options.DefaultRetryPeriod, ""},
		{"--image=official", "--image would have no effect"},
		{"--strategy=downtime", "--strategy would have no effect: the plan has options of its own"},
		{"--image=other --shape=daemonset --keep-leader-migration", "--image, --keep-leader-migration, --shape would have no effect"},
		{"--ccm-env=A=c", "--ccm-env would have no effect"},
		{"--max-unavailable=3", "--max-unavailable would have no effect"},
	} {
		var f client.PlanOptions
		cmd := &cobra.Command{Use: "plan"}
		console.AddPlanFlags(&f, cmd)
		if err := cmd.ParseFlags(strings.Fields(tc.line)); err != nil {
			t.Fatal(err)
		}
		err := client.CheckAgainstPlan(f.Given, f.Options, planned, "the plan")
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%q: %v, want %q", tc.line, err, tc.says)
		}
		if err := client.CheckAgainstPlan(f.Given, f.Options, planned, "the plan", client.RunFlags...); strings.Contains(tc.line, "max-unavailable=3") && err != nil {
			t.Errorf("%q may be given for a run: %v", tc.line, err)
		}
	}
}

// TestEveryOptionOfAPlanIsCompared: a new flag of a plan has to be among those that are compared with a plan in a file.
func TestEveryOptionOfAPlanIsCompared(t *testing.T) {
	newExplain(console.New(console.Streams{})).Flags().VisitAll(func(f *pflag.Flag) {
		if _, ok := client.PlanOptionFlags[f.Name]; !ok && !slices.Contains([]string{"accept", "from-snapshot", "output"}, f.Name) {
			t.Errorf("--%s is an option of a plan and not among planOptionFlags", f.Name)
		}
	})
}

// TestNothingIsStartedWithoutAMigration: a pod on each host, and two minutes, were spent to say that there is no migration.
func TestNothingIsStartedWithoutAMigration(t *testing.T) {
	server := apitest.New(t)
	for _, cmd := range []string{"report", "verify", "rollback"} {
		fails(t, transplant(t, cmd, "--kubeconfig", server.Kubeconfig(t)), exitcode.Error, "no migration was started on this cluster")
	}
	if writes := server.Writes(); len(writes) > 0 {
		t.Errorf("something was written: %v", writes)
	}
}

// TestStrictSaysThatWarningsBlock: what exits with 3 does not say that nothing blocks.
func TestStrictSaysThatWarningsBlock(t *testing.T) {
	lenient := transplant(t, "check", "--from-snapshot", labSnapshot, "-q")
	if lenient.code != exitcode.OK || !strings.Contains(lenient.out, "nothing blocks") {
		t.Fatalf("without --strict: exit code %d\n%s", lenient.code, lenient.out)
	}
	strict := transplant(t, "check", "--from-snapshot", labSnapshot, "-q", "--strict")
	if strict.code != exitcode.Blocked || strings.Contains(strict.out, "nothing blocks") || !strings.Contains(strict.out, "blocked (--strict): 0 failed") ||
		!strings.Contains(strict.out, "next: transplant explain ") {
		t.Errorf("exit code %d\n%s", strict.code, strict.out)
	}
	machine := transplant(t, "check", "--from-snapshot", labSnapshot, "-q", "--strict", "-o", "json")
	var report v1.CheckReport
	if err := json.Unmarshal([]byte(machine.out), &report); err != nil || !report.Summary.Blocked || machine.code != exitcode.Blocked {
		t.Errorf("exit code %d, blocked %v, %v", machine.code, report.Summary.Blocked, err)
	}
	args := []string{"check", "--from-snapshot", labSnapshot, "-q", "--strict"}
	for _, f := range report.Findings {
		if f.Outcome == v1.Warn && f.Level != findings.LevelInfo {
			args = append(args, "--accept", f.Code+"=we know")
		}
	}
	if accepted := transplant(t, args...); accepted.code != exitcode.OK || !strings.Contains(accepted.out, "nothing blocks") {
		t.Errorf("all that warns is accepted, and what is told for information blocks: exit code %d\n%s", accepted.code, accepted.out)
	}
}
