package convert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

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

// gitSignature parses "NAME <EMAIL> SECONDS ZONE".
func gitSignature(text string) (object.Signature, error) {
	bad := func() (object.Signature, error) { return object.Signature{}, fmt.Errorf("bad signature %q", text) }
	name, rest, ok := strings.Cut(text, "<")
	if !ok {
		return bad()
	}
	email, rest, ok := strings.Cut(rest, ">")
	fields := strings.Fields(rest)
	if !ok || len(fields) != 2 || len(fields[1]) != 5 {
		return bad()
	}
	seconds, err := strconv.ParseInt(fields[0], 10, 64)
	zone, err2 := strconv.Atoi(fields[1])
	if err != nil || err2 != nil {
		return bad()
	}
	return object.Signature{
		Name: gitName(name), Email: gitName(email), Time: object.Time{Sec: seconds}, Zone: int16(zone/100*60 + zone%100),
	}, nil
}

// gitName returns a name or address in UTF-8 without control characters.
func gitName(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD")))
}

// gitPath returns the path at the end of a command, which git quotes if it has special
// characters.
func gitPath(text string) (string, error) {
	path := text
	if strings.HasPrefix(text, `"`) {
		var err error
		// Both languages use backslashes, letters and octal digits alike.
		if path, err = strconv.Unquote(text); err != nil {
			return "", fmt.Errorf("bad path %s", text)
		}
	}
	clean, err := tree.CleanPath(path)
	if err == nil && clean == "" {
		err = errors.New("the path of a change is empty")
	}
	return clean, err
}
