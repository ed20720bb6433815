package refs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
)

// Objects is the store in which [Store.Resolve] looks up objects.
type Objects interface {
	object.Reader

	// Prefix returns up to limit IDs of objects of a kind that begin with
	// hexPrefix, in lower-case hexadecimal digits.
	Prefix(ctx context.Context, kind object.Kind, hexPrefix string, limit int) ([]object.ID, error)
}

const (
	minPrefix     = 4  // least number of hexadecimal digits for an ID
	maxCandidates = 16 // most objects shown for an ambiguous prefix
)

// Resolve returns the commit that a revision names:
//
//	HEAD, @             the commit that is checked out; also MERGE_HEAD and others
//	main, v1            a tag, or else a branch; or any full name of a ref
//	origin/main, origin a branch of a remote, and the remote's HEAD
//	3fa9c1d2            an ID, or at least 4 digits of it, if only one commit
//	                    or annotated tag begins with them
//	REV~3, REV^, REV^2  the third ancestor by first parents, the first parent,
//	                    the second
//	main@{2}            main two moves ago; without a name, HEAD's branch
//	main@{yesterday}    main at that time; see [ParseTime]
//	@{-1}               the previous checkout
//
// An annotated tag stands for its commit. A name that several refs have means
// the first of: a special name, a full name, one below refs, a tag, a branch,
// a branch of a remote, a remote. A ref goes before a prefix of an ID, but not
// before a complete ID. Errors are [*UnknownRevisionError], [*AmbiguousError], or
// those of reading files and objects.
func (s *Store) Resolve(ctx context.Context, o Objects, rev string) (object.ID, error) {
	r, err := parseRevision(rev)
	if err != nil {
		return object.ID{}, err
	}

	id, err := r.start(ctx, s, o)
	if err != nil {
		return object.ID{}, err
	}

	id, c, err := peel(ctx, o, id)
	if err != nil {
		var missing *object.NotFoundError
		if errors.As(err, &missing) && strings.EqualFold(r.name, missing.Key.ID.String()) {
			return object.ID{}, r.unknown("there is no commit of this ID")
		}
		return object.ID{}, fmt.Errorf("revision %q: %w", rev, err)
	}

	for _, st := range r.steps {
		for range st.generations {
			switch n := len(c.Parents); {
			case n == 0:
				return object.ID{}, r.unknown("goes past the first commit, %s", id.Short())
			case n < st.parent:
				return object.ID{}, r.unknown("commit %s has only %d of %d parents", id.Short(), n, st.parent)
			}
			id = c.Parents[st.parent-1]
			if c, err = object.ReadCommit(ctx, o, id); err != nil {
				return object.ID{}, fmt.Errorf("revision %q: %w", rev, err)
			}
		}
	}

	return id, nil
}

// Peel returns the commit of an ID from a ref: the ID itself, or the target of
// its tag object. It has read the commit.
func Peel(ctx context.Context, r object.Reader, id object.ID) (object.ID, error) {
	id, _, err := peel(ctx, r, id)
	return id, err
}

func peel(ctx context.Context, r object.Reader, id object.ID) (object.ID, *object.Commit, error) {
	c, err := object.ReadCommit(ctx, r, id)
	if errors.Is(err, object.ErrNotFound) {
		tag, tagErr := object.ReadTag(ctx, r, id)
		switch {
		case tagErr == nil:
			id = tag.Target
			c, err = object.ReadCommit(ctx, r, id)
		case !errors.Is(tagErr, object.ErrNotFound):
			err = tagErr
		}
	}
	if err != nil {
		return object.ID{}, nil, err
	}

	return id, c, nil
}

// start returns the ID for the first part of a revision.
func (r revision) start(ctx context.Context, s *Store, o Objects) (object.ID, error) {
	if id, err := object.ParseID(strings.ToLower(r.name)); err == nil && r.at == atNow {
		return id, nil
	}

	full, err := r.lookup(s)
	if errors.Is(err, ErrNotFound) {
		if r.at != atNow {
			return object.ID{}, err
		}
		return r.byPrefix(ctx, o)
	}

	switch {
	case err != nil:
		return object.ID{}, err
	case r.at == atEntry:
		return r.entryAt(s, full)
	case r.at == atTime:
		return r.timeAt(s, full)
	}

	return r.present(s, full)
}

// byPrefix returns the commit or tag whose ID begins with a revision's name.
func (r revision) byPrefix(ctx context.Context, o Objects) (object.ID, error) {
	if len(r.name) < minPrefix || len(r.name) > 64 || !isHex(r.name) {
		return object.ID{}, &UnknownRevisionError{Rev: r.text}
	}

	var found []object.Key
	for _, kind := range []object.Kind{object.KindCommit, object.KindTag} {
		ids, err := o.Prefix(ctx, kind, strings.ToLower(r.name), maxCandidates)
		if err != nil {
			return object.ID{}, fmt.Errorf("revision %q: %w", r.text, err)
		}
		for _, id := range ids {
			found = append(found, object.Key{Kind: kind, ID: id})
		}
	}

	switch len(found) {
	case 0:
		return object.ID{}, &UnknownRevisionError{Rev: r.text}
	case 1:
		return found[0].ID, nil
	}

	return object.ID{}, &AmbiguousError{Rev: r.name, Candidates: found}
}

// Root is a commit or tag object that a file of this package names.
type Root struct {
	ID   object.ID
	File string // below the .kist folder, as in "refs/heads/main" or "logs/HEAD"
}

// Roots returns every ID in HEAD, the refs, the special names and the logs,
// with its file. It reads every file in the folders, even with an impossible
// name. It reads all of them at one moment, because it excludes writers. After
// an error it still returns all readable IDs; a caller that removes objects
// must then stop.
func (s *Store) Roots(ctx context.Context) ([]Root, error) {
	return s.RootsWith(ctx, nil)
}

// RootsWith is Roots without the log entries for which keep returns false, see
// [Store.ExpireLog]. If keep is nil, all entries count.
func (s *Store) RootsWith(ctx context.Context, keep func(LogEntry) bool) ([]Root, error) {
	unlock, err := s.lockOut(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	files, err := s.names("refs", "")
	if err != nil {
		return nil, err
	}

	top, err := disk.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list refs: %w", err)
	}

	for _, e := range top {
		if e.Name() == "HEAD" || isSpecial(e.Name()) {
			files = append(files, e.Name())
		}
	}

	logs, err := s.names("logs", "")
	if err != nil {
		return nil, err
	}

	files = append(files, logs...)

	found := make([][]object.ID, len(files))
	errs := make([]error, len(files))
	each(len(files), func(i int) error {
		found[i], errs[i] = s.rootsOf(files[i], keep)
		return nil
	})

	var roots []Root
	for i, ids := range found {
		for _, id := range ids {
			roots = append(roots, Root{ID: id, File: files[i]})
		}
	}

	return roots, errors.Join(errs...)
}

// rootsOf returns the IDs in a file, each once.
func (d folder) rootsOf(file string, keep func(LogEntry) bool) (ids []object.ID, err error) {
	if !strings.HasPrefix(file, "logs/") {
		v, _, err := d.value(file)
		if err != nil || v.id.IsZero() {
			return nil, err
		}
		return []object.ID{v.id}, nil
	}

	entries, err := d.readLog(file)
	seen := map[object.ID]bool{{}: true}
	for _, e := range entries {
		if keep != nil && !keep(e) {
			continue
		}
		for _, id := range []object.ID{e.New, e.Old} {
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}

	return ids, err
}
