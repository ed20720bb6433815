package dav

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// team is the URL path of a branch that is not checked out.
const team = Prefix + "/branches/team/"

// answer is a response with its body.
type answer struct {
	*http.Response
	body string
}

// send sends a request as a user; "" is the owner. Headers have the form "Depth: 0".
func (s *site) send(user, method, path, body string, headers ...string) answer {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	s.Check(err)
	if user != "" {
		req.Header.Set("User", user)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	s.Check(err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	s.Check(err)
	return answer{res, string(data)}
}

// want sends a request and checks its status.
func (s *site) want(status int, user, method, path, body string, headers ...string) answer {
	s.Helper()
	got := s.send(user, method, path, body, headers...)
	if got.StatusCode != status {
		s.Errorf("%s %s %q as %q: %s, want %d: %s", method, path, headers, user, got.Status, status, got.body)
	}
	return got
}

// files returns the contents of all files of a branch.
func (s *site) files(branch string) map[string]string {
	s.Helper()
	id, err := s.Repo.Refs().Get("refs/heads/" + branch)
	s.Check(err)
	files, err := kisttest.ReadFiles(s.Context(), s.Repo, id)
	s.Check(err)
	return files
}

func (s *site) wantFiles(branch string, want map[string]string) {
	s.Helper()
	if got := s.files(branch); !maps.Equal(got, want) {
		s.Errorf("branch %s has %q, want %q", branch, got, want)
	}
}

// tip returns the last commit of a branch.
func (s *site) tip(branch string) *object.Commit {
	s.Helper()
	id, err := s.Repo.Refs().Get("refs/heads/" + branch)
	s.Check(err)
	c, err := object.ReadCommit(s.Context(), s.Repo.Objects(), id)
	s.Check(err)
	return c
}

func TestChanges(t *testing.T) {
	s := newSite(t, Options{})
	to := func(path string) string { return "Destination: " + s.url + team + path }

	first := s.want(201, "anna", "PUT", team+"b%20%C3%A4.txt", "b")
	s.want(201, "anna", "MKCOL", team+"dir/", "")
	s.want(405, "anna", "MKCOL", team+"dir/", "")
	s.want(409, "anna", "PUT", team+"none/c", "c")
	s.want(201, "anna", "PUT", team+"dir/big", strings.Repeat("0123456789abcdef", 1<<16))
	s.want(412, "anna", "PUT", team+"b%20%C3%A4.txt", "lost", `If-Match: "0123"`)
	s.want(412, "anna", "PUT", team+"b%20%C3%A4.txt", "lost", "If-None-Match: *")
	s.want(204, "anna", "PUT", team+"b%20%C3%A4.txt", "bb", "If-Match: "+first.Header.Get("ETag"))
	s.want(400, "anna", "PUT", team+"b%20%C3%A4.txt", "lost", "Content-Range: bytes 0-3/10")
	s.want(201, "anna", "COPY", team+"dir/", "", to("copy/"))
	s.want(412, "anna", "MOVE", team+"a.txt", "", to("copy/big"), "Overwrite: F")
	s.want(201, "anna", "MOVE", team+"a.txt", "", to("dir/moved"))
	s.want(403, "anna", "MOVE", team+"dir/", "", to("dir/inside"))
	s.want(502, "anna", "COPY", team+"dir/", "", "Destination: http://other.example"+team+"x")
	s.want(204, "anna", "DELETE", team+"dir/big", "")
	s.want(404, "anna", "DELETE", team+"dir/big", "")
	s.want(404, "anna", "GET", team+"a.txt", "")
	if got := s.want(200, "bob", "GET", team+"b%20%C3%A4.txt", ""); got.body != "bb" {
		t.Errorf("before the commit, bob reads %q, want bb", got.body)
	}

	id := strings.TrimSpace(s.want(201, "anna", "POST", team, "").body)
	s.want(204, "anna", "POST", team, "") // nothing to commit
	s.wantFiles("team", map[string]string{"b ä.txt": "bb", "dir/moved": "one\ntwo\n", "copy/big": strings.Repeat("0123456789abcdef", 1<<16)})
	if head, err := s.Repo.Refs().Get("refs/heads/team"); err != nil || head.String() != id {
		t.Errorf("POST answers %s, but the branch is at %s, %v", id, head, err)
	}
	if c := s.tip("team"); c.Author.Name != "anna" || c.Author.Email != "anna@example.org" || c.Committer.Name == "anna" || len(c.Parents) != 1 {
		t.Errorf("the commit is %+v", c)
	}
	s.wantFiles("main", map[string]string{"a.txt": "one\ntwo\n"})
}

// No method changes history, or anything for a visitor without a name.
func TestReadOnly(t *testing.T) {
	s := newSite(t, Options{})
	s.want(201, "", "PUT", team+"new", "new")
	before := map[string]string{"a.txt": "one\ntwo\n"}
	list := s.want(207, "", "PROPFIND", Prefix+"/commits/", "", "Depth: 1").body
	_, rest, _ := strings.Cut(list, Prefix+"/commits/2")
	commit, _, ok := strings.Cut(rest, "/")
	if !ok {
		t.Fatalf("no commit in %s", list)
	}

	for _, place := range []struct{ user, path string }{
		{"", "/latest/"}, {"", "/commits/2" + commit + "/"}, {"", "/commits/"}, {"", "/"}, {"-", "/branches/team/"},
	} {
		for _, method := range []string{"PUT", "DELETE", "MKCOL", "PROPPATCH", "MOVE", "LOCK", "POST"} {
			body := ""
			switch method {
			case "PROPPATCH":
				body = `<propertyupdate xmlns="DAV:"><set><prop><x xmlns="y">z</x></prop></set></propertyupdate>`
			case "LOCK":
				body = `<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>`
			}

			for _, name := range []string{"", "a.txt", "fresh"} {
				got := s.send(place.user, method, Prefix+place.path+name, body, "Destination: "+s.url+Prefix+place.path+"other")
				if got.StatusCode < 400 || got.StatusCode >= 500 {
					t.Errorf("%s %s%s: %s, want 4xx", method, place.path, name, got.Status)
				}
			}
		}
	}

	s.want(204, "", "DELETE", team+"new", "")
	s.want(204, "", "POST", team, "")
	s.wantFiles("team", before)
	s.wantFiles("main", before)
}

// If the branch moved meanwhile, a commit keeps both versions of a changed file.
func TestConflict(t *testing.T) {
	s := newSite(t, Options{})
	s.want(201, "anna", "PUT", team+"plan.odt", "first")
	s.want(201, "", "POST", team, "")
	s.want(204, "anna", "PUT", team+"plan.odt", "of anna")
	s.want(201, "anna", "PUT", team+"new", "new")

	s.Checkout(checkout.SwitchOptions{Rev: "team"})
	s.Write("plan.odt", "of the shell")
	s.Add(stage.AddOptions{})
	s.Commit("beside the server")
	s.Checkout(checkout.SwitchOptions{Rev: "main"})

	s.want(201, "", "POST", team, "")
	got := s.files("team")
	aside := ""
	for path := range got {
		if strings.HasPrefix(path, "plan (conflict of anna ") && strings.HasSuffix(path, ").odt") {
			aside = path
		}
	}
	want := map[string]string{"a.txt": "one\ntwo\n", "plan.odt": "of the shell", "new": "new", aside: "of anna"}
	if aside == "" || !maps.Equal(got, want) {
		t.Errorf("the branch has %q", got)
	}
}

// After the quiet time, the server commits changes by itself.
func TestQuietTime(t *testing.T) {
	s := newSite(t, Options{Quiet: time.Millisecond})
	s.want(201, "anna", "PUT", team+"new", "new")
	for limit := time.Now().Add(time.Minute); s.tip("team").Message == "first"; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("no commit in a minute")
		}
	}
	s.wantFiles("team", map[string]string{"a.txt": "one\ntwo\n", "new": "new"})
}

