package plan

import (
	"strings"
	"testing"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/plan/invariant"
	"github.com/transplant-dev/transplant/internal/plan/outline"
	"github.com/transplant-dev/transplant/internal/plan/planstep"
)

const (
	unitFile   = "/usr/lib/systemd/system/kubelet.service"
	gpuDropIn  = "/etc/systemd/system/kubelet.service.d/20-gpu.conf"
	ubuntu     = "Ubuntu 22.04.3 LTS"
	bottle     = "Bottlerocket OS 1.14.1"
	containerd = "containerd://1.6.8"
)

// kindsFleet is a control-plane host and four workers of one kind; change is given each worker with its number.
func kindsFleet(change func(number int, h *v1.Host, n *v1.Node)) *v1.Snapshot {
	s := fleet(4)
	for i := 1; i <= 4; i++ {
		h, n := &s.Hosts[i], &s.Nodes[i]
		n.OSImage, n.ContainerRuntime, n.Labels[planstep.ArchLabel] = ubuntu, containerd, "amd64"
		for _, at := range []string{defaults, unitFile} {
			h.Kubelet.Files = append(h.Kubelet.Files, v1.File{Path: at, Present: true, SHA256: sum(at)})
		}
		change(i, h, n)
	}
	return s
}

// orderOfWorkers are the workers of a plan in its order, the canaries marked with ! and those of batches with the batch's number.
func orderOfWorkers(p *v1.Plan) string {
	var out []string
	for _, s := range p.Steps {
		number, is := strings.CutPrefix(s.ID, "external/kubelet@worker-")
		switch {
		case !is:
		case s.Canary:
			out = append(out, number+"!")
		default:
			out = append(out, number+strings.Replace(s.Batch, "kubelets-", " in ", 1))
		}
	}
	return strings.Join(out, ", ")
}

func TestTheFirstWorkerOfEachKindIsChangedAlone(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(number int, h *v1.Host, n *v1.Node)
		want   string
		pauses string            // behind which worker --pause-after-canary pauses
		with   map[string]string // what a worker is the first with; nil where there is one kind
	}{
		{"all are alike", func(int, *v1.Host, *v1.Node) {}, "1!, 2 in 1, 3 in 1, 4 in 2", "1", nil},
		{"two architectures", func(i int, _ *v1.Host, n *v1.Node) {
			if i > 2 {
				n.Labels[planstep.ArchLabel] = "arm64"
			}
		}, "1!, 3!, 2 in 1, 4 in 1", "3", map[string]string{"1": "amd64", "3": "arm64"}},
		{"an architecture that is not known", func(i int, _ *v1.Host, n *v1.Node) {
			if i == 4 {
				delete(n.Labels, planstep.ArchLabel)
			}
		}, "1!, 4!, 2 in 1, 3 in 1", "4", map[string]string{"1": "amd64", "4": "an unknown architecture"}},
		{"two versions of the kubelet", func(i int, h *v1.Host, _ *v1.Node) {
			if i == 2 {
				h.Kubelet.Version = "v1.26.9"
			}
		}, "1!, 2!, 3 in 1, 4 in 1", "2", map[string]string{"1": "kubelet v1.26.0", "2": "kubelet v1.26.9"}},
		{"two patch releases of a runtime", func(i int, _ *v1.Host, n *v1.Node) {
			if i == 2 {
				n.ContainerRuntime = "containerd://1.6.31-0ubuntu1"
			}
		}, "1!, 2 in 1, 3 in 1, 4 in 2", "1", nil},
		{"runtimes of three kinds, and a new image with one", func(i int, _ *v1.Host, n *v1.Node) {
			switch i {
			case 3:
				n.ContainerRuntime = "containerd://1.7.0"
			case 4:
				n.ContainerRuntime, n.OSImage = "cri-o://1.26.1", bottle
			}
		}, "1!, 3!, 4!, 2 in 1", "4", map[string]string{
			"1": "containerd 1.6 and " + ubuntu, "3": "containerd 1.7 and " + ubuntu, "4": "cri-o 1.26 and " + bottle,
		}},
		{"every worker is another kind", func(i int, _ *v1.Host, n *v1.Node) { n.OSImage = "Linux " + strings.Repeat("I", i) },
			"1!, 2!, 3!, 4!", "4", map[string]string{"2": "Linux II"}},
		{"a drop-in on one of them", func(i int, h *v1.Host, _ *v1.Node) {
			if i == 2 {
				h.Kubelet.Files = append(h.Kubelet.Files, v1.File{Path: gpuDropIn, Present: true, SHA256: sum(gpuDropIn)})
			}
		}, "1!, 2!, 3 in 1, 4 in 1", "2", map[string]string{"1": "a kubelet that reads no further file", "2": "a kubelet that also reads " + gpuDropIn}},
		{"a file that is not there", func(i int, h *v1.Host, _ *v1.Node) {
			if i == 2 {
				h.Kubelet.Files = append(h.Kubelet.Files, v1.File{Path: gpuDropIn})
			}
		}, "1!, 2 in 1, 3 in 1, 4 in 2", "1", nil},
		{"files with the names of their hosts", func(_ int, h *v1.Host, _ *v1.Node) {
			at := "/etc/kubernetes/kubelet-" + h.Name + ".env"
			h.Kubelet.Files = append(h.Kubelet.Files, v1.File{Path: at, Present: true, SHA256: sum(at)})
		}, "1!, 2 in 1, 3 in 1, 4 in 2", "1", nil},
		{"the flag is in another file", func(i int, h *v1.Host, _ *v1.Node) {
			if i == 4 {
				h.Kubelet.Sources = map[string]string{"cloud-provider": defaults}
			}
		}, "1!, 4!, 2 in 1, 3 in 1", "4", map[string]string{"4": "kubelet flags in " + defaults}},
		{"a worker with Windows that keeps its kubelet", func(i int, h *v1.Host, n *v1.Node) {
			if i == 1 {
				n.OS = "windows"
				delete(h.Kubelet.Flags, "cloud-provider")
			}
		}, "2!, 3 in 1, 4 in 1", "2", nil},
		{"an image with characters that are not seen", func(i int, _ *v1.Host, n *v1.Node) {
			if i == 2 {
				n.OSImage = "Linux\u202e\n\u200b" + strings.Repeat("x", 500)
			}
		}, "1!, 2!, 3 in 1, 4 in 1", "2", map[string]string{"1": ubuntu, "2": "Linux???" + strings.Repeat("x", 92) + "..."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := kindsFleet(c.change)
			p := mustMake(t, s, v1.Options{MaxUnavailable: "2", PauseAfterCanary: true})
			if have := orderOfWorkers(p); have != c.want {
				t.Errorf("order %s, want %s", have, c.want)
			}
			if p.Until != "external/kubelet@worker-"+c.pauses {
				t.Errorf("it pauses behind %q, want worker-%s", p.Until, c.pauses)
			}
			for number, words := range c.with {
				step := find(t, p, "external/kubelet@worker-"+number)
				if text := "; it is the first worker with " + words + ", and when"; !strings.Contains(step.Why, text) {
					t.Errorf("worker-%s: %q does not say %q", number, step.Why, text)
				}
				if !strings.HasSuffix(step.Title, " external, the first of its kind") {
					t.Errorf("worker-%s: the title is %q", number, step.Title)
				}
			}
			if noted := strings.Contains(strings.Join(p.Effects, "\n"), "the first of each changes alone"); noted != (c.with != nil) {
				t.Errorf("the effects name kinds: %v\n%s", noted, strings.Join(p.Effects, "\n"))
			}
			if err := invariant.CheckWellFormed(p); err != nil {
				t.Errorf("it would be refused from a file: %v", err)
			}
		})
	}
}

