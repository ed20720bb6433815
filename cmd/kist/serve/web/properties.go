package web

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// property is a property of a path that a change has changed. It may have any text of others.
type property struct {
	Name     string
	Old, New string // "": none
}

// maxProperties is the most properties that a page shows of a change.
const maxProperties = 30

// changedProperties returns the properties that differ between two entries, besides the content. One
// may be nil: then only attributes count, which the other one has.
func changedProperties(old, new *object.Entry) (list []property) {
	add := func(name, was, is string) {
		if was != is && len(list) < maxProperties {
			list = append(list, property{cut(name, maxPerson), cut(was, maxTitle), cut(is, maxTitle)})
		}
	}
	if old != nil && new != nil {
		add("type", jsonform.TypeName(old.Type), jsonform.TypeName(new.Type))
		add("mode", modeText(old), modeText(new))
		addMetadata(add, old, new)
	}

	was, is := attrsOf(old), attrsOf(new)
	for _, key := range unionKeys(was, is) {
		add("attribute "+key, was[key], is[key])
	}
	return list
}

// addMetadata adds the recorded properties that differ, if both entries have them. The time of a
// folder changes with each file in it, so it does not count.
func addMetadata(add func(name, was, is string), old, new *object.Entry) {
	a, b := old.Meta, new.Meta
	if a != nil && b != nil {
		add("owner", cmp.Or(a.Owner, fmt.Sprint(a.UID)), cmp.Or(b.Owner, fmt.Sprint(b.UID)))
		add("group", cmp.Or(a.Group, fmt.Sprint(a.GID)), cmp.Or(b.Group, fmt.Sprint(b.GID)))
		if a.Owner == b.Owner {
			add("owner number", fmt.Sprint(a.UID), fmt.Sprint(b.UID))
		}
		if a.Group == b.Group {
			add("group number", fmt.Sprint(a.GID), fmt.Sprint(b.GID))
		}
		add("device", fmt.Sprintf("%#x", a.Device), fmt.Sprintf("%#x", b.Device))
		add("hard links", linksText(a), linksText(b))
		for _, name := range unionKeys(a.Xattrs, b.Xattrs) {
			was, had := a.Xattrs[name]
			is, has := b.Xattrs[name]
			if had != has || !bytes.Equal(was, is) {
				add("extended attribute "+name, xattrText(was, had), xattrText(is, has))
			}
		}
	}
	if !tree.IsDir(old) && !tree.IsDir(new) {
		add("time", timeText(old), timeText(new))
	}
}

func attrsOf(e *object.Entry) map[string]string {
	if e == nil {
		return nil
	}
	return e.Attrs
}

// unionKeys returns the keys of two maps, sorted.
func unionKeys[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

// modeText returns the permission bits of an entry. A symlink has none.
func modeText(e *object.Entry) string {
	if e.Type == object.TypeSymlink {
		return ""
	}
	return jsonform.ModeText(e.Mode)
}

// linksText describes the other names of a file.
func linksText(m *object.Metadata) string {
	if m.HardLink == 0 {
		return ""
	}
	return fmt.Sprintf("group %d", m.HardLink)
}

// xattrText describes the value of an extended attribute.
func xattrText(value []byte, has bool) string {
	switch {
	case !has:
		return ""
	case len(value) > maxPerson:
		return size(len(value))
	}
	return fmt.Sprintf("%q", value)
}

// timeText returns the modification time of an entry, as exact as it is.
func timeText(e *object.Entry) string {
	at, ok := e.Modified()
	if !ok {
		return ""
	}
	return object.Writable(at).UTC().Format("2006-01-02 15:04:05.999999999") + " " + time.UTC.String()
}
