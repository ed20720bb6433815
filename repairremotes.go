package kist

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// checkRemoteState returns the damaged files of the remotes' local state.
func (r *Repository) checkRemoteState(ctx context.Context, m Remote) ([]*gc.Problem, error) {
	if checkRemoteName(m.Name) != nil {
		return nil, nil // it has no folder
	}
	damage, err := transfer.CheckState(ctx, r.remoteDir(m.Name))
	if err != nil {
		return nil, err
	}
	problems := make([]*gc.Problem, len(damage))
	for i, d := range damage {
		file, err := filepath.Rel(r.dir, d.Path)
		if err != nil {
			return nil, err
		}
		problems[i] = &gc.Problem{Where: filepath.ToSlash(file), Err: d}
	}
	return problems, nil
}

// repairRemoteState repairs files that are kept of remotes. It comes before all
// that asks remotes.
func (p *repairer) repairRemoteState(ctx context.Context) error {
	for _, m := range p.Remotes() {
		problems, err := p.checkRemoteState(ctx, m)
		if err != nil {
			return err
		}
		for _, problem := range problems {
			if err := p.repairState(ctx, m, problem); err != nil {
				return err
			}
		}
	}
	return nil
}

// repairState repairs one file that is kept of a remote, as far as that is
// possible. Verify reports what stays damaged.
func (p *repairer) repairState(ctx context.Context, m Remote, problem *gc.Problem) error {
	var damage *transfer.StateError
	if !errors.As(problem.Err, &damage) {
		return nil
	}
	keep := func() error { return p.keep(problem.Where) }
	how, err := transfer.RepairState(ctx, p.remoteDir(m.Name), damage, p.o.DryRun, keep)
	switch isHead := filepath.Base(problem.Where) == "head"; {
	case errors.Is(err, transfer.ErrHeadLost):
		how, err = p.rebuildHead(ctx, m, keep)
	case err == nil && isHead && p.o.DryRun: // the rest of the dry run uses the remote
		_, err = p.rebuildHead(ctx, m, keep)
	}
	if err != nil || how == "" {
		return err
	}
	if !p.o.DryRun {
		p.damage = append(p.damage, problem)
	}
	p.fixed(problem.Where, how)
	return nil
}

// rebuildHead replaces the damaged head of a remote by the one that the remote has
// now, and returns in words what it did. A remote that seems to have been set back
// is not trusted, unless AcceptLoss is set.
func (p *repairer) rebuildHead(ctx context.Context, m Remote, keep func() error) (how string, err error) {
	sources, err := p.remotes(ctx)
	if err != nil {
		return "", err
	}
	for _, s := range sources {
		if s.name != m.Name {
			continue
		}
		head, err := s.remote.FirstHead(ctx)
		if err != nil {
			p.opt.Warn(fmt.Sprintf("remote %q: %v", m.Name, err))
			return "", ctx.Err()
		}
		back, err := p.setBack(ctx, m.Name, head)
		if err != nil {
			return "", err
		}
		if back != "" && !p.o.AcceptLoss {
			p.opt.Warn(fmt.Sprintf("remote %q seems to have been set back, so its head is not trusted: %s", m.Name, back))
			return "", nil
		}
		how = fmt.Sprintf("rebuilt from the remote, which is at root %d now; if it was set back before, nothing notices that", head.Seq)
		return how, s.remote.RebuildHead(ctx, head, p.o.DryRun, keep)
	}
	return "", nil
}

// setBack says in words which branch of a remote is not where remote-tracking
// branches saw it, but earlier or absent; "": none. A branch that others have
// deleted, or moved back by force, looks the same.
func (p *repairer) setBack(ctx context.Context, name string, head *rootlog.State) (string, error) {
	prefix := refs.Remotes + name + "/"
	list, err := p.refs.List(prefix)
	if err != nil {
		return "", nil // damaged refs are repaired later
	}
	for _, ref := range list {
		if ref.Target != "" {
			continue
		}
		branch := strings.TrimPrefix(ref.Name, prefix)
		now, ok := head.Refs[refs.Heads+branch]
		switch {
		case !ok:
			return fmt.Sprintf("the branch %q is not there, and was seen at %s", branch, ref.ID.Short()), nil
		case now.ID == ref.ID || p.lacks(ctx, object.Key{Kind: object.KindCommit, ID: now.ID}):
			continue
		}
		back, err := history.IsAncestor(ctx, p.objects, now.ID, ref.ID)
		if back {
			return fmt.Sprintf("the branch %q is at %s there, and was seen later at %s", branch, now.ID.Short(), ref.ID.Short()), nil
		}
		if err != nil && ctx.Err() != nil {
			return "", err
		}
	}
	return "", nil
}
