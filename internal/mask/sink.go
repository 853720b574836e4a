package mask

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Logger masks all that is logged with a logger before it is formatted: messages, names, errors and values.
func Logger(l logr.Logger) logr.Logger {
	next := l.GetSink()
	if next == nil || IsMasked(l) { // without a sink it discards everything
		return l
	}
	if deeper, ok := next.(logr.CallDepthLogSink); ok {
		next = deeper.WithCallDepth(1) // this sink's own
	}
	return l.WithSink(sink{next})
}

// IsMasked reports whether a logger masks what it is given.
func IsMasked(l logr.Logger) bool {
	_, masks := l.GetSink().(sink)
	return masks
}

// sink has another one log what it has masked.
type sink struct{ next logr.LogSink }

// Init implements logr.LogSink. The other sink was initialised by its own logger.
func (s sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (s sink) Enabled(level int) bool { return s.next.Enabled(level) }

// Info implements logr.LogSink.
func (s sink) Info(level int, message string, values ...any) {
	s.next.Info(level, Text(message), LogValues(values)...)
}

// Error implements logr.LogSink.
func (s sink) Error(err error, message string, values ...any) {
	if err != nil {
		if text := textOf(err); Text(text) != text {
			err = errors.New(Text(text))
		}
	}
	s.next.Error(err, Text(message), LogValues(values)...)
}

// WithValues implements logr.LogSink.
func (s sink) WithValues(values ...any) logr.LogSink {
	return sink{s.next.WithValues(LogValues(values)...)}
}

// WithName implements logr.LogSink.
func (s sink) WithName(name string) logr.LogSink { return sink{s.next.WithName(name)} }

// WithCallDepth implements logr.CallDepthLogSink.
func (s sink) WithCallDepth(depth int) logr.LogSink {
	if deeper, ok := s.next.(logr.CallDepthLogSink); ok {
		return sink{deeper.WithCallDepth(depth)}
	}
	return s
}

// LogValues masks the values of keys and values.
func LogValues(in []any) []any {
	out := make([]any, len(in))
	for i, value := range in {
		out[i] = value
		if i%2 == 1 {
			out[i] = logValue(textOf(in[i-1]), value)
		}
	}
	return out
}

// logValue masks the value of a key. What holds no secret stays as it is: how it is written is for the next sink to
// say.
func logValue(key string, value any) any {
	switch v := value.(type) {
	case nil, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64:
		return v
	case time.Time, time.Duration, klog.ObjectRef:
		return v
	case string:
		return Named(key, v)
	case []byte:
		return keepOr(value, string(v), Named(key, Text(string(v))))
	case []string:
		return logList(key, v)
	case logr.Marshaler:
		return logMarshaler(key, v)
	case error, fmt.Stringer:
		text := textOf(v)
		return keepOr(value, text, Named(key, text))
	}
	return logStructure(key, value)
}

// keepOr returns a value if nothing in its text was masked, or else the masked text.
func keepOr(value any, text, masked string) any {
	if text == masked {
		return value
	}
	return masked
}

// logList masks a list, which may be a command line.
func logList(key string, list []string) []string {
	out := Command(list)
	for i := range out {
		out[i] = Named(key, out[i])
	}
	return out
}

// logStructure masks maps, structures and pointers. Sinks write them as JSON or as Go does.
func logStructure(key string, value any) any {
	plain := fmt.Sprintf("%+v", value)
	masked := Named(key, plain)
	var document strings.Builder
	encoder := json.NewEncoder(&document)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(value) == nil {
		text := strings.TrimSuffix(document.String(), "\n")
		if kept := Named(key, text); kept != text {
			return kept
		}
	}
	return keepOr(value, plain, masked)
}

// logMarshaler masks what chooses itself what is logged of it.
func logMarshaler(key string, m logr.Marshaler) any {
	chosen, ok := marshalLog(m)
	text := fmt.Sprintf("%+v", m)
	if !ok {
		return Named(key, text)
	}
	if masked := logValue(key, chosen); !reflect.DeepEqual(masked, chosen) {
		return masked
	}
	return keepOr(m, text, Named(key, text))
}

// marshalLog returns what a value wants to be logged as, unless it panics or goes on for ever.
func marshalLog(m logr.Marshaler) (chosen any, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	chosen = m.MarshalLog()
	_, again := chosen.(logr.Marshaler)
	return chosen, !again
}

// textOf returns the text of a value, also of a nil pointer that has methods.
func textOf(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	return fmt.Sprint(value)
}
