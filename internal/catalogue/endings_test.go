package catalogue

import (
	"strings"
	"testing"

	"github.com/transplant-dev/transplant/internal/component"
)

func TestEveryFlagOfTheControlPlaneThatEndedHasAnEnding(t *testing.T) {
	used := map[string]bool{}
	for _, program := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		for minor := component.Oldest; minor <= component.Newest; minor++ {
			for _, flag := range FlagsOf(program, minor) {
				if _, last, _ := FlagRange(program, flag); last >= component.Newest {
					continue
				}
				used[flag] = true
				e, ok := FlagEnds(program, flag, "some value")
				if !ok {
					t.Errorf("what becomes of --%s of %s is not known", flag, program)
				}
				if e.Replacement == "" {
					continue
				}
				_, last, _ := FlagRange(program, flag)
				if f, held := FlagAt(program, e.Replacement, last+1); !held || !f.Known {
					t.Errorf("--%s of %s is to become --%s, which 1.%d does not know", flag, program, e.Replacement, last+1)
				}
			}
		}
	}
	for flag := range endings {
		if !used[flag] {
			t.Errorf("--%s has an ending and no component where it ended", flag)
		}
	}
}

func TestWhatBecomesOfAFlag(t *testing.T) {
	for _, c := range []struct{ name, component, flag, value, replacement, effect, refused string }{
		{"one that did nothing", "kube-apiserver", "insecure-port", "0", "", "", ""},
		{"one with another name", "kube-apiserver", "service-account-api-audiences", "a", "api-audiences", "", ""},
		{"one that is off as it will be", "kube-controller-manager", "enable-taint-manager", "true", "", "", ""},
		{"one that changes what happens", "kube-controller-manager", "enable-taint-manager", "false", "", "NoExecute", ""},
		{"one that its owner has to see to", "kube-scheduler", "policy-config-file", "/etc/policy", "", "", "KubeSchedulerConfiguration"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, ok := FlagEnds(c.component, c.flag, c.value)
			if !ok || e.Replacement != c.replacement || !strings.Contains(e.Effect, c.effect) || !strings.Contains(e.Refused, c.refused) ||
				(c.effect == "") != (e.Effect == "") ||
				(c.refused == "") != (e.Refused == "") {
				t.Errorf("%+v, %v", e, ok)
			}
		})
	}
	if _, ok := FlagEnds("kube-apiserver", "secure-port", "6443"); ok {
		t.Error("a flag that has not ended has an ending")
	}
}

func TestAdmissionPluginsThatEnd(t *testing.T) {
	for _, c := range []struct {
		plugin  string
		minor   int
		ended   bool
		refused string
	}{
		{"PodSecurityPolicy", 24, false, ""}, {"PodSecurityPolicy", 25, true, "Pod Security admission"}, {"PersistentVolumeLabel", 31, true, ""},
		{"NodeRestriction", 36, false, ""},
	} {
		refused, ended := AdmissionPluginEnds(c.plugin, c.minor)
		if ended != c.ended || ended && !strings.Contains(refused, c.refused) {
			t.Errorf("%s in 1.%d: %v %q", c.plugin, c.minor, ended, refused)
		}
	}
}