// No confirmed write of two concurrent users is lost. History also has writes that the other user
// replaced.
func TestTwoWriters(t *testing.T) {
	s := newSite(t, Options{Quiet: time.Millisecond})
	const writes = 40
	var wg sync.WaitGroup
	for _, user := range []string{"anna", "bob"} {
		wg.Go(func() {
			for i := range writes {
				s.want(201, user, "PUT", fmt.Sprintf("%s%s-%d", team, user, i), user)
				if got := s.send(user, "PUT", team+"shared", fmt.Sprint(user, i)); got.StatusCode >= 300 {
					t.Errorf("%s: %s", user, got.Status)
				}
			}
		})
	}
	wg.Wait()
	s.send("", "POST", team, "")
	want := map[string]string{"a.txt": "one\ntwo\n"}
	for i := range writes {
		want[fmt.Sprint("anna-", i)], want[fmt.Sprint("bob-", i)] = "anna", "bob"
	}
	got := s.files("team")
	shared := got["shared"]
	delete(got, "shared")
	if !maps.Equal(got, want) || shared != "anna39" && shared != "bob39" {
		t.Errorf("shared is %q, and the other files are %q", shared, slices.Sorted(maps.Keys(got)))
	}

	tip, err := s.Repo.Refs().Get("refs/heads/team")
	s.Check(err)
	seen := map[string]bool{}
	for c, err := range history.Walk(s.Context(), s.Repo.Objects(), []object.ID{tip}, history.Options{}) {
		s.Check(err)
		e, err := tree.Find(s.Context(), s.Repo.Objects(), c.Tree, "shared")
		if err == nil {
			seen[strings.Trim(string(e.Inline), "0123456789")] = true
		}
	}
	if !seen["anna"] || !seen["bob"] {
		t.Errorf("history has versions of %v, want both users", seen)
	}
}

