package web_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/cmd/kist/serve/access"
	"github.com/kist-vcs/kist/cmd/kist/serve/web"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// site is a repository and the URL of its server.
type site struct {
	*kisttest.Repository
	url string
}

// served serves a repository until the test ends.
func served(t *testing.T, r *kisttest.Repository, write bool) *site {
	t.Helper()
	server := serve.New(r.Repo, serve.Options{Write: write, Log: func(text string) { t.Error("log:", text) }})
	pages, err := web.New(r.Context(), server.Site(), web.Options{Now: time.Now, Jobs: 2, Log: func(err error) { t.Error("log:", err) }})
	r.Check(err)
	server.Handle("/", web.Budget, pages)
	return listening(t, r, server)
}

// listening serves a repository until the test ends.
func listening(t *testing.T, r *kisttest.Repository, server *serve.Server) *site {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	r.Check(err)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &site{r, "http://" + l.Addr().String()}
}

// commit commits all files of the worktree.
func commit(r *kisttest.Repository, message string) string {
	r.Helper()
	r.Add(stage.AddOptions{})
	result, err := commits.Commit(r.Context(), r.Repo, commits.CommitOptions{Message: message})
	r.Check(err)
	return result.ID.String()
}

// do sends a request, and returns the status, body and header of the answer.
func (s *site) do(method, path string, form url.Values, header ...string) (int, string, http.Header) {
	s.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, body)
	s.Check(err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	s.Check(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	s.Check(err)
	return answer.StatusCode, string(text), answer.Header
}

// page gets a page that must exist and contain some texts.
func (s *site) page(path string, texts ...string) string {
	s.Helper()
	status, body, _ := s.do("GET", path, nil)
	if status != http.StatusOK {
		s.Errorf("%s: status %d", path, status)
	}
	for _, text := range texts {
		if !strings.Contains(body, text) {
			s.Errorf("%s lacks %q", path, text)
		}
	}
	return body
}

// without fails if a page contains one of some texts.
func (s *site) without(path string, texts ...string) {
	s.Helper()
	status, body, _ := s.do("GET", path, nil)
	if status >= 500 {
		s.Errorf("%s: status %d", path, status)
	}
	for _, text := range texts {
		if strings.Contains(body, text) {
			s.Errorf("%s has %q", path, text)
		}
	}
}

// settled gets a page until it no longer asks for a reload.
func (s *site) settled(path string) string {
	s.Helper()
	for {
		_, body, _ := s.do("GET", path, nil)
		if !strings.Contains(body, `http-equiv="refresh"`) {
			return body
		}
	}
}

// program is a source text with many kinds of tokens.
const program = "package main\n\n// Ship floats.\ntype Ship struct{ Name string }\n\nfunc main() { println(\"hello\", 42) }\n"

// harbour makes a repository with two branches and some files.
func harbour(t *testing.T) *kisttest.Repository {
	r := kisttest.New(t)
	r.Write("README.md", "# Harbour\n\nShips and quays.\n")
	r.Write("src/main.go", program)
	r.Write("notes/a.txt", "one\ntwo\nthree\n")
	r.Write("notes/old.txt", "gone soon\n")
	commit(r, "first notes")
	r.Write("notes/a.txt", "one\n2\nthree\n")
	r.Check(os.Remove(filepath.Join(r.Dir, "notes/old.txt")))
	commit(r, "second notes\n\nWith a longer text.")
	r.Write("notes/a.txt", "one\n2\nthree\nfour\n")
	commit(r, "third notes")
	return r
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := served(t, harbour(t), false)
	s.page("/", "first notes", "third notes", "Ships and quays.", ">main<", "There is no remote")
	s.page("/log", "second notes", "<svg class=\"lanes\"")
	s.page("/log?path=src", "first notes")
	s.without("/log?path=src", "third notes")
	s.page("/commit/HEAD~1", "With a longer text.", "notes/old.txt", "<ins>2</ins>", "<del>two</del>")
	s.page("/tree/", "src", "notes")
	s.page("/tree/?rev=HEAD~2", "notes")
	s.page("/tree/notes?rev=HEAD~2", "old.txt")
	s.without("/tree/notes", "old.txt")
	s.page("/tree/notes?as=grid", "a.txt", "class=\"grid\"")
	s.page("/blob/src/main.go", `<span class="hl-keyword">package</span>`, `id="L6"`)
	s.page("/diff?from=HEAD~2&to=HEAD&path=notes/a.txt", "<ins>four</ins>")
	s.page("/diff", "Compare")
	s.page("/search?q=MAIN", "src/main.go", "1 file found")
	s.page("/search?q=size%3D-10+type%3Dfile", "Nothing found")
	s.page("/search?q=three&in=contents", "<mark>three</mark>", "notes/a.txt#L3")
	s.page("/search?q=h.llo&in=contents&regexp=1", "<mark>hello</mark>")
	s.page("/search?q=(&in=contents&regexp=1", "not valid")
	s.page("/search?q="+url.QueryEscape("(.{1,999}b)z")+"&in=contents&regexp=1", "too large")
	s.page("/search?q=old&all=1", "notes/old.txt")
	s.page("/search?q=soon&in=contents&all=1", "<mark>soon</mark>")
	s.page("/search?q=like%3D/etc/passwd", "only &#39;kist find&#39;")
	s.page("/history/notes/a.txt?at=1", "Version 1", "two", "third notes", `rel="next"`)
	s.page("/static/page.js", "keydown")

	for path, want := range map[string]int{
		"/nothing": 404, "/blob/nothing": 404, "/blob/src": 303, "/tree/src/main.go": 303, "/tree/?rev=nothing": 404,
		"/commit/nothing": 404, "/commit/" + strings.Repeat("x", 5000): 404, "/tree/?rev=" + strings.Repeat("x", 5000): 404,
		"/history/nothing": 404, "/restore": 404,
	} {
		if status, _, _ := s.do("GET", path, nil); status != want {
			t.Errorf("%.40s: status %d, want %d", path, status, want)
		}
	}
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	s := served(t, harbour(t), false)
	body := s.settled("/dashboard")
	for _, text := range []string{`class="plot"`, " stored, ", " in the version</title>", "only here and ", "Compressed", "gc would free", ">notes<", "only here"} {
		if !strings.Contains(body, text) {
			t.Errorf("the dashboard lacks %q", text)
		}
	}
}

// TestEmpty checks the pages of a repository without a commit.
func TestEmpty(t *testing.T) {
	t.Parallel()
	s := served(t, kisttest.New(t), false)
	s.page("/", "no commit yet")
	s.page("/log", "no commits")
	for _, path := range []string{"/tree/", "/blob/x", "/search?q=x", "/history/x"} {
		if status, _, _ := s.do("GET", path, nil); status != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, status)
		}
	}
	if body := s.settled("/dashboard"); !strings.Contains(body, "Dashboard") {
		t.Error("the page has no dashboard")
	}
}

