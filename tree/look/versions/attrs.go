package versions

import (
	"errors"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// Attrs returns the effective attributes, by key, of a path in a commit of the index.
func (x *Index) Attrs(commit object.ID, path string) (attrs map[string]tree.Attr) {
	if x.attributed == nil {
		x.attributed = map[string]bool{}
		for i := range x.changes.len() {
			if x.changes.at(i).attrs != "" {
				x.attributed[x.paths.path(x.changes.at(i).path)] = true
			}
		}
	}
	number, known := x.commitNumbers[commit]
	if !known || len(x.attributed) == 0 {
		return nil
	}

	var in tree.Inheritance
	for i := range len(path) + 1 {
		if i < len(path) && path[i] != '/' {
			continue
		}
		e := object.Entry{Type: object.TypeDir}
		if i == len(path) {
			e.Type = object.TypeFile // nothing is below it
		}
		if x.attributed[path[:i]] {
			known, _ := x.paths.number(path[:i])
			if at := x.changeAt(number, known); at >= 0 && x.changes.at(at).attrs != "" {
				e.Attrs, _ = decodeAttrs(x.changes.at(at).attrs) // [Index.decodeBlock] has checked them
			}
		}
		attrs = in.At(path[:i], &e)
	}
	return attrs
}

// encodeAttrs returns the attributes of an entry as they are in a tree, or "" for none.
func encodeAttrs(e *object.Entry) string {
	text, _ := (&object.Entry{Attrs: e.Attrs}).EncodeMetadata() // e comes from a tree
	return text
}

var errNotAttrs = errors.New("not only attributes")

// decodeAttrs accepts exactly what encodeAttrs returns, except "".
func decodeAttrs(text string) (map[string]string, error) {
	e := object.Entry{Type: object.TypeFile}
	err := e.DecodeMetadata(text)
	if err == nil {
		err = e.CheckMetadata()
	}
	if err == nil && (e.Meta != nil || len(e.Attrs) == 0) {
		err = errNotAttrs
	}
	return e.Attrs, err
}
