package web_test

import (
	"context"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/cmd/kist/serve/dav"
	"github.com/kist-vcs/kist/cmd/kist/serve/web"
)

// TestHTML checks the HTML of each route against a list of rules. A new route needs a row.
func TestHTML(t *testing.T) {
	t.Parallel()
	r := harbour(t)
	r.Write("table.csv", "name,count\nanna,1\n")
	r.Write("guide/README.md", "# Guide\n\n- [ ] a\n- [x] b\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n![picture](../quay.png) [up](../README.md#harbour)\n\n# Guide\n\n[b]: /src\n[b] ~~c~~\n")
	picture(r, "quay.png", color.RGBA{20, 20, 200, 255})
	r.Check(os.Symlink("quay.png", filepath.Join(r.Dir, "link")))
	commit(r, "more kinds")
	r.Check(os.Chmod(filepath.Join(r.Dir, "notes/a.txt"), 0o755))
	commit(r, "a mode")
	s := served(t, r, true)
	files, err := dav.New(t.Context(), r.Repo, dav.Options{Quiet: time.Hour})
	r.Check(err)
	t.Cleanup(func() { r.Check(files.Close(context.WithoutCancel(t.Context()))) })
	server := serve.New(r.Repo, serve.Options{})
	server.Handle(dav.Prefix+"/", dav.Budget, files)
	s.settled("/blame/notes/a.txt")

	pages := map[string][]string{
		"GET /{$}": {"/"}, "GET /log": {"/log", "/log?rev=refs%2Fheads%2Fmain&path=src"}, "GET /refs": {"/refs", "/refs?as=name"},
		"GET /commit/{id}": {"/commit/HEAD", "/commit/HEAD~1", "/commit/HEAD~3"}, "GET /diff": {"/diff", "/diff?from=HEAD~3&to=HEAD"},
		"GET /tree/{path...}": {"/tree/", "/tree/?as=grid", "/tree/guide"}, "GET /blame/{path...}": {"/blame/notes/a.txt", "/blame/table.csv"},
		"GET /blob/{path...}":    {"/blob/guide/README.md", "/blob/guide/README.md?as=source", "/blob/table.csv", "/blob/src/main.go", "/blob/quay.png", "/blob/link"},
		"GET /history/{path...}": {"/history/notes/a.txt", "/history/guide/README.md"}, "GET /search": {"/search", "/search?q=a", "/search?q=three&in=contents&all=1"},
		"GET /dashboard": {"/dashboard"}, "POST /restore": {}, "/": {"/nothing"},
	}
	for _, pattern := range web.Patterns() {
		if _, ok := pages[pattern]; !ok {
			t.Errorf("the route %s is not in this table", pattern)
		}
		for _, path := range pages[pattern] {
			status, body, _ := s.do("GET", path, nil)
			if status != 200 && path != "/nothing" {
				t.Errorf("%s: status %d", path, status)
			}
			checkRules(t, path, body)
			checkBalance(t, path, body)
		}
	}
	others := listening(t, r, server)
	lists := 0
	for _, path := range append(server.Routes(), dav.Prefix+"/latest/") {
		if _, body, header := others.do("GET", path, nil); strings.HasPrefix(header.Get("Content-Type"), "text/html") {
			checkRules(t, path, body)
			lists++
		}
	}
	if lists != 3 {
		t.Errorf("%d lists of folders are HTML, want 3", lists)
	}
}

// obsolete has elements and attributes that HTML has no longer.
var obsolete = strings.Fields("center font big tt strike marquee frame frameset acronym dir basefont " +
	"@align @bgcolor @border @cellpadding @cellspacing @valign @nowrap @frameborder @marginheight @summary @background @link @language")