// hostile makes a repository whose names, messages and contents try to become markup.
func hostile(t *testing.T) *kisttest.Repository {
	r := kisttest.New(t)
	const script = "<script>alert(1)</script>"
	for i, name := range []string{
		"<b onmouseover=alert(1)>.txt", "\"onload=alert(1) x=\".svg", "tab\there.md", "line\nbreak.txt", "bad\xff\xfe.txt", "abc\u202egnp.exe",
		"sp ace & 'quote'.go", "100%25.txt", "a?b=c#d.txt", "javascript:alert(1)", "..%2f..%2fetc", "back\\slash", "{{.}}.html", "README<img src=x onerror=alert(1)>.md",
		"\x1b[31mred.txt", "zero\u200bwidth.txt", "`quote`.js", "$ {x}.css", "'.png",
	} {
		r.Write("names/"+name, script+fmt.Sprint(i)+"\n\u202e reversed \u2066 \x1b]0;title\x07 "+"\n")
	}

	r.Write("</title>"+script+"/file", script+"\n")
	r.Write("evil.svg", `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"><script>alert(1)</script></svg>`)
	r.Write("evil.html", script)
	r.Write("README", script+"\u202e\n<img src=x onerror=alert(1)>\n")
	r.Write("evil.xhtml", `<html xmlns="http://www.w3.org/1999/xhtml"><body onload="alert(1)">`+script+`</body></html>`)
	r.Write("evil.js", "alert(1)\n")
	r.Write("evil.png", script)
	r.Write("evil.pdf", "%PDF-1.4\n"+script)
	r.Write("evil.md", "# "+script+"\n[x](javascript:alert(1)) <img src=x onerror=alert(1)> [y](https://h.example/\"onclick=alert(1)) ![z](https://h.example/z.png) ![q](names/'.png) \u202e\x1b\n\n"+script+"\n\n|a|\n|-|\n|"+script+"|\n")
	r.Write("names/evil.csv", script+",\"><img src=x onerror=alert(1)>\n\u202e,\x1b\xff\n")
	r.Write("evil/README.md", "[up](../evil.md#\"x) [z](//h.example) [d](data:text/html,"+script+") ![d](data:image/svg+xml,x)\n")
	r.Write("typed", script)
	r.Check(os.Symlink("javascript:alert(1)//<b>\u202e", filepath.Join(r.Dir, "link")))
	r.Add(stage.AddOptions{})
	_, err := stage.EditAttrs(r.Context(), r.Repo, []string{"typed"}, func(_ string, attrs map[string]string) error {
		attrs[tree.ContentType], attrs["tags"] = "text/html", "\"><img src=x onerror=alert(1)>\u202e"
		return nil
	})
	r.Check(err)
	commit(r, script+" \u202e\x1b[2J\n\n</pre>"+script)
	r.Write("names/sp ace & 'quote'.go", "package x // "+script+"\n")
	r.Write("README", "</textarea>"+script+"\n")
	r.Add(stage.AddOptions{})
	_, err = commits.Commit(r.Context(), r.Repo, commits.CommitOptions{
		Message: "\"><img src=x onerror=alert(1)>", Author: &object.Stamp{Name: script, Email: "\"><img src=x onerror=alert(1)>"}})
	r.Check(err)
	_, _, err = commits.CreateTag(r.Context(), r.Repo, commits.TagOptions{Name: "v1<b>", Rev: "HEAD", Message: script})
	r.Check(err)

	for _, branch := range []string{"<b>x</b>", "a\"onclick=alert(1)", "x&y=z", "'quote'"} {
		if _, err := commits.CreateBranch(r.Context(), r.Repo, branch, "HEAD", false); err != nil {
			t.Logf("branch %q: %v", branch, err)
		}
	}
	return r
}

