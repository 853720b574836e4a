package trial

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/cloudconfig"
	"github.com/transplant-dev/transplant/internal/controlplane"
	"github.com/transplant-dev/transplant/internal/plan/layout"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
	"github.com/transplant-dev/transplant/lab/awssim"
	"github.com/transplant-dev/transplant/lab/awssim/ec2"
	"github.com/transplant-dev/transplant/lab/cluster"
	"github.com/transplant-dev/transplant/lab/gcelab"
)

// TestHostsAreReplacedThereAndBack takes the main procedure of the leader migration document. Hosts of the next version join with the external manager, and
// those of the old one leave. The one who makes hosts and takes them down knows nothing but what apply prints.
func TestHostsAreReplacedThereAndBack(t *testing.T) {
	long(t)
	replacedAndBack(t, nextVersion, cloudTrial{
		Options: Options{Flags: MigrationFlags()}, verify: []string{"--cloud", Cloud}, moving: []string{"service", "route", "cloud-node-lifecycle"},
	})
}

// TestHostsOnGCEAreReplacedByTheFirstVersionWithoutInTreeCodeThereAndBack is the last upgrade that KEP-2395 is about, by the main procedure.
func TestHostsOnGCEAreReplacedByTheFirstVersionWithoutInTreeCodeThereAndBack(t *testing.T) {
	long(t)
	replacedAndBack(t, withoutInTree, onGCE(gcelab.Kind{}, "service", "route", "cloud-node-lifecycle"))
}

func replacedAndBack(t *testing.T, next string, of cloudTrial) {
	t.Helper()
	const hosts = 2
	of.ControlPlanes, of.Spares, of.Workers = hosts, 2*hosts, 1
	lab := ownLab(t, of.Options)
	flags := of.Flags
	if of.more != nil {
		more, verify := of.more(t, lab)
		flags, of.verify = append(flags, more...), append(of.verify, verify...)
	}
	flags = slices.Concat(flags, of.verify, []string{"--replace-hosts", "--target-version", next})
	provide(t, lab, next)
	newOperator(t, lab).awaitOwners(t, inTree(of.moving...)) // where it was built first, the machine was busy for minutes
	var s shown
	r := of.runOf(lab, planstep.LeaderMigration)
	r.Shape = replacedHosts
	defer r.keep(t, of.moving, &s)
	nodes, cloud := workers(t, lab), lasting(t, lab)

	cli(t, lab, 0, nil, append([]string{"check"}, flags...)...)
	p := &platform{lab: lab, version: next}
	out := watched(t, lab, func() { p.follow(t, append([]string{"apply", "--yes"}, flags...)...) })
	s.noteThere(out)
	ofVersion(t, lab, next)
	newOperator(t, lab).awaitOwners(t, external(of.moving...))
	cli(t, lab, 0, nil, append([]string{"verify"}, of.verify...)...)
	check := func() {
		t.Helper()
		if now := workers(t, lab); !slices.Equal(now, nodes) {
			t.Errorf("the workers are %q, they were %q", now, nodes)
		}
		now := lasting(t, lab)
		if now != cloud {
			t.Errorf("the cloud is not as it was:\n%s", FirstDifference(cloud, now))
		}
		s.recreated = max(s.recreated, changedObjects(t, cloud, now))
	}
	check()

	back := watched(t, lab, func() { p.follow(t, append([]string{"rollback", "--yes"}, of.verify...)...) })
	s.noteBack(back)
	ofVersion(t, lab, lab.Kind().Version())
	newOperator(t, lab).awaitOwners(t, inTree(of.moving...))
	check()
	if n := len(lab.ControlPlanes()); n != hosts {
		t.Errorf("%d control-plane hosts, there were %d", n, hosts)
	}
	s.isWhole = true
}

// workers are the nodes that nobody replaces.
func workers(t *testing.T, lab *Trial) []string {
	t.Helper()
	return slices.DeleteFunc(identities(t, lab), func(n string) bool {
		return !slices.ContainsFunc(lab.Workers(), func(h *cluster.Host) bool { return strings.HasPrefix(n, h.NodeName+" ") })
	})
}

