//go:build faults

// Package fault is where tests make hosts, clocks and steps fail. Without the build tag faults it does nothing.
package fault

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Hook says to a test at which point of which step this process is, and ends it the hard way where the test wants that.
// Resuming is only as good as what it was tested against, and a process that dies of SIGKILL gets to clean nothing up.
//
// TRANSPLANT_TEST_KILL=point:step-id,... names the points at which it dies; it says at which one it did.
// TRANSPLANT_TEST_HOOK=PATH names a unix socket on which it writes "point:step-id" and waits for a line. "go on" lets
// it continue, anything else (also the socket's end) kills it.
func Hook(point, step string) {
	at := point + ":" + step
	if slices.Contains(strings.Split(os.Getenv("TRANSPLANT_TEST_KILL"), ","), at) {
		die(at)
	}
	if path := os.Getenv("TRANSPLANT_TEST_HOOK"); path != "" && !mayGoOn(path, at) {
		die(at)
	}
}

func die(at string) {
	fmt.Fprintf(os.Stderr, "\nkilled at %s\n", at)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // no return: the signal cannot be handled
	select {}
}

// mayGoOn asks the test. A test that is not there any longer has no use for a migration that goes on.
func mayGoOn(path, at string) bool {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, at); err != nil {
		return false
	}
	answer, _ := bufio.NewReader(conn).ReadString('\n')
	return answer == "go on\n"
}
