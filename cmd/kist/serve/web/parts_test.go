package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/cmd/kist/serve/access"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// next returns the address of the next part of a page, or "".
func next(body string) string {
	if found := regexp.MustCompile(`href="([^"]*)" rel="next">More<`).FindStringSubmatch(body); found != nil {
		return strings.ReplaceAll(found[1], "&amp;", "&")
	}
	return ""
}

// TestParts follows the parts of long texts, tables and changes. Each part is small, and together
// they have everything once.
func TestParts(t *testing.T) {
	t.Parallel()
	r := kisttest.New(t)
	r.Write("small", "small\n")
	commit(r, "small")
	var log, table, long strings.Builder
	table.WriteString("number,text\n")
	for i := range 20_000 {
		fmt.Fprintf(&log, "line%05d of a log\n", i+1)
		fmt.Fprintf(&table, "%d,row%05d\n", i+1, i+1)
	}
	for i := range 150 {
		fmt.Fprintf(&long, "line%05d %s\n", i+1, strings.Repeat("\x01", 3000)) // many bytes of HTML for each byte
	}
	r.Write("log.txt", log.String())
	r.Write("table.csv", table.String())
	r.Write("long.txt", long.String())
	for i := range 250 {
		r.Write(fmt.Sprintf("many/f%03d", i), fmt.Sprintf("file%03d\n", i))
	}
	commit(r, "much")
	s := served(t, r, false)

	for _, c := range []struct {
		first, item string
		items, size int
	}{
		{"/blob/log.txt", `line(\d+) of`, 20_000, 500 << 10}, {"/blob/log.txt?rev=HEAD~0", `line(\d+) of`, 20_000, 500 << 10}, {"/blob/table.csv", `row(\d+)`, 20_000, 150 << 10},
		{"/blob/long.txt", `line(\d+) `, 150, 5 << 20},
	} {
		at, found := 0, 0
		for path := c.first; path != ""; {
			body := s.page(path)
			if len(body) > c.size || found == 0 && at > 0 {
				t.Fatalf("%s: %d bytes, %d items", path, len(body), found)
			}
			found = 0
			for _, m := range regexp.MustCompile(c.item).FindAllStringSubmatch(body, -1) {
				if at++; m[1] != fmt.Sprintf("%05d", at) {
					t.Fatalf("%s: item %s where %d is next", path, m[1], at)
				}
				found++
			}
			path = next(body)
		}
		if at != c.items {
			t.Errorf("%s: the parts have %d items in order, want %d", c.first, at, c.items)
		}
	}

	// Links to lines lead to the part that has them.
	s.page("/search?q=line15000&in=contents", `href="/blob/log.txt?start=14980#L15000"`)
	s.page("/search?q=line00015&in=contents", `href="/blob/log.txt#L15"`)
	s.page("/search?q=row15000&in=contents", `href="/blob/table.csv?as=source&amp;start=14981#L15001"`)
	s.page("/blob/log.txt?start=14980", `id="L15000"`, "line15000", `href="/blob/log.txt?start=12980" rel="prev"`)
	s.page("/blob/table.csv?as=source&start=14981", `id="L15001"`, "row15000")
	s.page("/blob/log.txt?start=90000", "no more lines")

	// The changes of a commit, in parts of 100.
	seen := map[string]bool{}
	for path, n := "/commit/HEAD", 0; path != ""; n++ {
		body := s.page(path, "253 paths changed")
		shown := strings.Count(body, `<section class="card diff"`)
		if shown > 100 || n > 2 {
			t.Fatalf("%s: %d differences on page %d", path, shown, n)
		}
		for _, m := range regexp.MustCompile(`<ins>(file\d+)</ins>`).FindAllStringSubmatch(body, -1) {
			seen[m[1]] = true
		}
		path = next(body)
	}
	if len(seen) != 250 {
		t.Errorf("the parts of the commit show %d files, want 250", len(seen))
	}
	s.page("/commit/HEAD", `href="/diff?from=`, "Compare this file alone")
}

