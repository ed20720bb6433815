package remote

import (
	"net/url"
	"strings"
)

const hidden = "***"

// Redact returns a URL as it may be shown: with "***" for the password before
// the '@' and for values in the query whose names sound secret. It understands
// lists of hosts, which are no URLs to net/url. Where it is unclear what
// belongs to the password, everything up to the last '@' is hidden. A path is
// returned as it is.
func Redact(rawURL string) string {
	_, rest, isURL := cutScheme(rawURL)
	if !isURL {
		return redactPath(rawURL)
	}
	start := rawURL[:len(rawURL)-len(rest)]
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, rest := rest[:end], rest[end:]
	if last := strings.LastIndexByte(rest, '@'); last >= 0 && strings.ContainsAny(authority, ":@") {
		// A password with a slash or so in it, which should have been escaped.
		return start + hidden + redactQuery(rest[last:])
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if user, password, ok := strings.Cut(authority[:at], ":"); ok && password != "" {
			authority = user + ":" + hidden + authority[at:]
		}
	}
	return start + authority + redactQuery(rest)
}

// HasSecret reports whether a URL has a part that Redact hides, and so must
// not be written to a file that others may read.
func HasSecret(rawURL string) bool { return Redact(rawURL) != rawURL }

// redactPath hides a password in what has no scheme, which may be a URL whose
// scheme was forgotten or mistyped.
func redactPath(path string) string {
	at := strings.LastIndexByte(path, '@')
	if at < 0 || path[0] == '/' || path[0] == '.' || !strings.Contains(path[:at], ":") {
		return path
	}
	return hidden + redactQuery(path[at:])
}

// redactQuery hides values in the part of s that follows a question mark.
func redactQuery(s string) string {
	before, query, ok := strings.Cut(s, "?")
	if !ok {
		return s
	}
	var b strings.Builder
	b.WriteString(before)
	b.WriteByte('?')
	for query != "" {
		end := strings.IndexAny(query, "&;#")
		if end < 0 {
			end = len(query)
		}
		name, value, ok := strings.Cut(query[:end], "=")
		b.WriteString(name)
		if ok {
			b.WriteByte('=')
			if isSecret(unescape(name), unescape(value)) {
				value = hidden
			}
			b.WriteString(value)
		}
		if end < len(query) {
			b.WriteByte(query[end])
			end++
		}
		query = query[end:]
	}
	return b.String()
}

// isSecret guesses whether a value in a query is secret.
func isSecret(name, value string) bool {
	if value == "" || value == hidden {
		return false
	}
	name = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	for _, part := range []string{"pass", "pwd", "secret", "token", "signature", "credential", "apikey", "privatekey"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	switch name {
	case "key", "accesskey", "sig":
		return true
	case "authmechanismproperties": // MongoDB's, a list such as AWS_SESSION_TOKEN:…
		return strings.Contains(strings.ToLower(value), "token:")
	}
	return HasSecret(value) // a URL in a URL
}

// unescape decodes what is escaped with percent signs; if it cannot be
// decoded, it stays as it is.
func unescape(s string) string {
	if decoded, err := url.QueryUnescape(s); err == nil {
		return decoded
	}
	return s
}
