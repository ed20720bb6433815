package web

import (
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kist-vcs/kist/object"
)

// visible returns text of others as HTML. Control characters, marks that reorder text, other
// invisible characters and bytes that are not UTF-8 are shown as escapes. Newlines and tabs
// stay.
func visible(s string) template.HTML {
	var b strings.Builder
	plain := 0 // start of the text that is not written yet
	for i, r := range s {
		var escape string
		switch {
		case r == utf8.RuneError && badByte(s[i:]):
			escape = fmt.Sprintf(`\x%02x`, s[i])
		case r == '\n' || r == '\t' || !invisible(r):
			continue
		case r < 0x100:
			escape = fmt.Sprintf(`\x%02x`, r)
		default:
			escape = fmt.Sprintf(`\u%04x`, r)
		}
		b.WriteString(template.HTMLEscapeString(s[plain:i]))
		fmt.Fprintf(&b, `<span class="escape">%s</span>`, escape)
		plain = i + max(1, utf8.RuneLen(r))
		if escape[1] == 'x' && badByte(s[i:]) {
			plain = i + 1
		}
	}
	b.WriteString(template.HTMLEscapeString(s[plain:]))
	return template.HTML(b.String())
}

// plain is visible for places without markup, such as titles.
func plain(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && badByte(s[i:]):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case invisible(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// name returns the name of a file as HTML. It is isolated, so that its direction does not
// reorder the text around it. Newlines and tabs are escaped, too.
func name(s string) template.HTML {
	shown := strings.NewReplacer("\n", `<span class="escape">\n</span>`, "\t", `<span class="escape">\t</span>`).Replace(string(visible(s)))
	return template.HTML("<bdi>" + shown + "</bdi>")
}

// badByte reports whether text begins with a byte that is not UTF-8.
func badByte(text string) bool {
	r, size := utf8.DecodeRuneInString(text)
	return r == utf8.RuneError && size == 1
}

// invisible reports whether a character shows nothing, or changes the text around it.
func invisible(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7f && r < 0xa0, r == 0x2028, r == 0x2029:
		return true
	}
	return unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// size returns a number of bytes for people.
func size[N int | int64 | uint64](n N) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n), 0
	for value >= 1023.95 && unit < 6 {
		value, unit = value/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "BKMGTPE"[unit])
}

// sizeOf is size for templates.
func sizeOf(n any) string {
	switch n := n.(type) {
	case int:
		return size(n)
	case int64:
		return size(max(n, 0))
	case uint64:
		return size(n)
	case *int64:
		return size(max(*n, 0))
	}
	return ""
}

// group returns a number with groups of three digits.
func group(n any) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// count returns a number and its noun.
func count(n any, one, many string) string {
	if text := group(n); text != "1" {
		return text + " " + many
	}
	return "1 " + one
}

// ago returns how long before now a time was.
func ago(now, then time.Time) string {
	d := now.Sub(then)
	switch {
	case d < -time.Minute:
		return "in the future"
	case d < time.Minute:
		return "just now"
	}
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{365 * 24 * time.Hour, "year"}, {30 * 24 * time.Hour, "month"}, {7 * 24 * time.Hour, "week"}, {24 * time.Hour, "day"}, {time.Hour, "hour"}} {
		if n := int(d / unit.length); n > 0 {
			return count(n, unit.name, unit.name+"s") + " ago"
		}
	}
	return count(int(d/time.Minute), "min", "min") + " ago"
}

// stamp returns a time as HTML: how long ago it was, and in the title the time itself.
func stamp(now, then time.Time) template.HTML {
	if then.IsZero() {
		return ""
	}
	then = object.Writable(then)
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`,
		then.Format(time.RFC3339), then.Format("2006-01-02 15:04:05 -0700"), ago(now, then)))
}

// address returns the address of a page or of raw content: below is "tree", "files" and so
// on.
func address(below, path, rev string) string {
	to := "/" + below + "/" + escaped(path)
	if rev != "" && rev != "HEAD" {
		to += "?rev=" + url.QueryEscape(rev)
	}
	return to
}

// escaped returns a path with an escape for each byte that is not a plain letter, digit or
// mark.
func escaped(path string) string {
	var b strings.Builder
	for i := range len(path) {
		switch c := path[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '/', c == '-', c == '_', c == '.', c == '~':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// archive returns the address of a folder as a zip file.
func archive(path, rev string) string {
	if path != "" {
		path += "/"
	}
	v := url.Values{"archive": {"zip"}}
	if rev != "" && rev != "HEAD" {
		v.Set("rev", rev)
	}
	return address("files", path, "") + "?" + v.Encode()
}

// versionAddress returns the address of the page with one version of a file.
func versionAddress(path, rev string, number int) string {
	v := url.Values{"at": {fmt.Sprint(number)}}
	if rev != "" && rev != "HEAD" {
		v.Set("rev", rev)
	}
	return address("history", path, "") + "?" + v.Encode()
}

// shortRev returns a revision as people name it: the name of a branch or tag, or the first
// digits of an ID.
func shortRev(rev string) string {
	if id, err := object.ParseID(rev); err == nil {
		return id.Short()
	}
	for _, prefix := range []string{"refs/heads/", "refs/tags/", "refs/remotes/"} {
		if short, ok := strings.CutPrefix(rev, prefix); ok {
			return short
		}
	}
	return rev
}