// TestHostile follows all links of a repository with hostile names. No page has a script, a handler
// or a deceptive character, and no link is broken.
func TestHostile(t *testing.T) {
	t.Parallel()
	s := served(t, hostile(t), true)
	s.settled("/history/README")
	queue := []string{"/", "/log", "/search?q=%3Cscript%3E", "/search?q=script&in=contents&all=1", "/search?q=\"%3E%3Cscript%3E&in=contents", "/dashboard", "/diff?from=HEAD~1&to=HEAD", "/tree/names?as=grid",
		"/search?q=x&rev=%3Cscript%3E", "/diff?from=\"%3E%3Cscript%3E&to=x", "/tree/%3Cscript%3E"}

	seen := map[string]bool{}
	for _, path := range queue {
		seen[path] = true
	}

	start := len(queue)
	for n := 0; len(queue) > 0; n++ {
		path := queue[0]
		queue = queue[1:]
		status, body, header := s.do("GET", path, nil)
		if status >= 500 || n >= start && status >= 400 {
			t.Errorf("%s: status %d", path, status)
		}
		if strings.HasPrefix(path, "/files/") {
			policy, kind := header.Get("Content-Security-Policy"), header.Get("Content-Type")
			if kind != "application/zip" && (!strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "sandbox") && kind != "application/pdf") {
				t.Errorf("%s: %s with policy %q", path, kind, policy)
			}
			continue
		}

		if !strings.HasPrefix(header.Get("Content-Type"), "text/html") {
			continue
		}
		checkPolicy(t, path, header)

		for _, link := range checkMarkup(t, path, body) {
			if !strings.HasPrefix(link, "/") || strings.HasPrefix(link, "//") {
				t.Errorf("%s links to %q", path, link)
				continue
			}
			link, _, _ = strings.Cut(link, "#")
			if !seen[link] && link != "" && len(seen) < 600 {
				seen[link] = true
				queue = append(queue, link)
			}
		}
	}
	if len(seen) < 100 {
		t.Errorf("only %d pages, want 100", len(seen))
	}
}

func checkPolicy(t *testing.T, path string, header http.Header) {
	t.Helper()
	policy := header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "script-src 'self'") || strings.Contains(policy, "unsafe") {
		t.Errorf("%s: policy %q", path, policy)
	}
	if header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s: no nosniff", path)
	}
}

