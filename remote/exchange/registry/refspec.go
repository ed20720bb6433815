package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

// PushRef is a change of a ref of a remote.
type PushRef struct {
	Source string      // a ref's full name, or a revision; empty: delete the ref
	ID     object.ID   // the object of Source; a commit, or the tag object of an annotated tag
	Kind   object.Kind // of ID
	Name   string      // of the ref on the remote, full
	Force  bool        // move the ref even if that is no fast-forward
}

// ParsePush parses an argument of 'kist push':
//
//	main                     push the branch or tag to the same name
//	main:other               push it to another name
//	HEAD~2:refs/heads/other  push any revision to a full name
//	:main                    delete the branch or tag on the remote
//	+main                    push even if the remote loses commits
func ParsePush(ctx context.Context, r *kist.Repository, spec string) (PushRef, error) {
	p := PushRef{}
	text, force := strings.CutPrefix(spec, "+")
	p.Force = force
	source, name, hasName := strings.Cut(text, ":")
	if text == "" || hasName && name == "" {
		return p, fmt.Errorf("%q: want BRANCH, SOURCE:NAME, or :NAME to delete", spec)
	}
	if source == "" {
		p.Name = remoteName(r, name, refs.Heads)
		return p, refs.CheckName(p.Name)
	}
	var err error
	if p.Source, p.ID, err = pushSource(ctx, r, source); err != nil {
		return p, err
	}
	prefix := refs.Heads
	switch {
	case hasName:
		if strings.HasPrefix(p.Source, refs.Tags) {
			prefix = refs.Tags
		}
		p.Name = remoteName(r, name, prefix)
	case strings.HasPrefix(p.Source, refs.Heads), strings.HasPrefix(p.Source, refs.Tags):
		p.Name = p.Source
	default:
		return p, fmt.Errorf("%q is no branch or tag: say under which name to push it, as in %q", source, source+":main")
	}
	if err := refs.CheckName(p.Name); err != nil {
		return p, err
	}
	if p.Kind, err = kindOf(ctx, r, p.ID); errors.Is(err, object.ErrNotFound) {
		err = fmt.Errorf("%q cannot be pushed: %w", source, err)
	}
	return p, err
}

// PushTarget returns the ref that a push of the current branch moves, and its remote. Without a
// name, the remote is that of the upstream, or that of [Default]. The ref is the upstream if that
// is on this remote, and else a branch of the same name. The error is [ErrDetached] if HEAD is on
// no branch, and an [*OtherNameError] if the upstream has another name than the branch. With
// [kist.ErrUnborn], the ref has only its name.
func PushTarget(ctx context.Context, r *kist.Repository, name string) (ref PushRef, to string, err error) {
	head, err := r.Refs().Head()
	if err != nil {
		return ref, "", err
	}
	if head.Branch == "" {
		return ref, "", ErrDetached
	}
	ref, err = ParsePush(ctx, r, refs.Heads+head.Branch)
	if errors.Is(err, refs.ErrNotFound) && head.Unborn() {
		return PushRef{Name: refs.Heads + head.Branch}, "", kist.ErrUnborn
	}
	if err != nil {
		return ref, "", err
	}

	upstream, err := kist.UpstreamOf(r, head.Branch)
	switch {
	case err == nil && !upstream.IsLocal() && (name == "" || name == upstream.Remote):
		if upstream.Ref != ref.Name {
			return ref, "", &OtherNameError{head.Branch, upstream}
		}
		return ref, upstream.Remote, nil
	case err != nil && !errors.Is(err, kist.ErrNoUpstream):
		return ref, "", err
	case name != "":
		return ref, name, nil
	}
	to, err = Default(r)
	return ref, to, err
}

// ErrDetached is the error for a push of the current branch if HEAD is on none.
var ErrDetached = errors.New("HEAD is on no branch")

// OtherNameError means that the upstream of a branch has another name than the branch.
type OtherNameError struct {
	Branch   string
	Upstream kist.Upstream
}

