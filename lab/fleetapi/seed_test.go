package fleetapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/transplant-dev/transplant/internal/fleet/admission"
	"github.com/transplant-dev/transplant/internal/fleet/objects"
	"github.com/transplant-dev/transplant/internal/fleet/served"
	"github.com/transplant-dev/transplant/lab/apiserver"
	"github.com/transplant-dev/transplant/lab/poll"
)

// Versions of the seed: the lab's, and one that knows matchConditions. That one takes two processors minutes to compile.
const (
	old    = apiserver.DefaultVersion
	recent = "v1.37.2"
)

// versions are those that are tried: the lab's alone in the short form.
func versions() []string {
	if *everything {
		return []string{old, recent}
	}
	return []string{old}
}

func needsRecent(t *testing.T) {
	t.Helper()
	if !*everything {
		t.Skip("compiles kube-apiserver " + recent + ": make fleet, or -fleet.all")
	}
}

const deploy = "../../deploy"

var servers = struct {
	sync.Mutex
	byVersion map[string]*apiserver.Server
	dirs      []string
}{byVersion: map[string]*apiserver.Server{}}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, s := range servers.byVersion {
		s.Stop()
	}
	for _, dir := range servers.dirs {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// seed is an API server with nothing in it that concerns us.
type seed struct {
	kube    kubernetes.Interface
	dynamic dynamic.Interface
}

// seedOf returns the seed of a version, which all tests share one after the other, with the definitions of both groups installed.
func seedOf(t *testing.T, version string) *seed {
	t.Helper()
	s := bare(t, version)
	if _, err := served.Install(t.Context(), s.dynamic); err != nil {
		t.Fatal(err)
	}
	for _, group := range served.Groups {
		s.waitServed(t, group)
	}
	return s
}

// bare is a seed without any definition.
func bare(t *testing.T, version string) *seed {
	t.Helper()
	if testing.Short() {
		t.Skip("needs etcd and a kube-apiserver")
	}
	servers.Lock()
	defer servers.Unlock()
	server := servers.byVersion[version]
	if server == nil {
		dir, err := os.MkdirTemp("", "fleetapi")
		if err != nil {
			t.Fatal(err)
		}
		servers.dirs = append(servers.dirs, dir)
		if server, err = apiserver.Start(t.Context(), apiserver.Options{Dir: dir, Version: version, Progress: os.Stderr}); err != nil {
			t.Fatal(err)
		}
		servers.byVersion[version] = server
	}
	config, err := server.Config("seed-admin")
	if err != nil {
		t.Fatal(err)
	}
	config.WarningHandler = nil
	out := &seed{}
	if out.kube, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if out.dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.clean(t) })
	return out
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// clean takes away what a test left, webhooks first.
func (s *seed) clean(t *testing.T) {
	ctx := context.Background()
	hooks := s.kube.AdmissionregistrationV1()
	err := errors.Join(
		hooks.MutatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		hooks.ValidatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		s.kube.CoreV1().Secrets(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
	)
	for _, group := range served.Groups {
		if deleted := s.dynamic.Resource(definitions).Delete(ctx, "clusters."+group, metav1.DeleteOptions{}); !apierrors.IsNotFound(deleted) {
			err = errors.Join(err, deleted)
		}
	}
	if err != nil {
		t.Errorf("cleaning: %v", err)
	}
	wait(t, "definitions are gone", func() bool {
		list, err := s.dynamic.Resource(definitions).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
}

// waitServed waits until a group's objects can be created and listed.
func (s *seed) waitServed(t *testing.T, group string) {
	t.Helper()
	wait(t, group+" is served", func() bool {
		_, err := s.clusters(group).Create(t.Context(), object(group, "probe", ""), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil
	})
}

func (s *seed) clusters(group string) dynamic.ResourceInterface {
	return s.dynamic.Resource(objects.Resource(group))
}

// create makes a cluster, strictly: an unknown field would be an error if it were dropped.
func (s *seed) create(t *testing.T, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	t.Helper()
	return s.clusters(o.GroupVersionKind().Group).Create(t.Context(), o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
}

// made is create for a cluster that has to be accepted.
func (s *seed) made(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	out, err := s.create(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// patch changes a cluster by a merge patch.
func (s *seed) patch(t *testing.T, o *unstructured.Unstructured, patch string) (*unstructured.Unstructured, error) {
	t.Helper()
	return s.clusters(o.GroupVersionKind().Group).Patch(t.Context(), o.GetName(), mergePatch, []byte(patch), metav1.PatchOptions{})
}

// object is a Cluster with a spec in YAML.
func object(group, name, spec string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Cluster", "metadata": map[string]any{"name": name}}}
	var parsed map[string]any
	if err := yaml.Unmarshal([]byte(spec), &parsed); err != nil {
		panic(fmt.Sprintf("a test's spec is no YAML: %v", err))
	}
	if parsed != nil {
		out.Object["spec"] = parsed
	}
	return out
}

// wait waits until something holds, also in a cleanup.
func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := poll.Within(context.WithoutCancel(t.Context()), 50*time.Millisecond, poll.Patience, what, func(context.Context) error {
		if !holds() {
			return errors.New("it does not hold yet")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// operator serves the webhooks as the operator does.
type operator struct {
	address string
	end     context.CancelFunc
	ended   chan error
}

// serve starts the webhooks with a certificate, on an address of its own.
func serve(t *testing.T, s *seed, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error), o admission.Options) *operator {
	t.Helper()
	o.OtherGroups = admission.Groups(s.dynamic)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	out := &operator{address: l.Addr().String(), end: cancel, ended: make(chan error, 1)}
	go func() { out.ended <- admission.Serve(ctx, l, admission.New(o).Handler(), certificate) }()
	t.Cleanup(out.stop)
	return out
}

// stop ends it, the requests that it has begun included.
func (o *operator) stop() {
	o.end()
	if err, first := <-o.ended; first {
		close(o.ended)
		if err != nil {
			panic(err)
		}
	}
}

// install applies a file of deploy/operator with the webhooks at an address, there being no Service in a lab.
func (s *seed) install(t *testing.T, file, address string) {
	t.Helper()
	if err := s.apply(t, file, address); err != nil {
		t.Fatal(err)
	}
}

func (s *seed) apply(t *testing.T, file, address string) error {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(deploy, "operator", file))
	if err != nil {
		t.Fatal(err)
	}
	strict := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		o := parsed(t, string(document))
		resource := map[string]string{
			"MutatingWebhookConfiguration": "mutatingwebhookconfigurations", "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
		}[o.GetKind()]
		if resource == "" {
			continue
		}
		at(t, o, address)
		if _, err := s.dynamic.Resource(schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: resource}).
			Create(t.Context(), o, strict); err != nil {
			return err
		}
	}
}

// at has the webhooks of a configuration called at an address.
func at(t *testing.T, o *unstructured.Unstructured, address string) {
	t.Helper()
	webhooks, _, err := unstructured.NestedSlice(o.Object, "webhooks")
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range webhooks {
		path, ok, err := unstructured.NestedString(w.(map[string]any), "clientConfig", "service", "path")
		if !ok || err != nil {
			t.Fatalf("a webhook without a service: %v", err)
		}
		w.(map[string]any)["clientConfig"] = map[string]any{"url": "https://" + address + path}
	}
	if err := unstructured.SetNestedSlice(o.Object, webhooks, "webhooks"); err != nil {
		t.Fatal(err)
	}
}

// refused reports whether an error is a refusal with these words.
func refused(err error, words string) bool {
	return err != nil && strings.Contains(err.Error(), words) &&
		(apierrors.IsInvalid(err) || apierrors.ReasonForError(err) == metav1.StatusReasonInvalid || apierrors.IsForbidden(err))
}
