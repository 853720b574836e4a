// Package events decides what stands in the events that a process writes: what it says, without secrets.
package events

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/transplant-dev/transplant/internal/mask"
)

// Sink writes events to an API server, and masks their messages. A cloud's error may hold a presigned URL or a
// password, and more accounts may read events than logs.
func Sink(api typedcorev1.EventsGetter) record.EventSink {
	return sink{&typedcorev1.EventSinkImpl{Interface: api.Events("")}}
}

type sink struct{ next record.EventSink }

func (s sink) Create(event *corev1.Event) (*corev1.Event, error) { return s.next.Create(masked(event)) }

func (s sink) Update(event *corev1.Event) (*corev1.Event, error) { return s.next.Update(masked(event)) }

// Patch counts an event once more. The patch has its message again.
func (s sink) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	data, err := maskPatch(data)
	if err != nil {
		return nil, err
	}
	return s.next.Patch(masked(event), data)
}

func masked(event *corev1.Event) *corev1.Event {
	out := *event
	out.Message = mask.Text(event.Message)
	return &out
}

// maskPatch masks the message in a patch. Everything else stays as it is.
func maskPatch(data []byte) ([]byte, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	if _, ok := fields["message"]; !ok {
		return data, nil
	}
	var message string
	if err := json.Unmarshal(fields["message"], &message); err != nil {
		return nil, err
	}
	text, err := json.Marshal(mask.Text(message))
	if err != nil {
		return nil, err
	}
	fields["message"] = text
	return json.Marshal(fields)
}
