package field

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	standInVariable = "TRANSPLANT_FIELD_SERVE"
	loopsVariable   = "TRANSPLANT_FIELD_LOOPS"
)

// standIns are the names under which a program is taken for a component's.
var standIns = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"}

// RunStandIn is called first by a TestMain: when this process is a stand-in for a component of a host, it answers
// /metrics where it is told to, waits for its end, and returns true.
func RunStandIn() bool {
	name := filepath.Base(os.Args[0])
	address, ok := os.LookupEnv(standInVariable)
	if !ok || !slices.Contains(standIns, name) {
		return false
	}
	if address != "" {
		l, err := net.Listen("tcp", address)
		if err != nil {
			log.Print(err)
			return true
		}
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			_, _ = io.WriteString(w, gauges(name, os.Getenv(loopsVariable)))
		}))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.Listener = l
		s.StartTLS()
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)
	<-end
	return true
}

// gauges are what a manager shows that leads, or one that does not.
func gauges(name, loops string) string {
	if loops == "" {
		return fmt.Sprintf("leader_election_master_status{name=%q} 0\n", name)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "leader_election_master_status{name=%q} 1\n", name)
	for loop := range strings.SplitSeq(loops, ",") {
		fmt.Fprintf(&b, "running_managed_controllers{manager=%q,name=%q} 1\n", name, loop)
	}
	return b.String()
}
