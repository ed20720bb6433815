package refs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/history"
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
//	main@{u}            the remote-tracking branch of main's upstream; also
//	                    main@{upstream} and main@{push}
//	v1-4-g3fa9c1d2      the commit with this ID, as describe prints it
//	REV^{commit}, REV^{}  REV itself
//	REV^{/fix}          the newest commit reachable from REV whose message
//	                    matches a regular expression
//	:/fix               the same, reachable from HEAD or any ref
//	main...topic        the only merge base of two revisions
//
// An annotated tag stands for its commit. A name that several refs have means
// the first of: a special name, a full name, one below refs, a tag, a branch,
// a branch of a remote, a remote. A ref is tried before a prefix of an ID, but not
// before a complete ID. Errors are [*UnknownRevisionError], [*AmbiguousError], or
// those of reading files and objects.
func (s *Store) Resolve(ctx context.Context, o Objects, rev string) (object.ID, error) {
	if _, _, symmetric, _ := SplitRange(rev); symmetric && !strings.HasPrefix(rev, messagePrefix) {
		return mergeBase(ctx, s, o, rev)
	}

	r, err := parseRevision(rev)
	if err == nil && r.tree {
		err = r.unknownError("a tree is no commit")
	}
	if err != nil {
		return object.ID{}, err
	}

	id, err := r.findStart(ctx, s, o)
	if err != nil {
		return object.ID{}, err
	}
	return r.followSteps(ctx, o, id)
}

// ResolveName is [Store.Resolve] for the revisions that strangers may name: HEAD, a branch, a
// tag, a branch of a remote, and an ID or its first digits. It follows no steps and searches no
// messages, so it takes little time. Any other revision is an [*UnknownRevisionError].
func ResolveName(ctx context.Context, s *Store, o Objects, name string) (object.ID, error) {
	if strings.ContainsAny(name, "~^:") || strings.Contains(name, "@{") || strings.Contains(name, "..") {
		return object.ID{}, &UnknownRevisionError{Rev: name, Reason: "not a name of a branch or tag, nor an ID"}
	}
	r, err := parseRevision(name)
	if err != nil {
		return object.ID{}, err
	}
	if _, err := object.ParseID(strings.ToLower(name)); err != nil {
		full, err := r.lookUpName(s)
		known := full == "HEAD" || strings.HasPrefix(full, Heads) || strings.HasPrefix(full, Tags) || strings.HasPrefix(full, Remotes)
		if err != nil && !errors.Is(err, ErrNotFound) || err == nil && !known {
			return object.ID{}, cmp.Or(err, r.unknownError("not a name of a branch or tag, nor an ID"))
		}
	}
	return s.Resolve(ctx, o, name)
}

// mergeBase returns the only merge base of the two revisions in rev, "A...B".
func mergeBase(ctx context.Context, s *Store, o Objects, rev string) (object.ID, error) {
	from, to, _, _ := SplitRange(rev)
	var ends [2]object.ID
	for i, end := range []string{from, to} {
		if _, _, _, again := SplitRange(end); again {
			return object.ID{}, &UnknownRevisionError{Rev: rev, Reason: "a range of ranges"}
		}
		var err error
		if ends[i], err = s.Resolve(ctx, o, end); err != nil {
			return object.ID{}, err
		}
	}

	bases, err := history.MergeBases(ctx, o, ends[0], ends[1])
	switch {
	case err != nil:
		return object.ID{}, fmt.Errorf("revision %q: %w", rev, err)
	case len(bases) != 1:
		return object.ID{}, &UnknownRevisionError{Rev: rev, Reason: fmt.Sprintf("it has %d merge bases", len(bases))}
	}
	return bases[0], nil
}

// ResolveObject is [Store.Resolve] for any object: a name or ID of an annotated tag means the
// tag object, and REV^{tree} the tree of a commit.
func ResolveObject(ctx context.Context, s *Store, o Objects, rev string) (object.Key, error) {
	r, err := parseRevision(rev)
	if err != nil {
		return object.Key{}, err
	}
	id, err := r.findStart(ctx, s, o)
	if err != nil {
		return object.Key{}, err
	}
	commit, err := r.followSteps(ctx, o, id)
	switch {
	case err != nil:
		return object.Key{}, err
	case r.tree:
		c, err := object.ReadCommit(ctx, o, commit)
		if err != nil {
			return object.Key{}, err
		}
		return object.Key{Kind: object.KindTree, ID: c.Tree}, nil
	case len(r.steps) == 0 && id != commit:
		return object.Key{Kind: object.KindTag, ID: id}, nil
	}
	return object.Key{Kind: object.KindCommit, ID: commit}, nil
}

