package object_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kist-vcs/kist/object"
)

// viewOf returns the JSON of a node in the files of test vectors, without zero fields.
func viewOf(t *testing.T, node any) json.RawMessage {
	t.Helper()
	var view any
	switch n := node.(type) {
	case *object.Tree:
		view = treeView(n)
	case *object.Manifest:
		view = manifestView(n)
	case *object.Commit:
		view = commitView(n)
	case *object.Tag:
		tag := map[string]any{"target": n.Target, "name": n.Name, "tagger": stampView(n.Tagger), "message": n.Message}
		if len(n.Signature) > 0 {
			tag["signature"] = bytesView(string(n.Signature))
		}
		view = tag
	default:
		t.Fatalf("no view of a %T", node)
	}
	data, err := json.Marshal(view)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// bytesView returns s if it is UTF-8 and does not begin with "hex:". Otherwise it returns
// "hex:" and the bytes in hexadecimal.
func bytesView(s string) string {
	if utf8.ValidString(s) && !strings.HasPrefix(s, "hex:") {
		return s
	}
	return "hex:" + hex.EncodeToString([]byte(s))
}

// bytesOf is the reverse of bytesView.
func bytesOf(t *testing.T, s string) string {
	digits, ok := strings.CutPrefix(s, "hex:")
	if !ok {
		return s
	}
	data, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func treeView(tree *object.Tree) map[string]any {
	var items []any
	for i := range tree.Entries {
		items = append(items, entryView(&tree.Entries[i]))
	}
	for _, c := range tree.Children {
		items = append(items, map[string]any{"last": bytesView(c.Last), "id": c.ID})
	}
	return map[string]any{"level": tree.Level, "items": items}
}

func entryView(e *object.Entry) map[string]any {
	v := map[string]any{"name": bytesView(e.Name), "type": e.Type}
	put := func(field string, there bool, value any) {
		if there {
			v[field] = value
		}
	}
	put("mode", e.Mode != 0, fmt.Sprintf("%04o", e.Mode))
	put("size", e.Size != 0, fmt.Sprint(e.Size))
	put("files", e.Files != 0, fmt.Sprint(e.Files))
	put("mtime", !e.MTime.IsZero(), timeView(e.MTime))
	put("inline", len(e.Inline) > 0, bytesView(string(e.Inline)))
	put("content", !e.Content.IsZero(), e.Content.Kind.String()+":"+e.Content.ID.String())
	put("target", e.Target != "", bytesView(e.Target))
	if e.Meta != nil {
		v["meta"] = metaView(e.Meta, e.Attrs)
	}
	return v
}

func metaView(m *object.Metadata, attributes map[string]string) map[string]any {
	xattrs := map[string]string{}
	for name, value := range m.Xattrs {
		xattrs[bytesView(name)] = bytesView(string(value))
	}
	attrs := map[string]string{}
	for key, value := range attributes {
		attrs[key] = value
	}
	return map[string]any{
		"uid": m.UID, "gid": m.GID, "owner": bytesView(m.Owner), "group": bytesView(m.Group),
		"xattrs": xattrs, "device": fmt.Sprint(m.Device), "hardlink": fmt.Sprint(m.HardLink), "attrs": attrs,
	}
}

func manifestView(m *object.Manifest) map[string]any {
	var items []any
	for _, c := range m.Chunks {
		items = append(items, map[string]any{"id": c.ID, "size": c.Size})
	}
	for _, c := range m.Children {
		items = append(items, map[string]any{"id": c.ID, "end": fmt.Sprint(c.End)})
	}
	return map[string]any{"level": m.Level, "items": items}
}

func commitView(c *object.Commit) map[string]any {
	v := map[string]any{
		"tree": c.Tree, "parents": c.Parents, "author": stampView(c.Author), "committer": stampView(c.Committer),
		"message": c.Message, "host": c.Host, "files": fmt.Sprint(c.Files), "bytes": fmt.Sprint(c.Bytes),
	}
	if c.SkippedCount > 0 {
		var list []any
		for _, s := range c.Skipped {
			list = append(list, map[string]any{"path": bytesView(s.Path), "reason": s.Reason})
		}
		v["skipped"] = map[string]any{"count": fmt.Sprint(c.SkippedCount), "first": list, "rest": c.SkippedRest}
	}
	if len(c.Signature) > 0 {
		v["signature"] = bytesView(string(c.Signature))
	}
	return v
}

func stampView(s object.Stamp) map[string]any {
	return map[string]any{"name": s.Name, "email": s.Email, "time": timeView(s.Time), "zone": s.Zone}
}

// timeView returns a time as text, because a JSON number may round it.
func timeView(t object.Time) string { return fmt.Sprintf("%d.%09d", t.Sec, t.Nsec) }
