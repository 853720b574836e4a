package main

import (
	"strings"
	"testing"
)

func TestBadCommandLinesForHostsAreRefusedBeforeAnythingIsDone(t *testing.T) {
	dir := t.TempDir()
	for line, want := range map[string]string{
		"hosts up --name clusters":             "is not 1 to 6 lower-case letters and digits",
		"hosts up --subnet 10.77.0.0/16":       "is no IPv4 /24",
		"hosts up --control-planes 4":          "1 to 3 control-plane hosts",
		"hosts down --name clusters":           "is not 1 to 6 lower-case letters and digits",
		"hosts status --dir " + dir:            "there is no cluster",
		"hosts load --dir " + dir:              "there is no cluster",
		"hosts reboot cp-1 --dir " + dir:       "there is no cluster",
		"hosts exec --dir " + dir + " cp-1 ls": "there is no cluster",
		"hosts exec cp-1":                      "requires at least 2 arg",
	} {
		stdout, stderr, err := run(t, strings.Fields(line)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("lab %s: %v, want %q", line, err, want)
		}
		if stdout != "" || stderr != "" {
			t.Errorf("lab %s wrote %q and %q", line, stdout, stderr)
		}
	}
}
