package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/readable"
)

const (
	progressDelay    = 500 * time.Millisecond // faster steps show no progress
	progressInterval = 100 * time.Millisecond
	eventInterval    = time.Second // between events in JSON
)

// The values of --progress.
const (
	progressAuto  = "auto" // on a terminal
	progressJSON  = "json"
	progressNever = "never"
)

// Progress shows how far a long command is, on one line that it rewrites, or as events in JSON.
// All methods are safe for concurrent use, and do nothing on a nil progress.
type Progress struct {
	screen *screen
	title  string
	begin  time.Time
	now    func() time.Time // for the last event; nil: there are no events, but a line

	items, bytes           atomic.Uint64
	totalItems, totalBytes atomic.Uint64 // 0: not known

	stop, stopped chan struct{}
	once          sync.Once

	logged func(err error, more ...any) // ends the step in the log
}

// Progress begins to show and to log the progress of a step, such as "adding". It returns nil if
// there is no log, and stderr is no terminal or the options suppress progress. Stop ends it.
func (e *Env) Progress(title string) *Progress {
	events := e.Global.progress == progressJSON && e.screen != nil
	hidden := !events && !showsProgress(e)
	if hidden && e.log == nil {
		return nil
	}
	p := newProgress(e.screen, title, e.Now())
	p.logged = e.log.Begin(title)
	if hidden {
		close(p.stopped)
		return p
	}
	interval := progressInterval
	if events {
		p.now, interval = e.Now, eventInterval
	}
	ticker := time.NewTicker(interval)
	go func() {
		defer ticker.Stop()
		p.drawUntilStopped(ticker.C)
	}()
	return p
}

// showsProgress reports whether progress is shown on a line of a terminal.
func showsProgress(e *Env) bool {
	g := e.Global
	return e.screen != nil && e.Terminal.Stderr && !g.Quiet && g.progress != progressNever && !g.JSON && e.Getenv("TERM") != "dumb"
}

func newProgress(s *screen, title string, begin time.Time) *Progress {
	return &Progress{
		screen: s, title: title, begin: begin, stop: make(chan struct{}), stopped: make(chan struct{}), logged: func(error, ...any) {},
	}
}

// SetTotal sets the total numbers of items and bytes; 0 means unknown.
func (p *Progress) SetTotal(items, bytes uint64) {
	if p != nil {
		p.totalItems.Store(items)
		p.totalBytes.Store(bytes)
	}
}

// Add counts items and bytes as done.
func (p *Progress) Add(items, bytes uint64) {
	if p != nil {
		p.items.Add(items)
		p.bytes.Add(bytes)
	}
}

// SetDone sets how many items and bytes are done.
func (p *Progress) SetDone(items, bytes uint64) {
	if p != nil {
		p.items.Store(items)
		p.bytes.Store(bytes)
	}
}

// Amounts returns the function that package kist reports its progress to. It is nil
// if no progress is shown.
func (p *Progress) Amounts() kist.Progress {
	if p == nil {
		return nil
	}
	return func(done, total kist.Amount) {
		p.SetTotal(uint64(total.Files), uint64(total.Bytes))
		p.SetDone(uint64(done.Files), uint64(done.Bytes))
	}
}

// Stop removes the line, or sends the last event. It may be called more than once.
func (p *Progress) Stop() {
	if p == nil {
		return
	}
	p.once.Do(func() {
		close(p.stop)
		p.logged(nil, "items", p.items.Load(), "bytes", p.bytes.Load())
		<-p.stopped
		if p.now != nil {
			p.sendEvent(p.now().Sub(p.begin), true)
		}
	})
	p.screen.clearLine()
}

func (p *Progress) drawUntilStopped(ticks <-chan time.Time) {
	defer close(p.stopped)
	for {
		select {
		case <-p.stop:
			return
		case now := <-ticks:
			switch elapsed := now.Sub(p.begin); {
			case p.now != nil:
				p.sendEvent(elapsed, false)
			case elapsed >= progressDelay:
				p.screen.showLine(p.lineAfter(elapsed))
			}
		}
	}
}

// amountsNow has the amounts of a progress at one moment.
type amountsNow struct{ items, bytes, totalItems, totalBytes uint64 }

func (p *Progress) currentAmounts() amountsNow {
	return amountsNow{p.items.Load(), p.bytes.Load(), p.totalItems.Load(), p.totalBytes.Load()}
}

