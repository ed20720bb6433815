package log

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

// NameOptions select the names that [Names] returns.
type NameOptions struct {
	Tags  bool                   // also tags without a message
	All   bool                   // also branches, and branches of remotes
	Match func(name string) bool // by the name without the folder of its kind
}

// Names returns the full name of the ref that describes each commit. Of several, it is an
// annotated tag, the newest one, or else another tag, or else the first name. Refs whose
// commit is lost are left out.
func Names(ctx context.Context, r *kist.Repository, o NameOptions) (map[object.ID]string, error) {
	list, err := r.Refs().List("")
	if err != nil {
		return nil, err
	}
	best := map[object.ID]namedRef{}
	for _, ref := range list {
		kinds := []string{refs.Tags, refs.Heads, refs.Remotes}
		i := slices.IndexFunc(kinds, func(prefix string) bool { return strings.HasPrefix(ref.Name, prefix) })
		if i != 0 && !o.All || i < 0 || !o.Match(ref.Name[len(kinds[i]):]) {
			continue
		}
		n := namedRef{ref: ref.Name, tag: i == 0}
		commit, err := refs.Peel(ctx, r.Objects(), ref.ID)
		if errors.Is(err, object.ErrNotFound) {
			continue
		}
		if err == nil && commit != ref.ID {
			var tag *object.Tag
			if tag, err = object.ReadTag(ctx, r.Objects(), ref.ID); err == nil {
				n.annotated, n.at = true, tag.Tagger.When()
			}
		}
		if err != nil {
			return nil, err
		}
		if have, ok := best[commit]; n.annotated || o.Tags || o.All {
			if !ok || n.isBetter(have) {
				best[commit] = n
			}
		}
	}

	names := make(map[object.ID]string, len(best))
	for id, n := range best {
		names[id] = n.ref
	}
	return names, nil
}

// namedRef is a ref that may describe a commit.
type namedRef struct {
	ref            string
	tag, annotated bool
	at             time.Time // when an annotated tag was made
}

func (n namedRef) isBetter(have namedRef) bool {
	switch {
	case n.annotated != have.annotated:
		return n.annotated
	case n.annotated:
		return n.at.After(have.at)
	}
	return n.tag && !have.tag
}

// SplitMessage returns the first paragraph of a message as one line, and the text after it.
func SplitMessage(message string) (title, body string) {
	rest := SkipBlank(message)
	for rest != "" {
		line, after, _ := strings.Cut(rest, "\n")
		line = strings.TrimRight(line, WhiteSpace)
		if line == "" {
			break
		}
		if title != "" {
			title += " "
		}
		title += line
		rest = after
	}
	return title, SkipBlank(rest)
}

// SkipBlank returns text without blank lines at its start.
func SkipBlank(text string) string {
	for text != "" {
		line, rest, _ := strings.Cut(text, "\n")
		if strings.Trim(line, WhiteSpace) != "" {
			break
		}
		text = rest
	}
	return text
}

// WhiteSpace has the bytes that git takes for white space.
const WhiteSpace = " \t\r\n"
