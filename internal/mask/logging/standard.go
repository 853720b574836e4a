package logging

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/transplant-dev/transplant/internal/mask"
)

// maskStandard masks what slog's default logger and the package log write. The handler of slog's own stays: it writes
// by the package log, and slog would have that one write by the handler.
func maskStandard() {
	handler, writer, flags := slog.Default().Handler(), log.Writer(), log.Flags()
	if _, masks := handler.(slogHandler); !masks && !isSlogsOwn(handler) {
		slog.SetDefault(slog.New(slogHandler{handler})) // and the package log writes by it, too
		if isSlogsOwn(writer) {
			return
		}
		log.SetFlags(flags)
	}
	if _, masks := writer.(lineWriter); !masks && !isSlogsOwn(writer) {
		log.SetOutput(lineWriter{writer})
	}
}

// isSlogsOwn reports whether a value is slog's: the handler that writes by the package log, or the other way round.
func isSlogsOwn(value any) bool {
	name := fmt.Sprintf("%T", value)
	return name == "*slog.defaultHandler" || name == "*slog.handlerWriter"
}

// lineWriter masks lines, each of which is written at once.
type lineWriter struct{ io.Writer }

// Write implements io.Writer.
func (w lineWriter) Write(line []byte) (int, error) {
	if _, err := w.Writer.Write([]byte(mask.Text(string(line)))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// slogHandler masks records.
type slogHandler struct{ slog.Handler }

// Handle implements slog.Handler.
func (h slogHandler) Handle(ctx context.Context, r slog.Record) error {
	masked := slog.NewRecord(r.Time, r.Level, mask.Text(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		masked.AddAttrs(maskAttr(a))
		return true
	})
	return h.Handler.Handle(ctx, masked)
}

// WithAttrs implements slog.Handler.
func (h slogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return slogHandler{h.Handler.WithAttrs(maskAttrs(attrs))}
}

// WithGroup implements slog.Handler.
func (h slogHandler) WithGroup(name string) slog.Handler {
	return slogHandler{h.Handler.WithGroup(name)}
}

func maskAttrs(attrs []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = maskAttr(a)
	}
	return out
}

func maskAttr(a slog.Attr) slog.Attr {
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(maskAttrs(value.Group())...)}
	}
	return slog.Any(a.Key, mask.LogValues([]any{a.Key, value.Any()})[1])
}