// checkRules checks the rules that do not depend on where elements stand.
func checkRules(t *testing.T, path, body string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}

	ids, labelled, anchors := map[string]bool{}, map[string]bool{}, []string{}
	count := map[string]int{}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		count[n.Data]++
		if slices.Contains(obsolete, n.Data) {
			t.Errorf("%s: <%s> is obsolete", path, n.Data)
		}

		for _, a := range n.Attr {
			switch {
			case slices.Contains(obsolete, "@"+a.Key):
				t.Errorf("%s: <%s %s> is obsolete", path, n.Data, a.Key)
			case a.Key == "id" && ids[a.Val], a.Key == "id" && a.Val == "":
				t.Errorf("%s: the ID %q is not unique", path, a.Val)
			case a.Key == "id":
				ids[a.Val] = true
			case a.Key == "for":
				labelled[a.Val] = true
			case a.Key == "href" && n.Data == "a" && strings.HasPrefix(a.Val, "#"):
				anchors = append(anchors, a.Val[1:])
			}
		}

		checkElement(t, path, n)
	}

	for n := range root.Descendants() {
		if slices.Contains([]string{"input", "select", "textarea"}, n.Data) && attr(n, "type") != "hidden" && !labelled[attr(n, "id")] && attr(n, "aria-label") == "" && !isIn(n, "label") {
			t.Errorf("%s: <%s name=%q> has no label", path, n.Data, attr(n, "name"))
		}
	}

	for _, a := range anchors {
		if !ids[a] {
			t.Errorf("%s links to #%s, which it does not have", path, a)
		}
	}
	if count["title"] == 0 || count["h1"] != 1 || attr(root.FirstChild.NextSibling, "lang") == "" {
		t.Errorf("%s: %d titles, %d of h1, language %q", path, count["title"], count["h1"], attr(root.FirstChild.NextSibling, "lang"))
	}
}

// checkElement checks one element.
func checkElement(t *testing.T, path string, n *html.Node) {
	t.Helper()
	switch n.Data {
	case "button":
		if attr(n, "type") == "" {
			t.Errorf("%s: a button has no type: %s", path, textOf(n))
		}

	case "form":
		submit := false
		for c := range n.Descendants() {
			submit = submit || (c.Data == "button" || c.Data == "input") && attr(c, "type") == "submit"
		}
		if !submit {
			t.Errorf("%s: the form for %s has no button to send it", path, attr(n, "action"))
		}

	case "img":
		if !hasAttr(n, "alt") || attr(n, "src") == "" {
			t.Errorf("%s: a picture has no text or no address: %v", path, n.Attr)
		}

	case "iframe":
		if attr(n, "title") == "" {
			t.Errorf("%s: a frame has no title", path)
		}

	case "a", "th":
		if n.Data == "a" && isIn(n, "a") || n.Data == "th" && attr(n, "scope") == "" {
			t.Errorf("%s: <%s> in another one, or without its scope: %s", path, n.Data, textOf(n))
		}
		if textOf(n) == "" && attr(n, "aria-label") == "" && attr(n, "tabindex") != "-1" {
			t.Errorf("%s: a <%s> has no text: %v", path, n.Data, n.Attr)
		}

	case "ul", "ol":
		for c := range n.ChildNodes() {
			if c.Type == html.ElementNode && c.Data != "li" {
				t.Errorf("%s: a list has <%s>", path, c.Data)
			}
		}
	}
}

// checkBalance checks that each element of a page ends, in order.
func checkBalance(t *testing.T, path, body string) {
	t.Helper()
	void := strings.Fields("meta link input img br hr source")
	var open []string
	z := html.NewTokenizer(strings.NewReader(body))
	for kind := z.Next(); kind != html.ErrorToken; kind = z.Next() {
		name, _ := z.TagName()
		switch tag := string(name); {
		case kind == html.StartTagToken && !slices.Contains(void, tag):
			open = append(open, tag)
		case kind == html.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != tag {
				t.Errorf("%s: </%s> ends %v", path, tag, open)
				return
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("%s: %v do not end", path, open)
	}
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

func hasAttr(n *html.Node, key string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == key })
}

// isIn reports whether an element is in another one with a name.
func isIn(n *html.Node, name string) bool {
	for p := range n.Ancestors() {
		if p.Data == name {
			return true
		}
	}
	return false
}

// textOf returns the text of an element, with that of its pictures.
func textOf(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		}
		if c.Data == "img" {
			fmt.Fprint(&b, attr(c, "alt"))
		}
	}
	return strings.TrimSpace(b.String())
}