func TestLocks(t *testing.T) {
	s := newSite(t, Options{})
	const info = `<?xml version="1.0"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner><x:y xmlns:x="z">&lt;me&gt;</x:y></D:owner></D:lockinfo>`
	token := s.want(200, "anna", "LOCK", team+"a.txt", info, "Timeout: Second-100").Header.Get("Lock-Token")
	s.want(423, "bob", "PUT", team+"a.txt", "of bob")
	s.want(423, "anna", "PUT", team+"a.txt", "without the token")
	s.want(423, "bob", "DELETE", team+"a.txt", "")
	s.want(423, "bob", "LOCK", team+"a.txt", info)
	s.want(204, "anna", "PUT", team+"a.txt", "of anna", "If: ("+token+")")
	if got := s.send("bob", "PUT", team+"a.txt", "of bob", "If: ("+token+")"); got.StatusCode < 400 {
		t.Errorf("bob writes with the lock of anna: %s", got.Status)
	}
	if got := s.send("bob", "UNLOCK", team+"a.txt", "", "Lock-Token: "+token); got.StatusCode < 400 {
		t.Errorf("bob removes the lock of anna: %s", got.Status)
	}
	if got := s.want(207, "bob", "PROPFIND", team+"a.txt", "", "Depth: 0"); !isXML(got.body) || !strings.Contains(got.body, "&lt;me&gt;") {
		t.Errorf("PROPFIND lacks the owner of the lock: %s", got.body)
	}
	s.want(204, "anna", "UNLOCK", team+"a.txt", "", "Lock-Token: "+token)
	s.want(204, "bob", "PUT", team+"a.txt", "of bob")

	fresh := s.want(201, "anna", "LOCK", team+"fresh", info)
	s.want(200, "bob", "GET", team+"fresh", "")
	s.want(204, "anna", "UNLOCK", team+"fresh", "", "Lock-Token: "+fresh.Header.Get("Lock-Token"))
	s.want(201, "", "POST", team, "")
	s.wantFiles("team", map[string]string{"a.txt": "of bob", "fresh": ""})
}

