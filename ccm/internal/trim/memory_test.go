package trim

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const protobufType = "application/vnd.kubernetes.protobuf"

// kubeletNode is a Node as a kubelet and a manager have written it: 50 images, five conditions, managed fields.
func kubeletNode(place int) *corev1.Node {
	name := fmt.Sprintf("ip-10-%d-%d-7.eu-west-1.compute.internal", place/256, place%256)
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
			corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"), corev1.ResourcePods: resource.MustParse("110"),
			"hugepages-1Gi": resource.MustParse("0"), "hugepages-2Mi": resource.MustParse("0"),
		}
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", place)), ResourceVersion: strconv.Itoa(1000 + place),
			CreationTimestamp: metav1.NewTime(time.Unix(1_800_000_000, 0)),
			Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", "beta.kubernetes.io/os": "linux",
				"beta.kubernetes.io/arch": "amd64", corev1.LabelInstanceType: "m5.large", corev1.LabelInstanceTypeStable: "m5.large",
				corev1.LabelTopologyZone: "eu-west-1a", corev1.LabelTopologyRegion: "eu-west-1", corev1.LabelFailureDomainBetaZone: "eu-west-1a",
				corev1.LabelFailureDomainBetaRegion: "eu-west-1", "node-role.kubernetes.io/worker": "",
			},
			Annotations: map[string]string{
				"csi.volume.kubernetes.io/nodeid":                        fmt.Sprintf(`{"ebs.csi.aws.com":"i-%017x"}`, place),
				"node.alpha.kubernetes.io/ttl":                           "0",
				"volumes.kubernetes.io/controller-managed-attach-detach": "true",
				"alpha.kubernetes.io/provided-node-ip":                   fmt.Sprintf("10.%d.%d.7", place/256, place%256),
			},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{".":{},"f:x":{}},"f:labels":{` +
					strings.Repeat(`"f:kubernetes.io/some-label":{},`, 40) + `"f:z":{}}}}`),
			}},
		},
		Spec: corev1.NodeSpec{
			ProviderID: fmt.Sprintf("aws:///eu-west-1a/i-%017x", place),
			PodCIDR:    fmt.Sprintf("100.%d.%d.0/24", place/256, place%256), PodCIDRs: []string{fmt.Sprintf("100.%d.%d.0/24", place/256, place%256)},
		},
		Status: corev1.NodeStatus{
			Capacity: list("8", "32Gi"), Allocatable: list("7910m", "29Gi"),
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.%d.%d.7", place/256, place%256)},
				{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalDNS, Address: name},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: fmt.Sprintf("%032x", place), SystemUUID: fmt.Sprintf("ec2%05x-0000-4000-8000-%012x", place, place),
				BootID: fmt.Sprintf("00000000-0000-4000-9000-%012x", place), KernelVersion: "6.1.0-31-amd64",
				OSImage: "Debian GNU/Linux 12 (bookworm)", OperatingSystem: "linux", Architecture: "amd64",
				ContainerRuntimeVersion: "containerd://1.7.27", KubeletVersion: "v1.26.0",
			},
		},
	}
	for _, c := range []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
		{Type: corev1.NodeMemoryPressure, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available"},
		{Type: corev1.NodeNetworkUnavailable, Reason: "RouteCreated", Message: "RouteController created a route"},
	} {
		if c.Status == "" {
			c.Status = corev1.ConditionFalse
		}
		c.LastHeartbeatTime, c.LastTransitionTime = metav1.NewTime(time.Unix(1_800_000_100, 0)), metav1.NewTime(time.Unix(1_800_000_000, 0))
		n.Status.Conditions = append(n.Status.Conditions, c)
	}
	for i := range 50 {
		repository := fmt.Sprintf("registry.example/team-%02d/service-%03d", i%7, i)
		names := []string{fmt.Sprintf("%s@sha256:%064x", repository, i), repository + ":v1.24.7"}
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: names, SizeBytes: int64(i+1) << 20})
	}
	return n
}

// server is an API server with nodes. It pages only what is asked for without a version, as kube-apiserver does with a
// watch cache, and streams lists where that is asked of it and it can.
type server struct {
	nodes   int
	streams bool
}

func (s server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	switch {
	case query.Get("watch") != "" && query.Get("sendInitialEvents") == "true" && !s.streams:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(metav1.Status{ // the client reads it, or has gone
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid,
			Code: http.StatusUnprocessableEntity, Message: "sendInitialEvents is forbidden for watch",
		})
	case query.Get("watch") != "":
		s.watch(w, r)
	default:
		s.list(w, query.Get("resourceVersion"), query.Get("limit"), query.Get("continue"))
	}
}

func (s server) list(w http.ResponseWriter, version, limit, after string) {
	list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "100000"}}
	from, to := 0, s.nodes
	if after != "" {
		from, _ = strconv.Atoi(after) // which it wrote itself
	}
	if n, err := strconv.Atoi(limit); err == nil && version == "" && from+n < to {
		to = from + n
		list.Continue = strconv.Itoa(to)
	}
	for i := range to - from {
		list.Items = append(list.Items, *kubeletNode(from + i))
	}
	w.Header().Set("Content-Type", protobufType)
	_, _ = w.Write(encode(list)) // the client reads it, or has gone
}

func encode(object k8sruntime.Object) []byte {
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	data, err := k8sruntime.Encode(scheme.Codecs.EncoderForVersion(serializer, corev1.SchemeGroupVersion), object)
	if err != nil {
		panic(err)
	}
	return data
}

func (s server) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", protobufType+";stream=watch")
	w.WriteHeader(http.StatusOK)
	send := func(kind string, node *corev1.Node) {
		event := &metav1.WatchEvent{Type: kind, Object: k8sruntime.RawExtension{Raw: encode(node)}}
		data, err := event.Marshal()
		if err != nil {
			panic(err)
		}
		_, _ = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)) // the client reads it, or has gone
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		for i := range s.nodes {
			send("ADDED", kubeletNode(i))
		}
		send("BOOKMARK", &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: "100000", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}})
	}
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// footprint is what a process needs that has some nodes in its cache, in bytes.
type footprint struct{ Nodes, Heap, Resident, Most int }

const asProcess = "TRANSPLANT_TEST_TRIM_SERVER"

// TestMain lets this program be a process whose memory is measured.
func TestMain(m *testing.M) {
	if url := os.Getenv(asProcess); url != "" {
		if err := json.NewEncoder(os.Stdout).Encode(fill(url, os.Getenv(asProcess+"_PLAIN") == "")); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

func fill(url string, paged bool) footprint {
	config := &rest.Config{
		Host: url, ContentConfig: rest.ContentConfig{ContentType: protobufType, AcceptContentTypes: protobufType + ",application/json"},
	}
	client := kubernetes.NewForConfigOrDie(config)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(Object))
	if paged {
		CollectOften()
		Nodes(factory, config.ContentConfig)
	}
	informer := factory.Core().V1().Nodes()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	empty := heap()
	lister := informer.Lister()
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	resident, most := status("VmRSS"), status("VmHWM")
	full := heap()
	f := footprint{Nodes: len(informer.Informer().GetStore().List()), Heap: full - empty, Resident: resident, Most: most}
	runtime.KeepAlive(lister)
	return f
}

func heap() int {
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// status is a number of bytes that the kernel knows of this process.
func status(field string) int {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), field+":")
	var kilobytes int
	_, _ = fmt.Sscan(rest, &kilobytes) // 0 where the kernel does not say
	return kilobytes << 10
}

// measured is the footprint of a process of its own.
func measured(tb testing.TB, nodes int, streams, plain bool) (f footprint) {
	tb.Helper()
	api := httptest.NewServer(server{nodes, streams})
	defer api.Close()
	cmd := exec.Command(os.Args[0], "-test.run", "^$")
	cmd.Env = append(os.Environ(), asProcess+"="+api.URL)
	if plain {
		cmd.Env = append(cmd.Env, asProcess+"_PLAIN=1")
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(out, &f); err != nil {
		tb.Fatalf("the process said %q: %v", out, err)
	}
	if f.Nodes != nodes {
		tb.Fatalf("the process has %d nodes in its cache, want %d", f.Nodes, nodes)
	}
	return f
}

// TestANodeInTheCacheTakesFewKilobytes: with half as much garbage again, as the process lets there be, at most six for each node.
func TestANodeInTheCacheTakesFewKilobytes(t *testing.T) {
	for name, streams := range map[string]bool{"an API server that lists": false, "one that streams": true} {
		t.Run(name, func(t *testing.T) {
			const nodes = 1000
			if f := measured(t, nodes, streams, false); f.Heap > nodes*4<<10 || f.Heap < nodes<<10 {
				t.Errorf("%d nodes take %d bytes each", nodes, f.Heap/nodes)
			}
		})
	}
}

// TestNodesAreReadInPages from an API server that does not stream them, and each is what it would be otherwise.
func TestNodesAreReadInPages(t *testing.T) {
	const nodes = 2*pageSize + 50
	var lists atomic.Int32
	handler := server{nodes: nodes}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("watch") == "" {
			lists.Add(1)
			if n, err := strconv.Atoi(r.URL.Query().Get("limit")); err != nil || n > pageSize {
				t.Errorf("it asks for %s", r.URL)
			}
		}
		handler.ServeHTTP(w, r)
	}))
	defer api.Close()
	config := &rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: protobufType}}
	client := kubernetes.NewForConfigOrDie(config)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(Object))
	Nodes(factory, config.ContentConfig)
	none := func(any) ([]string, error) { return nil, nil }
	if err := factory.Core().V1().Nodes().Informer().AddIndexers(cache.Indexers{"mine": none}); err != nil { // as AWS' provider does
		t.Fatal(err)
	}
	lister := factory.Core().V1().Nodes().Lister()
	ctx, stop := context.WithCancel(t.Context())
	defer factory.Shutdown()
	defer stop()
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	if n := lists.Load(); n != 3 {
		t.Errorf("%d lists", n)
	}
	for i := range nodes {
		want, err := Object(kubeletNode(i))
		if err != nil {
			t.Fatal(err)
		}
		got, err := lister.Get(kubeletNode(i).Name)
		if diff := cmp.Diff(want, any(got)); err != nil || diff != "" {
			t.Fatalf("node %d (-want +got), error %v:\n%s", i, err, diff)
		}
	}
}

// BenchmarkNodes says what a process needs that has nodes in its cache, without ours and with it.
func BenchmarkNodes(b *testing.B) {
	for _, server := range []string{"lists", "streams"} {
		for _, informer := range []string{"plain", "ours"} {
			for _, nodes := range []int{5000, 15_000} {
				b.Run(fmt.Sprintf("%s/%s/%d", server, informer, nodes), func(b *testing.B) {
					for b.Loop() {
						f := measured(b, nodes, server == "streams", informer == "plain")
						b.ReportMetric(float64(f.Heap)/float64(nodes), "heapB/node")
						b.ReportMetric(float64(f.Resident)/(1<<20), "residentMiB")
						b.ReportMetric(float64(f.Most)/(1<<20), "mostMiB")
					}
				})
			}
		}
	}
}

// TestTheEnvironmentSaysHowMuchGarbageThereMayBe where it says so.
func TestTheEnvironmentSaysHowMuchGarbageThereMayBe(t *testing.T) {
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	for name, test := range map[string]struct {
		env  map[string]string
		want int
	}{
		"nothing": {map[string]string{"GOGC": "", "GOMEMLIMIT": ""}, garbage},
		"a share": {map[string]string{"GOGC": "200", "GOMEMLIMIT": ""}, 100},
		"a limit": {map[string]string{"GOGC": "", "GOMEMLIMIT": "1GiB"}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			for key, value := range test.env {
				t.Setenv(key, value)
			}
			debug.SetGCPercent(100)
			CollectOften()
			if got := debug.SetGCPercent(100); got != test.want {
				t.Errorf("the share is %d, want %d", got, test.want)
			}
		})
	}
}
