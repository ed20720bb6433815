package serve_test

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/cmd/kist/serve"
	"github.com/kist-vcs/kist/cmd/kist/serve/access"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// guarded returns a repository with rules: anna and the crew may read folder, everyone may read
// open and folder/shown.txt, and only the owner may read none.
func guarded(t *testing.T) *kisttest.Repository {
	s := kisttest.New(t)
	for _, path := range []string{"plain.txt", "folder/secret.txt", "folder/deep/secret.txt", "folder/shown.txt", "open/a.txt", "none/a.txt"} {
		s.Write(path, "text of "+path+"\n")
	}
	s.Add(stage.AddOptions{})
	s.Commit("before the rules\n")
	rules := map[string]string{"folder": "anna,crew", "open": "everyone", "none": "", "folder/shown.txt": "everyone"}
	for path, list := range rules {
		_, err := stage.EditAttrs(t.Context(), s.Repo, []string{path}, func(_ string, attrs map[string]string) error {
			attrs[access.KeyRead] = list
			return nil
		})
		s.Check(err)
	}
	s.Commit("rules\n")
	return s
}

// usersFile writes a file of users whose passwords are their names.
func usersFile(t *testing.T, names ...string) string {
	t.Helper()
	var text string
	for _, name := range names {
		hash, err := bcrypt.GenerateFromPassword([]byte(name), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		text += name + ":" + string(hash) + "\n"
	}
	path := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLogin(t *testing.T) {
	path := usersFile(t, "anna", "bob", "eve")
	groups := filepath.Join(t.TempDir(), "groups")
	if err := os.WriteFile(groups, []byte("# the crew\ncrew: bob nobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	users, err := serve.OpenUsers(path, groups)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	s := serving(guarded(t), serve.Options{Users: users, Requests: func(line string) { lines = append(lines, line) }})
	id, err := s.Repo.Resolve(t.Context(), "HEAD~1") // users name no revision but a branch, a tag or an ID
	s.Check(err)
	first := "?rev=" + id.String()

	tests := []struct {
		path  string
		codes string // for a visitor, a wrong password, anna, bob, eve
	}{
		{"/files/", "401 401 200 200 200"},
		{"/files/plain.txt", "401 401 200 200 200"},
		{"/files/folder/secret.txt", "401 401 200 200 404"},
		{"/files/folder/secret.txt" + first, "401 401 200 200 404"},
		{"/files/plain.txt?rev=main", "401 401 200 200 200"},
		{"/files/plain.txt?rev=:/rules", "401 401 404 404 404"},
		{"/files/plain.txt?rev=main~1", "401 401 404 404 404"},
		{"/files/folder/deep/", "401 401 200 200 404"},
		{"/files/folder/absent", "401 401 404 404 404"},
		{"/files/folder/shown.txt", "200 401 200 200 200"},
		{"/files/open/a.txt", "200 401 200 200 200"},
		{"/files/open/", "200 401 200 200 200"},
		{"/files/open/a.txt" + first, "401 401 200 200 200"},
		{"/files/none/a.txt", "401 401 404 404 404"},
		{"/files/none/a.txt" + first, "401 401 404 404 404"},
		{"/files/absent", "401 401 404 404 404"},
		{"/files/open/a.txt?rev=nope", "401 401 404 404 404"},
		{"/api/v1/file/folder/secret.txt", "401 401 200 200 404"},
		{"/api/v1/history/folder/secret.txt", "401 401 200 200 404"},
		{"/api/v1/log?path=folder/secret.txt", "401 401 200 200 404"},
		{"/api/v1/tree/folder", "401 401 200 200 404"},
		{"/api/v1/refs", "401 401 200 200 200"},
		{"/api/openapi.json", "401 401 200 200 200"},
		{"/metrics", "401 401 200 200 200"},
		{"/healthz", "200 401 200 200 200"},
	}
	d := readDocument(t, s, "Login: anna:anna")
	for _, tt := range tests {
		for i, login := range []string{"", "anna:bob", "anna:anna", "bob:bob", "eve:eve"} {
			var headers []string
			if login != "" {
				headers = []string{"Login: " + login}
			}
			got := s.get(tt.path, headers...)
			if want := strings.Fields(tt.codes)[i]; fmt.Sprint(got.StatusCode) != want && got.StatusCode != 429 {
				t.Errorf("%s as %q: %d, want %s", tt.path, login, got.StatusCode, want)
			}
			if got.StatusCode != 200 && strings.Contains(got.body, "text of") {
				t.Errorf("%s as %q: %q", tt.path, login, got.body)
			}
			if got.StatusCode == 401 && !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("%s as %q: 401 without WWW-Authenticate: Basic", tt.path, login)
			}
		}
	}

	// Lists, archives, searches and comparisons omit paths that the user may not read.
	for _, path := range []string{"/files/", "/api/v1/tree/", "/api/v1/diff?to=" + id.String() + "&patch=1", "/api/v1/diff?from=" + id.String(), "/api/v1/search?q=secret", "/api/v1/search?q=text&in=text", "/api/v1/search?q=a.txt"} {
		for login, sees := range map[string]bool{"eve:eve": false, "bob:bob": true} {
			got := s.want(path, 200, "", "Login: "+login)
			for _, hidden := range []string{"secret.txt", "folder/deep", "text of none", "none/a.txt"} {
				if strings.Contains(got.body, hidden) && (!sees || strings.Contains(hidden, "none")) {
					t.Errorf("%s as %s shows %s: %s", path, login, hidden, got.body)
				}
			}
		}
	}
	s.described(d, "/api/v1/refs", "/api/v1/refs", 401)
	for login, want := range map[string]string{"eve:eve": "plain.txt open/ open/a.txt folder/shown.txt", "bob:bob": "plain.txt open/ open/a.txt folder/ folder/deep/ folder/deep/secret.txt folder/secret.txt folder/shown.txt"} {
		got := s.want("/files/?archive=tar", 200, "", "Login: "+login)
		names := map[string]bool{}
		for tr := tar.NewReader(strings.NewReader(got.body)); ; {
			h, err := tr.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			s.Check(err)
			_, name, _ := strings.Cut(h.Name, "/")
			names[name] = true
		}
		for _, name := range strings.Fields(want) {
			if !names[name] {
				t.Errorf("the archive for %s lacks %s", login, name)
			}
			delete(names, name)
		}
		if len(names) != 0 {
			t.Errorf("the archive for %s also has %v", login, names)
		}
	}

	if all := strings.Join(lines, "\n"); strings.Contains(all, "anna:") || strings.Contains(all, "rev=") || !strings.Contains(all, `"anna" GET /files/plain.txt 200`) {
		t.Errorf("the request log is %s", all)
	}

	// A removed user cannot log in any more.
	s.Check(os.WriteFile(path, []byte(strings.Split(readFile(t, path), "\n")[1]+"\n"), 0o600))
	s.want("/files/plain.txt", 200, "", "Login: bob:bob")
	if got := s.get("/files/plain.txt", "Login: anna:anna"); got.StatusCode == 200 {
		t.Error("anna can log in after her removal")
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// After some wrong passwords, the server refuses more guesses without a check. A user who has
// logged in before can still log in.
func TestGuesses(t *testing.T) {
	users, err := serve.OpenUsers(usersFile(t, "anna"), "")
	if err != nil {
		t.Fatal(err)
	}
	s := serving(small(t), serve.Options{Users: users})
	s.want("/files/a.txt", 200, "", "Login: anna:anna")
	refused := 0
	for i := range 30 {
		if got := s.get("/files/a.txt", fmt.Sprintf("Login: anna:guess%d", i)); got.StatusCode == 429 {
			refused++
		} else if got.StatusCode != 401 {
			t.Fatal(got.Status)
		}
	}
	if refused < 15 {
		t.Errorf("only %d of 30 guesses were refused", refused)
	}
	s.want("/files/a.txt", 200, "", "Login: anna:anna")
	s.want("/files/a.txt", 401, "", "Authorization: Basic !!!")
	s.want("/files/a.txt", 401, "", "Authorization: Bearer x")
}

// A client that used up its guesses does not learn the password of a user who is logged in
// elsewhere.
func TestGuessesOfLoggedIn(t *testing.T) {
	users, err := serve.OpenUsers(usersFile(t, "anna"), "")
	if err != nil {
		t.Fatal(err)
	}
	proxy := serve.Proxy{From: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	s := serving(small(t), serve.Options{Users: users, Proxy: proxy})
	s.want("/files/a.txt", 200, "", "Login: anna:anna", "X-Forwarded-For: 192.0.2.1")

	for i := range 10 {
		s.want("/files/a.txt", 401, "", fmt.Sprint("Login: anna:guess", i), "X-Forwarded-For: 192.0.2.2")
	}
	s.want("/files/a.txt", 429, "", "Login: anna:anna", "X-Forwarded-For: 192.0.2.2")
	s.want("/files/a.txt", 200, "", "Login: anna:anna", "X-Forwarded-For: 192.0.2.1")
}

// Simultaneous guesses are not more than successive ones. Requests with the same right password
// share one check, and so do not count as guesses of each other.
func TestGuessesAtOnce(t *testing.T) {
	users, err := serve.OpenUsers(usersFile(t, "anna"), "")
	if err != nil {
		t.Fatal(err)
	}
	s := serving(small(t), serve.Options{Users: users})
	began := time.Now()
	send := func(n int, login func(i int) string) map[int]int {
		var mu sync.Mutex
		var clients sync.WaitGroup
		counts := map[int]int{}
		for i := range n {
			clients.Go(func() {
				code := s.get("/files/a.txt", "Login: "+login(i)).StatusCode
				mu.Lock()
				defer mu.Unlock()
				counts[code]++
			})
		}
		clients.Wait()
		return counts
	}

	if got := send(60, func(int) string { return "anna:anna" }); got[200] != 60 {
		t.Errorf("60 requests with the right password: %v", got)
	}
	got := send(100, func(i int) string { return fmt.Sprint("anna:guess", i) })
	if most := 11 + int(time.Since(began)/(10*time.Second)); got[401] > most || got[401]+got[429] != 100 {
		t.Errorf("of 100 guesses at once, %d were checked, want at most %d: %v", got[401], most, got)
	}
	if got := send(60, func(int) string { return "anna:anna" }); got[200] != 60 {
		t.Errorf("60 requests of a user who was logged in: %v", got)
	}
}

// Guesses under way count until they turn out to be right.
func TestReservedGuesses(t *testing.T) {
	const most = 10
	server := serve.New(small(t).Repo, serve.Options{})
	for range 3 {
		guesses := server.ReserveGuesses()
		if len(guesses) != most {
			t.Fatalf("%d guesses at once are allowed, want %d", len(guesses), most)
		}
		for _, settle := range guesses {
			settle(false)
		}
	}

	began := time.Now()
	for _, settle := range server.ReserveGuesses() {
		settle(true)
	}
	if n := len(server.ReserveGuesses()); n > int(time.Since(began)/(10*time.Second)) {
		t.Errorf("%d guesses are allowed after %d wrong ones", n, most)
	}
}

// The password of an unknown user costs as much as that of a known one, and always the same.
func TestUnknownNames(t *testing.T) {
	path := usersFile(t, "anna")
	strong, err := bcrypt.GenerateFromPassword([]byte("bob"), bcrypt.MinCost+2)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(readFile(t, path)+"bob:"+string(strong)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	users, err := serve.OpenUsers(path, "")
	if err != nil {
		t.Fatal(err)
	}

	names := map[int]int{}
	for i := range 200 {
		name := fmt.Sprint("nobody", i)
		cost, err := users.OtherCost(name)
		if err != nil {
			t.Fatal(err)
		}
		if second, _ := users.OtherCost(name); second != cost {
			t.Errorf("%s has the costs %d and %d", name, cost, second)
		}
		names[cost]++
	}
	if len(names) != 2 || names[bcrypt.MinCost] == 0 || names[bcrypt.MinCost+2] == 0 {
		t.Errorf("the costs of unknown names are %v, want those of anna and bob", names)
	}
}

func TestRate(t *testing.T) {
	s := serving(small(t), serve.Options{Rate: 1})
	counts := map[int]int{}
	for range 40 {
		counts[s.get("/healthz").StatusCode]++
	}
	if counts[200] < 10 || counts[429] < 10 || counts[200]+counts[429] != 40 {
		t.Errorf("status codes %v, want some 200 and some 429", counts)
	}
}

func TestProxy(t *testing.T) {
	r := guarded(t)
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	s := serving(r, serve.Options{Proxy: serve.Proxy{From: loopback, UserHeader: "Remote-User", GroupsHeader: "Remote-Groups"}})
	s.want("/files/plain.txt", 421, "", "Remote-User: anna", "Host: evil.example") // as for a page whose name resolves to 127.0.0.1
	for _, tt := range []struct {
		path    string
		code    int
		headers []string
	}{
		{"/files/plain.txt", 401, nil},
		{"/files/open/a.txt", 200, nil},
		{"/files/plain.txt", 200, []string{"Remote-User: eve"}},
		{"/files/folder/secret.txt", 404, []string{"Remote-User: eve"}},
		{"/files/folder/secret.txt", 200, []string{"Remote-User: anna"}},
		{"/files/folder/secret.txt", 200, []string{"Remote-User: eve", "Remote-Groups: x, crew"}},
		{"/files/folder/secret.txt", 401, []string{"Remote-Groups: crew"}},
		{"/files/folder/secret.txt", 403, []string{"Remote-User: users"}},
		{"/files/none/a.txt", 403, []string{"Remote-User: everyone"}},
	} {
		if got := s.get(tt.path, tt.headers...); got.StatusCode != tt.code || got.Header.Get("WWW-Authenticate") != "" {
			t.Errorf("%s %q: %s, want %d", tt.path, tt.headers, got.Status, tt.code)
		}
	}

	// A client that is not the proxy cannot name a user.
	elsewhere := []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}
	other := serving(guarded(t), serve.Options{Proxy: serve.Proxy{From: elsewhere, UserHeader: "Remote-User"}})
	other.want("/files/open/a.txt", 403, "proxy", "Remote-User: anna")
}

// X-Forwarded-For counts for the rate limit only if a trusted proxy sent it.
func TestForwarded(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		o := serve.Options{Rate: 1}
		if trusted {
			o.Proxy.From = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")}
		}
		s := serving(small(t), o)
		refused := 0
		for i := range 30 {
			if s.get("/healthz", fmt.Sprintf("X-Forwarded-For: 1.2.3.4, 192.0.2.%d, 10.0.0.1", i)).StatusCode == http.StatusTooManyRequests {
				refused++
			}
		}
		if trusted != (refused == 0) {
			t.Errorf("trusted proxy: %t: %d of 30 requests refused", trusted, refused)
		}
	}
}

func TestUserFiles(t *testing.T) {
	good, err := serve.UserLine("anna", "pw")
	if err != nil {
		t.Fatal(err)
	}
	for text, ok := range map[string]bool{
		good + "\n": true, "# comment\n\n  " + good + "  \n": true, "": false, "anna:secret\n": false, "anna:{SHA}x\n": false, "anna:$apr1$x$y\n": false, "anna\n": false,
		good + "\n" + good: false, strings.Replace(good, "anna", "everyone", 1): false, ":" + good: false, strings.Replace(good, "$10$", "$31$", 1): false,
	} {
		path := filepath.Join(t.TempDir(), "users")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := serve.OpenUsers(path, "")
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), "secret\n") {
			t.Errorf("users file %q: %v, want valid: %v", text, err, ok)
		}
	}
	for _, name := range []string{"", "a:b", "everyone", "users", "a,b", "a\nb", " a"} {
		if line, err := serve.UserLine(name, "pw"); err == nil {
			t.Errorf("UserLine accepts the name %q: %s", name, line)
		}
	}
	if _, err := serve.UserLine("anna", strings.Repeat("x", 73)); err == nil {
		t.Error("UserLine accepts a password that bcrypt would truncate")
	}
}
