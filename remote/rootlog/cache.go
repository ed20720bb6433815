package rootlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
)

// The cache is a directory with the state files of the head, under their random names,
// and with a copy of the head as root-<number>. Each file has a checksum at its end.
// After any error of the cache, the file is read from the remote.

const tempPrefix = "tmp-"

// readCached returns a state file from the cache, or nil if the file is missing or damaged.
func (l *Log) readCached(f File) []byte {
	if l.o.Cache == "" {
		return nil
	}
	file, err := disk.Open(filepath.Join(l.o.Cache, f.Name.String()))
	if err != nil {
		return nil
	}
	defer file.Close()
	data := make([]byte, f.Size)
	if _, err := io.ReadFull(file, data); err != nil || !f.hasContent(data) {
		return nil
	}
	return data
}

// writeCached writes a file to the cache.
func (l *Log) writeCached(name string, data []byte) {
	if l.o.Cache == "" || disk.MkdirAll(l.o.Cache, 0o777) != nil {
		return
	}
	temp, err := disk.CreateTemp(l.o.Cache, tempPrefix)
	if err != nil {
		return
	}
	_, err = temp.Write(disk.WithSum(data))
	if errors.Join(err, temp.Close()) == nil {
		err = disk.Rename(temp.Name(), filepath.Join(l.o.Cache, name))
	}
	if err != nil {
		disk.Remove(temp.Name())
	}
}

// keepBases keeps the bases of a head in memory, and removes all others from memory and from
// the cache. It replaces the copy of the root in the cache.
func (l *Log) keepBases(s *State) {
	bases := make(map[pack.Name]*base)
	for _, t := range s.tables() {
		if t.base != nil {
			bases[t.base.file.Name] = t.base
		}
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	l.bases = bases
	if l.o.Cache == "" {
		return
	}
	if _, err := disk.Lstat(filepath.Join(l.o.Cache, rootCopy(s.Seq))); err != nil && s.stored != nil {
		l.writeCached(rootCopy(s.Seq), s.stored)
	}

	entries, _ := disk.ReadDir(l.o.Cache)
	for _, e := range entries {
		name, err := pack.ParseName(e.Name())
		seq, isRoot := parseRootCopy(e.Name())
		if err == nil && bases[name] == nil || isRoot && seq < s.Seq || strings.HasPrefix(e.Name(), tempPrefix) {
			disk.Remove(filepath.Join(l.o.Cache, e.Name()))
		}
	}
}

const rootCopyPrefix = "root-"

// rootCopy returns the name of the copy of a root in the cache.
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

// PutBack replaces a damaged root on the remote by its copy in the cache, and returns
// its number. It returns 0 if the cache has no copy or the root is not damaged. With
// dryRun it changes nothing.
//
// PutBack never restores an absent root: then the remote was rolled back. And it never
// replaces a root by another one: the copy must be the remembered head, or the root
// that the next one follows, and neither neighbour may contradict it. The store
// replaces the bytes in one step, so no writer ever finds the name free.
func (l *Log) PutBack(ctx context.Context, remembered *Position, dryRun bool) (seq uint64, err error) {
	root := l.copiedRoot()
	if root == nil {
		return 0, nil
	}

	s := &sight{l: l, seen: make(map[uint64]*found)}
	if err := s.readRoots(ctx, root.Seq-1, root.Seq, root.Seq+1); err != nil {
		return 0, err
	}

	at := s.seen[root.Seq]
	if at == nil || at.root != nil {
		return 0, nil
	}

	damage, ok := errors.AsType[*object.DamageError](at.err)
	if !ok {
		return 0, nil
	}
	if err := s.attestRoot(root, remembered); err != nil {
		return 0, damageError(RootName(root.Seq), fmt.Errorf("%w; the copy here is not used: %w", damage.Err, err))
	}
	if dryRun {
		return root.Seq, nil
	}

	if err := l.replaceRoot(ctx, root); err != nil {
		return 0, err
	}

	f, err := l.readRoot(ctx, root.Seq)
	switch {
	case err != nil:
		return 0, err
	case f == nil || f.hash != root.Hash:
		return 0, damageError(RootName(root.Seq), errors.New("it was put back, and is still damaged"))
	}
	return root.Seq, nil
}

// replaceRoot replaces the bytes of a root. On an encrypted store, the plain bytes are the same, and so is the
// hash.
func (l *Log) replaceRoot(ctx context.Context, root *Root) error {
	name := RootName(root.Seq)
	if l.encrypter != nil {
		return l.encrypter.ReplaceRoot(ctx, name, root.stored, root.Keys.Ref())
	}
	store, ok := remote.As[remote.Replacer](l.b)
	if !ok {
		return &remote.Error{Op: "replace", Name: name, Kind: remote.ErrUnsupported}
	}
	return store.Replace(ctx, name, root.stored)
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
		data, err := disk.WithoutSum(file)
		if err != nil {
			continue
		}
		if root, err := decodeRoot(seq, data); err == nil && !root.Stub {
			root.stored = data
			newest = root
		}
	}
	return newest
}

// attestRoot checks that root is the one that was created under its number.
func (s *sight) attestRoot(root *Root, remembered *Position) error {
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
		return errors.New("no root that is remembered or follows confirms it")
	}
	return nil
}
