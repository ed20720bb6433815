package gridfs

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/kist-vcs/kist/remote"
)

// hostVariable names the hosts that may receive credentials of the
// environment: a user and password, or an identity of the machine. The URL of
// a remote may come from another user's configuration, so the URL alone must
// not decide this.
const hostVariable = "KIST_MONGODB_HOST"

// signIn returns the authority of a URL. If the URL has no password, signIn
// adds the user and password from the environment. The error matches
// [remote.ErrCredentials] if the environment has credentials but no hosts for
// them.
func (l *location) signIn(authority string, getenv func(string) string) (string, error) {
	at := strings.LastIndexByte(authority, '@')
	hosts := authority[at+1:]
	named := getenv(hostVariable)
	l.unnamed = firstUnnamed(hosts, named)

	name, password := getenv("KIST_MONGODB_USERNAME"), getenv("KIST_MONGODB_PASSWORD")
	user, own, hasPassword := strings.Cut(authority[:max(at, 0)], ":")
	if hasPassword {
		l.hide(own)
		return authority, nil
	}

	plain, _ := url.PathUnescape(user)
	switch {
	case name == "" && password == "":
		return authority, nil
	case user != "" && name != "" && name != plain:
		return authority, nil // the password is another user's
	case named == "":
		return "", l.notSent("KIST_MONGODB_USERNAME and KIST_MONGODB_PASSWORD are")
	case l.unnamed != "":
		return authority, nil // the user keeps them for other hosts
	}

	if user == "" {
		user = escape(name)
	}
	if user == "" {
		return hosts, nil
	}
	if password == "" {
		return user + "@" + hosts, nil
	}

	password = escape(password)
	l.hide(password)
	return user + ":" + password + "@" + hosts, nil
}

// checkAuth returns an error if the options send a password in clear, or an
// identity of this machine to a host that the user has not named.
func (l *location) checkAuth(o *options.ClientOptions) error {
	if o.Auth == nil {
		return nil
	}

	mechanism := strings.ToUpper(o.Auth.AuthMechanism)
	secure := o.TLSConfig != nil && !o.TLSConfig.InsecureSkipVerify
	if (mechanism == "PLAIN" || mechanism == "MONGODB-OIDC") && !secure {
		return fmt.Errorf("authMechanism=%s without TLS sends the password in clear: add tls=true, and keep the check of the certificate", mechanism)
	}

	own := mechanism == "MONGODB-OIDC" || mechanism == "MONGODB-AWS" && o.Auth.Password == ""
	if own && l.unnamed != "" {
		return l.notSent("credentials of this machine (authMechanism=" + mechanism + ") are")
	}

	return nil
}

func (l *location) notSent(what string) error {
	return &remote.Error{Op: "open", Kind: remote.ErrCredentials, Err: &remote.EnvError{
		Variable: hostVariable, Value: l.unnamed, Reason: fmt.Sprintf("%s not sent to %q: %s does not name this host", what, l.unnamed, hostVariable),
	}}
}

// firstUnnamed returns the first host of a list that is not in another list.
func firstUnnamed(hosts, named string) string {
	trusted := map[string]bool{}
	for host := range strings.SplitSeq(named, ",") {
		trusted[withPort(strings.TrimSpace(host))] = true
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if host == "" || !trusted[withPort(host)] {
			return cmp.Or(strings.ToLower(host), "(no host)")
		}
	}
	return ""
}

// withPort returns a host in lower case with its port, 27017 if it has none.
func withPort(host string) string {
	host = strings.ToLower(host)
	if host == "" || strings.LastIndexByte(host, ':') > strings.LastIndexByte(host, ']') {
		return host
	}
	return host + ":27017"
}

// escape escapes all special characters of a URL.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
