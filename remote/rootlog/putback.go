package rootlog

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote"
)

const rootCopyPrefix = "root-"

// rootCopy returns the name that the copy of a root has in the cache.
func rootCopy(seq uint64) string { return fmt.Sprintf("%s%020d", rootCopyPrefix, seq) }

// parseRootCopy returns the number of a root from the name of its copy.
func parseRootCopy(name string) (seq uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, rootCopyPrefix)
	if !ok {
		return 0, false
	}
	seq, err := strconv.ParseUint(digits, 10, 64)
	return seq, err == nil && name == rootCopy(seq)
}

// IsRootCopy reports whether a file in the cache is the copy of a root.
func IsRootCopy(name string) bool {
	_, ok := parseRootCopy(name)
	return ok
}

// PutBack puts the root that the cache has in place of its damaged bytes on the
// remote, and returns its number. If that root is not damaged, or the cache has
// none, PutBack returns 0 and changes nothing. With dryRun it only returns the
// number.
//
// A root that is absent is not put back: the remote was set back then. The copy
// must be the root that was remembered as the head, or the one that the next root
// follows; and no root beside it may contradict it. So PutBack never replaces a
// root by another one. As the store replaces the bytes in one step, nobody ever
// finds the name free.
func (l *Log) PutBack(ctx context.Context, remembered *Position, dryRun bool) (seq uint64, err error) {
	root := l.copiedRoot()
	if root == nil {
		return 0, nil
	}
	s := &sight{l: l, seen: make(map[uint64]*found)}
	if err := s.look(ctx, root.Seq-1, root.Seq, root.Seq+1); err != nil {
		return 0, err
	}
	at := s.seen[root.Seq]
	var damage *DamageError
	if at == nil || at.root != nil || !errors.As(at.err, &damage) {
		return 0, nil
	}
	if err := s.attest(root, remembered); err != nil {
		return 0, &DamageError{Name: RootName(root.Seq), Err: fmt.Errorf("%w; the copy here is not used: %w", damage.Err, err)}
	}
	if dryRun {
		return root.Seq, nil
	}

	store, ok := remote.As[remote.Replacer](l.b)
	if !ok {
		return 0, &remote.Error{Op: "replace", Name: RootName(root.Seq), Kind: remote.ErrUnsupported}
	}
	if err := store.Replace(ctx, RootName(root.Seq), root.stored); err != nil {
		return 0, err
	}
	f, err := l.look(ctx, root.Seq)
	switch {
	case err != nil:
		return 0, err
	case f == nil || f.hash != root.Hash:
		return 0, &DamageError{Name: RootName(root.Seq), Err: errors.New("it was put back, and is still damaged")}
	}
	return root.Seq, nil
}

// copiedRoot returns the newest root with an intact copy in the cache, or nil.
func (l *Log) copiedRoot() (newest *Root) {
	if l.o.Cache == "" {
		return nil
	}
	entries, _ := disk.ReadDir(l.o.Cache) // sorted by name, and so by number
	for _, e := range entries {
		seq, ok := parseRootCopy(e.Name())
		if !ok {
			continue
		}
		file, err := disk.ReadFile(filepath.Join(l.o.Cache, e.Name()))
		if err != nil {
			continue
		}
		data, summed, err := disk.CutSum(file)
		if err != nil || !summed {
			continue
		}
		if root, err := decodeRoot(seq, data); err == nil && !root.Stub {
			root.stored = data
			newest = root
		}
	}
	return newest
}

// attest checks that root is the one that was stored under its number.
func (s *sight) attest(root *Root, remembered *Position) error {
	before, after := s.seen[root.Seq-1], s.seen[root.Seq+1]
	known := remembered != nil && remembered.Seq == root.Seq
	follows := after != nil && after.root != nil
	switch {
	case known && remembered.Hash != root.Hash:
		return errors.New("it is not the root that was seen last")
	case follows && after.root.Prev != root.Hash:
		return errors.New("it is not the root that the next one follows")
	case before == nil || (before.root != nil || root.Seq == 1) && before.hash != root.Prev:
		return errors.New("it does not follow the root before it")
	case !known && !follows:
		return errors.New("nothing says that it is the root that was stored")
	}
	return nil
}
