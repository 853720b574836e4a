package csi

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/transplant-dev/transplant/lab/kubelet"
)

// Environment of a stand-in.
const (
	envStandIn = "LAB_CSI_STAND_IN"
	envAddress = "LAB_CSI_ADDRESS" // of its pod
)

// Programs that stand in for others, by the repository of the image.
func Programs() (map[string]kubelet.Program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding the lab's own program: %w", err)
	}
	out := map[string]kubelet.Program{}
	for image, name := range map[string]string{
		"registry.k8s.io/sig-storage/csi-node-driver-registrar": "registrar",
		"registry.k8s.io/sig-storage/livenessprobe":             "livenessprobe",
		"registry.k8s.io/pause":                                 "pause",
	} {
		out[image] = kubelet.Program{Path: self, Isolated: true, Env: []corev1.EnvVar{
			{Name: envStandIn, Value: name},
			{
				Name:      envAddress,
				ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}},
			},
		}}
	}
	return out, nil
}

// Run is the whole program when the process was started as a stand-in, and does not return then.
func Run() {
	name := os.Getenv(envStandIn)
	if name == "" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM) //nolint:forbidigo // it stands for main
	defer stop()
	var err error
	switch name {
	case "registrar":
		err = registrar(ctx, os.Args[1:])
	case "livenessprobe":
		err = livenessProbe(ctx, os.Args[1:])
	case "keeper":
		err = keep(ctx, os.Args[1:])
	case "pause":
		<-ctx.Done()
	default:
		err = fmt.Errorf("no stand-in is called %q", name)
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, name+":", err) //nolint:forbidigo // it stands for main
		os.Exit(1)                             //nolint:forbidigo,gocritic // it stands for main
	}
	os.Exit(0) //nolint:forbidigo // it stands for main
}

// dial connects to a driver's socket. The connection is made with the first call.
func dial(socket string) (*grpc.ClientConn, error) {
	c, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("connecting to %q: %w", socket, err)
	}
	return c, nil
}

// registrar tells the kubelet of a driver, as kubernetes-csi/node-driver-registrar does: it asks the driver for its
// name, and serves the kubelet a socket that says where the driver's is.
func registrar(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("node-driver-registrar", flag.ContinueOnError)
	address := set.String("csi-address", "/run/csi/socket", "the driver's socket")
	path := set.String("kubelet-registration-path", "", "the driver's socket, as the kubelet sees it")
	set.Int("v", 0, "verbosity")
	if err := set.Parse(args); err != nil {
		return fmt.Errorf("parsing flags: %w", err)
	}
	conn, err := dial(*address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ask, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	info, err := spec.NewIdentityClient(conn).GetPluginInfo(ask, &spec.GetPluginInfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("asking the driver for its name: %w", err)
	}
	socket := filepath.Join("/registration", info.GetName()+"-reg.sock")
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	r := &registered{name: info.GetName(), endpoint: *path, refused: make(chan error, 1)}
	registration.RegisterRegistrationServer(server, r)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer server.Stop()
	select {
	case <-ctx.Done():
		return nil
	case err := <-r.refused:
		return err
	case err := <-served:
		return err
	}
}

// registered is what a registrar says to the kubelet.
type registered struct {
	registration.UnimplementedRegistrationServer
	name, endpoint string
	refused        chan error
}

func (r *registered) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              r.name,
		Endpoint:          r.endpoint,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (r *registered) NotifyRegistrationStatus(
	_ context.Context,
	s *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if !s.GetPluginRegistered() {
		r.refused <- fmt.Errorf("the kubelet refused the driver: %s", s.GetError())
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// livenessProbe answers for a driver, as kubernetes-csi/livenessprobe does.
func livenessProbe(ctx context.Context, args []string) error {
	set := flag.NewFlagSet("livenessprobe", flag.ContinueOnError)
	address := set.String("csi-address", "/run/csi/socket", "the driver's socket")
	port := set.String("health-port", "9808", "where /healthz is served")
	timeout := set.Duration("probe-timeout", time.Second, "of the driver's answer")
	set.Int("v", 0, "verbosity")
	if err := set.Parse(args); err != nil {
		return fmt.Errorf("parsing flags: %w", err)
	}
	conn, err := dial(*address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		ask, cancel := context.WithTimeout(r.Context(), *timeout)
		defer cancel()
		answer, err := spec.NewIdentityClient(conn).Probe(ask, &spec.ProbeRequest{})
		if err == nil && answer.GetReady() != nil && !answer.GetReady().GetValue() {
			err = errors.New("the driver is not ready")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	server := &http.Server{
		Addr:              net.JoinHostPort(os.Getenv(envAddress), *port),
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
	}
	served := make(chan error, 1)
	go func() { served <- server.ListenAndServe() }()
	select {
	case <-ctx.Done():
		return server.Close()
	case err := <-served:
		return err
	}
}
