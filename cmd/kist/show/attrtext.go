package show

import (
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object"
)

// AttrTexts returns attributes as KEY=VALUE, sorted by key.
func AttrTexts(attrs map[string]string) (texts []string) {
	for _, key := range slices.Sorted(maps.Keys(attrs)) {
		texts = append(texts, AttrText(key, attrs[key]))
	}
	return texts
}

// AttrNote returns a note for a change of attributes, or "".
func AttrNote(old, new *object.Entry) string {
	if old == nil || new == nil || maps.Equal(old.Attrs, new.Attrs) {
		return ""
	}
	return " (attributes)"
}

// attrLines describes the changes of attributes. Old is nil for a new path.
func attrLines(old, new *object.Entry) (lines []string) {
	var was, now map[string]string
	if old != nil {
		was = old.Attrs
	}
	if new == nil {
		return nil
	}
	now = new.Attrs
	keys := map[string]string{}
	maps.Copy(keys, was)
	maps.Copy(keys, now)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		before, had := was[key]
		after, has := now[key]
		switch {
		case !had:
			lines = append(lines, "new attribute "+AttrText(key, after))
		case !has:
			lines = append(lines, "removed attribute "+AttrText(key, before))
		case before != after:
			lines = append(lines, "changed attribute "+AttrText(key, before)+" → "+ShownValue(after))
		}
	}
	return lines
}

// AttrText returns an attribute as KEY=VALUE, safe for a terminal.
func AttrText(key, value string) string { return ShownValue(key + "=" + value) }

// ShownValue returns text of an attribute in one line that is safe for a terminal.
func ShownValue(text string) string { return cli.Printable(oneLine.Replace(text)) }

// oneLine replaces the characters that [cli.Printable] keeps.
var oneLine = strings.NewReplacer("\n", "␊", "\t", "␉")
