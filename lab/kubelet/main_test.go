package kubelet

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary plays three parts: the tests, the program in a container's image, and a lab that is killed.
const partVariable = "KUBELET_TEST_PART"

func TestMain(m *testing.M) {
	RunContainer()
	switch os.Getenv(partVariable) {
	case "program":
		os.Exit(program())
	case "lab":
		lab()
		return
	}
	goleak.VerifyTestMain(m)
}

// sighting is what the program saw when it started.
type sighting struct {
	PID  int
	Args []string
	Env  []string
	Dir  string
}

// program is what runs in the tests' containers. Like a real component it refuses flags that it doesn't know.
func program() int {
	flags := flag.NewFlagSet(os.Args[0], flag.ContinueOnError)
	saw := flags.String("saw", "", "write a sighting to this file")
	listen := flags.String("listen", "", "serve /healthz on this address, with 500 while the file of --sick exists")
	sick := flags.String("sick", "", "see --listen")
	deaf := flags.Bool("deaf", false, "ignore SIGTERM")
	exit := flags.Int("exit", -1, "exit with this code at once")
	flags.Int("v", 0, "changes nothing")
	flags.String("config", "", "changes nothing")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return 1
	}
	fmt.Println("started", strings.Join(os.Args, " "))
	if *saw != "" {
		dir, _ := os.Getwd()
		data, _ := json.Marshal(sighting{os.Getpid(), os.Args, os.Environ(), dir})
		if err := os.WriteFile(*saw+".tmp", data, 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		_ = os.Rename(*saw+".tmp", *saw)
	}
	if *exit >= 0 {
		return *exit
	}
	if *listen != "" {
		l, err := net.Listen("tcp", *listen)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 3
		}
		go func() {
			_ = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { //nolint:gosec // a test
				if _, err := os.Stat(*sick); err == nil {
					w.WriteHeader(http.StatusInternalServerError)
				}
			}))
		}()
	}
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	for range terms {
		if !*deaf {
			return 0
		}
	}
	return 0
}

// lab starts the host in the directory of KUBELET_TEST_DIR and waits for its end, which comes from outside.
func lab() {
	k, err := New(options(os.Getenv("KUBELET_TEST_DIR")))
	if err == nil {
		err = k.Start(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	<-time.After(time.Minute)
}
