package remote

import (
	"net/url"
	"slices"
	"strings"
)

// schemes has the names before a colon that are more likely a URL without its slashes than a host.
var schemes = []string{"file", "http", "https", "mongodb", "mongodb+srv", "s3", "sftp", "ssh"}

// SSHURL returns the URL of a folder on another machine that is written as git writes it: host:path or user@host:path,
// where the path is relative to the home folder or begins with a slash. It reports whether text has that form. As for
// git, a slash before the first colon makes a text the path of a folder here. So does a single letter before it, as
// Windows writes a disk. The caller checks that no file here has that name.
func SSHURL(text string) (string, bool) {
	host, path, found := strings.Cut(text, ":")
	if end := strings.Index(text, "]:"); end >= 0 && strings.Contains(host, "[") { // an address of IPv6
		host, path = text[:end+1], text[end+2:]
	}
	first, _, _ := strings.Cut(path, "/")
	switch {
	case !found, host == "", strings.ContainsAny(host, "/ \t\r\n"), strings.HasPrefix(path, "//"), strings.Contains(first, "@"):
		return "", false
	case len(host) == 1 && (path == "" || path[0] == '/' || path[0] == '\\'):
		return "", false
	case slices.Contains(schemes, strings.ToLower(host)):
		return "", false
	}

	u := url.URL{Scheme: "ssh", Host: host, Path: path}
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		u.User, u.Host = url.User(host[:at]), host[at+1:]
	}
	switch {
	case strings.HasPrefix(path, "~"):
		u.Path = "/" + path
	case !strings.HasPrefix(path, "/"):
		u.Path = "/~/" + path
	}
	u.RawPath = strings.ReplaceAll(u.EscapedPath(), "@", "%40") // it would look like the end of a password
	return u.String(), true
}
