package tree

import (
	"cmp"
	"context"
	"path"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// Limits of [DetectRenames]. Files with equal content are found however many
// there are.
const (
	MaxSimilarFiles = 1000      // removed, and added, files up to which similar content is looked for
	MaxSimilarText  = 1 << 20   // bytes of a file up to which it is compared by lines
	maxSimilarBytes = 256 << 20 // bytes of content read for that in all
	maxSimilarParts = 1 << 20   // chunks of files looked at in all
	maxSimilarWork  = 50 << 20  // coincidences of a part in two files looked at in all
)

// RenameOptions says how [DetectRenames] compares.
type RenameOptions struct {
	// Threshold is how much of the larger file has to be in both, in percent.
	// 0: 50. 100: only equal content counts.
	Threshold int
}

// DetectRenames finds files among changes that were removed in one place and
// added in another, and makes one change of the two: the added one, with Old,
// From and Similarity set. Everything else stays as it is, in its order.
// Changes come from a recursive [Diff].
//
// Files and symlinks of equal content belong together, those of equal name
// first. Other files belong together by the share of their bytes that is in
// both: in equal lines if both have at most [MaxSimilarText] bytes, otherwise
// in equal chunks. This second step is left out if more than
// [MaxSimilarFiles] removed or added files remain, and stops comparing after
// 256 MiB of text or a million chunks. Content that r does not have is not
// similar to anything.
func DetectRenames(ctx context.Context, r object.Reader, changes []Change, opts RenameOptions) ([]Change, error) {
	removed := slices.ContainsFunc(changes, func(c Change) bool { return c.New == nil && movable(c.Old) })
	added := slices.ContainsFunc(changes, func(c Change) bool { return c.Old == nil && movable(c.New) })
	if !removed || !added {
		return changes, nil // all may have been added, or removed, and be many
	}
	m := renameMatcher{ctx: ctx, r: r, threshold: uint64(cmp.Or(opts.Threshold, defaultThreshold))}
	var oldAt, newAt []int
	for i, c := range changes {
		switch {
		case c.New == nil && movable(c.Old):
			m.olds, oldAt = append(m.olds, moved{path: c.Path, entry: c.Old}), append(oldAt, i)
		case c.Old == nil && movable(c.New):
			m.news, newAt = append(m.news, moved{path: c.Path, entry: c.New}), append(newAt, i)
		}
	}
	if err := m.run(func(*moved) bool { return true }); err != nil {
		return nil, err
	}
	gone := make([]bool, len(changes))
	out := slices.Clone(changes)
	for i, old := range m.olds {
		if old.to != nil {
			gone[oldAt[i]] = true
		}
	}
	for i, new := range m.news {
		if from := new.to; from != nil {
			c := &out[newAt[i]]
			c.Old, c.From, c.Similarity = from.entry, from.path, new.similarity
		}
	}
	kept := out[:0]
	for i, c := range out {
		if !gone[i] {
			kept = append(kept, c)
		}
	}
	return kept, nil
}

const defaultThreshold = 50

// movable reports whether an entry has content that tells it from others.
func movable(e *object.Entry) bool {
	return e != nil && (e.Type == object.TypeFile && e.Size > 0 || e.Type == object.TypeSymlink)
}

// moved is one side of a rename.
type moved struct {
	path       string
	entry      *object.Entry
	to         *moved // the other side, once found
	similarity int    // percent
	ambiguous  bool   // another file would have done as well
}

func (a *moved) match(b *moved, similarity int, ambiguous bool) {
	a.to, b.to = b, a
	a.similarity, b.similarity = similarity, similarity
	a.ambiguous, b.ambiguous = ambiguous, ambiguous
}

// renameMatcher matches removed files with added ones.
type renameMatcher struct {
	ctx        context.Context
	r          object.Reader
	olds, news []moved
	threshold  uint64
}

// run matches equal files, and then those similar ones whose old side is
// wanted.
func (m *renameMatcher) run(wanted func(old *moved) bool) error {
	m.equal()
	if m.threshold >= 100 {
		return nil
	}
	var olds, news []*moved
	for i := range m.olds {
		if o := &m.olds[i]; o.to == nil && o.entry.Type == object.TypeFile && wanted(o) {
			olds = append(olds, o)
		}
	}
	for i := range m.news {
		if n := &m.news[i]; n.to == nil && n.entry.Type == object.TypeFile {
			news = append(news, n)
		}
	}
	if len(olds) == 0 || len(news) == 0 || len(olds) > MaxSimilarFiles || len(news) > MaxSimilarFiles {
		return nil
	}
	return m.similar(olds, news)
}

// contentKey is equal for entries of equal content.
type contentKey struct {
	kind   object.EntryType
	size   uint64
	link   object.Key
	inline string
}

func keyOf(e *object.Entry) contentKey {
	return contentKey{e.Type, e.Size, e.Content, string(e.Inline) + e.Target}
}

// equal matches files of equal content: first those of the same name, then
// the rest in path order.
func (m *renameMatcher) equal() {
	byContent := make(map[contentKey][]*moved)
	for i := range m.olds {
		key := keyOf(m.olds[i].entry)
		byContent[key] = append(byContent[key], &m.olds[i])
	}
	groups := make(map[contentKey][]*moved)
	for i := range m.news {
		key := keyOf(m.news[i].entry)
		if len(byContent[key]) > 0 {
			groups[key] = append(groups[key], &m.news[i])
		}
	}
	for key, news := range groups {
		matchEqual(byContent[key], news)
	}
}

func matchEqual(olds, news []*moved) {
	if len(olds) == 1 && len(news) == 1 {
		olds[0].match(news[0], 100, false)
		return
	}
	oldNamed, newNamed := byName(olds), byName(news)
	for _, n := range news {
		name := path.Base(n.path)
		if same := oldNamed[name]; len(same) > 0 {
			n.match(same[0], 100, len(same) > 1 || len(newNamed[name]) > 1)
			oldNamed[name] = same[1:]
		}
	}
	at := 0
	for _, n := range news {
		for at < len(olds) && olds[at].to != nil {
			at++
		}
		if n.to == nil && at < len(olds) {
			n.match(olds[at], 100, true)
		}
	}
}

func byName(list []*moved) map[string][]*moved {
	named := make(map[string][]*moved)
	for _, f := range list {
		name := path.Base(f.path)
		named[name] = append(named[name], f)
	}
	return named
}
