package web

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/kist-vcs/kist/object/trace"
	"github.com/kist-vcs/kist/remote"
)

// hostVariable names the hosts that may receive the password of the environment. The URL of a
// remote may come from another user's configuration, so the URL alone must not decide this.
const hostVariable = "KIST_HTTP_HOST"

// maxNetrc is the most bytes of a netrc file.
const maxNetrc = 1 << 20

// login is a user and password.
type login struct{ user, password string }

// findLogin finds the password for the host of a URL. Without TLS there is none.
func (b *Backend) findLogin(u *url.URL, env remote.Env) error {
	if u.Scheme != "https" {
		return nil
	}
	found, err := envLogin(u, env.Getenv)
	if err == nil && found == nil {
		found, err = netrcLogin(u, env)
	}
	b.login = found
	return err
}

// envLogin returns the login in the environment, if that is for the host of a URL.
func envLogin(u *url.URL, getenv func(string) string) (*login, error) {
	name, password, hosts := getenv("KIST_HTTP_USERNAME"), getenv("KIST_HTTP_PASSWORD"), getenv(hostVariable)
	user := u.User.Username()
	switch {
	case password == "":
		return nil, nil
	case user != "" && name != "" && user != name:
		return nil, nil // the password is another user's
	case hosts == "":
		return nil, &remote.EnvError{Variable: hostVariable, Value: u.Host, Reason: fmt.Sprintf("KIST_HTTP_PASSWORD is not sent to %q: %s does not name this host", u.Host, hostVariable)}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if withPort(strings.ToLower(strings.TrimSpace(host))) == withPort(u.Host) {
			return &login{cmp.Or(user, name), password}, nil
		}
	}
	return nil, nil // the user keeps it for other hosts
}

// withPort returns a host with its port, 443 if it has none.
func withPort(host string) string {
	if host == "" || strings.LastIndexByte(host, ':') > strings.LastIndexByte(host, ']') {
		return host
	}
	return host + ":443"
}

// netrcLogin returns the login of the user's netrc file for the host of a URL, or nil.
func netrcLogin(u *url.URL, env remote.Env) (*login, error) {
	path := env.Getenv("NETRC")
	if path == "" {
		if env.Home == "" {
			return nil, nil
		}
		path = filepath.Join(env.Home, ".netrc")
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxNetrc+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxNetrc {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxNetrc)
	}
	return parseNetrc(string(text), u.Hostname(), u.User.Username()), nil
}

// parseNetrc returns the first login of a netrc file for a host, and for a user unless that is "". It ignores
// the section "default": a password for everybody is for nobody.
func parseNetrc(text, host, user string) *login {
	var found login
	matches := false
	isFound := func() bool { return matches && found.password != "" && (user == "" || found.user == user) }
	for line, rest := "", text; rest != ""; {
		line, rest, _ = strings.Cut(rest, "\n")
		words := netrcWords(line)
		for i := 0; i < len(words); i++ {
			value := ""
			if i+1 < len(words) {
				value = words[i+1]
			}
			switch words[i] {
			case "machine", "default":
				if isFound() {
					return &found
				}
				matches = words[i] == "machine" && strings.EqualFold(value, host)
				found = login{user: user}
				if words[i] == "default" {
					continue
				}
			case "login":
				found.user = value
			case "password":
				found.password = value
			case "macdef": // ends at the next empty line
				_, rest, _ = strings.Cut(rest, "\n\n")
			}
			i++
		}
	}
	if isFound() {
		return &found
	}
	return nil
}

// netrcWords splits a line of a netrc file. Words may be quoted. A line that begins with # is a comment.
func netrcWords(line string) (words []string) {
	for {
		line = strings.TrimLeft(line, " \t\r")
		if line == "" || len(words) == 0 && line[0] == '#' {
			return words
		}
		var word strings.Builder
		i := 0
		if line[0] == '"' {
			for i = 1; i < len(line) && line[i] != '"'; i++ {
				if line[i] == '\\' && i+1 < len(line) {
					i++
				}
				word.WriteByte(line[i])
			}
			i = min(i+1, len(line))
		} else {
			i = strings.IndexAny(line+" ", " \t\r")
			word.WriteString(line[:i])
		}
		words, line = append(words, word.String()), line[i:]
	}
}

// loginState says which password a server got that wants one.
func (b *Backend) loginState() string {
	switch {
	case strings.HasPrefix(b.url, "http://"):
		return "kist sends passwords only to https:// URLs"
	case b.login != nil:
		return fmt.Sprintf("the password of %q is wrong", b.login.user)
	}
	return "there is no password for this host in ~/.netrc or KIST_HTTP_PASSWORD"
}

// transport sends requests. It adds the password to those for the host of the remote.
type transport struct {
	*http.Transport
	url   *url.URL // of the remote
	login *login   // may be nil
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.login != nil && r.URL.Scheme == "https" && strings.EqualFold(withPort(r.URL.Host), withPort(t.url.Host)) {
		r = r.Clone(r.Context())
		r.SetBasicAuth(t.login.user, t.login.password)
	}
	end := trace.From(r.Context()).Begin("request", "method", r.Method, "url", r.URL.Scheme+"://"+r.URL.Host+r.URL.Path, "range", r.Header.Get("Range"))
	resp, err := t.Transport.RoundTrip(r)
	if err != nil {
		end(err)
		return nil, err
	}
	end(nil, "status", resp.StatusCode, "bytes", resp.ContentLength)
	return resp, nil
}

// maxRedirects is the most redirects that one request follows.
const maxRedirects = 5

// redirectError is the error for a redirect that is not followed.
type redirectError struct {
	kind error // that of the [remote.Error]
	text string
}

func (e *redirectError) Error() string { return e.text }

// checkRedirect refuses redirects that would leave TLS, or never end.
func checkRedirect(next *http.Request, before []*http.Request) error {
	first, last := before[0].URL, before[len(before)-1].URL
	next.Header.Del("Referer")
	switch {
	case next.URL.Host == last.Host && next.URL.Path == last.Path+"/":
		return &redirectError{remote.ErrNotFound, "has a folder of this name"} // as web servers name folders
	case len(before) > maxRedirects:
		return &redirectError{nil, fmt.Sprintf("redirects more than %d times", maxRedirects)}
	case next.URL.Scheme != "https" && next.URL.Scheme != "http":
		return &redirectError{nil, fmt.Sprintf("redirects to %q, which is no web server", remote.OneLine(next.URL.Scheme, 20)+"://")}
	case first.Scheme == "https" && next.URL.Scheme != "https":
		return &redirectError{nil, "redirects to a URL without TLS"}
	case isLocal(next.URL.Hostname()) && !isLocal(first.Hostname()):
		return &redirectError{nil, "redirects to an address of this machine"}
	case next.URL.User != nil:
		return &redirectError{nil, "redirects to a URL with a user"}
	}
	return nil
}

// isLocal reports whether a host is this machine, or an address that only its own network segment has, such as
// that of a service of a cloud with credentials.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && (ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsUnspecified())
}
