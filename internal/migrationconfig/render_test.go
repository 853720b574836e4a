package migrationconfig

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/transplant-dev/transplant/internal/controllernames"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

func TestRenderedFiles(t *testing.T) {
	for _, c := range []struct {
		golden     string
		component  controllernames.Component
		minor      int
		loops      []controllernames.Loop
		leaderName string
	}{
		{"kcm-1.21.yaml", kcm, 21, controllernames.CloudLoops, ""},
		{"kcm-1.23.yaml", kcm, 23, controllernames.CloudLoops, ""},
		{"kcm-1.26.yaml", kcm, 26, controllernames.CloudLoops, ""},
		{"kcm-1.30.yaml", kcm, 30, controllernames.CloudLoops, ""},
		{"ccm-1.37.yaml", ccm, 37, controllernames.CloudLoops, ""},
		{"ccm-1.37-nodeipam.yaml", ccm, 37, controllernames.Loops, "1.20"},
	} {
		t.Run(c.golden, func(t *testing.T) {
			got, err := Render(c.component, c.minor, c.loops, c.leaderName)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", c.golden)
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("file (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsRenderedIsReadAndFoundRight(t *testing.T) {
	for _, component := range controllernames.Components {
		for minor := firstMinor; minor <= 40; minor++ {
			t.Run(fmt.Sprintf("%s 1.%d", component, minor), func(t *testing.T) {
				file, err := Render(component, minor, controllernames.CloudLoops, "")
				if err != nil {
					t.Fatal(err)
				}
				config, err := Parse(file)
				if err != nil {
					t.Fatal(err)
				}
				if got := Judge(component, minor, config); got != nil {
					t.Errorf("problems: %v", got)
				}
			})
		}
	}
}

func TestRenderRefusesWhatDoesNotExist(t *testing.T) {
	for _, c := range []struct {
		name      string
		component controllernames.Component
		minor     int
		loop      controllernames.Loop
		want      string
	}{
		{"a manager without leader migration", kcm, 20, controllernames.Route,
			"rendering the leader migration config of kube-controller-manager 1.20: leader migration came with 1.21"},
		{"a loop", ccm, 37, "attachdetach",
			`rendering the leader migration config of cloud-controller-manager 1.37: it has no loop "attachdetach"`},
		{"a component", "kubelet", 30, controllernames.Route,
			`rendering the leader migration config of kubelet 1.30: it has no loop "route"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Render(c.component, c.minor, []controllernames.Loop{c.loop}, ""); err == nil || err.Error() != c.want {
				t.Errorf("error = %v, want %s", err, c.want)
			}
		})
	}
}
