package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/kist-vcs/kist/object"
)

// attrTexts returns attributes as KEY=VALUE, sorted by key.
func attrTexts(attrs map[string]string) (texts []string) {
	for _, key := range slices.Sorted(maps.Keys(attrs)) {
		texts = append(texts, attrText(key, attrs[key]))
	}
	return texts
}

// attrNote returns a note for a change of attributes, or "".
func attrNote(old, new *object.Entry) string {
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
			lines = append(lines, "new attribute "+attrText(key, after))
		case !has:
			lines = append(lines, "removed attribute "+attrText(key, before))
		case before != after:
			lines = append(lines, "changed attribute "+attrText(key, before)+" → "+shownValue(after))
		}
	}
	return lines
}

// attrText returns an attribute as KEY=VALUE, safe for a terminal.
func attrText(key, value string) string { return shownValue(key + "=" + value) }

// shownValue returns text of an attribute in one line that is safe for a terminal.
func shownValue(text string) string { return printable(oneLine.Replace(text)) }

// oneLine replaces the characters that [printable] keeps.
var oneLine = strings.NewReplacer("\n", "␊", "\t", "␉")