// checkMarkup returns the links of a page. It fails for markup from names or contents.
func checkMarkup(t *testing.T, path, body string) (links []string) {
	t.Helper()
	for _, r := range body {
		if r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0x200b || r == 0xfffd {
			t.Errorf("%s has the character %U", path, r)
			break
		}
	}

	parsed, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}

	for n := range parsed.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "style" || n.Data == "b" && path != "/dashboard" || n.Data == "object" || n.Data == "embed" || n.Data == "textarea" || n.Data == "base" {
			t.Errorf("%s has <%s>", path, n.Data)
		}
		if n.Data == "script" && (len(n.Attr) != 2 || n.Attr[1].Val != "/static/page.js" || n.FirstChild != nil) {
			t.Errorf("%s has a script: %v", path, n.Attr)
		}

		for _, a := range n.Attr {
			switch {
			case a.Key == "href" && n.Data == "a" && (strings.HasPrefix(a.Val, "https://") || strings.HasPrefix(a.Val, "http://")) && attr(n, "rel") == "noopener noreferrer nofollow": // in a text
			case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "srcdoc":
				t.Errorf("%s has <%s %s=%q>", path, n.Data, a.Key, a.Val)
			case a.Key == "href" && n.Data != "link" && !strings.HasPrefix(a.Val, "#"), a.Key == "src":
				links = append(links, a.Val)
			}
		}
	}
	return links
}

// The pages of texts that need much HTML for each byte or line stay small.
func TestHostileText(t *testing.T) {
	t.Parallel()
	r := kisttest.New(t)
	r.Write("lines", strings.Repeat("\n", 512<<10))
	r.Write("README", strings.Repeat(strings.Repeat("\x01", 4000)+"\n", 131))
	for i := range 20 {
		r.Write(fmt.Sprint("control", i), strings.Repeat(strings.Repeat("\x01", 4000)+"\n", 100))
	}
	commit(r, "much")
	s := served(t, r, false)
	for path, text := range map[string]string{"/": "", "/tree/": "", "/blob/lines": `rel="next">More`, "/blob/README": `rel="next">More`, "/commit/HEAD": "More lines differ."} {
		if body := s.page(path, text); len(body) > 6<<20 {
			t.Errorf("%s has %d bytes", path, len(body))
		}
	}
}

// TestTraversal checks that no path leads out of the tree.
func TestTraversal(t *testing.T) {
	t.Parallel()
	r := harbour(t)
	r.Check(os.WriteFile(filepath.Join(filepath.Dir(r.Dir), "secret"), []byte("the-secret"), 0o600))
	s := served(t, r, false)
	for _, page := range []string{"tree", "blob", "history", "files", "static", "commit"} {
		for _, path := range []string{
			"../secret", "../../secret", "..%2fsecret", "%2e%2e/secret", "%2e%2e%2fsecret", "src/../../secret", "src/%2e%2e/%2e%2e/secret", "//secret", "/etc/passwd",
			"%2fetc%2fpasswd", ".kist/config", ".kist/HEAD", "..%5csecret", "%00", "a%00b", ".", "..", "%c0%ae%c0%ae/secret", "src/main.go/../../../secret",
		} {
			status, body, _ := s.do("GET", "/"+page+"/"+path, nil)
			if status >= 500 || strings.Contains(body, "the-secret") || strings.Contains(body, "root:") || strings.Contains(body, "polynomial") {
				t.Errorf("/%s/%s: status %d, %.200s", page, path, status, body)
			}
		}
	}
}

