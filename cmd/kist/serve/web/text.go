package web

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
)

// visible returns text of others as HTML. Control characters, marks that reorder text, other
// invisible characters and bytes that are not UTF-8 are shown as escapes. Newlines and tabs
// stay.
func visible(s string) template.HTML {
	var b strings.Builder
	for part, escape := range readable.Escaped(s, "\n\t") {
		part = template.HTMLEscapeString(part)
		if escape {
			part = `<span class="escape">` + part + `</span>`
		}
		b.WriteString(part)
	}
	return template.HTML(b.String())
}

// name returns the name of a file as HTML. It is isolated, so that its direction does not
// reorder the text around it. Newlines and tabs are escaped, too.
func name(s string) template.HTML {
	shown := strings.NewReplacer("\n", `<span class="escape">\n</span>`, "\t", `<span class="escape">\t</span>`).Replace(string(visible(s)))
	return template.HTML("<bdi>" + shown + "</bdi>")
}

// whole returns an integer, or the one that n points to. A negative one counts as 0.
func whole(n any) uint64 {
	if p, ok := n.(*int64); ok {
		n = *p
	}
	v, _ := strconv.ParseUint(fmt.Sprint(n), 10, 64)
	return v
}

// These are for templates, which have integers of all types.
func size(n any) string                    { return readable.FormatSize(whole(n)) }
func group(n any) string                   { return readable.FormatCount(whole(n)) }
func count(n any, one, many string) string { return readable.Plural(whole(n), one, many) }

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
