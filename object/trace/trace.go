// Package trace writes a log of the steps of a command, with their durations, for people who look
// for the reason of a failure. The context carries the log to all packages. Without a log, all
// functions do nothing.
package trace

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

// Log writes steps and notes, a line for each. It is safe for concurrent use. A nil Log writes nothing.
type Log struct {
	lines slog.Handler
	now   func() time.Time
	steps atomic.Uint64
}

// New returns a log that writes each line with one call of w.Write. All lines have attrs, which are
// pairs of a name and a value.
func New(w io.Writer, now func() time.Time, attrs ...any) *Log {
	lines := slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: withoutLevel})
	return &Log{lines: slog.New(lines).With(attrs...).Handler(), now: now}
}

// withoutLevel removes the level, which is the same in all lines.
func withoutLevel(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.LevelKey {
		return slog.Attr{}
	}
	return a
}

// Note writes a line.
func (l *Log) Note(text string, attrs ...any) {
	if l == nil {
		return
	}

	line := slog.NewRecord(l.now(), slog.LevelDebug, text, 0)
	line.Add(attrs...)
	_ = l.lines.Handle(context.Background(), line) // a command does not fail because of its log
}

// Begin writes a line with "begin" before the name of a step. The returned function writes one with
// "end", the duration, the error if there is one, and more attributes. Both lines have the same
// number, because steps run beside each other. A step without an end shows where a command hangs.
func (l *Log) Begin(step string, attrs ...any) (end func(err error, more ...any)) {
	if l == nil {
		return func(error, ...any) {}
	}

	number, began := l.steps.Add(1), l.now()
	l.Note("begin "+step, append([]any{"step", number}, attrs...)...)
	return func(err error, more ...any) {
		ended := append([]any{"step", number, "took", l.now().Sub(began)}, more...)
		if err != nil {
			ended = append(ended, "error", err)
		}
		l.Note("end "+step, ended...)
	}
}

type key struct{}

// With returns a context that carries the log.
func With(ctx context.Context, l *Log) context.Context { return context.WithValue(ctx, key{}, l) }

// From returns the log that a context carries, or nil.
func From(ctx context.Context) *Log {
	l, _ := ctx.Value(key{}).(*Log)
	return l
}
