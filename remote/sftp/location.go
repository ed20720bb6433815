package sftp

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/kist-vcs/kist/remote"
)

// location is the parsed URL of a remote.
type location struct {
	user string // "": that of ssh's own configuration
	host string
	port string // "": that of ssh's own configuration
	path string // absolute, or relative to the home folder of the user there
}

// parseLocation parses a URL such as ssh://user@host:port/path. The errors contain no part of the URL that
// may be secret.
func parseLocation(rawURL string) (location, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return location{}, errors.New("cannot be parsed; write ssh://user@host/path")
	}
	_, hasPassword := u.User.Password()
	l := location{user: u.User.Username(), host: u.Hostname(), port: u.Port()}
	switch scheme := strings.ToLower(u.Scheme); {
	case scheme != "ssh" && scheme != "sftp":
		return location{}, errors.New("does not begin with ssh:// or sftp://")
	case hasPassword:
		return location{}, errors.New("has a password in it; ssh asks for one, or takes a key")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(rawURL, "#"):
		return location{}, errors.New("'?' and '#' in the path are written %3F and %23")
	case u.Opaque != "":
		return location{}, errors.New("write ssh://user@host/path")
	}
	if err := l.checkHost(); err != nil {
		return location{}, err
	}
	l.path, err = parsePath(u.Path)
	return l, err
}

// checkHost refuses names that ssh could take for options, or a shell for more than a word: ssh may pass
// them to a command of its configuration.
func (l location) checkHost() error {
	switch {
	case l.host == "":
		return errors.New("names no host")
	case !isPlain(l.host, ".-_:%"):
		return fmt.Errorf("%q cannot be the name of a host", l.host)
	case l.user != "" && (!isPlain(l.user, `.-_+@\`) || strings.HasSuffix(l.user, `\`)):
		return fmt.Errorf("%q cannot be the name of a user", l.user)
	}
	if port, err := strconv.Atoi(l.port); l.port != "" && (err != nil || port < 1 || port > 65535) {
		return fmt.Errorf("%q is not a port", l.port)
	}
	return nil
}

// isPlain reports whether a name has only letters, digits and the characters in more, and does not begin
// with a dash.
func isPlain(name, more string) bool {
	return name[0] != '-' && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune(more, r)
	})
}

// parsePath returns the path on the server. A path that begins with /~/ starts from the home folder.
func parsePath(path string) (string, error) {
	switch {
	case path == "":
		return "", errors.New("there is no path in it")
	case strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", errors.New("the path has control characters in it")
	case path == "/~":
		return ".", nil
	}
	if home, ok := strings.CutPrefix(path, "/~/"); ok {
		if home = strings.Trim(home, "/"); home == "" {
			return ".", nil
		}
		return home, nil
	}
	if strings.HasPrefix(path, "/~") {
		return "", errors.New("the home folder of another user has to be written as a path from / on")
	}
	if trimmed := strings.TrimRight(path, "/"); trimmed != "" {
		return trimmed, nil
	}
	return "/", nil
}

// arguments returns the arguments of ssh for a connection to the server's SFTP. Forwardings and local
// commands of the user's configuration are of no use to a store.
func (l location) arguments() []string {
	args := []string{"-oForwardX11=no", "-oForwardAgent=no", "-oPermitLocalCommand=no", "-oClearAllForwardings=yes"}
	if l.port != "" {
		args = append(args, "-p", l.port)
	}
	if l.user != "" {
		args = append(args, "-l", l.user)
	}
	return append(args, "-s", "--", l.host, "sftp")
}

// badURL returns the error for a URL that cannot be opened.
func badURL(rawURL string, err error) error {
	return &remote.Error{Op: "open", Kind: remote.ErrURL, Err: fmt.Errorf("%q: %w", remote.Redact(rawURL), err)}
}
