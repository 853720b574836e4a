package parts

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSwitchesAreSetWhereTheProgramReadsThem(t *testing.T) {
	for name, c := range map[string]struct {
		command, args, wantCommand, wantArgs []string
		changed                              bool
	}{
		"args":                    {[]string{"/mc"}, []string{"-kubeconfig", "/k", "-v", "4"}, []string{"/mc"}, []string{"-external", "-kubeconfig", "/k", "-v", "4"}, true},
		"args with equals signs":  {[]string{"/mc"}, []string{"--kubeconfig=/k"}, []string{"/mc"}, []string{"-external", "--kubeconfig=/k"}, true},
		"no args at all":          {[]string{"/mc"}, nil, []string{"/mc"}, []string{"-external"}, true},
		"everything in command":   {[]string{"/mc", "-v", "4"}, nil, []string{"/mc", "-external", "-v", "4"}, nil, true},
		"a word before the flags": {nil, []string{"serve", "-v", "4"}, nil, []string{"serve", "-external", "-v", "4"}, true},
		"there already":           {[]string{"/mc"}, []string{"-external"}, []string{"/mc"}, []string{"-external"}, false},
		"there with two dashes":   {[]string{"/mc"}, []string{"--external=true", "-v", "4"}, []string{"/mc"}, []string{"--external=true", "-v", "4"}, false},
		"there as T":              {[]string{"/mc"}, []string{"-external=T"}, []string{"/mc"}, []string{"-external=T"}, false},
		"off":                     {[]string{"/mc"}, []string{"-v", "4", "-external=false"}, []string{"/mc"}, []string{"-v", "4", "-external=true"}, true},
		"wrapped": {
			[]string{"/http-prober"},
			[]string{"-endpoint", "https://x", "-command", `{"command":"/mc","args":["-v","4"]}`},
			[]string{"/http-prober"},
			[]string{"-endpoint", "https://x", "-command", `{"args":["-external","-v","4"],"command":"/mc"}`},
			true,
		},
		"wrapped with equals sign": {[]string{"/http-prober"}, []string{`--command={"command":"/mc"}`}, []string{"/http-prober"}, []string{`--command={"args":["-external"],"command":"/mc"}`}, true},
		"wrapped, there already": {
			[]string{"/http-prober"},
			[]string{"-command", `{"command":"/mc","args":["-external"]}`},
			[]string{"/http-prober"},
			[]string{"-command", `{"command":"/mc","args":["-external"]}`},
			false,
		},
		"a command that is none": {[]string{"/mc"}, []string{"-command", "x"}, []string{"/mc"}, []string{"-external", "-command", "x"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			was := slices.Concat(c.command, c.args)
			line := readCommandLine(c.command, c.args)
			if got := line.setSwitch("external"); got != c.changed {
				t.Errorf("changed %t, want %t", got, c.changed)
			}
			if c.changed {
				command, args, err := line.result()
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([][]string{c.wantCommand, c.wantArgs}, [][]string{command, args}); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if again := readCommandLine(command, args); again.setSwitch("external") {
					t.Error("a second time changes it again")
				}
			}
			if !slices.Equal(was, slices.Concat(c.command, c.args)) {
				t.Error("what it was given is changed")
			}
		})
	}
}

func TestGatesAreAddedToThoseThatAreThere(t *testing.T) {
	for name, c := range map[string]struct {
		args, want []string
		changed    bool
	}{
		"the default stays":   {[]string{"-v", "4"}, []string{"-gates=Usual=true,New=true", "-v", "4"}, true},
		"in the next word":    {[]string{"-gates", "A=false,B=true", "-v", "4"}, []string{"-gates", "A=false,B=true,New=true", "-v", "4"}, true},
		"with an equals sign": {[]string{"--gates=A=true"}, []string{"--gates=A=true,New=true"}, true},
		"off":                 {[]string{"-gates", "New=false,A=true"}, []string{"-gates", "New=true,A=true"}, true},
		"there":               {[]string{"-gates", "New=true"}, []string{"-gates", "New=true"}, false},
	} {
		line := readCommandLine([]string{"/mc"}, c.args)
		changed := line.setGates("gates", "Usual=true", []string{"New"})
		_, got, err := line.result()
		if err != nil || changed != c.changed || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, changed %t, %v; want %q", name, got, changed, err, c.want)
		}
	}
	if readCommandLine(nil, []string{"-v"}).setGates("gates", "Usual=true", nil) {
		t.Error("no gates to add change something")
	}
}

func FuzzEditingACommandLineIsDoneOnce(f *testing.F) {
	f.Add("/mc", "-v", "-external=false", "--")
	f.Add("/p", "-command", `{"command":"/mc","args":["-x"]}`, "word")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		line := readCommandLine([]string{a}, []string{b, c, d})
		line.setSwitch("external")
		line.setGates("gates", "Usual=true", []string{"New"})
		command, args, err := line.result()
		if err != nil {
			t.Fatal(err)
		}
		again := readCommandLine(command, args)
		if again.setSwitch("external") || again.setGates("gates", "Usual=true", []string{"New"}) {
			t.Errorf("%q %q is changed a second time", command, args)
		}
	})
}