// A user can neither fill the properties of each file with shared locks nor take all locks. The
// owner lists the locks of others, and ends them.
func TestManyLocks(t *testing.T) {
	s := newSite(t, Options{})
	shared := `<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner>` + strings.Repeat("x", maxOwner) + `</D:owner></D:lockinfo>`
	for range maxShared {
		s.want(200, "anna", "LOCK", team, shared)
	}
	s.want(507, "anna", "LOCK", team, shared)
	s.want(507, "bob", "LOCK", team+"a.txt", shared)
	body := s.want(207, "bob", "PROPFIND", team+"a.txt", "", "Depth: 0").body
	if n := strings.Count(body, "<D:activelock>"); n != maxShared || strings.Contains(body, "xxx") || strings.Contains(body, "urn:uuid") {
		t.Errorf("the properties of a file have %d locks, want %d without text and token: %s", n, maxShared, body)
	}

	s.want(403, "anna", "GET", Prefix+"/?locks", "")
	var list []lockJSON
	if err := json.Unmarshal([]byte(s.want(200, "", "GET", Prefix+"/?locks", "").body), &list); err != nil || len(list) != maxShared {
		t.Fatalf("the owner sees %v, %v", list, err)
	}
	s.want(403, "bob", "UNLOCK", list[0].URL, "", "Lock-Token: <"+list[0].Token+">")
	for _, l := range list {
		s.want(204, "", "UNLOCK", l.URL, "", "Lock-Token: <"+l.Token+">")
	}
	s.want(201, "bob", "PUT", team+"new", "new")

	l := newLocks(time.Now)
	for i := range maxOwnLocks + 1 {
		_, _, err := l.createLock(lock{root: fmt.Sprint("branches/team/", i), user: "anna", time: time.Minute})
		if (err == nil) != (i < maxOwnLocks) {
			t.Fatalf("lock %d of anna: %v", i, err)
		}
	}
	first, _, err := l.createLock(lock{root: "branches/team/dir", deep: true, user: "bob", time: time.Minute})
	if got := l.locksCovering("branches/team/dir/a/b"); err != nil || len(got) != 1 || got[0].token != first.token {
		t.Errorf("the locks of a file in a locked folder are %v, %v", got, err)
	}
	l.removeLock(first.token)
	l.removeBelow("branches/team")
	if len(l.list) != 0 || len(l.at) != 0 || len(l.of) != 0 {
		t.Errorf("after the removal of all, %d, %d and %d are left", len(l.list), len(l.at), len(l.of))
	}
}

// A PROPFIND has a limited number of names, and its XML a limited number of parts.
func TestManyNames(t *testing.T) {
	s := newSite(t, Options{})
	body := func(names int, name string) string {
		var b strings.Builder
		b.WriteString(`<propfind xmlns="DAV:"><prop>`)
		for i := range names {
			fmt.Fprintf(&b, "<%s%d/>", name, i)
		}
		return b.String() + "</prop></propfind>"
	}
	s.want(207, "anna", "PROPFIND", team, body(maxProps, "n"), "Depth: 0")
	for _, wrong := range []string{
		body(maxProps+1, "n"), body(20_000, "n"), body(maxProps, strings.Repeat("n", 100)),
		`<propfind xmlns="DAV:"><prop><a>` + strings.Repeat("x<!---->", 30_000) + `</a></prop></propfind>`,
	} {
		s.want(400, "anna", "PROPFIND", team, wrong, "Depth: 0")
	}
}

func TestLocksExpire(t *testing.T) {
	now := time.Unix(1_000_000_000, 0)
	l := newLocks(func() time.Time { return now })
	first, _, err := l.createLock(lock{root: "branches/team/a", deep: true, user: "anna", time: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(59 * time.Second)
	if _, root, err := l.createLock(lock{root: "branches/team/a/b", user: "bob", time: time.Minute}); err == nil || root != first.root {
		t.Errorf("bob locks a path inside the lock of anna: %q, %v", root, err)
	}
	if _, ok := l.extendLock(first.token, first.root, "anna", time.Minute); !ok {
		t.Error("the lock cannot be refreshed")
	}
	now = now.Add(59 * time.Second)
	if _, _, err := l.createLock(lock{root: first.root, user: "bob", time: time.Minute}); err == nil {
		t.Error("a refreshed lock has expired")
	}
	now = now.Add(2 * time.Second)
	if _, _, err := l.createLock(lock{root: first.root, user: "bob", time: time.Minute}); err != nil {
		t.Errorf("bob cannot lock after the first lock expired: %v", err)
	}
	if _, ok := l.extendLock(first.token, first.root, "anna", time.Minute); ok {
		t.Error("an expired lock was refreshed")
	}
}

// isXML reports whether a text is one well-formed XML document.
func isXML(text string) bool {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); err != nil {
			return err == io.EOF
		}
	}
}

