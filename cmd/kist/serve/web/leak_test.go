package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/cmd/kist/serve/dav"
	"github.com/kist-vcs/kist/cmd/kist/serve/web"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/checkout"
)

// attacked is a server of a world.
type attacked struct {
	*world
	url      string
	client   *http.Client
	routes   []string // patterns of all handlers
	methods  []string // of WebDAV
	params   []string // of the queries of all routes
	secrets  map[visitor]*secrets
	requests int
	allowed  int // answers with something that the visitor may see
}

// TestNoLeak sends random requests to every route of a server with random rules of access, and
// compares the answers with a model. The routes come from the server, the methods of WebDAV from
// its answer to OPTIONS, and the parameters of the API from its document.
func TestNoLeak(t *testing.T) {
	total := 0
	for round := range objecttest.Rounds(t, 2) {
		r := objecttest.Rand(8100 + uint64(round))
		a := attack(newWorld(kisttest.New(t), r))
		for range 30 {
			for _, v := range visitors {
				a.exact(v)
				a.compare(v)
				a.readAnything(v)
			}
		}
		if a.allowed < a.requests/5 {
			t.Errorf("round %d: only %d of %d answers have something", round, a.allowed, a.requests)
		}
		for range 60 { // what eve changes, others may see
			a.changeAnything(visitor{name: "eve"})
			a.readAnything(visitor{name: "eve"})
		}
		total += a.requests
		if t.Failed() {
			t.Fatalf("round %d failed", round)
		}
	}
	t.Logf("%d requests", total)
}

// attack serves a world until the test ends.
func attack(w *world) *attacked {
	w.Helper()
	ctx, stop := context.WithCancel(context.Background())
	o := serve.Options{Write: true, Proxy: serve.Proxy{From: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, UserHeader: "Remote-User", GroupsHeader: "Remote-Groups"}}
	server := serve.New(w.Repo, o)
	pages, err := web.New(ctx, server.Site(), web.Options{Now: time.Now, Jobs: 1})
	w.Check(err)
	server.Handle("/", web.Budget, pages)
	files, err := dav.New(ctx, w.Repo, dav.Options{Write: true, Quiet: time.Hour, Guard: server.Site().Guard})
	w.Check(err)
	server.Handle(dav.Prefix+"/", dav.Budget, files)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	w.Check(err)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, l) }()
	a := &attacked{world: w, url: "http://" + l.Addr().String(), client: &http.Client{Transport: &http.Transport{}}, secrets: map[visitor]*secrets{}}
	a.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	w.Cleanup(func() {
		a.client.CloseIdleConnections()
		stop()
		if err := <-ended; err != nil {
			w.Error(err)
		}
		files.Close(context.Background()) // changes of eve may conflict with the empty worktree
	})
	for _, v := range visitors {
		a.secrets[v] = w.secretsOf(v)
	}
	a.readRoutes(append(server.Routes(), web.Patterns()...))
	return a
}

// readRoutes finds the routes of the server, their methods and their parameters.
func (a *attacked) readRoutes(patterns []string) {
	a.routes = patterns
	_, header, _ := a.send(visitors[0], http.MethodOptions, "/dav/", "")
	a.methods = strings.Split(header.Get("Allow"), ", ")
	_, _, body := a.send(visitors[0], http.MethodGet, "/api/openapi.json", "")
	var doc struct {
		Paths map[string]struct {
			Get struct {
				Parameters []struct{ Name, In string }
			}
		}
	}
	a.Check(json.Unmarshal([]byte(body), &doc))
	known := map[string]bool{}
	for key := range values {
		known[key] = true
	}
	for _, of := range doc.Paths {
		for _, p := range of.Get.Parameters {
			if p.In == "query" && !known[p.Name] {
				a.Errorf("parameter %s of the API: the test has no values for it", p.Name)
			}
		}
	}
	a.params = slices.Sorted(maps.Keys(values))
	if len(a.methods) < 10 || len(a.routes) < 20 {
		a.Errorf("routes %q, methods of WebDAV %q: some are missing", a.routes, a.methods)
	}
}

