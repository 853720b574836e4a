package trim

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func encodeEvent(tb testing.TB, of k8sruntime.Object) []byte {
	tb.Helper()
	data, err := (&metav1.WatchEvent{Type: "MODIFIED", Object: k8sruntime.RawExtension{Raw: encode(of)}}).Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// decoders are those of lists and of events that a client has with some codecs.
type decoders struct{ list, event, inEvent k8sruntime.Decoder }

func decodersOf(tb testing.TB, codecs k8sruntime.NegotiatedSerializer) (d decoders) {
	tb.Helper()
	negotiator := k8sruntime.NewClientNegotiator(codecs, corev1.SchemeGroupVersion)
	list, err := negotiator.Decoder(protobufType, nil)
	inEvent, event, _, err2 := negotiator.StreamDecoder(protobufType, nil)
	if err := errors.Join(err, err2); err != nil {
		tb.Fatal(err)
	}
	return decoders{list, event, inEvent}
}

func bothDecoders(tb testing.TB) (plain, lean decoders) {
	tb.Helper()
	codecs := rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion()
	return decodersOf(tb, codecs), decodersOf(tb, leanCodecs{codecs})
}

// watched is the object of an event, as a client decodes it.
func (d decoders) watched(data []byte) (k8sruntime.Object, error) {
	var got metav1.WatchEvent
	if _, _, err := d.event.Decode(data, nil, &got); err != nil {
		return nil, err
	}
	return k8sruntime.Decode(d.inEvent, got.Object.Raw)
}

func isNode(o k8sruntime.Object) bool {
	_, ok := o.(*corev1.Node)
	return ok
}

// trimmed is what a cache has of an object, or of those of a list.
func trimmed(tb testing.TB, decoded k8sruntime.Object) any {
	tb.Helper()
	if list, ok := decoded.(*corev1.NodeList); ok {
		for i := range list.Items {
			trimmed(tb, &list.Items[i])
		}
		return list
	}
	got, err := Object(decoded)
	if err != nil {
		tb.Fatal(err)
	}
	return got
}

func TestWhatCachesDoNotKeepIsNotDecoded(t *testing.T) {
	plain, lean := bothDecoders(t)
	list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "9", Continue: "c"}, Items: []corev1.Node{*kubeletNode(1), *kubeletNode(2)}}
	want, err := k8sruntime.Decode(plain.list, encode(list))
	if err != nil {
		t.Fatal(err)
	}
	got, err := k8sruntime.Decode(lean.list, encode(list))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range got.(*corev1.NodeList).Items {
		if s := n.Status; n.ManagedFields != nil || s.Images != nil || s.Capacity != nil || len(s.Conditions) == 0 || n.Spec.ProviderID == "" {
			t.Errorf("of a list, this is decoded: %+v", n)
		}
	}
	if diff := cmp.Diff(trimmed(t, want), trimmed(t, got)); diff != "" {
		t.Errorf("a list (-want +got):\n%s", diff)
	}
	for name, of := range map[string]k8sruntime.Object{
		"Node":     kubeletNode(3),
		"bookmark": &corev1.Node{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "9"}},
		"Status":   &metav1.Status{Code: 410, Reason: metav1.StatusReasonExpired, Message: "too old resource version"},
		"Service":  &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", ManagedFields: kubeletNode(4).ManagedFields}},
	} {
		want, err := plain.watched(encodeEvent(t, of))
		if err != nil {
			t.Fatal(err)
		}
		got, err := lean.watched(encodeEvent(t, of))
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := got.(*corev1.Node); ok && (n.ManagedFields != nil || n.Status.Images != nil) {
			t.Errorf("of a watched Node, this is decoded: %+v", n)
		}
		if diff := cmp.Diff(trimmed(t, want), trimmed(t, got)); diff != "" {
			t.Errorf("a watched %s (-want +got):\n%s", name, diff)
		}
	}
}

// A heartbeat makes less than half of the garbage that it makes when all of a Node is decoded.
func TestAHeartbeatMakesLittleGarbage(t *testing.T) {
	plain, lean := bothDecoders(t)
	data := encodeEvent(t, kubeletNode(1))
	garbage := func(d decoders) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 200 {
			if _, err := d.watched(data); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / 200
	}
	if all, some := garbage(plain), garbage(lean); some > all/2 {
		t.Errorf("an event makes %d bytes of garbage, and %d where all is decoded", some, all)
	}
}

// BenchmarkHeartbeat decodes the Node of a kubelet's heartbeat, without ours and with it.
func BenchmarkHeartbeat(b *testing.B) {
	plain, lean := bothDecoders(b)
	data := encodeEvent(b, kubeletNode(1))
	for name, d := range map[string]decoders{"plain": plain, "ours": lean} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.watched(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzWire: whatever comes, nothing panics. Of what an API server could send, only what caches do not keep is missing.
func FuzzWire(f *testing.F) {
	f.Add(encodeEvent(f, fullNode()))
	f.Add(encode(&corev1.NodeList{Items: []corev1.Node{*fullNode()}}))
	f.Add(encode(fullNode()))
	f.Add(bytes.Repeat([]byte{0xff}, 30))
	plain, lean := bothDecoders(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, way := range map[string]struct {
			decode func(d decoders, data []byte) (k8sruntime.Object, error)
			encode func(k8sruntime.Object) []byte
		}{
			"list":  {func(d decoders, data []byte) (k8sruntime.Object, error) { return k8sruntime.Decode(d.list, data) }, encode},
			"event": {decoders.watched, func(o k8sruntime.Object) []byte { return encodeEvent(t, o) }},
		} {
			_, _ = way.decode(lean, data) // it must not panic
			sent, err := way.decode(plain, data)
			if _, isList := sent.(*corev1.NodeList); err != nil || !isList && !isNode(sent) {
				continue
			}
			data := way.encode(sent) // the decoder also takes fields that end behind their message
			want, err := way.decode(plain, data)
			if err != nil {
				continue
			}
			got, err := way.decode(lean, data)
			if err != nil {
				t.Fatalf("%s: it is not decoded: %v", name, err)
			}
			if diff := cmp.Diff(trimmed(t, want), trimmed(t, got)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}
