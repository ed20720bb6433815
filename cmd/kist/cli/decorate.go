package cli

import (
	"context"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

// decorations are the names that commits have, painted, in the order in which
// they are shown: HEAD, tags, branches of remotes, branches.
type decorations map[object.ID][]string

// decorate collects the names of all commits, in full if full is set. Names
// that cannot be read are left out: they are for show.
func (e *Env) decorate(ctx context.Context, r *kist.Repository, full bool) decorations {
	d := decorations{}
	head, err := r.Refs().Head()
	if err != nil {
		head = refs.Head{}
	}
	short := func(name, prefix string) string {
		if full {
			return name
		}
		return strings.TrimPrefix(name, prefix)
	}
	if head.Branch == "" && !head.ID.IsZero() {
		d[head.ID] = append(d[head.ID], e.paint(boldCyan, "HEAD"))
	}
	for _, kind := range []struct {
		prefix, label string
		color         style
	}{
		{refs.Tags, "tag: ", boldYellow},
		{refs.Remotes, "", boldRed},
		{refs.Heads, "", boldGreen},
	} {
		list, _ := r.Refs().List(kind.prefix)
		for _, ref := range list {
			id := ref.ID
			if kind.prefix == refs.Tags {
				if id, err = refs.Peel(ctx, r.Objects(), id); err != nil {
					continue
				}
			}
			text := e.paint(kind.color, kind.label+quotePath(short(ref.Name, kind.prefix)))
			if ref.Name == refs.Heads+head.Branch {
				text = e.paint(boldCyan, "HEAD -> ") + text
				d[id] = append([]string{text}, d[id]...)
			} else {
				d[id] = append(d[id], text)
			}
		}
	}
	return d
}

// text returns the names of a commit in brackets, with a space in front, or
// nothing if it has none.
func (d decorations) text(e *Env, id object.ID) string {
	names := d[id]
	if len(names) == 0 {
		return ""
	}
	return " " + e.paint(yellow, "(") + strings.Join(names, e.paint(yellow, ", ")) + e.paint(yellow, ")")
}
