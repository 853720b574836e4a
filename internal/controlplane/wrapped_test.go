package controlplane

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/transplant-dev/transplant/api/transplant/v1alpha1"
	"github.com/transplant-dev/transplant/internal/controlplane/commandline"
)

var loopsOff = []v1.Edit{{Op: v1.EditSetFlag, Name: "controllers", Value: "*,-service"}}

func TestTheCommandThatAWrapperStartsIsReadAndEdited(t *testing.T) {
	for name, c := range map[string]struct {
		command, args, seen, want []string
	}{
		"plain": {
			command: []string{"/usr/local/bin/kube-controller-manager"}, args: []string{"--cloud-provider", "aws", "--controllers", "*"},
			seen: []string{"/usr/local/bin/kube-controller-manager", "--cloud-provider", "aws", "--controllers", "*"},
			want: []string{"--cloud-provider", "aws", "--controllers", "*,-service"},
		},
		"wrapped, two words": {
			command: []string{"/http-prober-bin/http-prober"},
			args: []string{"-endpoint", "https://apiserver:6443/healthz", "-insecure", "-retries", "100", "-command",
				`{"command":"/usr/local/bin/kube-controller-manager","args":["--cloud-provider","aws","--controllers=*","--root-ca-file=/a&b<c>"]}`},
			seen: []string{"/usr/local/bin/kube-controller-manager", "--cloud-provider", "aws", "--controllers=*", "--root-ca-file=/a&b<c>"},
			want: []string{"-endpoint", "https://apiserver:6443/healthz", "-insecure", "-retries", "100", "-command",
				`{"command":"/usr/local/bin/kube-controller-manager","args":["--cloud-provider","aws","--controllers=*,-service","--root-ca-file=/a&b<c>"]}`},
		},
		"wrapped, one word, with a field that is not known": {
			command: []string{"/http-prober-bin/http-prober"},
			args:    []string{`-command={"args":["--controllers","*"],"command":"kube-controller-manager","wait":{"b":1}}`},
			seen:    []string{"kube-controller-manager", "--controllers", "*"},
			want:    []string{`-command={"command":"kube-controller-manager","args":["--controllers","*,-service"],"wait":{"b":1}}`},
		},
		"a flag of that name with another value": {
			command: []string{"kube-controller-manager"}, args: []string{"--command=run", "--controllers=*"},
			seen: []string{"kube-controller-manager", "--command=run", "--controllers=*"},
			want: []string{"--command=run", "--controllers=*,-service"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.seen, commandline.Unwrapped(append(append([]string(nil), c.command...), c.args...))); diff != "" {
				t.Errorf("seen (-want +got):\n%s", diff)
			}
			command, args, err := commandline.ApplyArguments(c.command, c.args, loopsOff)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([][]string{c.command, c.want}, [][]string{command, args}); diff != "" {
				t.Errorf("edited (-want +got):\n%s", diff)
			}
			again, argsAgain, err := commandline.ApplyArguments(command, args, loopsOff)
			if err != nil || !cmp.Equal(command, again) || !cmp.Equal(args, argsAgain) {
				t.Errorf("edited twice: %v %v, %v", again, argsAgain, err)
			}
		})
	}
}
