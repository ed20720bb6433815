package convert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// editTree returns base with edits. Folders that become empty disappear, as in git.
func editTree(ctx context.Context, rw object.ReadWriter, base tree.Info, edits map[string]*object.Entry) (tree.Info, error) {
	folders := map[string]bool{}
	for path := range edits {
		for dir, _ := tree.Split(path); dir != "" && !folders[dir]; dir, _ = tree.Split(dir) {
			folders[dir] = true
		}
	}
	paths := slices.Concat(slices.Collect(maps.Keys(edits)), slices.Collect(maps.Keys(folders)))
	slices.SortFunc(paths, tree.ComparePaths)
	editor := tree.NewEditor(rw, base)
	for _, path := range slices.Compact(paths) {
		var err error
		e, edited := edits[path]
		switch {
		case edited && e == nil:
			err = editor.Remove(ctx, path)
		case edited:
			err = editor.Set(ctx, path, *e)
		}
		if err == nil && folders[path] && e == nil {
			err = editor.Offer(ctx, path, object.Entry{Type: object.TypeDir, Mode: 0o755})
		}
		if err != nil {
			return tree.Info{}, err
		}
	}
	return editor.Finish(ctx)
}

// gitStamp reads "NAME <EMAIL> SECONDS ZONE". Old and odd programs wrote other forms. It
// then returns what can be read, and reports that something was repaired.
func gitStamp(text string, decode func(string) string) (s object.Stamp, repaired bool) {
	name, rest, hasEmail := strings.Cut(text, "<")
	email, date := rest, ""
	if end := strings.LastIndexByte(rest, '>'); end >= 0 {
		date = rest[end+1:]
		email, _, _ = strings.Cut(rest[:end], ">")
	}
	s.Name, repaired = gitName(decode(name))
	var cut bool
	s.Email, cut = gitName(decode(email))
	repaired = repaired || cut || !hasEmail

	fields := strings.Fields(date)
	if len(fields) != 2 {
		return s, true
	}
	seconds, err := strconv.ParseInt(fields[0], 10, 64)
	zone, zoneErr := strconv.Atoi(fields[1])
	if errors.Is(err, strconv.ErrRange) {
		seconds = 0
	}
	s.Time.Sec = seconds
	const day = 24 * 60
	minutes := zone/100*60 + zone%100
	if zoneErr != nil || minutes <= -day || minutes >= day {
		minutes, repaired = 0, true
	}
	s.Zone = int16(minutes)
	return s, repaired || err != nil
}

// gitName returns a name or address without control characters, and reports whether it had to
// be cut.
func gitName(text string) (string, bool) {
	clean := strings.TrimSpace(object.CleanText(text, utf8.RuneError))
	short := object.CutText(clean, object.MaxTextSize)
	return short, short != clean
}

// gitPath returns the path at the end of a command, which git quotes if it has special
// characters. The error is a [*tree.PathError] if kist cannot have the path.
func gitPath(text string) (string, error) {
	path := text
	if strings.HasPrefix(text, `"`) {
		var ok bool
		if path, ok = unquoteGit(text); !ok {
			return "", fmt.Errorf("bad path %s", text)
		}
	}
	clean, err := tree.CleanPath(path)
	if err == nil && clean == "" {
		err = errors.New("the path of a change is empty")
	}
	return clean, err
}

// unquoteGit returns the bytes of a quoted path. Bytes that are not UTF-8 stay as they are.
func unquoteGit(text string) (string, bool) {
	text, ok := strings.CutSuffix(text[1:], `"`)
	if !ok {
		return "", false
	}
	var path []byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return "", false
		case c != '\\':
			path = append(path, c)
			continue
		}
		if i++; i == len(text) {
			return "", false
		}
		if at := strings.IndexByte(`abtnvfr"\`, text[i]); at >= 0 {
			path = append(path, "\a\b\t\n\v\f\r\"\\"[at])
			continue
		}
		octal, err := strconv.ParseUint(text[i:min(i+3, len(text))], 8, 8)
		if err != nil || i+3 > len(text) {
			return "", false
		}
		path = append(path, byte(octal))
		i += 2
	}
	return string(path), true
}