// TestReadme checks the text below a folder, and the forms of a file in Markdown.
func TestReadme(t *testing.T) {
	t.Parallel()
	r := kisttest.New(t)
	r.Write("docs/readme.markdown", "# Guide\n\nSee [the *plan*](plan.md#step-1), ![quay](../quay.png) <b onclick=x>here</b>.\n")
	r.Write("docs/README", "not this one")
	r.Write("docs/plan.md", "# Step 1\n")
	for i := range 400 {
		r.Write(fmt.Sprintf("large/A%d", i), "x")
	}
	r.Write("large/readme.md", "**far** down")
	r.Write("few/f10", "x")
	r.Write("few/f9", "x")
	r.Write("odd.md", "\x00\x01")
	for name, text := range map[string]string{"wide.md": "# Añb\n", "wide.tsv": "a\tñ\n1\t2\n", "wide.go": "package ñ\n", "wide.csv": "ñ,\"" + strings.Repeat("b\n", 1<<20)} {
		wide := []byte("\xff\xfe")
		for _, char := range text {
			wide = append(wide, byte(char), byte(char>>8))
		}
		r.Write(name, string(wide))
	}
	r.Write("half.txt", "\xff\xfea\x00\x00\xdc")
	r.Write("broken.csv", "a,\""+strings.Repeat("b\n", 1<<20))
	commit(r, "texts")
	s := served(t, r, false)

	const link = `See <a href="/blob/docs/plan.md#md-step-1">the <em>plan</em></a>, <img src="/files/quay.png" alt="quay" loading="lazy" decoding="async"> here.`
	s.page("/tree/docs", `<h2 id="md-guide">Guide</h2>`, link)
	s.without("/tree/docs", "not this one", "onclick")
	s.page("/tree/docs?rev=main", strings.ReplaceAll(link, `.md#`, `.md?rev=main#`)[:60])
	s.page("/blob/docs/readme.markdown", link, `href="/blob/docs/readme.markdown?as=source">Source</a>`)
	s.page("/blob/docs/readme.markdown?as=source", "&lt;b onclick=x&gt;here", `href="/blob/docs/readme.markdown">Rendered</a>`)
	s.page("/blob/docs/plan.md", `<h2 id="md-step-1">`)
	if few := s.page("/tree/few"); strings.Index(few, ">f9<") > strings.Index(few, ">f10<") {
		t.Error("f10 comes before f9")
	}
	s.page("/tree/large", "<strong>far</strong> down")
	s.page("/blob/odd.md", "no preview")

	// Texts in UTF-16.
	s.page("/blob/wide.md", `<h2 id="md-añb">Añb</h2>`)
	s.page("/blob/wide.md?as=source", `# Añb`)
	s.page("/blob/wide.tsv", `class="right">ñ</th>`, `class="right">2</td>`)
	s.page("/blob/wide.go", `<span class="hl-keyword">package</span> ñ`)
	s.page("/blob/wide.csv", `id="L2"`, "ñ,")
	s.page("/blob/half.txt", "no preview")
	s.page("/blob/broken.csv", `id="L2"`, "a,")
}

