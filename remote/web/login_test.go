package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

const canary = "s3c ret\"canary"

// loginServer returns a server that wants the password of anna, and the logins that it got.
func loginServer(t testing.TB, next http.Handler) (*remotetest.WebServer, *[]string) {
	var got []string
	s := remotetest.NewWebServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, ok := r.BasicAuth()
		if ok {
			got = append(got, user+":"+password)
		}
		if user != "anna" || password != canary {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	}))
	return s, &got
}

func hostOf(s *remotetest.WebServer) string { return strings.TrimPrefix(s.URL, "https://") }

// TestPassword checks from where a password comes, and to which hosts it is sent.
func TestPassword(t *testing.T) {
	s, got := loginServer(t, http.NotFoundHandler())
	netrc := filepath.Join(t.TempDir(), "netrc")
	if err := os.WriteFile(netrc, []byte("machine 127.0.0.1\n\tlogin anna\n\tpassword \"s3c ret\\\"canary\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := map[string]string{"KIST_HTTP_USERNAME": "anna", "KIST_HTTP_PASSWORD": canary, "KIST_HTTP_HOST": "h, " + hostOf(s)}
	with := func(name, value string) map[string]string {
		m := map[string]string{}
		for n, v := range own {
			m[n] = v
		}
		m[name] = value
		return m
	}
	for name, test := range map[string]struct {
		user string
		env  map[string]string
		kind error
		want []string
	}{
		"none":            {"", nil, remote.ErrCredentials, nil},
		"environment":     {"", own, remote.ErrNotFound, []string{"anna:" + canary}},
		"user in URL":     {"anna@", with("KIST_HTTP_USERNAME", ""), remote.ErrNotFound, []string{"anna:" + canary}},
		"another user":    {"bert@", own, remote.ErrCredentials, nil},
		"another host":    {"", with("KIST_HTTP_HOST", "example.org"), remote.ErrCredentials, nil},
		"wrong":           {"", with("KIST_HTTP_PASSWORD", "wrong"), remote.ErrCredentials, []string{"anna:wrong"}},
		"netrc":           {"", map[string]string{"NETRC": netrc}, remote.ErrNotFound, []string{"anna:" + canary}},
		"netrc, user":     {"anna@", map[string]string{"NETRC": netrc}, remote.ErrNotFound, []string{"anna:" + canary}},
		"netrc, another":  {"bert@", map[string]string{"NETRC": netrc}, remote.ErrCredentials, nil},
		"netrc is absent": {"", map[string]string{"NETRC": netrc + "x"}, remote.ErrCredentials, nil},
	} {
		*got = nil
		b := openAt(t, strings.Replace(s.URL, "://", "://"+test.user, 1), s.Env(test.env))
		_, err := b.Stat(t.Context(), blob)
		t.Log(name)
		wantKind(t, err, test.kind)
		if !slices.Equal(*got, test.want) {
			t.Errorf("the server got %q, want %q", *got, test.want)
		}
		if strings.Contains(err.Error(), "canary") {
			t.Errorf("the error has the password: %v", err)
		}
	}

	_, err := open(s.URL, s.Env(with("KIST_HTTP_HOST", "")), 0)
	variable, ok := errors.AsType[*remote.EnvError](err)
	if !ok || variable.Variable != "KIST_HTTP_HOST" || variable.Value != hostOf(s) {
		t.Errorf("a password without hosts: error %v, want the variable and the host", err)
	}
	if b := openAt(t, "http://127.0.0.1", s.Env(own)); b.login != nil {
		t.Errorf("a login for a URL without TLS")
	}
}

// TestRedirects checks that redirects are followed, and that none carries the password to another host, or out of TLS.
func TestRedirects(t *testing.T) {
	var leaked []string
	note := func(w http.ResponseWriter, r *http.Request) {
		for _, value := range r.Header {
			if text := fmt.Sprint(value); strings.Contains(text, "Basic") || strings.Contains(text, "/start") {
				leaked = append(leaked, text)
			}
		}
		w.Header().Set("Content-Range", "bytes 0-1/2")
		w.WriteHeader(http.StatusPartialContent)
		fmt.Fprint(w, "ok")
	}
	other := remotetest.NewWebServer(t, http.HandlerFunc(note))
	var to string
	s, got := loginServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "start") {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		note(w, r)
	}))
	env := s.Env(map[string]string{"KIST_HTTP_USERNAME": "anna", "KIST_HTTP_PASSWORD": canary, "KIST_HTTP_HOST": hostOf(s)})
	p := make([]byte, 2)

	to = other.URL + "/elsewhere"
	if n, err := openAt(t, s.URL+"/start", env).Get(t.Context(), blob, p, 0); err != nil || string(p[:n]) != "ok" {
		t.Errorf("redirected to another host: %q, %v", p[:n], err)
	}
	if len(leaked) > 0 {
		t.Errorf("the other host got %q", leaked)
	}
	to = s.URL + "/here"
	if n, err := openAt(t, s.URL+"/start", env).Get(t.Context(), blob, p, 0); err != nil || string(p[:n]) != "ok" || len(*got) != 3 {
		t.Errorf("redirected to the same host: %q, %v, logins %q", p[:n], err, *got)
	}
	to = "http" + strings.TrimPrefix(other.URL, "https") + "/plain"
	_, err := openAt(t, s.URL+"/start", env).Get(t.Context(), blob, p, 0)
	wantKind(t, err, nil, "without TLS")
}

