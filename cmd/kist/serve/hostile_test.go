package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// rawGet sends target unchanged in a request line, and returns the status and the body.
func rawGet(t *testing.T, s *site, target string) (code int, answer string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	s.Check(err)
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", target)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(body)
}

// TestTraversal checks that no path reaches a file outside the tree.
func TestTraversal(t *testing.T) {
	r := small(t)
	s := serving(r, serve.Options{})
	secret := "the secret of the neighbour"
	s.Check(os.WriteFile(filepath.Join(filepath.Dir(r.Dir), "secret"), []byte(secret), 0o600))
	r.Write("untracked", secret)
	s.Check(os.Symlink("../secret", filepath.Join(r.Dir, "link")))
	s.Check(os.Symlink("/etc/passwd", filepath.Join(r.Dir, "passwd")))
	r.Add(stage.AddOptions{Paths: []string{"link", "passwd"}})
	r.Commit("links\n")

	ups := []string{"..", "%2e%2e", "%2E.", ".%2e", "..%2f..", "..%5c..", `..\..`, "%252e%252e", "..%00", "..;", ".../...", "%c0%ae%c0%ae", "%uff0e%uff0e"}
	targets := []string{".kist/config", ".kist/HEAD", "untracked", "/etc/passwd", "//etc/passwd", "%2fetc%2fpasswd", "file:///etc/passwd", "C:%5cboot.ini", "CON", "%00", "a.txt%00.html"}
	for _, up := range ups {
		for _, to := range []string{"secret", "etc/passwd", ".kist/config", "untracked"} {
			targets = append(targets, up+"/"+to, up+"/"+up+"/"+up+"/"+up+"/"+to, "folder/"+up+"/"+up+"/"+to, "a.txt/"+up+"/"+to, up+"%2f"+to)
		}
	}
	passwd, err := os.ReadFile("/etc/passwd")
	s.Check(err)
	for _, prefix := range []string{"/files/", "/api/v1/file/", "/api/v1/tree/", "/api/v1/history/", "/api/v1/log?path=", "/api/v1/search?q=e&path=", "/files/a.txt?rev=", "/api/v1/diff?path="} {
		some := targets
		if prefix != "/files/" {
			some = targets[:40] // the same function cleans all paths
		}
		for _, target := range some {
			code, body := rawGet(t, s, prefix+target)
			if strings.Contains(body, secret) || strings.Contains(body, string(passwd)) || strings.Contains(body, "[chunker]") || code >= 500 {
				t.Errorf("%s%s: %d %.200q", prefix, target, code, body)
			}
			if strings.HasPrefix(prefix, "/files/") && code == 200 && prefix == "/files/" && !strings.Contains(target, "a.txt") {
				t.Errorf("%s%s: %d %.200q", prefix, target, code, body)
			}
		}
	}

	// The server shows the target of a symlink and does not follow it.
	s.want("/files/link", 200, "../secret")
	s.want("/files/passwd", 200, "/etc/passwd")
}

// hostileNames are names that break careless pages, headers and URLs.
var hostileNames = []string{
	`<script>alert(1)<`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, "javascript:alert(1)", "data:text,x", "a&b;c", "%2e%2e", "100%", "?query", "#anchor", "a+b c",
	"new\nline", "tab\tname", "cr\r\nSet-Cookie: x=1", "\x1b[31mred", "\x7f", "\u202egnp.exe", "\u2028sep", "zero\u200bwidth", "\xff\xfe", "bad\xc3(", "\u00e9 umlaut", "{{.}}", "-rf", "con", `back\slash`,
}

// TestHostileNames checks listings, links, downloads and the API with hostile names.
func TestHostileNames(t *testing.T) {
	r := kisttest.New(t)
	for i, name := range hostileNames {
		r.Write("top/"+name, fmt.Sprint("content ", i))
		r.Write("dirs/"+name+"/inside", fmt.Sprint("inside ", i))
	}
	r.Add(stage.AddOptions{})
	r.Commit("<script>alert(1)</script>\n")
	s := serving(r, serve.Options{})

	for dir, want := range map[string]string{"top": "content ", "dirs": "inside "} {
		page := s.want("/files/"+dir+"/", 200, "")
		checkMarkup(t, page.body)
		seen := 0
		for _, m := range regexp.MustCompile(`href="(\./[^"]*)"`).FindAllStringSubmatch(page.body, -1) {
			base, err := url.Parse("/files/" + dir + "/")
			s.Check(err)
			link, err := base.Parse(html.UnescapeString(m[1]))
			s.Check(err)
			target := link.EscapedPath()
			if dir == "dirs" {
				checkMarkup(t, s.want(target, 200, "inside").body)
				target += "inside"
			}
			s.want(target, 200, want)
			got := s.want(target+"?download", 200, want)
			if cookie := got.Header.Get("Set-Cookie"); cookie != "" {
				t.Errorf("%s: the server sets the cookie %q", target, cookie)
			}
			if disposition := got.Header.Get("Content-Disposition"); !strings.HasPrefix(disposition, "attachment; filename=\"") {
				t.Errorf("%s: Content-Disposition %q", target, disposition)
			}
			s.want(strings.Replace(target, "/files/", "/api/v1/file/", 1), 200, `"type":"file"`)
			s.want(strings.Replace(target, "/files/", "/api/v1/history/", 1), 200, `"versions":[{`)
			seen++
		}
		if seen != len(hostileNames) {
			t.Errorf("%s: %d links, want %d", dir, seen, len(hostileNames))
		}
	}
	for _, path := range []string{"/api/v1/tree/top", "/api/v1/log", "/api/v1/diff", "/api/v1/search?q=a", "/files/top/?archive=tar", "/files/top/?archive=zip"} {
		got := s.want(path, 200, "")
		if kind := got.Header.Get("Content-Type"); strings.Contains(kind, "html") || got.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: type %q, or no nosniff", path, kind)
		}
	}

	// Each page of names continues where the last one ended.
	var names []string
	after := ""
	for range len(hostileNames) + 1 {
		page := s.want("/files/top/?limit=3"+after, 200, "")
		for _, m := range regexp.MustCompile(`href="\./([^"]*)"`).FindAllStringSubmatch(page.body, -1) {
			names = append(names, m[1])
		}
		more := regexp.MustCompile(`href="\?(after=[^"]*)">more`).FindStringSubmatch(page.body)
		if more == nil {
			break
		}
		after = "&" + html.UnescapeString(more[1])
	}
	if len(names) != len(hostileNames) {
		t.Errorf("%d names in pages, want %d: %q", len(names), len(hostileNames), names)
	}
}