// lasting is what the cloud holds, without the control-plane hosts and the routes to them.
func lasting(t *testing.T, lab *Trial) string {
	t.Helper()
	state := lab.Cloud().State()
	switch s := state.(type) {
	case awssim.State:
		for _, h := range lab.Machines() {
			delete(s.EC2.Instances, h.InstanceID)
		}
		for _, table := range s.EC2.RouteTables {
			table.Routes = slices.DeleteFunc(table.Routes, func(r ec2.Route) bool {
				return slices.ContainsFunc(lab.Machines(), func(h *cluster.Host) bool { return h.InstanceID == r.Instance })
			})
		}
	case map[string]any: // of Compute Engine: each object by its path
		for path, one := range s {
			o, _ := one.(map[string]any)
			if slices.ContainsFunc(lab.Machines(), func(h *cluster.Host) bool { return isOfInstance(path, o, h.NodeName) }) {
				delete(s, path)
			}
		}
	default:
		t.Fatalf("nobody knows which part of a %T lasts", s)
	}
	data, err := json.MarshalIndent(state, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// isOfInstance reports whether an object of Compute Engine is an instance, or a route to it.
func isOfInstance(path string, o map[string]any, name string) bool {
	hop, _ := o["nextHopInstance"].(string)
	return strings.HasSuffix(path, "/instances/"+name) || strings.HasSuffix(hop, "/instances/"+name)
}

// Of the routes, those to the hosts that are replaced are left out, and no other ones.
func TestWhichRoutesLast(t *testing.T) {
	to := func(name string) map[string]any {
		return map[string]any{"nextHopInstance": "https://x/zones/z/instances/" + name}
	}
	for name, c := range map[string]struct {
		path string
		o    map[string]any
		want bool
	}{
		"the instance":       {"zones/z/instances/cp-1", nil, true},
		"another instance":   {"zones/z/instances/cp-10", nil, false},
		"its route":          {"global/routes/lab-1", to("cp-1"), true},
		"a worker's route":   {"global/routes/lab-2", to("worker-1"), false},
		"a route of no node": {"global/routes/lab-3", map[string]any{"nextHopGateway": "g"}, false},
		"a forwarding rule":  {"regions/r/forwardingRules/cp-1", nil, false},
	} {
		if got := isOfInstance(c.path, c.o, "cp-1"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// platform makes control-plane hosts and takes them down, as apply and rollback say.
type platform struct {
	lab     *Trial
	version string // of the new hosts
	// isNew reports whether a host has joined that the command which runs does not take for one of the control plane: nothing but its name proves it.
	isNew bool
	// next is what a host of the next version has, once that was told.
	next *instructions
	// steps are those of the plan. A run that goes on with it does not print it again.
	steps map[string]v1.Step
}

// follow runs apply or rollback until it ends, and does what it waits for. It is run again where it says so, and where a new host has to be named.
func (p *platform) follow(t *testing.T, args ...string) {
	t.Helper()
	said := ""
	for range 8 {
		p.isNew = false
		var code int
		code, said = p.once(t, args...)
		switch {
		case code == 0:
			return
		case p.isNew:
			continue
		}
		if !strings.Contains(said, "run the same command again") {
			t.Fatalf("transplant %s ended with exit code %d:\n%s", args[0], code, tail(said, 40))
		}
	}
	t.Fatalf("transplant %s asks to be run again and again:\n%s", args[0], tail(said, 40))
}

func (p *platform) once(t *testing.T, args ...string) (code int, said string) {
	t.Helper()
	cmd := p.lab.Command(append(args, "-o", "jsonl", "--state-dir", p.lab.StateDir())...)
	var narration strings.Builder
	cmd.Stderr = &narration
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }() // it has ended, unless the test has failed on the way
	acted := map[string]bool{}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e v1.RunEvent
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%v in line %s", err, lines.Text())
		}
		switch {
		case e.Type == v1.EventPlan:
			p.steps = map[string]v1.Step{}
			for _, s := range e.Plan.Steps {
				p.steps[s.ID] = s
			}
		case e.Type == v1.EventStepProgress && e.Waiting && !acted[e.Step.ID]:
			s, isKnown := p.steps[e.Step.ID]
			if !isKnown {
				t.Fatalf("step %s is not in the plan", e.Step.ID)
			}
			if s.Await != nil {
				acted[s.ID] = true
				t.Logf("%s waits: %s", s.ID, e.Message)
				p.act(t, s)
			}
			if p.isNew {
				if err := cmd.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
			}
		default: // what happens anyway
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), narration.String()
}

// act does what a step waits for.
func (p *platform) act(t *testing.T, s v1.Step) {
	t.Helper()
	told := read(t, s.Await.Instructions)
	const kcm, ccm = cluster.ControllerManager, cluster.CloudControllerManager
	off := []v1.Edit{{Op: v1.EditUnsetFlag, Name: "enable-leader-migration"}, {Op: v1.EditUnsetFlag, Name: "leader-migration-config"}}
	switch id := s.ID; {
	case id == "await/leader-migration":
		p.restartEach(t, kcm, told.files, append(told.edits(kcm), mount(v1.EditAddHostPath, layout.KCMMigration)))
	case strings.HasPrefix(id, "await/in/"+kcm+"/"):
		if p.next == nil {
			p.next = &told
		}
		p.join(t, p.version, *p.next)
	case strings.HasPrefix(id, "await/in/"+ccm+"/"): // it comes with the host
	case strings.Contains(id, "await/out/"):
		p.leave(t, s.Await.NodeGone)
	case id == "await/finish":
		p.restartEach(t, ccm, nil, append(off, mount(v1.EditRemoveHostPath, layout.CCMMigration)))
		p.remove(t, layout.CCMMigration)
	case id == "again/await/leader-migration":
		p.restartEach(t, ccm, map[string]hostFile{layout.CCMMigration: p.next.files[layout.CCMMigration]}, []v1.Edit{
			{Op: v1.EditSetFlag, Name: "enable-leader-migration", Value: "true"},
			{Op: v1.EditSetFlag, Name: "leader-migration-config", Value: layout.CCMMigration},
			mount(v1.EditAddHostPath, layout.CCMMigration),
		})
	case strings.HasPrefix(id, "undo/await/in/"):
		p.join(t, p.lab.Kind().Version(), told)
	case id == "undo/await/leader-migration":
		p.restartEach(t, kcm, nil, append(off, mount(v1.EditRemoveHostPath, layout.KCMMigration)))
		p.remove(t, layout.KCMMigration)
	default:
		t.Fatalf("nobody knows how to do step %s: %v", id, s.Await.Instructions)
	}
}

// migrationVolume is that of the leader migration config.
const migrationVolume = "transplant-leader-migration"

func mount(op v1.EditOp, path string) v1.Edit {
	return v1.Edit{Op: op, Name: migrationVolume, Value: path, PathType: string(corev1.HostPathFile)}
}

// join makes a host as it was told.
func (p *platform) join(t *testing.T, version string, told instructions) {
	t.Helper()
	h, err := p.lab.Spare()
	if err != nil {
		t.Fatal(err)
	}
	m := cluster.Machine{Version: version, Flags: told.flags, Manifests: map[string]string{}}
	if f, isTold := told.files[layout.CCMManifest]; isTold {
		m.Manifests[layout.CCMManifest] = strings.ReplaceAll(f.text, addressIn(t, f.text), h.Address)
	}
	if _, isTold := told.files[layout.KCMMigration]; isTold {
		m.Mounts = map[string]string{migrationVolume: layout.KCMMigration}
	}
	m.Prepare = func(h *cluster.Host) error {
		if p.lab.AWS() != nil {
			if err := putCredentials(h); err != nil {
				return err
			}
		}
		for path, f := range told.files {
			if path == layout.CCMManifest {
				continue
			}
			if err := p.prepare(t, h, path, f); err != nil {
				return err
			}
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.lab.Join(ctx, h, m); err != nil {
		t.Fatal(err)
	}
	p.isNew = h.NodeName == h.Name // see namedHosts
	t.Logf("%s joined with %s", h.Name, version)
}

// prepare puts a file on a host that joins. What the text only describes is made of the host's own files.
func (p *platform) prepare(t *testing.T, h *cluster.Host, path string, f hostFile) error {
	t.Helper()
	data := []byte(f.text)
	switch path {
	case layout.CCMCloudConf:
		old, err := os.ReadFile(h.Path("/etc/kubernetes/cloud.conf"))
		if err != nil {
			return err
		}
		derived, err := cloudconfig.Derive(p.lab.Kind().Provider(), old)
		if err != nil {
			return err
		}
		want := cmp.Or(strings.Join(derived.Changes, "\n"), "(nothing: the external provider reads it as it is)")
		if told := strings.TrimSpace(f.text); told != want {
			return fmt.Errorf("the changes of the cloud config are %s\nand these were told: %s", want, told)
		}
		data = derived.Data
	case layout.CCMKubeconfig:
		var err error
		if data, err = withToken(h.Path(layout.KCMKubeconfig), strings.TrimPrefix(layout.CCMToken, "/etc/kubernetes/")); err != nil {
			return err
		}
	case layout.CCMToken:
		words := strings.Fields(f.text)
		if len(words) == 0 || words[0] != "kubectl" {
			return fmt.Errorf("the token is what this prints: %q", f.text)
		}
		cmd := exec.CommandContext(t.Context(), p.lab.Kubectl(), words[1:]...)
		cmd.Env = append(os.Environ(), p.lab.Env()...)
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("running %q: %w", f.text, err)
		}
		data = []byte(strings.TrimSpace(string(out)))
	default: // its content was told
	}
	if err := os.MkdirAll(filepath.Dir(h.Path(path)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(h.Path(path), data, f.mode)
}

// leave takes the host of a node down.
func (p *platform) leave(t *testing.T, node string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, h := range p.lab.ControlPlanes() {
		if h.NodeName != node {
			continue
		}
		p.stopManagers(t, h)
		if err := p.lab.Leave(ctx, h); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s left", h.Name)
		return
	}
	t.Fatalf("there is no host of node %s", node)
}

// stopManagers ends a host's kube-controller-manager before the host goes, and waits until another one has its lease. It then ends the
// cloud-controller-manager, which can give its leases up only while its API server is there.
func (p *platform) stopManagers(t *testing.T, h *cluster.Host) {
	t.Helper()
	op := newOperator(t, p.lab)
	managers, err := op.managers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leads := slices.ContainsFunc(managers, func(m v1.Manager) bool {
		return m.Host == h.Name && m.Component == cluster.ControllerManager && slices.Contains(m.Leads, cluster.ControllerManager)
	})
	holder := func() string {
		l, err := op.leases().Get(t.Context(), cluster.ControllerManager, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return ptr.Deref(l.Spec.HolderIdentity, "")
	}
	before := holder()
	op.remove(t, h.Name, controlplane.ManifestDir+"/"+cluster.ControllerManager+".yaml")
	if leads {
		await(t, "another holder of lease "+cluster.ControllerManager, func(context.Context) (string, error) {
			if now := holder(); now == "" || now == before {
				return "it is " + now, nil
			}
			return "", nil
		})
	}
	const manifest = controlplane.ManifestDir + "/" + cluster.CloudControllerManager + ".yaml"
	if _, isThere := op.read(t, h.Name, manifest); !isThere {
		return
	}
	op.remove(t, h.Name, manifest)
	await(t, "the end of the "+cluster.CloudControllerManager+" on "+h.Name, func(ctx context.Context) (string, error) {
		if left, err := op.hosts[h.Name].Processes(ctx, cluster.CloudControllerManager); err != nil || len(left) > 0 {
			return "it runs", err
		}
		return "", nil
	})
}

// restartEach gives each host in turn new files and its manager new flags, the one that runs the loops last. It waits for each until it is Ready again.
func (p *platform) restartEach(t *testing.T, component string, files map[string]hostFile, edits []v1.Edit) {
	t.Helper()
	op := newOperator(t, p.lab)
	hosts := p.lab.ControlPlanes()
	leader := op.awaitLeader(t, component, component)
	slices.SortStableFunc(hosts, func(a, b *cluster.Host) int { return strings.Compare(last(a, leader), last(b, leader)) })
	for _, h := range hosts {
		for path, f := range files {
			op.write(t, h.Name, path, []byte(f.text), f.mode)
		}
		path := controlplane.ManifestDir + "/" + component + ".yaml"
		f, isThere := op.read(t, h.Name, path)
		if !isThere {
			t.Fatalf("host %s has no %s", h.Name, path)
		}
		data, err := controlplane.Apply(f.Data, edits)
		if err != nil {
			t.Fatal(err)
		}
		old := op.processes(t, component)
		op.write(t, h.Name, path, data, f.Mode)
		await(t, "a new "+component+" on "+h.Name, func(context.Context) (string, error) {
			for _, pod := range h.Kubelet.Pods() {
				if !strings.HasPrefix(pod.Name, component) || !pod.Ready {
					continue
				}
				for key := range op.processes(t, component) {
					if !old[key] {
						return "", nil
					}
				}
			}
			return "none is Ready", nil
		})
	}
}

// last sorts the leader behind the others.
func last(h *cluster.Host, leader string) string {
	if h.Name == leader {
		return "1"
	}
	return "0"
}

// remove takes a file away that no manager has any longer.
func (p *platform) remove(t *testing.T, path string) {
	t.Helper()
	for _, h := range p.lab.ControlPlanes() {
		if err := os.Remove(h.Path(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// instructions are what a step tells the one who makes hosts.
type instructions struct {
	flags map[string]map[string]*string // by component; nil for one that is not to be given
	files map[string]hostFile           // by path
}

type hostFile struct {
	text string
	mode fs.FileMode
}

func (i instructions) edits(component string) (out []v1.Edit) {
	for name, value := range i.flags[component] {
		if value == nil {
			out = append(out, v1.Edit{Op: v1.EditUnsetFlag, Name: name})
			continue
		}
		out = append(out, v1.Edit{Op: v1.EditSetFlag, Name: name, Value: *value})
	}
	return out
}

var (
	ofFlags = regexp.MustCompile(`^flags of (?:the )?([a-z-]+)[^:]*:(.*)$`)
	ofFile  = regexp.MustCompile(`^file ([^ :]+)(?: \(mode (\d+))?`)
	flag1   = regexp.MustCompile(`(no )?--([a-z-]+)(?:=([^ ]*[^ ,]))?`)
)

// read reads what a step prints: flags behind or below "flags of", a file's content below "file".
func read(t *testing.T, lines []string) instructions {
	t.Helper()
	out := instructions{flags: map[string]map[string]*string{}, files: map[string]hostFile{}}
	component, file := "", ""
	flags := func(text string) {
		text, _, _ = strings.Cut(text, "(") // what holds for other versions
		for _, m := range flag1.FindAllStringSubmatch(text, -1) {
			if out.flags[component] == nil {
				out.flags[component] = map[string]*string{}
			}
			if out.flags[component][m[2]] = nil; m[1] == "" {
				out.flags[component][m[2]] = new(m[3])
			}
		}
	}
	for _, line := range lines {
		inner, isInner := strings.CutPrefix(line, "    ")
		switch {
		case isInner && file != "":
			f := out.files[file]
			f.text += inner + "\n"
			out.files[file] = f
		case isInner && component != "" && !strings.HasPrefix(inner, "where "):
			flags(inner)
		case isInner: // where kubeadm takes the flags from
		default:
			component, file = "", ""
			if m := ofFlags.FindStringSubmatch(line); m != nil {
				component = m[1]
				flags(m[2])
				if strings.Contains(m[2], "the gates ") { // the lab's kubelets have no others
					out.flags[component]["feature-gates"] = nil
				}
			} else if m := ofFile.FindStringSubmatch(line); m != nil {
				mode, err := strconv.ParseUint(cmp.Or(m[2], "0644"), 8, 32)
				if err != nil {
					t.Fatal(err)
				}
				file = m[1]
				out.files[file] = hostFile{mode: fs.FileMode(mode)}
			}
		}
	}
	return out
}

var bindAddress = regexp.MustCompile(`--bind-address=(\S+)`)

func addressIn(t *testing.T, manifest string) string {
	t.Helper()
	m := bindAddress.FindStringSubmatch(manifest)
	if m == nil {
		t.Fatalf("the manifest has no --bind-address:\n%s", manifest)
	}
	return m[1]
}

// withToken is a kubeconfig with the server and the authority of another one, whose user has a token from a file. The path is relative to the kubeconfig: the
// lab rewrites the paths on a command line and not those within files.
func withToken(file, tokenFile string) ([]byte, error) {
	c, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return nil, err
	}
	for name := range c.AuthInfos {
		c.AuthInfos[name] = &clientcmdapi.AuthInfo{TokenFile: tokenFile}
	}
	return clientcmd.Write(*c)
}