func TestRestore(t *testing.T) {
	t.Parallel()
	r := harbour(t)
	s := served(t, r, true)
	post := func(path, rev string, want int, header ...string) {
		t.Helper()
		status, body, _ := s.do("POST", "/restore", url.Values{"path": {path}, "rev": {rev}}, header...)
		if status != want {
			t.Errorf("restore %s of %s: status %d, want %d: %.300s", path, rev, status, want, body)
		}
	}
	s.page("/blob/notes/a.txt?rev=HEAD~2", "Restore this version")

	post("notes/a.txt", "HEAD~2", 403, "Origin", "http://evil.example")
	post("notes/a.txt", "HEAD~2", 403, "Sec-Fetch-Site", "cross-site")
	r.Want("notes/a.txt", "one\n2\nthree\nfour\n")

	post("notes/a.txt", "HEAD~2", 200, "Sec-Fetch-Site", "same-origin")
	r.Want("notes/a.txt", "one\ntwo\nthree\n")
	post("notes/a.txt", "HEAD~2", 200) // unchanged
	post("notes/a.txt", "HEAD", 409)   // differs from the index
	r.Want("notes/a.txt", "one\ntwo\nthree\n")

	post("notes/old.txt", "HEAD~2", 200) // a deleted file
	r.Want("notes/old.txt", "gone soon\n")
	r.Write("notes/old.txt", "of mine, untracked\n")
	post("notes/old.txt", "HEAD~2", 409)
	r.Want("notes/old.txt", "of mine, untracked\n")

	r.Write("src/main.go", "changed")
	post("src/main.go", "HEAD", 409)
	r.Want("src/main.go", "changed")

	for _, bad := range []string{"", "src", "nothing", "../secret", ".kist/config", "/etc/passwd", "src/../src/main.go"} {
		post(bad, "HEAD", 404)
	}
	post("notes/a.txt", "nothing", 404)
	post("notes/a.txt", "", 404)

	const odd = "odd/a\nb\xff%25 &.txt"
	r.Write(odd, "odd\n")
	commit(r, "an odd name")
	r.Check(os.Remove(filepath.Join(r.Dir, odd)))
	_, form, _ := strings.Cut(s.page("/tree/odd"), "/blob/odd/")
	address, _, _ := strings.Cut(form, `"`)
	_, field, _ := strings.Cut(s.page("/blob/odd/"+address), `name="path" value="`)
	value, _, _ := strings.Cut(field, `"`)
	post(value, "HEAD", 200)
	r.Want(odd, "odd\n")

	reader := served(t, r, false)
	if status, _, _ := reader.do("POST", "/restore", url.Values{"path": {"README.md"}, "rev": {"HEAD"}}); status != 403 {
		t.Errorf("a server without --write restores: status %d", status)
	}
	reader.without("/blob/README.md", "Restore this version")
}

// TestLargeFolder checks the pages of a folder with 100,000 names.
func TestLargeFolder(t *testing.T) {
	t.Parallel()
	r := kisttest.New(t)
	r.Write("small", "small\n")
	commit(r, "small")
	const names = 100_000
	ctx := r.Context()
	session := r.Repo.Objects().Begin(volume.SessionOptions{})
	defer session.Close()
	edit := tree.NewEditor(session, tree.Info{})
	for i := range names {
		name := fmt.Sprintf("file%06d", i)
		r.Check(edit.Set(ctx, "large/"+name, object.Entry{Name: name, Type: object.TypeFile, Mode: 0o644, Size: 6, Inline: []byte(name[4:])}))
	}
	info, err := edit.Finish(ctx)
	r.Check(err)
	c := object.Commit{Tree: info.ID, Files: info.Files, Bytes: info.Bytes, Message: "large"}
	data, err := c.Encode()
	r.Check(err)
	id, err := session.Put(ctx, object.KindCommit, data)
	r.Check(err)
	r.Check(session.Publish(ctx, func(ctx context.Context) error {
		return r.Repo.Refs().Update(ctx, []refs.Change{{Name: "refs/heads/large", New: id}}, refs.Who{})
	}))

	s := served(t, r, false)
	path, rows := "/tree/large?rev=large", 0
	for range 4 {
		body := s.page(path, "file")
		n := strings.Count(body, "<tr data-row>")
		if n == 0 || n > 500 || len(body) > 1<<20 {
			t.Fatalf("%s: %d rows, %d bytes", path, n, len(body))
		}
		rows += n
		_, after, ok := strings.Cut(body, `href="/tree/large?from=`)
		if !ok {
			t.Fatalf("%s has no next page", path)
		}
		next, _, _ := strings.Cut(after, `&amp;`)
		path = "/tree/large?rev=large&from=" + next
	}
	if want := fmt.Sprintf("file%06d", rows); !strings.HasSuffix(path, want) {
		t.Errorf("the page after %d rows is %s", rows, path)
	}
	s.page("/tree/large?rev=large&from=file099990", "file099999", "From the start")
	s.page("/search?rev=large&q=file099999", "large/file099999")
	s.page("/search?rev=large&q=file", "There are more results")
	s.page("/search?rev=large&q=99999&in=contents", "large/file099999")
}