// A user neither sees nor changes paths that the rules forbid.
func TestAccess(t *testing.T) {
	s := newSite(t, Options{})
	s.want(201, "", "MKCOL", team+"secret", "")
	s.want(201, "", "PUT", team+"secret/plan", "hidden text")
	s.want(201, "", "MKCOL", team+"open", "")
	s.want(201, "", "PUT", team+"open/x", "x")
	s.want(201, "", "POST", team, "")
	s.Checkout(checkout.SwitchOptions{Rev: "team"})
	_, err := stage.EditAttrs(s.Context(), s.Repo, []string{"secret"}, func(_ string, attrs map[string]string) error {
		attrs["acl"] = "anna"
		return nil
	})
	s.Check(err)
	_, err = stage.EditAttrs(s.Context(), s.Repo, []string{"open"}, func(_ string, attrs map[string]string) error {
		attrs["acl.write"] = "anna"
		return nil
	})
	s.Check(err)
	s.Commit("rules")

	to := func(path string) string { return "Destination: " + s.url + team + path }
	s.want(200, "anna", "GET", team+"secret/plan", "")
	for _, user := range []string{"eve", "-"} {
		for _, path := range []string{"secret", "secret/", "secret/plan"} {
			s.want(404, user, "GET", team+path, "")
			s.want(404, user, "PROPFIND", team+path, "", "Depth: 0")
			s.want(404, user, "PROPFIND", Prefix+"/latest/"+path, "", "Depth: 0")
		}
	}
	if got := s.want(207, "eve", "PROPFIND", team, "", "Depth: 1").body; strings.Contains(got, "secret") || !strings.Contains(got, "a.txt") {
		t.Errorf("eve sees %s", got)
	}
	if got := s.want(200, "eve", "GET", team, "").body; strings.Contains(got, "secret") {
		t.Errorf("eve sees %s", got)
	}
	s.want(404, "eve", "COPY", team+"secret/plan", "", to("mine"))
	s.want(404, "eve", "MOVE", team+"secret", "", to("mine"))
	s.want(404, "eve", "DELETE", team+"secret/plan", "")
	for _, folder := range []string{"secret", "missing"} { // eve cannot tell them apart
		s.want(409, "eve", "PUT", team+folder+"/plan", "of eve")
		s.want(409, "eve", "MKCOL", team+folder+"/plan", "")
		s.want(409, "eve", "COPY", team+"a.txt", "", to(folder+"/plan"))
		s.want(404, "eve", "COPY", team+folder, "", to(folder+"/plan"))
	}
	s.want(403, "eve", "PUT", team+"secret", "of eve") // the name is taken
	s.want(403, "eve", "PUT", team+"open/x", "of eve")
	s.want(403, "eve", "DELETE", team+"open/", "")
	s.want(403, "eve", "MOVE", team+"open/", "", to("mine"))
	s.want(403, "eve", "MOVE", team+"a.txt", "", to("open/x"))
	s.want(204, "eve", "POST", team, "")
	s.wantFiles("team", map[string]string{"a.txt": "one\ntwo\n", "secret/plan": "hidden text", "open/x": "x"})

	// Everybody can read messages, so they do not name hidden files.
	s.want(201, "anna", "PUT", team+"secret/merger", "with eve's company")
	s.want(201, "anna", "PUT", team+"open/news", "none")
	s.want(201, "anna", "POST", team, "")
	if got := s.tip("team").Message; got != "webdav: add news, add a file" {
		t.Errorf("the message is %q", got)
	}

	// A lock on a hidden path has no name for others, and its folder no size.
	const info = `<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>`
	s.want(200, "anna", "LOCK", team+"secret/plan", info)
	if got := s.want(423, "eve", "LOCK", team, info).body; strings.Contains(got, "secret") || !strings.Contains(got, "no-conflicting-lock") {
		t.Errorf("eve sees the lock on a hidden path: %s", got)
	}
	if got := s.want(423, "anna", "LOCK", team, info).body; !strings.Contains(got, "secret/plan") {
		t.Errorf("anna does not see her lock: %s", got)
	}
	const quota = `<propfind xmlns="DAV:"><prop><quota-used-bytes/></prop></propfind>`
	if got := s.want(207, "eve", "PROPFIND", team, quota, "Depth: 0").body; !strings.Contains(got, "404 Not Found") {
		t.Errorf("eve sees the size of a folder with hidden files: %s", got)
	}
	if got := s.want(207, "eve", "PROPFIND", team+"open", quota, "Depth: 0").body; strings.Contains(got, "404 Not Found") {
		t.Errorf("eve does not see the size of a folder that she may read: %s", got)
	}
}