// TestProperties checks that a commit and a comparison show what changed besides the content.
func TestProperties(t *testing.T) {
	t.Parallel()
	r := kisttest.New(t)
	r.Write("a", "text\n")
	r.Write("b", "text\n")
	r.Check(os.Chmod(filepath.Join(r.Dir, "a"), 0o644))
	commit(r, "first")
	r.Check(os.Chmod(filepath.Join(r.Dir, "a"), 0o755))
	r.Write("b", "more\n")
	r.Add(stage.AddOptions{})
	_, err := stage.EditAttrs(r.Context(), r.Repo, []string{"a", "b"}, func(_ string, attrs map[string]string) error {
		attrs["tags"] = "<b>red</b>"
		return nil
	})
	r.Check(err)
	commit(r, "properties")

	// A commit of a machine records owners and times.
	session := r.Repo.Objects().Begin(volume.SessionOptions{})
	defer session.Close()
	var changes []refs.Change
	made := func(old object.Commit, meta object.Metadata, at time.Time) object.Commit {
		edit := tree.NewEditor(session, tree.Info{})
		r.Check(edit.Set(r.Context(), "c", object.Entry{Name: "c", Type: object.TypeFile, Mode: 0o600, Size: 1, Inline: []byte("c"), Meta: &meta, MTime: object.TimeOf(at)}))
		info, err := edit.Finish(r.Context())
		r.Check(err)
		c := object.Commit{Tree: info.ID, Files: info.Files, Bytes: info.Bytes, Message: "machine"}
		if !old.Tree.IsZero() {
			data, err := old.Encode()
			r.Check(err)
			c.Parents = []object.ID{object.Sum(data)}
		}
		data, err := c.Encode()
		r.Check(err)
		id, err := session.Put(r.Context(), object.KindCommit, data)
		r.Check(err)
		changes = append(changes, refs.Change{Name: fmt.Sprintf("refs/heads/machine%d", len(c.Parents)), New: id})
		return c
	}
	day := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	first := made(object.Commit{}, object.Metadata{UID: 1, Owner: "anna", GID: 5, Group: "crew"}, day)
	made(first, object.Metadata{UID: 2, Owner: "bob", GID: 5, Group: "crew", Xattrs: map[string][]byte{"user.x": []byte("1\x1b")}}, day.Add(time.Hour))
	r.Check(session.Publish(r.Context(), func(ctx context.Context) error { return r.Repo.Refs().Update(ctx, changes, refs.Who{}) }))

	s := served(t, r, false)
	for _, path := range []string{"/commit/HEAD", "/diff?from=HEAD~1&to=HEAD"} {
		body := s.page(path, "<del>0644</del> → <ins>0755</ins>", "attribute tags", "<ins>&lt;b&gt;red&lt;/b&gt;</ins>", "<ins>more</ins>")
		if strings.Count(body, "attribute tags") != 2 {
			t.Errorf("%s does not show the attributes of both files", path)
		}
	}
	s.page("/commit/machine1", "<del>anna</del> → <ins>bob</ins>", "extended attribute user.x", `<ins>&#34;1\x1b&#34;</ins>`, "<del>2026-01-02 03:04:05 UTC</del>")
	s.without("/commit/machine1", "group")
}

// TestRefs checks the order of branches and tags.
func TestRefs(t *testing.T) {
	t.Parallel()
	r := kisttest.New(t)
	ids := map[string]object.ID{}
	var changes []refs.Change
	session := r.Repo.Objects().Begin(volume.SessionOptions{})
	defer session.Close()
	empty, node := object.EmptyTree()
	_, err := session.Put(r.Context(), object.KindTree, node)
	r.Check(err)
	for i := range 14 {
		c := object.Commit{Tree: empty, Message: fmt.Sprint("commit ", i)}
		c.Committer.Time = object.TimeOf(kisttest.Version{}.When(i))
		data, err := c.Encode()
		r.Check(err)
		id, err := session.Put(r.Context(), object.KindCommit, data)
		r.Check(err)
		name := fmt.Sprintf("b%d", i)
		ids[name] = id
		changes = append(changes, refs.Change{Name: refs.Heads + name, New: id})
	}
	changes = append(changes, refs.Change{Name: refs.Heads + "main", New: ids["b0"]}, refs.Change{Name: refs.Tags + "v1.10", New: ids["b3"]}, refs.Change{Name: refs.Tags + "v1.9", New: ids["b3"]})
	r.Check(session.Publish(r.Context(), func(ctx context.Context) error { return r.Repo.Refs().Update(ctx, changes, refs.Who{}) }))
	s := served(t, r, false)

	order := func(path string, names ...string) {
		t.Helper()
		body, at := s.page(path), 0
		for _, name := range names {
			found := strings.Index(body[at:], ">"+name+"<")
			if found < 0 {
				t.Fatalf("%s lacks %q after byte %d", path, name, at)
			}
			at += found
		}
	}
	order("/refs", "main", "b13", "b12", "b1", "b0", "v1.9", "v1.10")
	order("/refs?as=name", "b0", "b1", "b2", "b9", "b10", "b13", "main", "v1.9", "v1.10")
	order("/", "main", "b13", "b5", "5 more", "v1.9")
	s.without("/", ">b4<")
	order("/tree/", "main", "b13", "b0", "tag v1.9", "tag v1.10")
}