// TestRedirectsToThisMachine checks that no server sends requests to services of this machine.
func TestRedirectsToThisMachine(t *testing.T) {
	request := func(to string) *http.Request {
		u, err := url.Parse(to)
		if err != nil {
			t.Fatal(err)
		}
		return &http.Request{URL: u, Header: http.Header{"Referer": {"x"}}}
	}
	for to, allowed := range map[string]bool{
		"https://cdn.example.org/x": true, "https://example.org/y/": true, "https://localhost/": false, "https://127.0.0.2:8080/x": false,
		"https://[::1]/x": false, "https://169.254.169.254/latest": false, "https://0.0.0.0/": false, "https://u:p@example.org/": false,
	} {
		next := request(to)
		err := checkRedirect(next, []*http.Request{request("https://example.org/x")})
		if (err == nil) != allowed || next.Header.Get("Referer") != "" {
			t.Errorf("redirect to %s: error %v, header %v; want allowed %t", to, err, next.Header, allowed)
		}
	}
}

// TestNetrc checks the forms of a netrc file.
func TestNetrc(t *testing.T) {
	const text = `# machine h login no password no
machine other login x password y
machine H
  login anna password "a b\"c"
machine h login bert account z password b
macdef init
machine h login macro password no

default login all password everybody
machine late login l password p`
	for _, test := range []struct{ host, user, want string }{
		{"h", "", `anna:a b"c`}, {"h", "bert", "bert:b"}, {"h", "carl", ""}, {"other", "", "x:y"}, {"absent", "", ""}, {"late", "", "l:p"}, {"h", "macro", ""},
	} {
		got := ""
		if l := parseNetrc(text, test.host, test.user); l != nil {
			got = l.user + ":" + l.password
		}
		if got != test.want {
			t.Errorf("login of %q at %q: %q, want %q", test.user, test.host, got, test.want)
		}
	}
	for _, broken := range []string{"", "machine", "machine h login", "machine h password", `machine h login a password "`, "macdef", "machine h login a password"} {
		if l := parseNetrc(broken, "h", ""); l != nil {
			t.Errorf("%q has the login %+v", broken, l)
		}
	}
}

// TestStall checks that a server that stops in the middle of an answer is given up.
func TestStall(t *testing.T) {
	s := remotetest.NewWebServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Range", "bytes 0-3/4")
		w.Header().Set("Content-Length", "4")
		w.WriteHeader(http.StatusPartialContent)
		fmt.Fprint(w, "ok")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	b, err := open(s.URL, s.Env(nil), 300e6)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	_, err = b.Get(t.Context(), blob, make([]byte, 4), 0)
	wantKind(t, err, remote.ErrTemporary)
}
