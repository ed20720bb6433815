package web

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"

	"github.com/alecthomas/chroma/v2"
)

func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                  "plain",
		"<b>&'\"":                "&lt;b&gt;&amp;&#39;&#34;",
		"a\x1b[2Jb":              `a<span class="escape">\x1b</span>[2Jb`,
		"bad\xff\xfe.":           `bad<span class="escape">\xff</span><span class="escape">\xfe</span>.`,
		"\u202egnp":              `<span class="escape">\u202e</span>gnp`,
		"e\u0301 \u6e2f\ufffd":   "e\u0301 \u6e2f\ufffd",
		"zero\u200bwidth\u00a0x": "zero<span class=\"escape\">\\u200b</span>width\u00a0x",
		"\xc2":                   `<span class="escape">\xc2</span>`,
		"<\xff>":                 `&lt;<span class="escape">\xff</span>&gt;`,
		"one\n\ttwo":             "one\n\ttwo",
	} {
		if got := string(visible(text)); got != want {
			t.Errorf("visible(%q) is %q, want %q", text, got, want)
		}
	}
	if got := string(name("a\nb")); got != `<bdi>a<span class="escape">\n</span>b</bdi>` {
		t.Errorf("name is %q", got)
	}
}

func TestAddress(t *testing.T) {
	for _, c := range []struct{ path, rev, want string }{
		{"", "", "/tree/"},
		{"a/b c", "HEAD", "/tree/a/b%20c"},
		{"bad\xff?#%", "x&y=z", "/tree/bad%FF%3F%23%25?rev=x%26y%3Dz"},
	} {
		if got := address("tree", c.path, c.rev); got != c.want {
			t.Errorf("address of %q is %q, want %q", c.path, got, c.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	freed := int64(1536)
	for want, got := range map[string]string{
		"1.5 KiB": size(&freed), "0 B": size(-1), "16 EiB": size(uint64(1<<64 - 1)),
		"1,234": group(int64(1234)), "1 file": count(1, "file", "files"), "1,000 files": count(uint32(1000), "file", "files"),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Highlighting keeps every line of texts that are slow or hard for lexers, and ends in time.
func TestHighlighting(t *testing.T) {
	defer func(limit time.Duration) { maxHighlighting = limit }(maxHighlighting)
	maxHighlighting = 100 * time.Millisecond

	for name, text := range map[string]string{
		"x.go":   "package x\n\nvar a = `\nraw\n`\n",
		"x.js":   strings.Repeat("/*", 50_000) + "\n",
		"x.md":   strings.Repeat("*_", 20_000) + "\n" + strings.Repeat("[", 10_000) + "\n",
		"x.html": strings.Repeat("<a ", 30_000) + "\n",
		"x.py":   strings.Repeat("'''", 20_000) + "\n",
		"x.txt":  "plain\n\nlines\r\nend",
		"x.c":    "bad \xff byte\n",
		"x.json": strings.Repeat("{\"a\":", 30_000) + "\n",
	} {
		began := time.Now()
		lines := newPainter().highlighted(t.Context(), name, []byte(text))
		if want := strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1; len(lines) != want {
			t.Errorf("%s: %d lines, want %d", name, len(lines), want)
		}
		if took := time.Since(began); took > 2*time.Minute {
			t.Errorf("%s took %v", name, took)
		}
	}

	maxHighlighting = 0
	if got := newPainter().highlighted(t.Context(), "x.go", []byte("package x\n")); len(got) != 1 || got[0] != "package x" {
		t.Errorf("after the limit: %q", got)
	}
	if got := newPainter().highlighted(t.Context(), "x.c", []byte("\xff\n")); !strings.Contains(string(got[0]), `\xff`) {
		t.Errorf("an invalid byte became %q", got[0])
	}
}

// A lexer stops between two words when its request ends, also inside a run of words of one sort.
// A request that ends leaves no lexer behind.
func TestHighlightingStops(t *testing.T) {
	p := newPainter()
	ctx, stop := context.WithCancel(t.Context())
	words := 0
	lexer := stoppable{endless{each: func() {
		if words++; words == 1000 {
			stop()
		}
	}}, ctx.Err}
	var c coloring
	c.readText(ctx, lexer, "text")
	if !c.failed || words != 1000 {
		t.Errorf("the lexer read %d words, failed: %v", words, c.failed)
	}

	if lines, ok := p.colorLines(ctx, lexerFor("x.go"), "package x"); ok {
		t.Errorf("a request that has ended gets %q", lines)
	}
	for range maxPainting { // all places are free again
		p.places <- struct{}{}
	}
	for _, name := range []string{"x.md", "x.rst", "x.phtml"} { // their lexers cannot be stopped
		<-p.places
		got := p.highlighted(t.Context(), name, []byte("*a* `b`"))
		p.places <- struct{}{}
		if strings.Contains(string(got[0]), "<span") {
			t.Errorf("%s has colours: %q", name, got)
		}
	}
}

// endless is a lexer of the same word for ever.
type endless struct {
	chroma.Lexer
	each func()
}

func (endless) Config() *chroma.Config { return &chroma.Config{} }

func (e endless) Tokenise(*chroma.TokeniseOptions, string) (chroma.Iterator, error) {
	return func() chroma.Token {
		e.each()
		return chroma.Token{Type: chroma.Error, Value: "<"}
	}, nil
}

// TestLanes checks the width of each row of drawn histories: 16 for each lane.
func TestLanes(t *testing.T) {
	id := func(n byte) object.ID { return object.ID{n} }
	type c struct {
		id      byte
		parents []byte
		width   string
	}

	for name, list := range map[string][]c{
		"a line":              {{3, []byte{2}, `"16"`}, {2, []byte{1}, `"16"`}, {1, nil, `"16"`}},
		"a merge":             {{4, []byte{2, 3}, `"32"`}, {3, []byte{1}, `"32"`}, {2, []byte{1}, `"32"`}, {1, nil, `"16"`}},
		"two roots":           {{2, nil, `"16"`}, {1, nil, `"16"`}},
		"a parent first":      {{1, nil, `"16"`}, {2, []byte{1}, `"16"`}},
		"a parent twice":      {{2, []byte{1, 1}, `"16"`}, {1, nil, `"16"`}},
		"two branches, a tip": {{3, []byte{1}, `"16"`}, {2, []byte{1}, `"32"`}, {1, nil, `"16"`}},
	} {
		var l lanes
		for _, c := range list {
			var parents []object.ID
			for _, p := range c.parents {
				parents = append(parents, id(p))
			}
			row := string(l.addRow(id(c.id), parents))
			if !strings.Contains(row, "width="+c.width) {
				t.Errorf("%s, commit %d: %s", name, c.id, row)
			}
		}
		if len(l.list) != 0 {
			t.Errorf("%s: %d lanes at the end, want 0", name, len(l.list))
		}
	}
}

// A hostile history, whose commits have many parents that never follow, costs limited space.
func TestManyLanes(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine: no work for the race detector")
	}

	var l lanes
	for i := range 1000 {
		var parents []object.ID
		for k := range maxMerge {
			parents = append(parents, object.ID{1, byte(i), byte(i >> 8), byte(k)})
		}
		if row := l.addRow(object.ID{2, byte(i), byte(i >> 8)}, parents); len(row) > 16<<10 {
			t.Fatalf("row %d has %d bytes", i, len(row))
		}
		if len(l.list) > maxKept {
			t.Fatalf("row %d leaves %d lanes", i, len(l.list))
		}
	}
}
