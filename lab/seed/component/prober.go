package component

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// prober waits for an endpoint and then becomes the command that it was given as JSON, as Kubermatic's http-prober
// does.
func prober(ctx context.Context, args []string) error {
	set := flag.NewFlagSet(Prober, flag.ContinueOnError)
	endpoint := set.String("endpoint", "", "URL that has to answer first")
	insecure := set.Bool("insecure", false, "whoever answers will do")
	retries := set.Int("retries", 10, "how often")
	wait := set.Int("retry-wait", 1, "seconds between")
	timeout := set.Int("timeout", 1, "seconds each")
	command := set.String("command", "", "JSON of command and args")
	if err := set.Parse(args); err != nil {
		return fmt.Errorf("parsing flags: %w", err)
	}
	var run struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	if err := json.Unmarshal([]byte(*command), &run); err != nil {
		return fmt.Errorf("parsing -command: %w", err)
	}
	client := &http.Client{Timeout: time.Duration(*timeout) * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: *insecure}, //nolint:gosec // as asked for
	}}
	for try := 0; *endpoint != ""; try++ {
		resp, err := client.Get(*endpoint)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
			err = fmt.Errorf("it says %s", resp.Status)
		}
		if try >= *retries {
			return fmt.Errorf("waiting for %s: %w", *endpoint, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(*wait) * time.Second):
		}
	}
	// The signal at the parent's death belongs to the thread, and this one becomes the whole process: without it what is
	// started would outlive the lab.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("binding the process to its parent: %w", err)
	}
	if os.Getppid() == 1 {
		return errors.New("the lab has ended")
	}
	return syscall.Exec(os.Getenv(EnvProgram), append([]string{filepath.Base(run.Command)}, run.Args...), os.Environ()) //nolint:gosec // the lab's own programs
}