// checkMarkup fails if a page has an element or an attribute that a listing does not need, or an
// invisible or deceptive character.
func checkMarkup(t *testing.T, page string) {
	t.Helper()
	allowed := map[string]string{"html": "lang", "head": "", "meta": "charset name content", "title": "", "body": "", "h1": "", "table": "", "tbody": "", "tr": "", "td": "", "a": "href", "p": ""}
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}

	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		attrs, ok := allowed[n.Data]
		if !ok {
			t.Errorf("the page has an element %s", n.Data)
		}

		for _, attr := range n.Attr {
			if !strings.Contains(" "+attrs+" ", " "+attr.Key+" ") {
				t.Errorf("the page has an attribute %s of %s", attr.Key, n.Data)
			}
			if attr.Key == "href" && !strings.HasPrefix(attr.Val, "./") && !strings.HasPrefix(attr.Val, "../") && !strings.HasPrefix(attr.Val, "?") {
				t.Errorf("the page links to %q", attr.Val)
			}
		}
	}

	for _, hidden := range []string{"\x1b", "\x7f", "\u202e", "\u2028", "\u200b", "\xff", "\r"} {
		if strings.Contains(page, hidden) {
			t.Errorf("the page has %q", hidden)
		}
	}
}

// No file can run a script in the origin of the server, whatever its content and its content type.
func TestActiveContent(t *testing.T) {
	r := kisttest.New(t)
	contents := map[string]string{
		"page.html": "<!DOCTYPE html><script>alert(1)</script>", "page.xhtml": `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><script>alert(1)</script></html>`,
		"pic.svg": `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`, "code.js": "#!/usr/bin/env node\nalert(1)", "style.css": "body{}",
		"feed.xml": `<?xml version="1.0"?><rss></rss>`, "poly.gif": "GIF89a/*<script>*/=alert(1)//", "doc.pdf": "%PDF-1.4\n<script>alert(1)</script>", "mail.mht": "MIME-Version: 1.0\n", "data": "\x00\x01<script>",
	}
	types := []string{"text/html", "TEXT/HTML; charset=utf-7", "application/xhtml+xml", "image/svg+xml", "text/javascript", "application/wasm", "multipart/x-mixed-replace; boundary=x", "text/html\r\nX: y", "", "application/pdf", "text/xsl", "application/rss+xml"}
	for name, content := range contents {
		r.Write(name, content)
	}
	for i := range types {
		r.Write(fmt.Sprint("typed", i), "<script>alert(1)</script>")
	}
	r.Add(stage.AddOptions{})
	for i, kind := range types {
		if strings.ContainsAny(kind, "\r\n") {
			continue // not allowed in an attribute
		}
		_, err := stage.EditAttrs(t.Context(), r.Repo, []string{fmt.Sprint("typed", i)}, func(_ string, attrs map[string]string) error {
			attrs["content-type"] = kind
			return nil
		})
		r.Check(err)
	}
	r.Commit("active\n")
	s := serving(r, serve.Options{})

	inert := regexp.MustCompile(`^(text/plain(; charset=[a-z0-9-]+)?|application/(octet-stream|pdf|json|zip|gzip)|(image|audio|video|font)/[a-z0-9.+-]+)$`)
	check := func(name string) {
		got := s.want("/files/"+name, 200, "")
		kind, policy := got.Header.Get("Content-Type"), got.Header.Get("Content-Security-Policy")
		if !inert.MatchString(kind) || got.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: type %q", name, kind)
		}
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "script-src") || kind != "application/pdf" && !strings.Contains(policy, "sandbox") {
			t.Errorf("%s: %s: policy %q", name, kind, policy)
		}
	}
	for name := range contents {
		check(name)
	}
	for i := range types {
		check(fmt.Sprint("typed", i))
	}
}
