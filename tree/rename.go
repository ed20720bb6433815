package tree

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"path"
	"slices"

	"github.com/kist-vcs/kist/object"
)

// Limits of [DetectRenames]. Files with equal content are always found.
const (
	MaxSimilarFiles = 1000      // removed or added files; with more, similar content is not searched
	MaxSimilarText  = 1 << 20   // bytes of a file; larger files are compared by chunks
	maxSimilarBytes = 256 << 20 // bytes of content read in total
	maxSimilarParts = 1 << 20   // chunks compared in total
	maxSimilarWork  = 50 << 20  // pairs of files with a common part, compared in total
)

// DetectRenames joins a file that was removed at one path and added at another
// into one change: the addition, with Old, From and Similarity set. All other
// changes keep their order. The changes must come from a recursive [Diff].
//
// Files and symlinks with equal content are joined first, preferring equal
// names. Other files are joined if at least half of the larger one is common:
// in equal lines if both have at most [MaxSimilarText] bytes, otherwise in equal
// chunks. This second step does not run if more than [MaxSimilarFiles] removed or
// added files remain. It stops after 256 MiB of text or a million chunks. Content
// that is missing in r is similar to nothing.
func DetectRenames(ctx context.Context, r object.Reader, changes []Change) ([]Change, error) {
	removed := slices.ContainsFunc(changes, func(c Change) bool { return c.New == nil && isMovable(c.Old) })
	added := slices.ContainsFunc(changes, func(c Change) bool { return c.Old == nil && isMovable(c.New) })
	if !removed || !added {
		return changes, nil // nothing can match, and the list may be long
	}

	m := renameMatcher{r: r}
	var oldAt, newAt []int
	for i, c := range changes {
		switch {
		case c.New == nil && isMovable(c.Old):
			m.olds, oldAt = append(m.olds, renameSide{path: c.Path, entry: c.Old}), append(oldAt, i)
		case c.Old == nil && isMovable(c.New):
			m.news, newAt = append(m.news, renameSide{path: c.Path, entry: c.New}), append(newAt, i)
		}
	}

	if err := m.matchFiles(ctx, func(*renameSide) bool { return true }); err != nil {
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

// minSimilar is the least common share of similar files, in percent.
const minSimilar = 50

// isMovable reports whether an entry has content that can identify it.
func isMovable(e *object.Entry) bool {
	return e != nil && (e.Type == object.TypeFile && e.Size > 0 || e.Type == object.TypeSymlink)
}

// renameSide is one side of a rename.
type renameSide struct {
	path       string
	entry      *object.Entry
	to         *renameSide // the other side, once found
	similarity int         // percent
	ambiguous  bool        // another file matches equally well
}

func (a *renameSide) pairWith(b *renameSide, similarity int, ambiguous bool) {
	a.to, b.to = b, a
	a.similarity, b.similarity = similarity, similarity
	a.ambiguous, b.ambiguous = ambiguous, ambiguous
}

// renameMatcher matches removed files with added ones.
type renameMatcher struct {
	r          object.Reader
	olds, news []renameSide
}

// addSides adds the sides of a paired change that can be part of a rename. A file that became a
// directory counts as removed.
func (m *renameMatcher) addSides(c Change) {
	switch {
	case isNoFile(c.New) && isMovable(c.Old):
		m.olds = append(m.olds, renameSide{path: c.Path, entry: c.Old})
	case isNoFile(c.Old) && isMovable(c.New):
		m.news = append(m.news, renameSide{path: c.Path, entry: c.New})
	}
}

// matchFiles matches equal files, and then those similar ones whose old side is
// wanted.
func (m *renameMatcher) matchFiles(ctx context.Context, wanted func(old *renameSide) bool) error {
	m.matchEqual()

	var olds, news []*renameSide
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

	return m.matchSimilar(ctx, olds, news)
}

// contentKey identifies the content of an entry.
type contentKey struct {
	kind   object.EntryType
	size   uint64
	link   object.Key
	inline string
}

func keyOf(e *object.Entry) contentKey {
	return contentKey{e.Type, e.Size, e.Content, string(e.Inline) + e.Target}
}

// matchEqual matches files with equal content: first those with the same name, then
// the rest in path order.
func (m *renameMatcher) matchEqual() {
	byContent := make(map[contentKey][]*renameSide)
	for i := range m.olds {
		key := keyOf(m.olds[i].entry)
		byContent[key] = append(byContent[key], &m.olds[i])
	}

	groups := make(map[contentKey][]*renameSide)
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

func matchEqual(olds, news []*renameSide) {
	if len(olds) == 1 && len(news) == 1 {
		olds[0].pairWith(news[0], 100, false)
		return
	}

	oldNamed, newNamed := byName(olds), byName(news)
	for _, n := range news {
		name := path.Base(n.path)
		if same := oldNamed[name]; len(same) > 0 {
			n.pairWith(same[0], 100, len(same) > 1 || len(newNamed[name]) > 1)
			oldNamed[name] = same[1:]
		}
	}

	at := 0
	for _, n := range news {
		for at < len(olds) && olds[at].to != nil {
			at++
		}
		if n.to == nil && at < len(olds) {
			n.pairWith(olds[at], 100, true)
		}
	}
}

func byName(list []*renameSide) map[string][]*renameSide {
	named := make(map[string][]*renameSide)
	for _, f := range list {
		name := path.Base(f.path)
		named[name] = append(named[name], f)
	}
	return named
}

// filePart is a line or chunk, the unit of comparison. Weight is the number of
// bytes that a file has of it.
type filePart struct {
	hash   uint64
	weight uint64
}

// overlap is the share of bytes that two files have in common.
type overlap struct {
	old, new *renameSide
	score    int // the common share of the larger file, in parts of [fullScore]
	sameName int // 1 if both have the same name
}

// fullScore is the score of equal files. Git orders renames by the same scale.
const fullScore = 60000

func (o overlap) percent() int { return min(99, o.score*100/fullScore) }

// matchSimilar matches files by their common bytes, most similar first.
func (m *renameMatcher) matchSimilar(ctx context.Context, olds, news []*renameSide) error {
	lines := lineParts{seed: maphash.MakeSeed()}
	found, err := m.findOverlaps(ctx, olds, news, lines.partsOf)
	if err != nil {
		return err
	}

	byChunks, err := m.findOverlaps(ctx, olds, news, new(chunkParts).partsOf)
	if err != nil {
		return err
	}

	found = append(found, byChunks...)
	slices.SortStableFunc(found, func(a, b overlap) int {
		return cmp.Or(
			cmp.Compare(b.percent(), a.percent()),
			cmp.Compare(b.sameName, a.sameName),
			cmp.Compare(b.score, a.score),
			ComparePaths(a.new.path, b.new.path),
			ComparePaths(a.old.path, b.old.path),
		)
	})

	for i, o := range found {
		if o.old.to != nil || o.new.to != nil {
			continue
		}
		o.new.pairWith(o.old, o.percent(), o.isAmbiguous(found[i+1:]))
	}

	return nil
}

// isAmbiguous reports whether another pair with one of the two files is equally
// good. Rest has the pairs sorted after this one.
func (o overlap) isAmbiguous(rest []overlap) bool {
	for i, other := range rest {
		switch {
		case other.percent() != o.percent() || other.sameName != o.sameName:
			return false
		case i == 10*MaxSimilarFiles: // too many equal pairs to check
			return true
		case (other.old == o.old) != (other.new == o.new) && other.old.to == nil && other.new.to == nil:
			return true
		}
	}
	return false
}

// findOverlaps finds the pairs of files with enough common bytes, by the parts
// that partsOf returns. It indexes the parts of old files, so files without
// common parts cost nothing.
func (m *renameMatcher) findOverlaps(ctx context.Context, olds, news []*renameSide, partsOf func(context.Context, object.Reader, *object.Entry) ([]filePart, error)) ([]overlap, error) {
	type holder struct {
		old    int
		weight uint64
	}

	index := make(map[uint64][]holder)
	for i, o := range olds {
		parts, err := partsOf(ctx, m.r, o.entry)
		if err != nil {
			return nil, &PathError{o.path, err}
		}
		for _, p := range parts {
			index[p.hash] = append(index[p.hash], holder{i, p.weight})
		}
	}

	var found []overlap
	work := 0
	common := make([]uint64, len(olds))
	for _, n := range news {
		parts, err := partsOf(ctx, m.r, n.entry)
		if err != nil {
			return nil, &PathError{n.path, err}
		}
		clear(common)
		for _, p := range parts {
			holders := index[p.hash]
			if work += len(holders); work > maxSimilarWork {
				return found, nil
			}
			for _, h := range holders {
				common[h.old] += min(h.weight, p.weight)
			}
		}
		for i, bytes := range common {
			size := max(olds[i].entry.Size, n.entry.Size)
			o := overlap{old: olds[i], new: n, score: int(float64(bytes) / float64(size) * fullScore)}
			if o.percent() < minSimilar {
				continue
			}
			if path.Base(o.old.path) == path.Base(n.path) {
				o.sameName = 1
			}
			found = append(found, o)
		}
	}

	return found, nil
}

// combineParts sorts parts and adds up those of equal hash.
func combineParts(parts []filePart) []filePart {
	slices.SortFunc(parts, func(a, b filePart) int { return cmp.Compare(a.hash, b.hash) })
	out := parts[:0]
	for _, p := range parts {
		if n := len(out); n > 0 && out[n-1].hash == p.hash {
			out[n-1].weight += p.weight
		} else {
			out = append(out, p)
		}
	}

	return out
}

// lineParts cuts small files into lines.
type lineParts struct {
	seed maphash.Seed
	read uint64
}

// maxPart is the number of bytes after which a long line is cut.
const maxPart = 64

func (l *lineParts) partsOf(ctx context.Context, r object.Reader, e *object.Entry) ([]filePart, error) {
	if e.Size > MaxSimilarText || l.read+e.Size > maxSimilarBytes {
		return nil, nil
	}

	l.read += e.Size
	data, err := readContent(ctx, r, e)
	if errors.Is(err, object.ErrNotFound) || errors.Is(err, object.ErrPurged) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}

	var parts []filePart
	for len(data) > 0 {
		n := bytes.IndexByte(data[:min(len(data), maxPart)], '\n') + 1
		if n == 0 {
			n = min(len(data), maxPart)
		}
		parts = append(parts, filePart{maphash.Bytes(l.seed, data[:n]), uint64(n)})
		data = data[n:]
	}

	return combineParts(parts), nil
}

// chunkParts returns the chunks of files that are likely to have several.
type chunkParts struct{ read int }

// minChunked is the least size of files compared by chunks.
const minChunked = MaxSimilarText / 8

func (c *chunkParts) partsOf(ctx context.Context, r object.Reader, e *object.Entry) ([]filePart, error) {
	if e.Size < minChunked {
		return nil, nil
	}

	var parts []filePart
	for chunk, err := range object.Chunks(ctx, r, e.Content, e.Size, 0) {
		if errors.Is(err, object.ErrNotFound) || errors.Is(err, object.ErrPurged) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		if c.read++; c.read > maxSimilarParts {
			return nil, nil
		}
		parts = append(parts, filePart{binary.BigEndian.Uint64(chunk.ID[:8]), uint64(chunk.Size)})
	}

	return combineParts(parts), nil
}
