//go:build faults

package main

import (
	"os"
	"strings"
	"syscall"
)

// testHook ends this process the hard way at a point of a step, when a test asks for it: TRANSPLANT_TEST_KILL=point:step-id. Resuming is only as
// good as what it was tested against, and a process that dies of SIGKILL gets to clean nothing up.
func testHook(point, step string) {
	if want := os.Getenv("TRANSPLANT_TEST_KILL"); want != "" && want == strings.Join([]string{point, step}, ":") {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // no return: the signal cannot be handled
		select {}
	}
}
