package workload

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/transplant-dev/transplant/internal/component"
)

const canary = "Canary7hunter2"

// canaries are arguments that hold a secret; the last two are one.
var canaries = []string{
	"--v=2",
	"--oidc-client-secret=" + canary,
	"--api_key",
	canary,
	"--basic-auth=u:" + canary,
	"--endpoint=https://u:" + canary + "@cloud.example.com",
	"--db-pass",
	canary,
}

// secretLines are command lines of a component with secrets in them.
func secretLines(t *testing.T) map[string]CommandLine {
	t.Helper()
	args := append([]string{"--cloud-provider=aws", "--cloud-config", "/etc/cloud.conf"}, canaries...)
	wrap := func(fields any) CommandLine {
		raw, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		return CommandLine{[]string{"/http-prober"}, []string{"-endpoint", "https://a", "-command", string(raw)}}
	}
	return map[string]CommandLine{
		"a command":        {append([]string{component.KCM}, args...), nil},
		"command and args": {[]string{component.KCM, "--cloud-provider", "aws", "--token=" + canary}, canaries},
		"a seed's, in separate words": {
			[]string{component.KCM},
			slices.Concat(
				[]string{
					"--bind-address",
					"$(POD_IP)",
					"--controllers",
					"*,bootstrapsigner",
					"--use-service-account-credentials=true",
					"--flex-volume-plugin-dir=/flex",
				},
				canaries,
				[]string{"--cloud-provider", "aws", "--cloud-config", "/etc/cloud.conf"},
			),
		},
		"a wrapped command": wrap(struct {
			Command any `json:"command"`
			Args    any `json:"args"`
		}{"/" + component.KCM, args}),
		"wrapped, as a map": wrap(map[string]any{"command": "/" + component.KCM, "args": args}),
		"wrapped, in its way": {
			[]string{"/http-prober"},
			[]string{`-command={"args": ["--cloud-provider=aws", "--db-pass", "` + canary + `"], "command": "/` + component.KCM + `"}`},
		},
	}
}