// shareDone returns how much is done: bytes, or items if their number is all that is known. The
// total is 0 if it is not known.
func (n amountsNow) shareDone() (done, total uint64) {
	if n.totalBytes == 0 {
		return n.items, n.totalItems
	}
	return n.bytes, n.totalBytes
}

// timeLeft returns the time that the rest takes at the speed so far. It is 0 if that is not known.
func (n amountsNow) timeLeft(elapsed time.Duration) time.Duration {
	done, total := n.shareDone()
	if done == 0 || done >= total || elapsed <= 2*time.Second {
		return 0
	}
	return time.Duration(float64(elapsed) * float64(total-done) / float64(done)).Round(time.Second)
}

// lineAfter returns the text of the line after elapsed time.
func (p *Progress) lineAfter(elapsed time.Duration) string {
	n := p.currentAmounts()
	done, total := n.shareDone()

	var b strings.Builder
	b.WriteString(p.title)
	if total > 0 {
		fmt.Fprintf(&b, " %3d %%", 100*min(done, total)/total)
	}
	fmt.Fprintf(&b, "  %s", readable.FormatCount(n.items))
	if n.totalItems > 0 {
		fmt.Fprintf(&b, " of %s", readable.FormatCount(n.totalItems))
	}
	if n.bytes > 0 {
		fmt.Fprintf(&b, "  %s  %s/s", readable.FormatSize(n.bytes), readable.FormatSize(uint64(float64(n.bytes)/elapsed.Seconds())))
	}
	if left := n.timeLeft(elapsed); left > 0 {
		fmt.Fprintf(&b, "  %s left", left)
	}
	return b.String()
}

// progressEvent is a line of --progress json. The names are those of restic's, except for
// items, which need not be files.
type progressEvent struct {
	MessageType      string   `json:"message_type" doc:"the sort of the line" values:"status"`
	Step             string   `json:"step" doc:"the step, as in \"adding\""`
	SecondsElapsed   int64    `json:"seconds_elapsed" doc:"the seconds since the step began"`
	SecondsRemaining int64    `json:"seconds_remaining,omitempty" doc:"the estimated seconds until it ends"`
	PercentDone      *float64 `json:"percent_done,omitempty" doc:"the part that is done, from 0 to 1"`
	ItemsDone        uint64   `json:"items_done" doc:"the number of files or objects that are done"`
	TotalItems       uint64   `json:"total_items,omitempty" doc:"the number of all of them"`
	BytesDone        uint64   `json:"bytes_done" doc:"the number of bytes that are done"`
	TotalBytes       uint64   `json:"total_bytes,omitempty" doc:"the number of all bytes"`
	StepDone         bool     `json:"step_done" doc:"true at the end of a step"`
}

// sendEvent writes a line of JSON to standard error.
func (p *Progress) sendEvent(elapsed time.Duration, last bool) {
	n := p.currentAmounts()
	e := progressEvent{
		MessageType: "status", Step: p.title, SecondsElapsed: int64(elapsed.Seconds()), SecondsRemaining: int64(n.timeLeft(elapsed).Seconds()),
		ItemsDone: n.items, TotalItems: n.totalItems, BytesDone: n.bytes, TotalBytes: n.totalBytes, StepDone: last,
	}
	if done, total := n.shareDone(); total > 0 {
		share := float64(min(done, total)) / float64(total)
		e.PercentDone = &share
	}
	line, err := json.Marshal(e)
	Must(err)
	_, _ = p.screen.Write(append(line, '\n'))
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
func (s *screen) Write(p []byte) (int, error) { return s.writeText(s.w, p) }

func (s *screen) writeText(w io.Writer, p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLine()
	n, err := w.Write(p)
	if n > 0 {
		s.inLine = p[n-1] != '\n'
	}
	return n, err
}

// guardStream returns a writer to w, a stream that may be the same terminal.
func (s *screen) guardStream(w io.Writer) io.Writer {
	if !s.term.Stdout {
		return w
	}
	return guarded{s, w}
}

// redirect makes the screen write messages to w, because w has the terminal.
func (s *screen) redirect(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLine()
	s.w = w
}

type guarded struct {
	screen *screen
	w      io.Writer
}

func (g guarded) Write(p []byte) (int, error) { return g.screen.writeText(g.w, p) }

// showLine puts text on the last line, cut to the terminal's width.
func (s *screen) showLine(text string) {
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

// clearLine removes the progress from the last line.
func (s *screen) clearLine() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLine()
}

func (s *screen) removeLine() {
	if s.shown {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.shown = false
	}
}