func (e *OtherNameError) Error() string {
	return fmt.Sprintf("branch %q follows %s, which has another name", e.Branch, e.Upstream.Short())
}

// FetchRef is a ref of a remote that a fetch asks for.
type FetchRef struct {
	Source string // on the remote: a full name, the short name of a branch or tag, or HEAD
	Local  string // here: a full or short name; empty: only FETCH_HEAD and the remote-tracking branch
	Force  bool   // move Local even if that is no fast-forward
}

// ParseFetch parses an argument of 'kist fetch':
//
//	main         fetch the branch or tag
//	main:other   also store it under a name here
//	+main:other  even if commits are lost here
func ParseFetch(spec string) (FetchRef, error) {
	text, force := strings.CutPrefix(spec, "+")
	source, local, hasLocal := strings.Cut(text, ":")
	if source == "" && hasLocal {
		source = "HEAD"
	}
	if source == "" || strings.Contains(text, "*") {
		return FetchRef{}, fmt.Errorf("%q: want BRANCH or BRANCH:NAME", spec)
	}
	return FetchRef{source, local, force}, nil
}

// Find returns the full name of the ref that f asks for, among the refs of a remote with a
// default branch. It also returns the full name here, or "".
func (f FetchRef) Find(list map[string]object.Key, head string) (name, local string, err error) {
	for _, name = range []string{f.Source, refs.Heads + f.Source, refs.Tags + f.Source} {
		if f.Source == "HEAD" {
			name = head
		}
		if _, ok := list[name]; ok {
			break
		}
		name = ""
	}
	if name == "" {
		name = f.Source
		if !strings.HasPrefix(name, "refs/") && name != "HEAD" {
			name = refs.Heads + name
		}
		return "", "", &refs.NotFoundError{Name: name}
	}
	if local = f.Local; local != "" && !strings.HasPrefix(local, "refs/") {
		local = refs.Heads + local
		if strings.HasPrefix(name, refs.Tags) {
			local = refs.Tags + f.Local
		}
	}
	if local != "" {
		err = refs.CheckName(local)
	}
	return name, local, err
}

// pushSource returns the full name and the object of a source. The name of HEAD is that of
// its branch. A revision that is no ref is its own name.
func pushSource(ctx context.Context, r *kist.Repository, source string) (string, object.ID, error) {
	full, err := r.Refs().Expand(ctx, source)
	switch {
	case err == nil && full == "HEAD":
		head, err := r.Refs().Head()
		if err == nil && head.ID.IsZero() {
			err = kist.ErrUnborn
		}
		if head.Branch != "" {
			full = refs.Heads + head.Branch
		}
		return full, head.ID, err
	case err == nil && strings.HasPrefix(full, "refs/"):
		id, err := r.Refs().Get(full)
		return full, id, err
	case err == nil || errors.Is(err, refs.ErrNotFound):
		id, err := r.Resolve(ctx, source)
		return source, id, err
	}
	return "", object.ID{}, err
}

// remoteName returns the full name of a ref on a remote. It is a tag if there is such a tag
// here, and no such branch.
func remoteName(r *kist.Repository, name, prefix string) string {
	if strings.HasPrefix(name, "refs/") {
		return name
	}
	if prefix == refs.Heads {
		_, branch := r.Refs().Get(refs.Heads + name)
		if _, tag := r.Refs().Get(refs.Tags + name); tag == nil && errors.Is(branch, refs.ErrNotFound) {
			return refs.Tags + name
		}
	}
	return prefix + name
}

// kindOf returns the kind of the object of a ref: commit or tag.
func kindOf(ctx context.Context, r *kist.Repository, id object.ID) (object.Kind, error) {
	for _, kind := range []object.Kind{object.KindCommit, object.KindTag} {
		if has, err := r.Objects().Has(ctx, object.Key{Kind: kind, ID: id}); has || err != nil {
			return kind, err
		}
	}
	key := object.Key{Kind: object.KindCommit, ID: id}
	return 0, object.ExplainMissing(r.Objects(), key, &object.AbsentError{Key: key})
}
