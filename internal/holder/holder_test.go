package holder

import (
	"fmt"
	"os"
	"testing"
)

func TestWhoIsDead(t *testing.T) {
	self := This("ops")
	gone, reused, elsewhere, rebooted, cloned, timeless := self, self, self, self, self, self
	gone.PID, gone.Start = 1<<22+1, "1" // above the largest that there can be
	reused.Start += "1"
	elsewhere.Space, elsewhere.PID = "pid:[1]", gone.PID
	rebooted.Boot, rebooted.PID = "another", gone.PID
	cloned.Host, cloned.PID = "another", gone.PID
	timeless.Start, timeless.PID = "", gone.PID
	for _, c := range []struct {
		name  string
		other string
		dead  bool
	}{
		{"this process", self.String(), false},
		{"this process, with words behind it", self.String() + " since=2026-11-22T12:00:00Z", false},
		{"a process that has ended", gone.String(), true},
		{"a process whose ID another one has by now", reused.String(), true},
		{"a process of another container", elsewhere.String(), false},
		{"a process of another machine, or of this one before it was booted", rebooted.String(), false},
		{"a process of a machine that was copied while it ran", cloned.String(), false},
		{"a process of which nobody knows when it was started", timeless.String(), false},
		{"a process of this hostname that says nothing about machine and container", fmt.Sprintf("ops@%s pid %d start 17", self.Host, gone.PID), false},
		{"no process", fmt.Sprintf("ops@%s pid -1 start=1 boot=%s pidns=%s", self.Host, self.Boot, self.Space), false},
		{"nobody", "", false},
		{"words", "somebody on a bastion", false},
	} {
		if got := self.Dead(c.other); got != c.dead {
			t.Errorf("%s (%s): dead is %v", c.name, c.other, got)
		}
	}
}

func TestWhoDoesNotKnowItsOwnMachineTakesNobodyForDead(t *testing.T) {
	gone := This("ops")
	gone.PID = 1<<22 + 1
	if blind := (Process{User: "ops", Host: gone.Host, PID: os.Getpid()}); blind.Dead(gone.String()) ||
		blind.Dead(Process{Host: gone.Host, PID: gone.PID}.String()) {
		t.Error("it took a process for dead that may live anywhere")
	}
}

func TestAHolderIsReadBackAndSaidToPeople(t *testing.T) {
	self := This("ops")
	if got, ok := Parse(self.String()); !ok || got != self {
		t.Errorf("read back: %+v, want %+v", got, self)
	}
	for s, want := range map[string]string{
		"ops@bastion pid 4412 start=812 boot=x pidns=y since=z": "ops@bastion pid 4412", "ops@bastion pid 4412 start 1": "ops@bastion pid 4412",
		"somebody": "somebody", "ops@bastion pid x": "ops@bastion pid x", "transplant-operator of a/b: c": "transplant-operator of a/b: c", "": "",
	} {
		if got := Words(s); got != want {
			t.Errorf("the words for %q are %q, want %q", s, got, want)
		}
	}
}
