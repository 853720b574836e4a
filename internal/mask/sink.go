package mask

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
)

// Logger masks all that is logged with a logger before it is formatted: messages, names, errors and values.
func Logger(l logr.Logger) logr.Logger {
	next := l.GetSink()
	if next == nil { // it discards everything
		return l
	}
	if deeper, ok := next.(logr.CallDepthLogSink); ok {
		next = deeper.WithCallDepth(1) // this sink's own
	}
	return l.WithSink(sink{next})
}

// sink has another one log what it has masked.
type sink struct{ next logr.LogSink }

// Init implements logr.LogSink. The other sink was initialised by its own logger.
func (s sink) Init(logr.RuntimeInfo) {}

// Enabled implements logr.LogSink.
func (s sink) Enabled(level int) bool { return s.next.Enabled(level) }

// Info implements logr.LogSink.
func (s sink) Info(level int, message string, values ...any) {
	s.next.Info(level, Text(message), logValues(values)...)
}

// Error implements logr.LogSink.
func (s sink) Error(err error, message string, values ...any) {
	if err != nil {
		err = errors.New(Error(err))
	}
	s.next.Error(err, Text(message), logValues(values)...)
}

// WithValues implements logr.LogSink.
func (s sink) WithValues(values ...any) logr.LogSink {
	return sink{s.next.WithValues(logValues(values)...)}
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

// logValues masks the values of keys. What is a number, a time or the name of an object stays as it is.
func logValues(in []any) []any {
	out := make([]any, len(in))
	for i, value := range in {
		out[i] = value
		if i%2 == 1 {
			out[i] = logValue(fmt.Sprint(in[i-1]), value)
		}
	}
	return out
}

func logValue(key string, value any) any {
	switch v := value.(type) {
	case nil,
		bool,
		int,
		int8,
		int16,
		int32,
		int64,
		uint,
		uint8,
		uint16,
		uint32,
		uint64,
		float32,
		float64,
		time.Time,
		time.Duration,
		logr.Marshaler:
		return v
	case error:
		return Named(key, Error(v))
	case []byte:
		return Named(key, Text(string(v)))
	case []string:
		return Texts(v)
	case fmt.Stringer:
		return Named(key, Text(v.String()))
	}
	return Named(key, Text(fmt.Sprintf("%+v", value)))
}
