//go:build faults

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// testHook ends this process the hard way at the first of the points that a test asks for: TRANSPLANT_TEST_KILL=point:step-id,... Resuming is
// only as good as what it was tested against, and a process that dies of SIGKILL gets to clean nothing up. It says at which point it died.
func testHook(point, step string) {
	at := point + ":" + step
	if slices.Contains(strings.Split(os.Getenv("TRANSPLANT_TEST_KILL"), ","), at) {
		fmt.Fprintf(os.Stderr, "\nkilled at %s\n", at)
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // no return: the signal cannot be handled
		select {}
	}
}
