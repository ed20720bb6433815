package remote

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

const hidden = "***"

// Redact returns a URL as it may be shown: with "***" for the password before
// the '@' and for values in the query whose names sound secret. It understands
// lists of hosts, which net/url does not. If the end of the password is unclear,
// it hides everything up to the last '@'. A path is returned unchanged, unless a
// malformed URL is part of it.
func Redact(rawURL string) string {
	shown, _ := redact(rawURL)
	return shown
}

// HasSecret reports whether a URL has a part that Redact hides, and so must
// not be written to a file that others may read.
func HasSecret(rawURL string) bool { return Redact(rawURL) != rawURL }

// Secrets returns the texts that Redact hides in the first URL of a text, such as
// an argument or a setting. A program hides them in all its messages.
func Secrets(text string) []string {
	if !strings.Contains(text, ":") {
		return nil // as most arguments: compiling the expression would take longer than reading the configuration
	}
	start := malformed().FindStringSubmatchIndex(text)
	if start == nil {
		return nil
	}
	_, secrets := redact(text[start[2]:])
	return secrets
}

// redact returns a URL without its secrets, and the secrets.
func redact(rawURL string) (string, []string) {
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

	var secrets []string
	if last := strings.LastIndexByte(rest, '@'); last >= 0 && strings.ContainsAny(authority, ":@") {
		// A password with a slash or so in it, which should have been escaped.
		all := authority + rest[:last]
		_, password, _ := strings.Cut(all, ":")
		query, more := redactQuery(rest[last:])
		return start + hidden + query, append(more, all, password)
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		if user, password, ok := strings.Cut(authority[:at], ":"); ok && password != "" && password != hidden {
			secrets = append(secrets, password)
			authority = user + ":" + hidden + authority[at:]
		}
	}
	query, more := redactQuery(rest)
	return start + authority + query, append(secrets, more...)
}

// malformed finds the beginning of a URL in a text: a scheme with at least one
// slash, or a scheme of kist without any.
var malformed = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|[^a-z0-9+.-])((?:[a-z][a-z0-9+.-]*:/|(?:mongodb(?:\+srv)?|s3|https?|file|ssh|sftp):)/*)`)
})

// redactPath hides a password in a text without a scheme. It may be a URL with
// a missing or mistyped scheme, perhaps with a folder in front.
func redactPath(path string) (string, []string) {
	at := strings.LastIndexByte(path, '@')
	if at < 0 {
		return path, nil
	}
	begin, user := 0, 0
	switch found := malformed().FindStringSubmatchIndex(path[:at]); {
	case found != nil:
		begin, user = found[2], found[3]
		if path[0] != '/' && path[0] != '.' && strings.Contains(path[:begin], ":") {
			begin = 0 // what comes before may belong to the password
		}
		if !strings.Contains(path[user:at], ":") {
			return path, nil
		}
	case path[0] == '/' || path[0] == '.' || !strings.Contains(path[:at], ":"):
		return path, nil
	}
	_, password, _ := strings.Cut(path[user:at], ":")
	last := path[strings.LastIndexByte(path[:at], ':')+1 : at]
	query, more := redactQuery(path[at:])
	return path[:begin] + hidden + query, append(more, path[begin:at], password, last)
}

// redactQuery hides values in the part of s that follows a question mark.
func redactQuery(s string) (shown string, secrets []string) {
	before, query, ok := strings.Cut(s, "?")
	if !ok {
		return s, nil
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
				secrets = append(secrets, value, unescape(value))
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
	return b.String(), secrets
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

// OneLine returns a text of a store as one line of printable characters. It cuts
// the text after limit bytes.
func OneLine(text string, limit int) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) || r == ' ' }), " ")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}

// unescape decodes percent signs. It returns text that cannot be decoded unchanged.
func unescape(s string) string {
	if decoded, err := url.QueryUnescape(s); err == nil {
		return decoded
	}
	return s
}

// FolderPath returns the path in a URL. It reports whether the URL is that of a folder.
func FolderPath(rawURL string) (string, bool) {
	scheme, _, ok := strings.Cut(rawURL, "://")
	if !ok {
		return rawURL, true
	}
	u, err := url.Parse(rawURL)
	if err != nil || !strings.EqualFold(scheme, "file") {
		return "", false
	}
	return u.Path, true
}
