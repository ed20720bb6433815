package cli

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestProgressLine(t *testing.T) {
	s := newScreen(&bytes.Buffer{}, Terminal{})
	p := newProgress(s, "adding", time.Time{})
	p.Add(1200, 3<<20)
	if got, want := p.lineAfter(time.Second), "adding  1,200  3.0 MiB  3.0 MiB/s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.SetTotal(2400, 12<<20)
	if got, want := p.lineAfter(3*time.Second), `adding  25 %  1,200 of 2,400  3.0 MiB  1.0 MiB/s  9s left`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.SetDone(5000, 24<<20) // a folder that grew since it was counted
	if got := p.lineAfter(time.Second); !strings.Contains(got, "100 %") {
		t.Errorf("above the total: %q, want 100 %%", got)
	}
}

func TestProgressShowsLateAndGoes(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out, Terminal{Stderr: true, Width: func() int { return 20 }})
	begin := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	p := newProgress(s, "counting something for long", begin)
	ticks := make(chan time.Time)
	go p.drawUntilStopped(ticks)
	ticks <- begin.Add(progressDelay / 2)
	ticks <- begin.Add(progressDelay / 2) // received after the first was handled
	if out.Len() > 0 {
		t.Errorf("shown before progressDelay: %q", out.String())
	}
	ticks <- begin.Add(progressDelay)
	fmt.Fprintln(s, "note")
	p.Stop()
	p.Stop()
	got := out.String()
	if !strings.Contains(got, "note\n") || strings.Contains(got, "something for long") {
		t.Errorf("want a note and the title cut to 19 columns: %q", got)
	}
	if shown, _, _ := strings.Cut(got, "note"); shown != "" && !strings.HasSuffix(shown, "\r\x1b[K") {
		t.Errorf("the note is on the line of the progress: %q", got)
	}
	if !strings.HasSuffix(got, "note\n") && !strings.HasSuffix(got, "\r\x1b[K") {
		t.Errorf("the line of the progress was not cleared: %q", got)
	}
}

func TestProgressOnlyOnTerminal(t *testing.T) {
	for name, change := range map[string]func(*Env){
		"no terminal":   func(e *Env) { e.Terminal.Stderr = false },
		"--quiet":       func(e *Env) { e.Global.Quiet = true },
		"--no-progress": func(e *Env) { e.Global.progress = progressNever },
		"--json":        func(e *Env) { e.Global.JSON = true },
		"TERM=dumb":     func(e *Env) { e.Getenv = func(string) string { return "dumb" } },
	} {
		env, _, stderr := testEnv(t)
		env.screen = newScreen(stderr, env.Terminal)
		env.Terminal.Stderr = true
		p := env.Progress("adding")
		if p == nil {
			t.Fatal("no progress on a terminal")
		}
		p.Stop()
		change(env)
		if p := env.Progress("adding"); p != nil {
			p.Stop()
			t.Errorf("%s: progress is shown", name)
		}
	}
	var none *Progress
	none.SetTotal(1, 1)
	none.Add(1, 1)
	none.SetDone(1, 1)
	none.Stop()
}

// Events need no terminal, and each step ends with one.
func TestProgressEvents(t *testing.T) {
	for name, change := range map[string]func(*Env){
		"no terminal": func(e *Env) {},
		"terminal":    func(e *Env) { e.Terminal.Stderr = true },
		"--quiet":     func(e *Env) { e.Global.Quiet = true },
		"--json":      func(e *Env) { e.Global.JSON = true },
	} {
		env, _, stderr := testEnv(t)
		env.screen = newScreen(stderr, env.Terminal)
		env.Global.progress = progressJSON
		change(env)
		p := env.Progress("adding")
		p.SetTotal(4, 100)
		p.SetDone(1, 25)
		p.Stop()
		p.Stop()
		lines := strings.SplitAfter(strings.TrimSuffix(stderr.String(), "\n"), "\n")
		want := `{"message_type":"status","step":"adding","seconds_elapsed":0,"percent_done":0.25,"items_done":1,"total_items":4,"bytes_done":25,"total_bytes":100,"step_done":true}`
		if last := lines[len(lines)-1]; last != want {
			t.Errorf("%s: last event %q, want %q", name, last, want)
		}
	}

	var out bytes.Buffer
	begin := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	p := newProgress(newScreen(&out, Terminal{}), "pushing", begin)
	p.now = func() time.Time { return begin.Add(5 * time.Second) }
	ticks := make(chan time.Time)
	go p.drawUntilStopped(ticks)
	p.SetTotal(0, 100)
	p.SetDone(3, 40)
	ticks <- begin.Add(4 * time.Second)
	p.Stop()
	want := `{"message_type":"status","step":"pushing","seconds_elapsed":4,"seconds_remaining":6,"percent_done":0.4,"items_done":3,"bytes_done":40,"total_bytes":100,"step_done":false}
{"message_type":"status","step":"pushing","seconds_elapsed":5,"seconds_remaining":8,"percent_done":0.4,"items_done":3,"bytes_done":40,"total_bytes":100,"step_done":true}
`
	if got := out.String(); got != want {
		t.Errorf("events are\n%swant\n%s", got, want)
	}
}

func TestScreenConcurrently(t *testing.T) {
	var out bytes.Buffer
	s := newScreen(&out, Terminal{Stdout: true, Stderr: true})
	guard := s.guardStream(&out)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 100 {
				s.showLine("progress")
				fmt.Fprintf(guard, "result %d\n", i)
				fmt.Fprintf(s, "note %d\n", i)
			}
		})
	}
	wg.Wait()
	s.clearLine()
	for line := range strings.SplitSeq(out.String(), "\n") {
		if i := strings.LastIndex(line, "\r\x1b[K"); i >= 0 {
			line = line[i+len("\r\x1b[K"):]
		}
		if line != "" && !strings.HasPrefix(line, "result ") && !strings.HasPrefix(line, "note ") {
			t.Fatalf("a line is torn: %q", line)
		}
	}
}
