package trim

import (
	"bytes"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// leanNodes is a client of Nodes that decodes no more of them than caches keep, where the API server sends protobuf.
// Decoding the images of each heartbeat, and collecting that garbage, is most of what a manager does in a large cluster
// in which nothing happens. A client that is no REST client, such as a test's, is used as it is.
func leanNodes(client kubernetes.Interface, content rest.ContentConfig) typedcorev1.NodeInterface {
	given, ok := client.CoreV1().RESTClient().(*rest.RESTClient)
	if !ok || given == nil {
		return client.CoreV1().Nodes()
	}
	codecs := rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion()
	made, err := rest.NewRESTClient(given.Get().URL(), "", rest.ClientContentConfig{
		AcceptContentTypes: content.AcceptContentTypes,
		ContentType:        content.ContentType,
		GroupVersion:       corev1.SchemeGroupVersion,
		Negotiator:         runtime.NewClientNegotiator(leanCodecs{codecs}, corev1.SchemeGroupVersion),
	}, given.GetRateLimiter(), given.Client)
	if err != nil {
		return client.CoreV1().Nodes()
	}
	return typedcorev1.New(made).Nodes()
}

// leanCodecs are codecs whose decoders of protobuf skip what caches do not keep.
type leanCodecs struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (c leanCodecs) SupportedMediaTypes() []runtime.SerializerInfo {
	types := slices.Clone(c.NegotiatedSerializer.SupportedMediaTypes())
	for i := range types {
		t := &types[i]
		if t.MediaType != runtime.ContentTypeProtobuf {
			continue
		}
		t.Serializer = leanSerializer{t.Serializer, object{"NodeList": listOfNodes}}
		if t.StreamSerializer != nil {
			stream := *t.StreamSerializer
			stream.Serializer = leanSerializer{stream.Serializer, event}
			t.StreamSerializer = &stream
		}
	}
	return types
}

type leanSerializer struct {
	runtime.Serializer
	kept part
}

// Decode implements runtime.Decoder.
func (s leanSerializer) Decode(
	data []byte,
	defaults *schema.GroupVersionKind,
	into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	return s.Serializer.Decode(kept(s.kept, data), defaults, into)
}

// kept is what is to be decoded of some data: what a part keeps of it. Data that cannot be read is not changed, so that
// the decoder says what is wrong with it.
func kept(of part, data []byte) []byte {
	const smaller = 4 // a Node without images is about a fourth of it
	out, ok := of.keep(make([]byte, 0, len(data)/smaller), data)
	if !ok {
		return data
	}
	return out
}

// A part of what the API server sends appends to out what is kept of it. It is false for data that cannot be read.
type part interface {
	keep(out, data []byte) ([]byte, bool)
}

// message is a message of protobuf: which fields are dropped, and what is kept of others.
type message struct {
	dropped []protowire.Number
	parts   map[protowire.Number]part
}

// The fields that Object empties, as k8s.io/api/core/v1/generated.proto numbers them.
var (
	node = message{parts: map[protowire.Number]part{
		1: message{dropped: []protowire.Number{17}},             // metadata: managedFields
		3: message{dropped: []protowire.Number{1, 2, 8, 9, 10}}, // status: capacity, allocatable, images, volumes
	}}
	listOfNodes = message{parts: map[protowire.Number]part{2: node}}
	// event is a WatchEvent, with its object in a RawExtension.
	event = message{parts: map[protowire.Number]part{
		2: message{parts: map[protowire.Number]part{1: object{"Node": node}}},
	}}
)

func (m message) keep(out, data []byte) ([]byte, bool) {
	for len(data) > 0 {
		f, rest, ok := firstField(data)
		if !ok {
			return nil, false
		}
		data = rest
		inner := m.parts[f.number]
		switch {
		case slices.Contains(m.dropped, f.number):
		case inner == nil || f.kind != protowire.BytesType:
			out = append(out, f.whole...)
		default:
			start := len(out)
			if out, ok = inner.keep(out, f.content); !ok {
				return nil, false
			}
			var header [2 * maxVarint]byte // the size is known only now
			begin := protowire.AppendVarint(protowire.AppendTag(header[:0], f.number, f.kind), uint64(len(out)-start))
			out = slices.Insert(out, start, begin...)
		}
	}
	return out, true
}

const maxVarint = 10 // bytes

// field is a field of a message.
type field struct {
	number  protowire.Number
	kind    protowire.Type
	whole   []byte // with its tag
	content []byte // of a field of bytes
}

// firstField is the first field of a message, and what follows it. It is false for data that cannot be read.
func firstField(data []byte) (f field, rest []byte, ok bool) {
	number, kind, tag := protowire.ConsumeTag(data)
	if tag < 0 {
		return f, nil, false
	}
	size := protowire.ConsumeFieldValue(number, kind, data[tag:])
	if size < 0 {
		return f, nil, false
	}
	f = field{number: number, kind: kind, whole: data[:tag+size]}
	if kind == protowire.BytesType {
		f.content, _ = protowire.ConsumeBytes(data[tag:]) // which is there, since its size is
	}
	return f, data[tag+size:], true
}

// magic is what an object of the API begins with as protobuf. A runtime.Unknown follows.
var magic = []byte("k8s\x00")

// object is an object of the API, and what is kept of it by its kind. Others are kept as they are.
type object map[string]part

func (o object) keep(out, data []byte) ([]byte, bool) {
	unknown, ok := bytes.CutPrefix(data, magic)
	if !ok {
		return append(out, data...), true
	}
	of, ok := o[kindOf(unknown)]
	if !ok {
		return append(out, data...), true
	}
	return message{parts: map[protowire.Number]part{2: of}}.keep(append(out, magic...), unknown)
}

// kindOf is the kind of an object in a runtime.Unknown, whose first field is a TypeMeta.
func kindOf(unknown []byte) string {
	for _, number := range []protowire.Number{1, 2} { // typeMeta, and its kind
		unknown = lastOf(unknown, number)
	}
	return string(unknown)
}

// lastOf is the value of a field of bytes, empty where there is none. Of several, the last one counts.
func lastOf(data []byte, wanted protowire.Number) (value []byte) {
	for len(data) > 0 {
		f, rest, ok := firstField(data)
		if !ok {
			return nil
		}
		if f.number == wanted && f.kind == protowire.BytesType {
			value = f.content
		}
		data = rest
	}
	return value
}