// asUser returns a function that gets a page as a user.
func asUser(t *testing.T, r *kisttest.Repository, user access.User) func(path string) string {
	t.Helper()
	pages, err := web.New(t.Context(), serve.New(r.Repo, serve.Options{}).Site(), web.Options{Now: time.Now, Jobs: 2})
	r.Check(err)
	return func(path string) string {
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequestWithContext(access.WithUser(t.Context(), user), "GET", path, nil))
		return w.Body.String()
	}
}

// TestAccess checks that no page shows the folder hidden to a user without read access.
func TestAccess(t *testing.T) {
	t.Parallel()
	r := kisttest.New(t)
	r.Write("hidden/plan.txt", "the-secret plan\n")
	r.Write("open/plan.txt", "an open plan\n")
	r.Add(stage.AddOptions{})
	_, err := stage.EditAttrs(r.Context(), r.Repo, []string{"hidden"}, func(_ string, attrs map[string]string) error {
		attrs[access.KeyRead] = "anna"
		return nil
	})
	r.Check(err)
	r.Commit("first plans")
	r.Write("hidden/plan.txt", "the-secret plan, again\n")
	r.Write("open/plan.txt", "an open plan, again\n")
	commit(r, "second plans")

	first, err := r.Repo.Resolve(t.Context(), "HEAD~1")
	r.Check(err)
	server := serve.New(r.Repo, serve.Options{})
	pages, err := web.New(t.Context(), server.Site(), web.Options{Now: time.Now, Jobs: 2})
	r.Check(err)
	for _, path := range []string{"/log?rev=HEAD~1", "/commit/HEAD~1", "/commit/:%2Fone", "/tree/?rev=HEAD~1", "/diff?from=HEAD~1", "/history/open?rev=HEAD~1", "/search?q=x&rev=HEAD~1"} {
		for _, user := range []access.User{{Name: "anna"}, {Owner: true}} {
			w := httptest.NewRecorder()
			pages.ServeHTTP(w, httptest.NewRequestWithContext(access.WithUser(t.Context(), user), "GET", path, nil))
			if unknown := strings.Contains(w.Body.String(), "No such version"); unknown == user.Owner && path != "/commit/:%2Fone" || !unknown && !user.Owner {
				t.Errorf("%s, %+v: is unknown: %v", path, user, unknown)
			}
		}
	}
	for _, v := range []struct {
		user access.User
		sees bool
	}{{access.User{}, false}, {access.User{Name: "bert"}, false}, {access.User{Name: "anna"}, true}, {access.User{Owner: true}, true}} {
		get := func(path string) string {
			for {
				w := httptest.NewRecorder()
				pages.ServeHTTP(w, httptest.NewRequestWithContext(access.WithUser(t.Context(), v.user), "GET", path, nil))
				if body := w.Body.String(); !strings.Contains(body, `http-equiv="refresh"`) {
					return body
				}
			}
		}
		for _, path := range []string{
			"/", "/tree/", "/tree/hidden", "/blob/hidden/plan.txt", "/history/hidden/plan.txt", "/search?q=plan", "/search?q=plan&in=contents", "/search?q=plan&all=1",
			"/search?q=plan&in=contents&all=1", "/commit/HEAD", "/diff?from=" + first.String() + "&to=HEAD", "/diff?from=" + first.String() + "&to=HEAD&path=hidden", "/dashboard",
		} {
			body := get(path)
			if found := strings.Contains(body, "hidden/plan") || strings.Contains(body, ">hidden<") || strings.Contains(body, "the-secret") || strings.Contains(body, "/hidden\""); found != v.sees {
				t.Errorf("%+v, %s: sees hidden: %v", v.user, path, found)
			}
			if !strings.Contains(path, "hidden") && !strings.Contains(body, "open") {
				t.Errorf("%+v, %s: does not see open", v.user, path)
			}
		}
	}
}

// The page restores nothing in a folder of git, even if the configuration permits changes there.
func TestGitFolders(t *testing.T) {
	t.Parallel()
	r := harbour(t)
	r.Write("sub/.git/config", "mine")
	r.Add(stage.AddOptions{Git: true})
	r.Commit("with git")
	r.Check(os.RemoveAll(filepath.Join(r.Dir, "sub")))
	r.Repo.Worktree().AllowGit()
	s := served(t, r, true)
	if status, body, _ := s.do("POST", "/restore", url.Values{"path": {"sub/.git/config"}, "rev": {"HEAD"}}); status != 403 || r.Exists("sub") {
		t.Errorf("restore: status %d, want 403: %.300s", status, body)
	}
}