// values has the values of each parameter of queries.
var values = map[string]func(*attacked) string{
	"rev": (*attacked).rev, "from": (*attacked).rev, "to": (*attacked).rev, "path": (*attacked).path, "q": (*attacked).query,
	"at":       func(a *attacked) string { return pick(a.rand, []string{"1", "2", "9", a.path()}) },
	"after":    func(a *attacked) string { return pick(a.rand, a.names) },
	"in":       func(a *attacked) string { return pick(a.rand, []string{"names", "contents", "text"}) },
	"limit":    func(a *attacked) string { return pick(a.rand, []string{"1", "3", "100"}) },
	"skip":     func(a *attacked) string { return pick(a.rand, []string{"0", "2"}) },
	"patch":    func(*attacked) string { return "1" },
	"all":      func(*attacked) string { return "1" },
	"regexp":   func(*attacked) string { return "1" },
	"download": func(*attacked) string { return "" },
	"archive":  func(a *attacked) string { return pick(a.rand, []string{"tar", "zip"}) },
	"as":       func(a *attacked) string { return pick(a.rand, []string{"grid", "source", "name"}) },
	"start":    func(a *attacked) string { return pick(a.rand, []string{"1", "2", "99"}) },
}

func (a *attacked) rev() string {
	i := a.rand.IntN(len(a.commits))
	return pick(a.rand, []string{fmt.Sprint("t", i), a.commits[i].id.String(), "team", "main", "HEAD"})
}

// path returns a path of any commit, or an address below /dav/ without the commit.
func (a *attacked) path() string {
	files := pick(a.rand, a.commits).files
	if len(files) == 0 || a.rand.IntN(8) == 0 {
		return ""
	}
	return pick(a.rand, slices.Sorted(maps.Keys(files)))
}

func (a *attacked) query() string {
	l := pick(a.rand, a.commits).files
	words := []string{".", "t", "size=+1", "type=dir", "newer=9999d", "changed=t0", pick(a.rand, a.names)}
	for _, p := range slices.Sorted(maps.Keys(l)) {
		if !l[p].dir {
			words = append(words, l[p].word(), l[p].word()[:5], fmt.Sprint("size=", len(l[p].text)))
		}
	}
	return pick(a.rand, words)
}

