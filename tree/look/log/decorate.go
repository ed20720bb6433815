package log

import (
	"context"
	"slices"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

// Decoration is a name of a commit that a log shows beside the commit.
type Decoration struct {
	Text  string
	Head  bool // HEAD is on this branch
	Color string
}

// Colours of names.
const (
	ColorHead   = "\x1b[1;36m"
	colorTag    = "\x1b[1;33m"
	colorRemote = "\x1b[1;31m"
	colorBranch = "\x1b[1;32m"
)

// Decorations returns the names of all commits in git's order: HEAD, tags, branches of remotes,
// branches, each from the last to the first. Full names are those of refs. It leaves out
// names that it cannot read.
func Decorations(ctx context.Context, r *kist.Repository, full bool) map[object.ID][]Decoration {
	names := map[object.ID][]Decoration{}
	head, err := r.Refs().Head()
	if err != nil {
		head = refs.Head{}
	}
	if head.Branch == "" && !head.ID.IsZero() {
		names[head.ID] = append(names[head.ID], Decoration{"HEAD", false, ColorHead})
	}

	for _, kind := range []struct{ folder, label, color string }{
		{refs.Tags, "tag: ", colorTag}, {refs.Remotes, "", colorRemote}, {refs.Heads, "", colorBranch},
	} {
		list, _ := r.Refs().List(kind.folder)
		for _, ref := range slices.Backward(list) {
			id := ref.ID
			if kind.folder == refs.Tags {
				if id, err = refs.Peel(ctx, r.Objects(), id); err != nil {
					continue
				}
			}
			name := Decoration{ref.Name, ref.Name == refs.Heads+head.Branch, kind.color}
			if !full {
				name.Text = ref.Name[len(kind.folder):]
			}
			name.Text = kind.label + name.Text
			if name.Head {
				names[id] = slices.Insert(names[id], 0, name)
			} else {
				names[id] = append(names[id], name)
			}
		}
	}
	return names
}
