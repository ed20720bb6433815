package web

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestMarkdown checks the HTML of texts. No markup, address or attribute comes from the source.
func TestMarkdown(t *testing.T) {
	m := newMarkdown(newPainter())
	for source, want := range map[string]string{
		"# A *title*\n\n# A title": `<h2 id="md-a-title">A <em>title</em></h2><h2 id="md-a-title.2">A title</h2>`,
		"a **b** `c<` ~~d~~\\\ne":  `<p>a <strong>b</strong> <code>c&lt;</code> <del>d</del><br>e</p>`,
		"- a\n- b\n\n3. c":         `<ul><li>a</li><li>b</li></ul><ol start="3"><li>c</li></ol>`,
		"- [ ] a\n- [x] b":         `<ul><li class="task">☐ a</li><li class="task">☑ b</li></ul>`,
		"> a\n\n---\n\n    b<\n":   `<blockquote><p>a</p></blockquote><hr><pre tabindex="0"><code>b&lt;</code></pre>`,
		"``` go\n<b>\n```":         `<pre tabindex="0"><code>&lt;b&gt;</code></pre>`,
		"```go x\n// <b>\n```\n> ~~~ Bash\n> # é\n\nc": `<pre tabindex="0"><code><span class="hl-comment">// &lt;b&gt;</span></code></pre>` +
			`<blockquote><pre tabindex="0"><code><span class="hl-comment"># é</span></code></pre></blockquote><p>c</p>`,
		"```\n// b\n```\n```nothing\n// \x1b\n```": `<pre tabindex="0"><code>// b</code></pre><pre tabindex="0"><code>// <span class="escape">\x1b</span></code></pre>`,
		"|a|b|\n|-|:-:|\n|1|\n|2\\|3|4|5|": `<div class="sheet" tabindex="0" role="region" aria-label="Table"><table><thead><tr><th scope="col">a</th><th scope="col" class="center">b</th></tr></thead>` +
			`<tbody><tr><td>1</td><td class="center"></td></tr><tr><td>2|3</td><td class="center">4</td></tr></tbody></table></div>`,
		"&lt;&copy; \\&lt; \\<b>": `<p>&lt;© &amp;lt; &lt;b&gt;</p>`,

		// Addresses are relative to the file, at its revision.
		"[a](b.md)":                      `<p><a href="/blob/docs/b.md?rev=v1">a</a></p>`,
		"[a](../c%20d.go#L3)":            `<p><a href="/blob/c%20d.go?rev=v1#L3">a</a></p>`,
		"[a](/x/../y.md#Two-words)":      `<p><a href="/blob/y.md?rev=v1#md-two-words">a</a></p>`,
		"[a](#Here!) [b](..) [c](?x)":    `<p><a href="#md-here">a</a> <a href="/tree/?rev=v1">b</a> c</p>`,
		"[a](../../up) [b](//h/x) [c]()": `<p>a b c</p>`,
		"[a](.kist/config)":              `<p>a</p>`,
		"![a](p.png) ![b](https://h/p)":  `<p><img src="/files/docs/p.png?rev=v1" alt="a" loading="lazy" decoding="async"> <a href="https://h/p" rel="noopener noreferrer nofollow">b</a></p>`,
		"[![a](https://h/p)](b)":         `<p><a href="/blob/docs/b?rev=v1">a</a></p>`,
		"<https://h/?a=b&c> <a@b.c>":     `<p><a href="https://h/?a=b&amp;c" rel="noopener noreferrer nofollow">https://h/?a=b&amp;c</a> <a href="mailto:a@b.c" rel="noopener noreferrer nofollow">a@b.c</a></p>`,
		"[a][r]\n\n[r]: HTTPS://h/\"x":   `<p><a href="HTTPS://h/%22x" rel="noopener noreferrer nofollow">a</a></p>`,

		// Hostile sources.
		"[a](javascript:alert(1)) [b](JaVaScRiPt:x) [c](data:text/html,x) [d](vbscript:x)": `<p>a b c d</p>`,
		"[a](&#106;avascript:x) [b](java&#10;script:x) [c](\\javascript:x)":                `<p>a b c</p>`,
		"<javascript:x>":                     `<p>javascript:x</p>`,
		"![a\"onerror=x](x\"onerror=y)":      `<p><img src="/files/docs/x%22onerror%3Dy?rev=v1" alt="a&#34;onerror=x" loading="lazy" decoding="async"></p>`,
		"![a](javascript:x)":                 `<p>a</p>`,
		"a<b onclick=x>c</b><script>d<br>":   `<p>acd<br></p>`,
		"<div onclick=x>a&lt;b\n<!-- c\n-->": `<p>a&lt;b</p>`,
		"<script>\nalert(1)\n</script>":      ``,
		"<p\nx='":                            ``,
		"# \"><script>\n":                    `<h2 id="md-">&#34;&gt;</h2>`,
		"\u202e\x1b \xff":                    `<p><span class="escape">\u202e</span><span class="escape">\x1b</span> <span class="escape">\xff</span></p>`,
	} {
		got, _ := m.renderHTML(t.Context(), linkBase{"docs/a.md", "v1"}, []byte(source))
		if joined := strings.ReplaceAll(string(got), "\n", ""); joined != want {
			t.Errorf("%q\ngot  %s\nwant %s", source, joined, want)
		}
	}
}