// No path leads out of a branch, and hostile XML and If headers are refused.
func TestHostileRequests(t *testing.T) {
	s := newSite(t, Options{MaxSize: 1000})
	for _, path := range []string{"..%2fx", "%2e%2e/x", "a/../../x", ".kist/config", ".KIST/x", "x%00y", "a%2fb/../c", strings.Repeat("n", 5000)} {
		if got := s.send("", "PUT", team+path, "x"); got.StatusCode < 400 || got.StatusCode >= 500 {
			t.Errorf("PUT %.40s: %s, want 4xx", path, got.Status)
		}
		if got := s.send("", "COPY", team+"a.txt", "", "Destination: "+team+path); got.StatusCode < 400 || got.StatusCode >= 500 {
			t.Errorf("COPY to %.40s: %s, want 4xx", path, got.Status)
		}
	}
	s.want(413, "", "PUT", team+"large", strings.Repeat("x", 1001))
	bomb := `<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;">]>`
	for _, body := range []string{
		bomb + `<propfind xmlns="DAV:"><prop><x>&b;</x></prop></propfind>`, strings.Repeat("<a>", 50_000), "<", "\x00",
		`<propfind xmlns="DAV:"><prop>` + strings.Repeat("<x/>", 1) + `</prop>`, `<propfind xmlns="DAV:"/>`,
		`<propfind xmlns="DAV:"><allprop/></propfind><x/>`,
	} {
		if got := s.send("", "PROPFIND", team, body, "Depth: 0"); got.StatusCode != 400 && got.StatusCode != 413 {
			t.Errorf("PROPFIND with %.40q: %s", body, got.Status)
		}
	}
	for _, header := range []string{"If: (", "If: (<a>", `If: (["x)`, "If: " + strings.Repeat("(<x>)", 500), "If: <no-uri> ()"} {
		if got := s.send("", "PUT", team+"a.txt", "x", header); got.StatusCode < 400 || got.StatusCode >= 500 {
			t.Errorf("PUT with %.40s: %s, want 4xx", header, got.Status)
		}
	}
	s.want(204, "", "POST", team, "")
	s.wantFiles("team", map[string]string{"a.txt": "one\ntwo\n"})
}

