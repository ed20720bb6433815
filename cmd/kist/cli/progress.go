package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/kist-vcs/kist"
)

const (
	progressDelay    = 500 * time.Millisecond // faster steps show no progress
	progressInterval = 100 * time.Millisecond
)

// progress shows how far a long command is, on one line that it rewrites. All methods are safe for concurrent use, and do nothing on a nil progress.
type progress struct {
	screen *screen
	title  string
	begin  time.Time

	items, bytes           atomic.Uint64
	totalItems, totalBytes atomic.Uint64 // 0: not known

	stop, stopped chan struct{}
	once          sync.Once

	logged func(err error, more ...any) // ends the step in the log
}

// progress begins to show and to log the progress of a step, such as "adding". It returns nil if
// there is no log, and stderr is no terminal or the options suppress progress. Stop ends it.
func (e *Env) progress(title string) *progress {
	g := e.global
	hidden := e.screen == nil || !e.Terminal.Stderr || g.quiet || g.noProgress || g.json || e.Getenv("TERM") == "dumb"
	if hidden && e.log == nil {
		return nil
	}
	p := newProgress(e.screen, title, e.Now())
	p.logged = e.log.Begin(title)
	if hidden {
		close(p.stopped)
		return p
	}
	ticker := time.NewTicker(progressInterval)
	go func() {
		defer ticker.Stop()
		p.run(ticker.C)
	}()
	return p
}

func newProgress(s *screen, title string, begin time.Time) *progress {
	return &progress{
		screen: s, title: title, begin: begin, stop: make(chan struct{}), stopped: make(chan struct{}), logged: func(error, ...any) {},
	}
}

// Total sets the total numbers of items and bytes; 0 means unknown.
func (p *progress) Total(items, bytes uint64) {
	if p != nil {
		p.totalItems.Store(items)
		p.totalBytes.Store(bytes)
	}
}

// Add counts items and bytes as done.
func (p *progress) Add(items, bytes uint64) {
	if p != nil {
		p.items.Add(items)
		p.bytes.Add(bytes)
	}
}

// Set sets how many items and bytes are done.
func (p *progress) Set(items, bytes uint64) {
	if p != nil {
		p.items.Store(items)
		p.bytes.Store(bytes)
	}
}

// amounts returns the function that package kist reports its progress to. It is nil
// if no progress is shown.
func (p *progress) amounts() kist.Progress {
	if p == nil {
		return nil
	}
	return func(done, total kist.Amount) {
		p.Total(uint64(total.Files), uint64(total.Bytes))
		p.Set(uint64(done.Files), uint64(done.Bytes))
	}
}

// Stop removes the line. It may be called more than once.
func (p *progress) Stop() {
	if p == nil {
		return
	}
	p.once.Do(func() {
		close(p.stop)
		p.logged(nil, "items", p.items.Load(), "bytes", p.bytes.Load())
	})
	<-p.stopped
	p.screen.clear()
}

func (p *progress) run(ticks <-chan time.Time) {
	defer close(p.stopped)
	for {
		select {
		case <-p.stop:
			return
		case now := <-ticks:
			if elapsed := now.Sub(p.begin); elapsed >= progressDelay {
				p.screen.show(p.line(elapsed))
			}
		}
	}
}

// line returns the text of the line after elapsed time.
func (p *progress) line(elapsed time.Duration) string {
	items, bytes := p.items.Load(), p.bytes.Load()
	totalItems, totalBytes := p.totalItems.Load(), p.totalBytes.Load()
	done, total := bytes, totalBytes
	if total == 0 {
		done, total = items, totalItems
	}

	var b strings.Builder
	b.WriteString(p.title)
	if total > 0 {
		fmt.Fprintf(&b, " %3d %%", 100*min(done, total)/total)
	}
	fmt.Fprintf(&b, "  %s", formatCount(items))
	if totalItems > 0 {
		fmt.Fprintf(&b, " of %s", formatCount(totalItems))
	}
	if bytes > 0 {
		fmt.Fprintf(&b, "  %s  %s/s", formatSize(bytes), formatSize(uint64(float64(bytes)/elapsed.Seconds())))
	}
	if total > 0 && done > 0 && done < total && elapsed > 2*time.Second {
		left := time.Duration(float64(elapsed) * float64(total-done) / float64(done))
		fmt.Fprintf(&b, "  %s left", left.Round(time.Second))
	}
	return b.String()
}

// screen is a terminal whose last line may show progress. A write to the screen, or
// to the same terminal through guard, first removes that line.
type screen struct {
	mu     sync.Mutex
	w      io.Writer
	term   Terminal
	shown  bool // progress is on the last line
	inLine bool // the last line holds text that is not progress
}

func newScreen(w io.Writer, term Terminal) *screen { return &screen{w: w, term: term} }

// Write writes to the stream that the screen was made for.
func (s *screen) Write(p []byte) (int, error) { return s.write(s.w, p) }

func (s *screen) write(w io.Writer, p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove()
	n, err := w.Write(p)
	if n > 0 {
		s.inLine = p[n-1] != '\n'
	}
	return n, err
}

// guard returns a writer to w, a stream that may be the same terminal.
func (s *screen) guard(w io.Writer) io.Writer {
	if !s.term.Stdout {
		return w
	}
	return guarded{s, w}
}

// redirect makes the screen write messages to w, because w has the terminal.
func (s *screen) redirect(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove()
	s.w = w
}

type guarded struct {
	screen *screen
	w      io.Writer
}

func (g guarded) Write(p []byte) (int, error) { return g.screen.write(g.w, p) }

// show puts text on the last line, cut to the terminal's width.
func (s *screen) show(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inLine {
		return
	}
	width := 80
	if s.term.Width != nil {
		width = s.term.Width()
	}
	if most := max(width-1, 0); utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most])
	}
	fmt.Fprintf(s.w, "\r%s\x1b[K", text)
	s.shown = true
}

// clear removes the progress from the last line.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove()
}

func (s *screen) remove() {
	if s.shown {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.shown = false
	}
}
