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

// part is a line or chunk, the unit of comparison. Weight is the number of
// bytes that a file has of it.
type part struct {
	hash   uint64
	weight uint64
}

// overlap is the share of bytes that two files have in common.
type overlap struct {
	old, new *moved
	percent  uint64
}

// similar matches files by their common bytes, most similar first.
func (m *renameMatcher) similar(ctx context.Context, olds, news []*moved) error {
	lines := lineParts{seed: maphash.MakeSeed()}
	found, err := m.overlaps(ctx, olds, news, lines.of)
	if err != nil {
		return err
	}

	byChunks, err := m.overlaps(ctx, olds, news, new(chunkParts).of)
	if err != nil {
		return err
	}

	found = append(found, byChunks...)
	slices.SortStableFunc(found, func(a, b overlap) int {
		return cmp.Or(
			cmp.Compare(b.percent, a.percent),
			compareBool(sameName(b), sameName(a)),
			ComparePaths(a.new.path, b.new.path),
			ComparePaths(a.old.path, b.old.path),
		)
	})

	for i, o := range found {
		if o.old.to != nil || o.new.to != nil {
			continue
		}
		o.new.match(o.old, int(o.percent), o.ambiguous(found[i+1:]))
	}

	return nil
}

// ambiguous reports whether another pair with one of the two files is equally
// good. Rest has the pairs sorted after this one.
func (o overlap) ambiguous(rest []overlap) bool {
	for i, other := range rest {
		switch {
		case other.percent != o.percent || sameName(other) != sameName(o):
			return false
		case i == 10*MaxSimilarFiles: // too many equal pairs to check
			return true
		case (other.old == o.old) != (other.new == o.new) && other.old.to == nil && other.new.to == nil:
			return true
		}
	}
	return false
}

func sameName(o overlap) bool { return path.Base(o.old.path) == path.Base(o.new.path) }

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// overlaps finds the pairs of files with enough common bytes, by the parts
// that partsOf returns. It indexes the parts of old files, so files without
// common parts cost nothing.
func (m *renameMatcher) overlaps(ctx context.Context, olds, news []*moved, partsOf func(context.Context, object.Reader, *object.Entry) ([]part, error)) ([]overlap, error) {
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
			percent := min(99, uint64(float64(bytes)/float64(size)*100))
			if percent >= m.threshold {
				found = append(found, overlap{olds[i], n, percent})
			}
		}
	}

	return found, nil
}

// sum sorts parts and adds up those of equal hash.
func sum(parts []part) []part {
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.hash, b.hash) })
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

func (l *lineParts) of(ctx context.Context, r object.Reader, e *object.Entry) ([]part, error) {
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

	var parts []part
	for len(data) > 0 {
		n := bytes.IndexByte(data[:min(len(data), maxPart)], '\n') + 1
		if n == 0 {
			n = min(len(data), maxPart)
		}
		parts = append(parts, part{maphash.Bytes(l.seed, data[:n]), uint64(n)})
		data = data[n:]
	}

	return sum(parts), nil
}

// chunkParts returns the chunks of files that are likely to have several.
type chunkParts struct{ read int }

// minChunked is the least size of files compared by chunks.
const minChunked = MaxSimilarText / 8

func (c *chunkParts) of(ctx context.Context, r object.Reader, e *object.Entry) ([]part, error) {
	if e.Size < minChunked {
		return nil, nil
	}

	var parts []part
	for chunk, err := range object.Chunks(ctx, r, e.Content, e.Size, 0) {
		if errors.Is(err, object.ErrNotFound) || errors.Is(err, object.ErrPurged) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		if c.read++; c.read > maxSimilarParts {
			return nil, nil
		}
		parts = append(parts, part{binary.BigEndian.Uint64(chunk.ID[:8]), uint64(chunk.Size)})
	}

	return sum(parts), nil
}