// TestClients repeats requests of known clients.
func TestClients(t *testing.T) {
	s := newSite(t, Options{})
	got := s.want(200, "", "OPTIONS", team, "")
	if got.Header.Get("DAV") != "1, 2" || got.Header.Get("MS-Author-Via") != "DAV" || !strings.Contains(got.Header.Get("Allow"), "PROPFIND") {
		t.Errorf("OPTIONS: %v", got.Header)
	}

	// Finder first writes an empty file. It sends chunks with the length in its own header, and
	// extra files for the look of a folder.
	const finder = "User-Agent: WebDAVFS/3.0.0 (03008000) Darwin/21.6.0"
	s.want(403, "", "PUT", team+".DS_Store", "look", finder)
	s.want(201, "", "PUT", team+"film.mov", "", finder)
	s.want(204, "", "PUT", team+"film.mov", "film", finder, "X-Expected-Entity-Length: 4")
	s.want(201, "", "PUT", team+"._film.mov", "fork", finder)

	// Windows sets times after each upload. If that is refused, it reports a failed upload.
	patch := `<?xml version="1.0"?><D:propertyupdate xmlns:D="DAV:" xmlns:Z="urn:schemas-microsoft-com:"><D:set><D:prop>` +
		`<Z:Win32CreationTime>Wed, 04 Mar 2026 10:00:00 GMT</Z:Win32CreationTime><Z:Win32LastModifiedTime>Wed, 04 Mar 2026 11:00:00 GMT</Z:Win32LastModifiedTime>` +
		`<Z:Win32FileAttributes>00000020</Z:Win32FileAttributes></D:prop></D:set></D:propertyupdate>`
	got = s.want(207, "", "PROPPATCH", team+"film.mov", patch, "User-Agent: Microsoft-WebDAV-MiniRedir/10.0.19045")
	if strings.Count(got.body, "200 OK") != 3 || strings.Contains(got.body, "403") {
		t.Errorf("PROPPATCH of Windows: %s, want three times 200", got.body)
	}
	got = s.want(207, "", "PROPFIND", team+"film.mov", "", "Depth: 0")
	if !strings.Contains(got.body, "Wed, 04 Mar 2026 11:00:00 GMT") || !strings.Contains(got.body, ">4</") {
		t.Errorf("PROPFIND lacks the time that Windows set: %s", got.body)
	}

	// rclone and clients of ownCloud send the time with the content.
	s.want(201, "", "PUT", team+"dated", "x", "X-OC-Mtime: 1000000000")
	if got = s.want(207, "", "PROPFIND", team+"dated", "", "Depth: 0"); !strings.Contains(got.body, "Sun, 09 Sep 2001 01:46:40 GMT") {
		t.Errorf("PROPFIND lacks the time that rclone set: %s", got.body)
	}

	// GNOME asks for these properties of a folder.
	got = s.want(207, "", "PROPFIND", team, `<?xml version="1.0" encoding="utf-8" ?><D:propfind xmlns:D="DAV:"><D:prop><D:creationdate/><D:displayname/><D:getcontentlength/>`+
		`<D:getcontenttype/><D:getetag/><D:getlastmodified/><D:resourcetype/><D:quota-available-bytes/></D:prop></D:propfind>`, "Depth: 1", "Apply-To-Redirect-Ref: T")
	if !isXML(got.body) || !strings.Contains(got.body, "collection") || !strings.Contains(got.body, team+"film.mov") {
		t.Errorf("PROPFIND of GNOME: %s", got.body)
	}
	s.want(201, "", "POST", team, "")
	s.wantFiles("team", map[string]string{"a.txt": "one\ntwo\n", "film.mov": "film", "._film.mov": "fork", "dated": "x"})
}

// The answers are valid XML and lists are safe HTML for any names of files.
func TestNamesInXML(t *testing.T) {
	s := newSite(t, Options{})
	for _, name := range []string{`<b>&"'`, "control\x01\x7f", "bytes\xff\xfe", "line\nbreak", "per%cent#?"} {
		s.Write(name, name)
	}
	s.Add(stage.AddOptions{})
	s.Commit("names")
	got := s.want(207, "", "PROPFIND", Prefix+"/latest/", "", "Depth: 1")
	if !isXML(got.body) || strings.Count(got.body, "<D:response>") != 7 {
		t.Errorf("want XML with seven places: %q", got.body)
	}
	for _, path := range []string{"%3Cb%3E&%22%27", "control%01%7F", "bytes%FF%FE", "line%0Abreak", "per%25cent%23%3F"} {
		if !strings.Contains(strings.ReplaceAll(got.body, "&amp;", "&"), path) {
			t.Errorf("the answer lacks %s: %s", path, got.body)
		}
		s.want(200, "", "GET", Prefix+"/latest/"+path, "")
	}
	if got := s.want(200, "", "GET", Prefix+"/latest/", ""); strings.Contains(got.body, "<b>") {
		t.Errorf("a list contains a name as markup: %s", got.body)
	}
}