// TestBlame checks the page with the origins of lines. A version that the visitor may not see is not
// named.
func TestBlame(t *testing.T) {
	t.Parallel()
	r := kisttest.New(t)
	r.Write("hidden/plan.txt", "one\ntwo\nthree\nfour\n")
	r.Add(stage.AddOptions{})
	_, err := stage.EditAttrs(r.Context(), r.Repo, []string{"hidden"}, func(_ string, attrs map[string]string) error {
		attrs[access.KeyRead] = ""
		return nil
	})
	r.Check(err)
	r.Commit("a <b>plan</b>")
	r.Check(os.Rename(filepath.Join(r.Dir, "hidden/plan.txt"), filepath.Join(r.Dir, "plan.txt")))
	commit(r, "moved")
	r.Write("plan.txt", "one\n2\nthree\nfour\n")
	commit(r, "changed")
	r.Write("binary", "\x00")
	r.Write("large", strings.Repeat("a line\n", 100_000))
	commit(r, "others")
	s := served(t, r, false)

	s.settled("/blame/plan.txt")
	body := s.page("/blame/plan.txt", "a &lt;b&gt;plan&lt;/b&gt;", "as <bdi>hidden/plan.txt</bdi>", ">changed<", `id="L4"`)
	if n := strings.Count(body, `<th scope="rowgroup"`); n != 3 {
		t.Errorf("%d groups of lines, want 3", n)
	}
	for path, want := range map[string]int{"/blame/binary": 422, "/blame/large": 422, "/blame/hidden": 422, "/blame/nothing": 404, "/blame/plan.txt?start=9": 200} {
		if status, _, _ := s.do("GET", path, nil); status != want {
			t.Errorf("%s: status %d, want %d", path, status, want)
		}
	}
	s.page("/blob/plan.txt", "Changed by", ">changed</a>", `href="/blame/plan.txt`, `class="button main"`)

	users := asUser(t, r, access.User{Name: "bob"})
	for body = users("/blame/plan.txt"); strings.Contains(body, `http-equiv="refresh"`); {
		body = users("/blame/plan.txt")
	}
	if !strings.Contains(body, ">changed<") || strings.Contains(body, "hidden/") || !strings.Contains(body, ">older<") {
		t.Errorf("a user sees %s", body[strings.Index(body, "<main"):])
	}
}

// TestAPIDocument checks what programs need that read the description of the API.
func TestAPIDocument(t *testing.T) {
	t.Parallel()
	s := served(t, harbour(t), false)
	var doc struct {
		Info struct {
			License struct{ Name, Identifier string }
		}
		Servers []struct{ URL string }
		Paths   map[string]map[string]struct{ OperationID string }
	}
	s.Check(json.Unmarshal([]byte(s.page("/api/openapi.json")), &doc))
	if doc.Info.License.Identifier != "Apache-2.0" || len(doc.Servers) != 1 || doc.Servers[0].URL != "/" {
		t.Errorf("licence %+v, servers %+v", doc.Info.License, doc.Servers)
	}
	ids := map[string]bool{}
	for path, methods := range doc.Paths {
		for method, operation := range methods {
			if id := operation.OperationID; id == "" || ids[id] {
				t.Errorf("%s %s: operation ID %q", method, path, id)
			}
			ids[operation.OperationID] = true
		}
	}
}
