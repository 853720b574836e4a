package local

import (
	"strings"
	"testing"
)

func TestUnitsAreToldToSystemctl(t *testing.T) {
	tests := map[string]struct {
		do   func(*Host) error
		want string
	}{
		"reload":  {func(l *Host) error { return l.DaemonReload(t.Context()) }, "daemon-reload\n"},
		"restart": {func(l *Host) error { return l.Restart(t.Context(), "kube-apiserver.service") }, "restart kube-apiserver.service\n"},
		"stop":    {func(l *Host) error { return l.Stop(t.Context(), "kcm@1.service") }, "stop kcm@1.service\n"},
		"start":   {func(l *Host) error { return l.Start(t.Context(), "kube-scheduler") }, "start kube-scheduler\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := newHost(t)
			script(t, l, `echo "$@" >called`)
			if err := tt.do(l); err != nil {
				t.Fatal(err)
			}
			if got := get(t, l, "/called"); got != tt.want {
				t.Errorf("it was called as %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAUnitThatDoesNotStopIsToldWithWhereToLook(t *testing.T) {
	l := newHost(t)
	script(t, l, "echo Job for kcm.service timed out >&2; exit 1")
	err := l.Stop(t.Context(), "kcm.service")
	want := `stopping kcm.service on host cp-1: systemctl stop kcm.service: exit status 1: Job for kcm.service timed out: ` +
		`look at it with "journalctl -u kcm.service" on that host and run the same command again`
	if err == nil || err.Error() != want {
		t.Errorf("err = %v, want %q", err, want)
	}
}

func TestWhatIsNoNameOfAUnitIsNotHandedOn(t *testing.T) {
	l := newHost(t)
	script(t, l, ": >called")
	for _, unit := range []string{"", "--force", "a b", "a;b", "../x"} {
		if err := l.Stop(t.Context(), unit); err == nil || !strings.Contains(err.Error(), "is no name of a unit") {
			t.Errorf("%q: %v", unit, err)
		}
		if _, err := l.Active(t.Context(), unit); err == nil {
			t.Errorf("%q was asked for", unit)
		}
	}
	if names, err := l.List(t.Context(), "/"); err != nil || len(names) != 0 {
		t.Errorf("systemctl was called: %v, %v", names, err)
	}
}

func TestActive(t *testing.T) {
	tests := map[string]struct {
		says string
		want bool
		err  string
	}{
		"runs":                   {"LoadState=loaded\nActiveState=active\n", true, ""},
		"is being stopped":       {"ActiveState=deactivating\nLoadState=loaded\n", true, ""},
		"is being started":       {"LoadState=loaded\nActiveState=activating\n", false, ""},
		"has stopped":            {"LoadState=loaded\nActiveState=inactive\n", false, ""},
		"has failed":             {"LoadState=loaded\nActiveState=failed\n", false, ""},
		"is masked and runs on":  {"LoadState=masked\nActiveState=active\n", true, ""},
		"is not there":           {"LoadState=not-found\nActiveState=inactive\n", false, "systemd has no such unit (LoadState=not-found)"},
		"a unit with bad syntax": {"LoadState=bad-setting\nActiveState=inactive\n", false, "LoadState=bad-setting"},
		"nothing at all":         {"", false, "gave no state that is known"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := newHost(t)
			put(t, l, "/says", tt.says, 0o644)
			script(t, l, `[ "$*" = "show --property=LoadState,ActiveState kcm.service" ] && cat says`)
			got, err := l.Active(t.Context(), "kcm.service")
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