// TestAPlanWithOneCanaryIsStillRead: earlier versions had one, whatever the workers were. Of a snapshot such a plan is not made any more.
func TestAPlanWithOneCanaryIsStillRead(t *testing.T) {
	s := kindsFleet(func(i int, _ *v1.Host, n *v1.Node) {
		if i == 3 {
			n.Labels[planstep.ArchLabel] = "arm64"
		}
	})
	p := mustMake(t, s, v1.Options{MaxUnavailable: "2"})
	move(t, p, "external/kubelet@worker-2", "external/kubelet@worker-3")
	second := find(t, p, "external/kubelet@worker-3")
	second.Canary, second.Batch = false, "kubelets-1"
	find(t, p, "external/kubelet@worker-2").Batch, find(t, p, "external/kubelet@worker-4").Batch = "kubelets-1", "kubelets-2"
	if err := invariant.CheckWellFormed(p); err != nil {
		t.Errorf("it is refused: %v", err)
	}
	if last := planstep.LastCanary(p); last != "external/kubelet@worker-1" {
		t.Errorf("it pauses behind %q", last)
	}
	const broken = "step external/kubelet@worker-3 is the first of its kind and is not watched as such"
	if err := invariant.Verify(p, s); err == nil || !strings.Contains(err.Error(), broken) {
		t.Errorf("with its snapshot: %v", err)
	}
	_, differences, err := FindDifferences(p, s)
	if all := strings.Join(differences, "\n"); err != nil || !strings.Contains(all, "step external/kubelet@worker-3: canary: nothing instead of true") {
		t.Errorf("differences %q, %v", all, err)
	}
}

func TestEachCanaryIsWatchedInTheEstimate(t *testing.T) {
	seconds := func(kinds int) float64 {
		s := kindsFleet(func(i int, _ *v1.Host, n *v1.Node) { n.OSImage = strings.Repeat("I", min(i, kinds)) })
		return outline.Of(mustMake(t, s, v1.Options{Soak: "10m"})).High.Seconds()
	}
	if one, three := seconds(1), seconds(3); int(three-one+0.5) != 2*2*600 { // High is twice the estimate
		t.Errorf("with one kind it takes up to %.0f s, with three up to %.0f s", one, three)
	}
}