// hostileMarkdown has texts for which parsers need time in the square of their size, or more.
func hostileMarkdown(n int) map[string]string {
	repeated := func(s string) string { return strings.Repeat(s, n/len(s)) }
	grown := func(line func(i int) string) string {
		var b strings.Builder
		for i := 1; b.Len() < n; i++ {
			b.WriteString(line(i))
		}
		return b.String()
	}
	texts := map[string]string{
		"table":   strings.Repeat("|a", n/8) + "|\n" + strings.Repeat("|-", n/8) + "|\n" + strings.Repeat("a\n", n/4),
		"nested":  grown(func(i int) string { return strings.Repeat(" ", i*2) + "- a\n" }),
		"ticks":   grown(func(i int) string { return strings.Repeat("`", i) + "a " }),
		"defined": grown(func(i int) string { return fmt.Sprintf("[a%d]: b\n", i) }),
		"links":   strings.Repeat("[", n/2) + strings.Repeat("](a)", n/8),
	}
	for _, s := range []string{
		"[", "[a](", "![a](", "*_", "*a _b ", "> ", ">", "- ", "<", "<a ", "<!-- ", "[a]: b\n", "~~a", "&", "![", "a**b", "# a\n", "a\n=\n", "```\n", "a\n", "<![CDATA[", `<a b="c" `, "<?", ">\n- ", "> a\n", "1. a\n", "[a](b)", "a  \n", "\\",
	} {
		texts[s] = repeated(s)
	}
	return texts
}

// The parser of a hostile text stops soon after its request ends, and its page shows the source.
func TestMarkdownStops(t *testing.T) {
	m := newMarkdown(newPainter())
	for name, text := range hostileMarkdown(16 << 10) {
		if strings.Count(text, "]:") > maxReferences { // the parser is not used
			if got, complete := m.renderHTML(t.Context(), linkBase{"a.md", ""}, []byte(text)); got != "" || complete {
				t.Errorf("%q is rendered", name)
			}
			continue
		}
		calls := 0
		ended := &counting{t.Context(), func() { calls++ }}
		if root := m.parseText(ended, []byte(text)); root == nil || calls < 2 {
			t.Errorf("%q: parsed: %v, with %d moments to stop", name, root != nil, calls)
		}
		m.renderHTML(t.Context(), linkBase{"a.md", ""}, []byte(text))
	}

	ctx, stop := context.WithCancel(t.Context())
	stop()
	if got, complete := m.renderHTML(ctx, linkBase{"a.md", ""}, []byte("# a")); got != "" || complete {
		t.Errorf("a request that has ended gets %q", got)
	}
	for range maxRendered { // all places are free again
		m.places <- struct{}{}
	}
}

// counting is a context that counts the questions whether it has ended.
type counting struct {
	context.Context
	asked func()
}

func (c *counting) Err() error { c.asked(); return nil }

