package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// progress counts the lines that 'go build -v' prints: modules downloaded and
// packages compiled. It shows the counts on one line of a terminal, or as a
// line every ten seconds elsewhere. All other lines pass through.
type progress struct {
	out      io.Writer
	terminal bool
	interval time.Duration
	name     string

	mu                   sync.Mutex
	rest                 []byte // an incomplete line
	downloaded, compiled int
	shown                time.Time
}

func newProgress(out *os.File, name string) *progress {
	p := &progress{out: out, interval: 10 * time.Second, name: name, shown: time.Now()}
	if info, err := out.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		p.terminal, p.interval = true, 200*time.Millisecond
	}
	return p
}

func (p *progress) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.rest = append(p.rest, data...)
	for {
		end := bytes.IndexByte(p.rest, '\n')
		if end < 0 {
			return len(data), nil
		}
		p.line(string(p.rest[:end]))
		p.rest = p.rest[end+1:]
	}
}

func (p *progress) line(line string) {
	switch {
	case strings.HasPrefix(line, "go: downloading "):
		p.downloaded++
	case line != "" && !strings.ContainsAny(line, " \t#:"):
		p.compiled++
	default:
		p.clear()
		fmt.Fprintln(p.out, line)
		return
	}

	if now := time.Now(); now.Sub(p.shown) >= p.interval {
		p.shown = now
		p.clear()
		fmt.Fprintf(p.out, "servers: %s: %d modules downloaded, %d packages compiled", p.name, p.downloaded, p.compiled)
		if !p.terminal {
			fmt.Fprintln(p.out)
		}
	}
}

// clear removes the line of counts from a terminal.
func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}
