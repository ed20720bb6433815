package repair

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
	"github.com/kist-vcs/kist/remote/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// repairRemoteState repairs the local files about remotes. It comes before all
// steps that read from remotes.
func (p *repairer) repairRemoteState(ctx context.Context) error {
	for _, m := range registry.All(p.repo) {
		problems, err := gc.CheckRemoteState(ctx, p.repo, m)
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

// repairState repairs one local file about a remote, if possible. Otherwise
// verify reports it at the end.
func (p *repairer) repairState(ctx context.Context, m registry.Remote, problem *gc.Problem) error {
	var damage *object.DamageError
	if !errors.Is(problem.Err, transfer.ErrState) || !errors.As(problem.Err, &damage) {
		return nil
	}

	keep := func() error { return p.quarantine(problem.Where) }
	how, err := transfer.RepairState(ctx, registry.Dir(p.repo, m.Name), damage, p.o.DryRun, keep)
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

// rebuildHead replaces the damaged copy of a remote's head by the remote's
// present head. It returns a description of the repair, or "" if it did
// nothing. It does not trust a remote that seems to have been rolled back,
// unless AcceptLoss is set.
func (p *repairer) rebuildHead(ctx context.Context, m registry.Remote, keep func() error) (how string, err error) {
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
			p.repo.Options().Warn(fmt.Sprintf("remote %q: %v", m.Name, err))
			return "", ctx.Err()
		}
		rolled, err := p.rolledBack(ctx, m.Name, head)
		if err != nil {
			return "", err
		}
		if rolled != "" && !p.o.AcceptLoss {
			p.repo.Options().Warn(fmt.Sprintf("remote %q seems to have been rolled back, so kist does not trust its head: %s", m.Name, rolled))
			return "", nil
		}
		how = fmt.Sprintf("rebuilt from the remote, which is at root %d now; a rollback before that would not be noticed", head.Seq)
		return how, s.remote.RebuildHead(ctx, head, p.o.DryRun, keep)
	}

	return "", nil
}

// rolledBack describes a branch that is missing on the remote, or at an
// earlier commit than the remote-tracking branch. It returns "" if there is
// none. A branch that others deleted or moved back by force looks the same.
func (p *repairer) rolledBack(ctx context.Context, name string, head *rootlog.State) (string, error) {
	prefix := refs.Remotes + name + "/"
	list, err := p.repo.Refs().List(prefix)
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
			return fmt.Sprintf("the branch %q is missing there, and was at %s before", branch, ref.ID.Short()), nil
		case now.ID == ref.ID:
			continue
		}
		back, err := history.IsAncestor(ctx, p.repo.Objects(), now.ID, ref.ID)
		if back {
			return fmt.Sprintf("the branch %q is at %s there, and was at the later %s before", branch, now.ID.Short(), ref.ID.Short()), nil
		}
		if err != nil && ctx.Err() != nil { // other errors: the remote has commits that are not here
			return "", err
		}
	}

	return "", nil
}