// send sends a request, and checks that the answer has no secret.
func (a *attacked) send(v visitor, method, target, body string, headers ...string) (int, http.Header, string) {
	a.Helper()
	req, err := http.NewRequestWithContext(a.Context(), method, a.url+target, strings.NewReader(body))
	a.Check(err)
	req.Header.Set("Remote-User", v.name)
	req.Header.Set("Remote-Groups", v.groups)
	for _, line := range headers {
		key, value, _ := strings.Cut(line, ": ")
		req.Header.Set(key, value)
	}
	res, err := a.client.Do(req)
	a.Check(err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	answer := string(data)
	if a.requests++; err != nil {
		a.Errorf("%s %s as %q: %v after %q", method, target, v.name, err, answer)
	}

	if res.StatusCode < 300 && a.shows(v, answer) {
		a.allowed++
	}
	if len(answer) > 0 || !strings.HasPrefix(target, "/files/") {
		res.Header.Del("Content-Length") // may be any number
	}
	asked := target + body + strings.Join(headers, "\n")
	if plain, err := url.PathUnescape(asked); err == nil {
		asked += plain
	}
	if secret := a.leaked(v, asked, answer+fmt.Sprint(res.Header)); secret != "" {
		a.Errorf("%s %s %q %q as %q: %d, the answer has %q:\n%.3000s", method, target, body, headers, v.name, res.StatusCode, secret, answer)
	}
	return res.StatusCode, res.Header, answer
}

var (
	lockTokens = regexp.MustCompile(`urn:uuid:[0-9a-f-]+`)
	runs       = regexp.MustCompile(`[0-9a-z]+`)
	shownSizes = regexp.MustCompile(`[0-9.]+ KiB`)
)

// leaked returns a secret in an answer that the request does not have, or "".
func (a *attacked) leaked(v visitor, asked, answer string) string {
	s := a.secrets[v]
	if s == nil { // before the secrets are known
		return ""
	}
	for _, word := range s.words {
		if strings.Contains(answer, word) && !strings.Contains(asked, word) {
			return word
		}
	}
	if strings.HasPrefix(asked, "/metrics") { // its counters may be any number
		return ""
	}
	for _, run := range runs.FindAllString(lockTokens.ReplaceAllString(answer, ""), -1) {
		if len(run) >= 16 && s.hashes[run[:16]] || s.sizes[run] && !strings.Contains(asked, run) {
			return run
		}
	}
	for _, size := range shownSizes.FindAllString(answer, -1) {
		if s.sizes[size] {
			return size
		}
	}
	return ""
}

// readAnything sends a random request to a random route.
func (a *attacked) readAnything(v visitor) {
	a.Helper()
	pattern := pick(a.rand, a.routes)
	method, at, ok := strings.Cut(pattern, " ")
	if !ok {
		method, at = http.MethodGet, pattern
	}
	if strings.HasPrefix(at, dav.Prefix) {
		a.readDAV(v, pick(a.rand, []string{http.MethodGet, "PROPFIND", "PROPFIND"}))
		return
	}
	if a.rand.IntN(20) == 0 && method == http.MethodGet {
		method = http.MethodHead
	}
	at = strings.ReplaceAll(at, "{$}", "")
	at = strings.ReplaceAll(at, "{id}", a.rev())
	at = strings.ReplaceAll(at, "{path...}", escapePath(a.path()))
	if strings.HasSuffix(pattern, "/") || strings.HasPrefix(pattern, "/api/v1/") {
		at += escapePath(a.path())
	}

	form := url.Values{}
	for _, key := range a.params {
		if a.rand.IntN(4) == 0 || key == "q" && a.rand.IntN(2) == 0 {
			form.Set(key, values[key](a))
		}
	}
	headers := []string{"Accept: " + pick(a.rand, []string{"*/*", "application/json", "text/html"})}
	body := ""
	if method == http.MethodPost {
		headers = append(headers, "Content-Type: application/x-www-form-urlencoded")
		body = form.Encode()
	} else if len(form) > 0 {
		at += "?" + form.Encode()
	}
	a.send(v, method, at, body, headers...)
}

// shows reports whether an answer has a word of a file that the visitor may see.
func (a *attacked) shows(v visitor, answer string) bool {
	if a.secrets[v] == nil {
		return false
	}
	for word := range a.secrets[v].seen {
		if len(word) >= 7 && word[0] >= 'g' && strings.Contains(answer, word) {
			return true
		}
	}
	return false
}

func escapePath(p string) string { return (&url.URL{Path: p}).EscapedPath() }

// place returns a random address below /dav/.
func (a *attacked) place(branches bool) string {
	roots := []string{"branches/team", "branches/main", "branches/team"}
	if !branches {
		roots = append(roots, fmt.Sprint("tags/t", a.rand.IntN(len(a.commits))), "latest", "tags", "branches")
	}
	return strings.TrimSuffix(dav.Prefix+"/"+pick(a.rand, roots)+"/"+escapePath(a.path()), "/")
}

func (a *attacked) readDAV(v visitor, method string) {
	a.Helper()
	body := ""
	if a.rand.IntN(2) == 0 && method == "PROPFIND" {
		body = `<propfind xmlns="DAV:"><prop><quota-used-bytes/><getetag/><lockdiscovery/></prop></propfind>`
	}
	a.send(v, method, a.place(false), body, "Depth: "+pick(a.rand, []string{"0", "1", "1", "infinity"}))
}

// changeAnything sends a random WebDAV request to a branch. New names are new words.
func (a *attacked) changeAnything(v visitor) {
	a.Helper()
	method := pick(a.rand, append(slices.Repeat([]string{"LOCK", "COPY"}, 2), a.methods...))
	at := a.place(true)
	fresh := path.Join(path.Dir(a.place(true)), a.token(9))
	body, headers := "", []string{"Depth: " + pick(a.rand, []string{"0", "infinity"}), "Destination: " + a.url + fresh}
	switch method {
	case http.MethodPut, "MKCOL":
		if a.rand.IntN(2) == 0 {
			at = fresh
		}
		if method == http.MethodPut {
			body = a.token(20)
		}
	case "LOCK":
		scope := pick(a.rand, []string{"shared", "exclusive"})
		body = fmt.Sprintf(`<lockinfo xmlns="DAV:"><lockscope><%s/></lockscope><locktype><write/></locktype></lockinfo>`, scope)
		headers = append(headers, "Timeout: Second-2")
		code, _, _ := a.send(visitors[0], method, at, body, headers...) // perhaps on a path that is hidden from v
		a.named(code, at)
		for at = path.Dir(at); a.rand.IntN(3) > 0 && strings.Count(at, "/") > 3; {
			at = path.Dir(at)
		}
	case "PROPPATCH":
		body = `<propertyupdate xmlns="DAV:"><set><prop><x xmlns="u:">y</x></prop></set></propertyupdate>`
	case http.MethodPost:
		at = dav.Prefix + "/branches/team"
	}

	code, _, _ := a.send(v, method, at, body, headers...)
	if a.named(code, at); code < 300 && (method == "COPY" || method == "MOVE") {
		a.send(v, http.MethodGet, fresh, "")
		a.send(v, "PROPFIND", fresh, "", "Depth: infinity")
	}
}

// compare sends the same WebDAV request to a place in a hidden folder and in one that does not
// exist. The answers must be the same. No request can succeed.
func (a *attacked) compare(v visitor) {
	a.Helper()
	c := a.commits[a.head]
	if v.name == "" || len(c.files) == 0 {
		return
	}
	hidden := pick(a.rand, slices.Sorted(maps.Keys(c.files)))
	if a.visible(v, a.head, hidden) {
		return
	}
	hidden = tree.Join(hidden, a.token(9))
	above, _ := tree.Split(hidden)
	for above != "" && !a.visible(v, a.head, above) {
		above, _ = tree.Split(above)
	}
	names := strings.Split(strings.TrimPrefix(hidden[len(above):], "/"), "/")
	names[0] = a.token(8)
	missing := tree.Join(above, strings.Join(names, "/"))

	method, branch := pick(a.rand, a.methods), dav.Prefix+"/branches/team/"
	body, headers := "", []string{"Depth: " + pick(a.rand, []string{"0", "infinity"})}
	for _, line := range []string{"If-Match: *", "If-None-Match: *", "Overwrite: F"} {
		if a.rand.IntN(6) == 0 {
			headers = append(headers, line)
		}
	}
	switch method {
	case http.MethodPut:
		body = "text"
	case "LOCK":
		body = `<lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>`
	case "PROPPATCH":
		body = `<propertyupdate xmlns="DAV:"><set><prop><x xmlns="u:">y</x></prop></set></propertyupdate>`
	}

	// The source of a copy is the place, the folder above it, or a path that the visitor may see.
	kind := a.rand.IntN(3)
	var seen []string
	for p := range c.files {
		if a.visible(v, a.head, p) {
			seen = append(seen, p)
		}
	}
	slices.Sort(seen)
	ask := func(p string) string {
		at, send := p, headers
		if method == "COPY" || method == "MOVE" {
			to := p
			switch {
			case kind == 0:
				to += "2"
			case kind == 1 || len(seen) == 0:
				at = path.Dir(p)
			default:
				at = seen[len(a.names)%len(seen)]
			}
			send = append(slices.Clip(headers), "Destination: "+a.url+branch+escapePath(to))
		}
		code, header, text := a.send(v, method, branch+escapePath(at), body, send...)
		header.Del("Date")
		return fmt.Sprint(code, header, text)
	}
	one, two := ask(hidden), ask(missing)
	if one != two {
		a.Errorf("%s %q of %q as %q: %s; of %q, which does not exist: %s", method, headers, hidden, v.name, one, missing, two)
	}
}

// named notes that a request may have created a path. Its names are no secret then.
func (a *attacked) named(code int, at string) {
	if code != http.StatusCreated {
		return
	}
	for _, s := range a.secrets {
		s.words = slices.DeleteFunc(s.words, func(word string) bool { return slices.Contains(strings.Split(at, "/"), word) })
	}
}

// exact sends requests whose answers the model knows.
func (a *attacked) exact(v visitor) {
	a.Helper()
	i := a.rand.IntN(len(a.commits))
	c := a.commits[i]
	if len(c.files) == 0 {
		return
	}
	p := pick(a.rand, slices.Sorted(maps.Keys(c.files)))
	visible := a.visible(v, i, p)
	want := 200
	switch {
	case !visible && v.name == "":
		want = 401
	case !visible:
		want = 404
	}

	if l := c.files[p]; !l.dir {
		code, _, answer := a.send(v, http.MethodGet, fmt.Sprintf("/files/%s?rev=%s", escapePath(p), c.id), "")
		if code != want || visible && answer != l.text {
			a.Errorf("%s of %d (served: %d) as %q: %d, want %d", p, i, a.head, v.name, code, want)
		}
		if v.name != "" {
			code, _, answer = a.send(v, http.MethodGet, fmt.Sprintf("/dav/tags/t%d/%s", i, escapePath(p)), "")
			if code != want || visible && answer != l.text {
				a.Errorf("/dav/tags/t%d/%s as %q: %d, want %d", i, p, v.name, code, want)
			}
			a.exactSearch(v, l.word())
		}
	}

	if v.name == "" {
		return
	}
	a.exactFolder(v, i, p)

	for _, route := range []string{"/history/", "/api/v1/history/"} { // they name other paths of the file
		code, _, answer := a.send(v, http.MethodGet, fmt.Sprintf("%s%s?rev=t%d", route, escapePath(p), i), "")
		if code != want {
			a.Errorf("%s%s of %d as %q: %d, want %d: %s", route, p, i, v.name, code, want, answer)
		}
	}
}

// exactFolder compares the lists of a folder of commit i.
func (a *attacked) exactFolder(v visitor, i int, p string) {
	a.Helper()
	c, dir := a.commits[i], p
	if !c.files[p].dir {
		dir, _ = tree.Split(p)
	}
	if !a.visible(v, i, dir) {
		return
	}
	var want []string
	for q := range c.files {
		if above, name := tree.Split(q); above == dir && a.visible(v, i, q) {
			want = append(want, name)
		}
	}
	slices.Sort(want)

	_, _, answer := a.send(v, http.MethodGet, fmt.Sprintf("/api/v1/tree/%s?rev=t%d", escapePath(dir), i), "")
	var list struct{ Entries []struct{ Path string } }
	a.Check(json.Unmarshal([]byte(answer), &list))
	var got []string
	for _, e := range list.Entries {
		got = append(got, path.Base(e.Path))
	}
	if !slices.Equal(got, want) {
		a.Errorf("folder %q of %d as %q: %q, want %q", dir, i, v.name, got, want)
	}
	_, _, shown := a.send(v, http.MethodGet, fmt.Sprintf("/tree/%s?rev=t%d", escapePath(dir), i), "")
	_, _, props := a.send(v, "PROPFIND", strings.TrimSuffix(fmt.Sprintf("/dav/tags/t%d/%s", i, escapePath(dir)), "/")+"/", "", "Depth: 1")
	for _, name := range want {
		if !strings.Contains(shown, name) || !strings.Contains(props, name) {
			a.Errorf("folder %q of %d as %q: the page or PROPFIND lacks %q", dir, i, v.name, name)
		}
	}
}

// exactSearch checks that a search in all history finds a content if the visitor may see it in
// a commit that made it. If the visitor may see it in no commit, the search must not find it.
func (a *attacked) exactSearch(v visitor, word string) {
	a.Helper()
	_, _, answer := a.send(v, http.MethodGet, "/search?all=1&in=contents&q="+word, "")
	found := strings.Contains(answer, "<mark>"+word+"</mark>")
	if seen := a.secrets[v].seen[word]; found && !seen || !found && a.made(v, word) {
		a.Errorf("search for %s as %q: found %v, it is visible: %v", word, v.name, found, seen)
	}
}

// A guarded file stays hidden after its deletion, on every page.
func TestDeletedSecret(t *testing.T) {
	w := &world{Repository: kisttest.New(t), rand: objecttest.Rand(8300)}
	text, dir, name := w.newText(), w.token(8), w.token(8)
	p := dir + "/" + name
	open, secret := leaf{text: text}, leaf{text: text, rules: map[string]string{"acl": "anna"}}
	w.names = []string{name}
	w.commits = []*modelCommit{
		{files: map[string]leaf{dir: {dir: true}, p: open}},
		{parents: []int{0}, files: map[string]leaf{dir: {dir: true}, p: secret}},
		{parents: []int{1}, files: map[string]leaf{dir: {dir: true}}},
	}
	w.head = 2
	w.store([]int{2})
	w.Checkout(checkout.SwitchOptions{Rev: "main", Force: true})
	a := attack(w)

	eve := visitor{name: "eve"}
	for i, c := range w.commits {
		for _, at := range []string{"/commit/t%d", "/diff?from=t%d&to=team", "/diff?from=team&to=t%d", "/tree/?rev=t%d", "/log?rev=t%d", "/api/v1/diff?to=t%d&patch=1", "/api/v1/log?rev=t%d", "/search?all=1&q=type%%3Dfile+or+sha256%%3D00&rev=t%d"} {
			if code, _, answer := a.send(eve, http.MethodGet, fmt.Sprintf(at, i), ""); code != 200 {
				t.Errorf(at+": %d %.300q", i, code, answer)
			}
		}
		for _, at := range []string{"/history/%s?rev=%s", "/api/v1/history/%s?rev=%s", "/files/%s?rev=%s"} {
			if code, _, answer := a.send(eve, http.MethodGet, fmt.Sprintf(at, p, c.id), ""); code != 404 {
				t.Errorf(at+": %d %.300q, want 404", p, c.id, code, answer)
			}
		}
	}
	for _, at := range []string{"/log?path=", "/api/v1/log?path="} {
		if _, _, answer := a.send(eve, http.MethodGet, at+p+"&rev=team", ""); strings.Contains(answer, "change ") {
			t.Errorf("%s shows which commits changed a hidden file: %s", at, answer)
		}
	}
	anna := visitor{name: "anna"}
	if code, _, answer := a.send(anna, http.MethodGet, "/commit/t2", ""); code != 200 || !strings.Contains(answer, name) {
		t.Errorf("anna does not see the deletion of her file: %d", code)
	}
}
