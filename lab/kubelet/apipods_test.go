package kubelet

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestAProcessListensOnTheAddressOfItsPod(t *testing.T) {
	for given, want := range map[string]string{
		"--bind-address=0.0.0.0":       "--bind-address=127.1.2.3",
		"0.0.0.0:8085":                 "127.1.2.3:8085",
		"--metrics-address=:8080":      "--metrics-address=127.1.2.3:8080",
		"--web=127.0.0.1:8443":         "--web=127.1.2.3:8443",
		"[::]:8080":                    "127.1.2.3:8080",
		`{"args":["-l","0.0.0.0:98"]}`: `{"args":["-l","127.1.2.3:98"]}`,
		"--image=registry:5000":        "--image=registry:5000",
		"https://0.0.0.0/x":            "https://0.0.0.0/x",
		`{"retries":100}`:              `{"retries":100}`,
		"--address=10.0.0.0":           "--address=10.0.0.0",
	} {
		c := &corev1.Container{Args: []string{given}}
		listenOn(c, "127.1.2.3")
		if c.Args[0] != want {
			t.Errorf("%q becomes %q, want %q", given, c.Args[0], want)
		}
	}
}

func TestFlagsAreAddedWhereTheyAreMissing(t *testing.T) {
	c := &corev1.Container{Command: []string{"kcm", "--a", "1"}}
	addFlags(c, []string{"--a=2", "--b=3"})
	if len(c.Command) != 4 || c.Command[3] != "--b=3" {
		t.Errorf("command is %q", c.Command)
	}
	c = &corev1.Container{Command: []string{"kcm"}, Args: []string{"--b=1"}}
	addFlags(c, []string{"--a=2", "--b=3"})
	if len(c.Args) != 2 || c.Args[1] != "--a=2" {
		t.Errorf("args are %q", c.Args)
	}
}

func TestAPodThatGoesSaysFirstHowItsContainersEnded(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"}}
	client := fake.NewClientset(pod)
	s := &podStatuses{client: client, log: slog.New(slog.DiscardHandler), wake: make(chan struct{}, 1), wanted: map[string]*podView{}}
	s.claim(pod)
	s.show(
		"n/p",
		corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "1"}}}},
		},
	)
	s.remove("n/p") // before what was shown is written
	if s.write(t.Context()) {
		t.Error("it has to be tried again")
	}
	var did []string
	for _, a := range client.Actions() {
		if patch, ok := a.(clienttesting.PatchAction); ok &&
			!strings.Contains(string(patch.GetPatch()), `"terminated":{"exitCode":0,"startedAt":null,"finishedAt":null,"containerID":"1"}`) {
			t.Errorf("the status that was written is %s", patch.GetPatch())
		}
		did = append(did, a.GetVerb()+" "+a.GetResource().Resource+"/"+a.GetSubresource())
	}
	if diff := cmp.Diff([]string{"patch pods/status", "delete pods/"}, did); diff != "" {
		t.Errorf("wanted (-), got (+):\n%s", diff)
	}
}