// All blocks of code of a text share the time and the space for colours. Without them, they have their
// text.
func TestMarkdownCode(t *testing.T) {
	text := strings.Repeat("```go\n\x01//\n```\n", maxMarkdown/18)
	got, complete := newMarkdown(newPainter()).renderHTML(t.Context(), linkBase{"a.md", ""}, []byte(text))
	if n := strings.Count(string(got), "<pre"); !complete || n != maxMarkdown/18 || len(got) > maxShown {
		t.Errorf("%d blocks with %d bytes, complete: %v", n, len(got), complete)
	}

	long := "```go\n// " + strings.Repeat("a", maxLine+1) + "\n```\n"
	if got, _ := newMarkdown(newPainter()).renderHTML(t.Context(), linkBase{"a.md", ""}, []byte(long)); !strings.Contains(string(got), long[6:len(long)-5]) || strings.Contains(string(got), "<span") {
		t.Errorf("a long line is cut: %.200s", got)
	}

	defer func(d time.Duration) { maxHighlighting = d }(maxHighlighting)
	maxHighlighting = 0
	want := "<pre tabindex=\"0\"><code>// a\n</code></pre>\n"
	if got, complete := newMarkdown(newPainter()).renderHTML(t.Context(), linkBase{"a.md", ""}, []byte("```go\n// a\n```")); string(got) != want || !complete {
		t.Errorf("without time: %q, complete: %v, want %q", got, complete, want)
	}
}

// A text that is too long is rendered up to the end of a line.
func TestMarkdownCut(t *testing.T) {
	text := strings.Repeat("a line\n\n", maxMarkdown/8+10)
	got, complete := newMarkdown(newPainter()).renderHTML(t.Context(), linkBase{"a.md", ""}, []byte(text))
	if n := strings.Count(string(got), "<p>a line</p>"); complete || n != maxMarkdown/8 {
		t.Errorf("%d paragraphs, complete: %v; want %d", n, complete, maxMarkdown/8)
	}
}

// TestSheet reads tables.
func TestSheet(t *testing.T) {
	for _, c := range []struct {
		name, text string
		start      int
		want       string
	}{
		{"a.csv", "a,b\n1,\"x,\n<y>\"\n", 1, "[a b] [1 x,\n&lt;y&gt;]"},
		{"a.csv", "\ufeffa;b\n1;2\n3\n", 2, "[a b] [3]"},
		{"a.csv", "a\tb\n", 1, "[a b]"},
		{"a.tsv", "a,b\tc\nd\n", 1, "[a,b c] [d]"},
		{"a.csv", "a,b\"c\n\"d\"\"e\",f\n", 1, "[a b&#34;c] [d&#34;e f]"},
		{"a.csv", "", 1, "[]"},
		{"a.csv", "\u202ea\n", 1, `[<span class="escape">\u202e</span>a]`},
		{"a.csv", "a,\"" + strings.Repeat("x", 3<<20), 1, "not a table"},
	} {
		s, _, err := readSheet(strings.NewReader(c.text), c.name, c.start)
		got := fmt.Sprint(err)
		if err == nil {
			rows := [][]cell{s.Head}
			var list []string
			for _, row := range append(rows, s.Rows...) {
				var texts []string
				for _, cell := range row {
					texts = append(texts, string(cell.Text))
				}
				list = append(list, "["+strings.Join(texts, " ")+"]")
			}
			got = strings.Join(list, " ")
		}
		if !strings.HasSuffix(got, c.want) {
			t.Errorf("%.40q from %d: %q, want %q", c.text, c.start, got, c.want)
		}
	}

	wide := strings.Repeat("x,", 59) + "x\n"
	s, more, err := readSheet(strings.NewReader(strings.Repeat(wide, 1000)), "a.csv", 1)
	if err != nil || s.More != 10 || !more || len(s.Rows) != sheetRows {
		t.Errorf("a wide table: %v, more rows: %v, %+v", err, more, s)
	}
}

func TestNaturalOrder(t *testing.T) {
	sorted := []string{"", "01", "1", "2", "10", "a", "a1", "a2b", "a10", "a10b", "b", "v1.9", "v1.10", "v1.10-1"}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := naturalOrder(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%q and %q: %d", a, b, got)
			}
		}
	}
}

// A search that stops early does not say that there is nothing.
func TestIncompleteSearch(t *testing.T) {
	all, err := parsePages(nil)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	p := page{name: "search", Data: searchPage{Asked: true, Cut: "The search was stopped."}}
	if err := all[p.name].Execute(&b, p); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.Contains(got, "not complete") || strings.Contains(got, "Nothing found<") {
		t.Errorf("the page says: %.2000s", got[strings.Index(got, "Results"):])
	}
}