// Abbreviate returns the first digits of the ID of a commit or tag: at least n, and so many
// that no other commit or tag begins with them.
func Abbreviate(ctx context.Context, o Objects, id object.ID, n int) (string, error) {
	text := id.String()
	for n = max(minPrefix, n); n < len(text); n++ {
		found := 0
		for _, kind := range []object.Kind{object.KindCommit, object.KindTag} {
			ids, err := o.Prefix(ctx, kind, text[:n], 2)
			if err != nil {
				return "", err
			}
			found += len(ids)
		}
		if found < 2 {
			return text[:n], nil
		}
	}
	return text, nil
}

// followSteps returns the commit at the end of the steps from an object.
func (r revision) followSteps(ctx context.Context, o Objects, start object.ID) (object.ID, error) {
	id, c, err := peel(ctx, o, start)
	if err != nil {
		if missing, ok := object.AbsentKey(err, object.ErrNotFound); ok && strings.EqualFold(r.name, missing.ID.String()) {
			return object.ID{}, r.unknownError("there is no commit of this ID")
		}
		return object.ID{}, fmt.Errorf("revision %q: %w", r.text, err)
	}

	for _, st := range r.steps {
		if st.search != nil {
			if id, err = r.byMessage(ctx, o, st.search, []object.ID{id}); err != nil {
				return object.ID{}, err
			}
			if c, err = object.ReadCommit(ctx, o, id); err != nil {
				return object.ID{}, fmt.Errorf("revision %q: %w", r.text, err)
			}
		}
		for range st.generations {
			switch n := len(c.Parents); {
			case n == 0:
				return object.ID{}, r.unknownError("goes past the first commit, %s", id.Short())
			case n < st.parent:
				return object.ID{}, r.unknownError("commit %s has only %d of %d parents", id.Short(), n, st.parent)
			}
			id = c.Parents[st.parent-1]
			if c, err = object.ReadCommit(ctx, o, id); err != nil {
				return object.ID{}, fmt.Errorf("revision %q: %w", r.text, err)
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

// byMessage returns the newest commit, reachable from starts, whose message matches.
func (r revision) byMessage(ctx context.Context, o Objects, search *regexp.Regexp, starts []object.ID) (object.ID, error) {
	for c, err := range history.Walk(ctx, o, starts, history.Options{}) {
		if err != nil {
			return object.ID{}, fmt.Errorf("revision %q: %w", r.text, err)
		}
		if matchUntil(ctx, search, c.Message) {
			return c.ID, nil
		}
		if ctx.Err() != nil {
			return object.ID{}, ctx.Err()
		}
	}
	return object.ID{}, r.unknownError("no commit has such a message")
}

// longMessage is the size from which a match can take so long that it must be stopped.
const longMessage = 4096

// matchUntil reports whether a message matches. It gives up when ctx ends.
func matchUntil(ctx context.Context, search *regexp.Regexp, message string) bool {
	if len(message) < longMessage {
		return search.MatchString(message)
	}
	return search.MatchReader(&untilReader{ctx.Err, strings.NewReader(message)})
}

// untilReader reads a text. It ends early when ended returns an error.
type untilReader struct {
	ended func() error
	text  *strings.Reader
}

func (r *untilReader) ReadRune() (rune, int, error) {
	if r.ended() != nil {
		return 0, 0, io.EOF
	}
	return r.text.ReadRune()
}

// allStarts returns the commits of HEAD and of all refs that have one.
func (r revision) allStarts(ctx context.Context, s *Store, o Objects) ([]object.ID, error) {
	list, err := s.List("")
	if err != nil {
		return nil, err
	}
	head, err := s.Head()
	if err != nil {
		return nil, err
	}
	var starts []object.ID
	for _, ref := range append(list, Ref{ID: head.ID}) {
		switch id, err := Peel(ctx, o, ref.ID); {
		case err == nil:
			starts = append(starts, id)
		case !errors.Is(err, object.ErrNotFound): // HEAD without a commit, or a lost one
			return nil, err
		}
	}
	return starts, nil
}

// findStart returns the ID for the first part of a revision.
func (r revision) findStart(ctx context.Context, s *Store, o Objects) (object.ID, error) {
	if r.search != nil {
		starts, err := r.allStarts(ctx, s, o)
		if err != nil {
			return object.ID{}, err
		}
		return r.byMessage(ctx, o, r.search, starts)
	}
	if id, err := object.ParseID(strings.ToLower(r.name)); err == nil && r.at == atNow {
		return id, nil
	}

	full, err := r.lookUpName(s)
	if errors.Is(err, ErrNotFound) {
		if r.at != atNow || r.back > 0 {
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
		return r.timeAt(ctx, s, o, full)
	}

	return r.presentID(s, full)
}

// byPrefix returns the commit or tag whose ID begins with a revision's name.
func (r revision) byPrefix(ctx context.Context, o Objects) (object.ID, error) {
	if i := strings.LastIndex(r.name, "-g"); i > 0 { // describe's form
		r.name = r.name[i+2:]
	}
	if len(r.name) < minPrefix || len(r.name) > 64 || !object.IsHex(r.name) {
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

// Expand returns the full name of the ref that a revision names:
// "refs/heads/main" for "main", or for "@{-1}" after a checkout from main;
// "HEAD" for "@"; special names unchanged. Among several refs it chooses as
// [Store.Resolve] does. The error matches [ErrNotFound] if the revision is no
// name, such as "main~1" or an ID.
func (s *Store) Expand(ctx context.Context, rev string) (name string, err error) {
	r, err := parseRevision(rev)
	if err != nil {
		return "", err
	}
	if r.search != nil || len(r.steps) > 0 || r.at == atEntry || r.at == atTime || len(r.name) == 64 && object.IsHex(r.name) {
		return "", r.unknownError("it is not a name")
	}
	if name, err = r.lookUpName(s); err != nil {
		return "", err
	}
	if r.back > 0 && r.at == atNow && !strings.HasPrefix(name, Heads) {
		return "", r.unknownError("it is not a name")
	}

	return name, ctx.Err()
}

// Candidates returns all full names that a short name can stand for, in the
// order in which [Store.Resolve] prefers them. With more than one, the name is
// ambiguous.
func (s *Store) Candidates(name string) ([]string, error) {
	var found []string
	if name == "HEAD" || name == "@" {
		found = append(found, "HEAD")
	}
	if isSpecial(name) {
		if _, err := s.Special(name); err == nil {
			found = append(found, name)
		} else if !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}

	for _, full := range []string{name, "refs/" + name, Tags + name, Heads + name, Remotes + name, Remotes + name + "/HEAD"} {
		if checkLocal(full) != nil {
			continue
		}
		if _, err := s.readRef(full); err == nil {
			found = append(found, full)
		} else if !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}

	return found, nil
}

// lookUpName returns the full name for a revision's name, for an empty name, or
// for its "@{-n}".
func (r revision) lookUpName(s *Store) (string, error) {
	switch {
	case r.back > 0 && r.at == atUpstream:
		full, err := r.checkedOut(s)
		if err != nil {
			return "", err
		}
		r.name = full
		return r.upstreamOf(s)
	case r.back > 0:
		return r.checkedOut(s)
	case r.at == atUpstream:
		return r.upstreamOf(s)
	case r.name == "":
		head, _, err := s.readValue("HEAD")
		if err != nil || head.target == "" {
			return "HEAD", err
		}
		return head.target, nil
	}

	found, err := s.Candidates(r.name)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", &UnknownRevisionError{Rev: r.text}
	}

	return found[0], nil
}

// upstreamOf returns the full name of the remote-tracking branch of a branch's
// upstream.
func (r revision) upstreamOf(s *Store) (string, error) {
	full := Heads + strings.TrimPrefix(strings.TrimPrefix(r.name, "refs/"), "heads/")
	if r.name == "" {
		head, _, err := s.readValue("HEAD")
		if err != nil {
			return "", err
		}
		full = head.target
	} else if _, err := s.Get(full); err != nil && !errors.Is(err, ErrNotFound) {
		return "", err
	} else if err != nil {
		full = ""
	}
	if full == "" || s.Upstream == nil {
		return "", r.unknownError("@{u} needs a branch")
	}
	return s.Upstream(strings.TrimPrefix(full, Heads))
}

// checkedOut returns the full name of the branch, or the ID, of an earlier
// checkout.
func (r revision) checkedOut(s *Store) (string, error) {
	previous, err := s.Previous(r.back)
	switch {
	case errors.Is(err, ErrNotFound):
		return "", r.unknownError("there were not so many checkouts")
	case err != nil:
		return "", err
	case len(previous) == 64 && object.IsHex(previous):
		return previous, nil
	}

	if _, err := s.Get(Heads + previous); errors.Is(err, ErrNotFound) {
		return "", r.unknownError("branch %q is gone", previous)
	} else if err != nil {
		return "", err
	}

	return Heads + previous, nil
}

// presentID returns the present ID of a full name.
func (r revision) presentID(s *Store, full string) (object.ID, error) {
	switch {
	case full == "HEAD":
		head, err := s.Head()
		if err == nil && head.Unborn() {
			err = r.unknownError("branch %q has no commit yet", head.Branch)
		}
		return head.ID, err
	case isSpecial(full):
		return s.Special(full)
	}

	if id, err := object.ParseID(full); err == nil {
		return id, nil
	}

	id, err := s.Get(full)
	if errors.Is(err, ErrNotFound) {
		err = r.unknownError("%s has no commit", full)
	}

	return id, err
}

// entryAt returns the value of a ref a number of moves ago.
func (r revision) entryAt(s *Store, full string) (object.ID, error) {
	if r.number == 0 {
		return r.presentID(s, full)
	}

	entries, err := s.readLog("logs/" + full)
	if err != nil {
		return object.ID{}, err
	}

	var id object.ID
	switch {
	case r.number < len(entries):
		id = entries[r.number].New
	case r.number == len(entries):
		id = entries[r.number-1].Old
	default:
		return id, r.unknownError("the log of %s has only %d entries", full, len(entries))
	}

	if id.IsZero() {
		return id, r.unknownError("%s did not exist then", full)
	}

	return id, nil
}

// timeAt returns the value of a ref at a time. If the log of the ref begins later,
// as in a new clone, the dates of commits decide: it returns the newest commit that
// is not later, and calls [Store.ByDate].
func (r revision) timeAt(ctx context.Context, s *Store, o Objects, full string) (object.ID, error) {
	at, err := ParseTime(r.when, s.now())
	if err != nil {
		return object.ID{}, r.unknownError("%v", err)
	}

	entries, err := s.readLog("logs/" + full)
	if err != nil {
		return object.ID{}, err
	}

	for _, e := range entries {
		if e.Time.After(at) {
			continue
		}
		if e.New.IsZero() {
			return object.ID{}, r.unknownError("%s did not exist then", full)
		}
		return e.New, nil
	}

	var id object.ID
	if len(entries) == 0 {
		id, err = r.presentID(s, full)
	} else if first := entries[len(entries)-1]; first.Old.IsZero() {
		id = first.New
	} else {
		id = first.Old
	}
	if err == nil {
		id, err = r.dateAt(ctx, o, id, at)
	}
	if err == nil && s.ByDate != nil {
		s.ByDate(r.text)
	}
	return id, err
}

// dateAt returns the first commit that is not later than a time, by the committers' dates,
// among a commit and its first parents.
func (r revision) dateAt(ctx context.Context, o Objects, id object.ID, at time.Time) (object.ID, error) {
	for {
		_, c, err := peel(ctx, o, id)
		if err != nil {
			return object.ID{}, err
		}
		when := c.Committer.When()
		switch {
		case !when.After(at):
			return id, nil
		case len(c.Parents) == 0:
			return object.ID{}, r.unknownError("the first commit is of %s", when.In(at.Location()).Format("2006-01-02 15:04:05"))
		}
		id = c.Parents[0]
	}
}
