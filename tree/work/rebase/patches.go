package rebase

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// patches finds commits by their changes.
type patches struct {
	r  *kist.Repository
	at map[[32]byte][]history.Commit // by the hash of the changed paths
}

// changesOf returns the changes of a commit from its only parent. It leaves out folders that
// came or went: whether a change makes its folder depends on other files.
func (p *patches) changesOf(ctx context.Context, c history.Commit) ([]tree.Change, error) {
	base, err := p.r.RecordedTree(ctx, c.Commit.FirstParent())
	if err != nil {
		return nil, err
	}
	var list []tree.Change
	for change, err := range tree.Diff(ctx, p.r.Objects(), base, c.Tree, tree.DiffOptions{Recursive: true, Paired: true}) {
		if err != nil {
			return nil, err
		}
		if change.Old == nil && tree.IsDir(change.New) || change.New == nil && tree.IsDir(change.Old) {
			continue
		}
		list = append(list, change)
	}
	return list, nil
}

// key returns the hash of the changed paths.
func key(list []tree.Change) (sum [32]byte) {
	h := sha256.New()
	for _, c := range list {
		h.Write(append([]byte(c.Path), 0))
	}
	h.Sum(sum[:0])
	return sum
}

// addCommit adds a commit. It skips a commit with missing or damaged content, such as an expired one.
func (p *patches) addCommit(ctx context.Context, c history.Commit) error {
	list, err := p.changesOf(ctx, c)
	if object.IsUnreadable(err) {
		return nil
	}
	p.at[key(list)] = append(p.at[key(list)], c)
	return err
}

// hasSame reports whether a commit with the same changes was added. A commit without changes
// is like no other.
func (p *patches) hasSame(ctx context.Context, c history.Commit) (bool, error) {
	if len(p.at) == 0 {
		return false, nil
	}
	list, err := p.changesOf(ctx, c)
	if object.IsUnreadable(err) || len(list) == 0 {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, other := range p.at[key(list)] {
		theirs, err := p.changesOf(ctx, other)
		if err != nil {
			return false, err
		}
		same := len(list) == len(theirs)
		for i := 0; same && i < len(list); i++ {
			if same, err = p.areSame(ctx, list[i], theirs[i]); err != nil {
				return false, err
			}
		}
		if same {
			return true, nil
		}
	}
	return false, nil
}

// areSame reports whether two changes are the same: from the same content to the same content,
// or, as in git, with the same changed and unchanged lines in their patches. Then only white
// space and places in the file may differ.
func (p *patches) areSame(ctx context.Context, a, b tree.Change) (bool, error) {
	if a.Path != b.Path {
		return false, nil
	}
	if stage.SameEntry(a.Old, b.Old) && stage.SameEntry(a.New, b.New) {
		return true, nil
	}
	if !sameButContent(a.Old, b.Old) || !sameButContent(a.New, b.New) {
		return false, nil
	}
	ours, err := p.patchLines(ctx, a)
	if err != nil || ours == "" {
		return false, err
	}
	theirs, err := p.patchLines(ctx, b)
	return ours == theirs, err
}

func sameButContent(a, b *object.Entry) bool {
	if a == nil || b == nil {
		return a == b
	}
	c := *b
	c.Content, c.Inline, c.Size = a.Content, a.Inline, a.Size
	return tree.ContentEqual(a, &c)
}

// patchLines returns the lines of the patch of a changed text, without white space. It returns ""
// for another change and for content that is absent.
func (p *patches) patchLines(ctx context.Context, c tree.Change) (string, error) {
	var texts [2][]byte
	for i, e := range []*object.Entry{c.Old, c.New} {
		if e == nil || e.Type != object.TypeFile || e.Size > tree.MaxText {
			return "", nil
		}
		var err error
		if texts[i], err = object.NewContentReader(ctx, p.r.Contents(), *e).Start(tree.MaxText); err != nil {
			if object.IsUnreadable(err) || errors.Is(err, object.ErrPurged) {
				err = nil
			}
			return "", err
		}
		if !tree.IsText(texts[i]) {
			return "", nil
		}
	}
	var out strings.Builder
	for line := range strings.Lines(string(tree.Unified("", "", texts[0], texts[1], tree.TextOptions{Context: 3}))) {
		if !strings.HasPrefix(line, "@@") {
			out.WriteString(line[:1] + strings.Join(strings.Fields(line[1:]), "") + "\n")
		}
	}
	return out.String(), nil
}