// A commit to the checked-out branch updates the worktree, and keeps local changes.
func TestCheckedOut(t *testing.T) {
	s := newSite(t, Options{})
	const main = Prefix + "/branches/main/"
	s.want(204, "", "PUT", main+"a.txt", "by the server")
	s.want(201, "", "POST", main, "")
	if data, err := os.ReadFile(filepath.Join(s.Dir, "a.txt")); err != nil || string(data) != "by the server" {
		t.Errorf("the worktree has %q, %v", data, err)
	}
	s.want(204, "", "PUT", main+"a.txt", "again")
	s.Write("a.txt", "local")
	s.want(409, "", "POST", main, "")
	if data, err := os.ReadFile(filepath.Join(s.Dir, "a.txt")); err != nil || string(data) != "local" {
		t.Errorf("the worktree has %q, %v", data, err)
	}
	if got := s.want(200, "", "GET", main+"a.txt", ""); got.body != "again" {
		t.Errorf("the branch has %q", got.body)
	}
	s.Add(stage.AddOptions{})
	s.Commit("local")
	s.want(201, "", "POST", main, "")
	if got := s.files("main"); len(got) != 2 || got["a.txt"] != "local" {
		t.Errorf("after the conflict, main has %q", got)
	}
}

// FuzzConditions checks that parsing any If header ends, with conditions or an error.
func FuzzConditions(f *testing.F) {
	for _, seed := range []string{"", "(<urn:x>)", `</dav/x> (<urn:x> ["etag"]) (Not <DAV:no-lock>)`, "(", `(["a`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		r := &http.Request{Header: http.Header{"If": {header}}}
		if c, err := parseConditions(r); (c == nil) == (err == nil) {
			t.Errorf("%q: %v, %v", header, c, err)
		}
	})
}

// FuzzXML checks that an accepted element is written as well-formed XML.
func FuzzXML(f *testing.F) {
	for _, seed := range []string{`<a xmlns="b"><c d="e">&lt;</c></a>`, `<x:a xmlns:x="y" x:b="1" xml:lang="de">text</x:a>`, "<a>\x7f</a>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := xml.NewDecoder(strings.NewReader(text))
		token, err := d.Token()
		start, ok := token.(xml.StartElement)
		if err != nil || !ok {
			return
		}
		e, err := (&parser{d: d, left: maxParts}).readElement(start, 0)
		if err != nil {
			return
		}
		var out strings.Builder
		e.writeXML(&out)
		if !isXML(out.String()) {
			t.Errorf("%q becomes %q", text, out.String())
		}
	})
}

// No client makes, changes or sees a folder of git: git runs commands from it, in the worktree
// and in a mount of the client.
func TestGitFolders(t *testing.T) {
	s := newSite(t, Options{})
	s.Write("sub/.git/config", "mine")
	s.Add(stage.AddOptions{Git: true})
	s.Commit("with git")
	s.Repo.Worktree().AllowGit()
	const main = Prefix + "/branches/main/"
	to := func(path string) string { return "Destination: " + s.url + main + path }

	for _, path := range []string{".git", ".GIT", "git~1", "sub/.git%20"} {
		s.want(403, "anna", "PUT", main+path, "evil")
		s.want(403, "anna", "MKCOL", main+path+"/", "")
		s.want(403, "anna", "COPY", main+"a.txt", "", to(path))
		s.want(403, "anna", "MOVE", main+"a.txt", "", to(path))
	}
	for _, path := range []string{main + "sub/.git/config", main + "sub/.git/", Prefix + "/latest/sub/.git/config"} {
		s.want(404, "anna", "GET", path, "")
		s.want(404, "anna", "PROPFIND", path, "", "Depth: 0")
	}
	s.want(404, "anna", "DELETE", main+"sub/.git/config", "")
	if list := s.want(207, "anna", "PROPFIND", main+"sub/", "", "Depth: 1").body; strings.Contains(list, ".git") {
		t.Errorf("the listing has .git: %s", list)
	}
	s.want(201, "anna", "COPY", main+"sub/", "", to("copy"))
	s.want(201, "anna", "POST", main, "")
	if _, err := os.Lstat(filepath.Join(s.Dir, "copy/.git")); err == nil {
		t.Error("the copy of a folder made copy/.git in the worktree")
	}
}
