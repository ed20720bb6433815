package repair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/stash"
)

// repairIndex rebuilds a damaged index from HEAD's tree. Staged changes are
// lost.
func (p *repairer) repairIndex(ctx context.Context, report *gc.Report) (bool, error) {
	if !slices.ContainsFunc(report.Problems, func(problem *gc.Problem) bool { return damagedFile(problem) == indexFile }) {
		return false, nil
	}

	head, err := compare.HeadTree(ctx, p.repo)
	idx := index.New()
	if err == nil {
		err = index.ReadTreeIn(ctx, idx, compare.NewKnown(p.repo.Objects()), head, p.repo.Config().Cone())
	}
	if err != nil && !p.o.DryRun || !p.isFirstTry(indexFile) { // HEAD must be repaired first
		return false, ctx.Err()
	}
	if !p.o.DryRun {
		replaced, err := index.Replace(ctx, p.repo.Dir(), idx, func(names []string) error {
			for _, name := range names {
				if err := p.quarantineFile(name); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || !replaced {
			return false, err
		}
	}

	p.addLossy(indexFile, "rebuilt from HEAD: changes that were staged and not committed are only in the worktree")
	return true, nil
}

// addRepaired adds a repaired file to the result.
func (p *repairer) addRepaired(file, how string) {
	p.mended[file] = true
	p.result.Repaired = append(p.result.Repaired, Repaired{File: file, How: how})
}

// addLossy adds a repaired file that is no longer as it was.
func (p *repairer) addLossy(file, how string) {
	p.mended[file] = true
	p.result.Repaired = append(p.result.Repaired, Repaired{File: file, How: how, Loses: true})
}

// repairRefs repairs the files of refs, HEAD and logs, and the message files
// of commands.
func (p *repairer) repairRefs(ctx context.Context, report *gc.Report) (did bool, err error) {
	for _, problem := range report.Problems {
		file := damagedFile(problem)
		if !errors.Is(problem.Err, refs.ErrDamaged) || p.tried[file] {
			continue
		}
		fixed, err := p.repairRef(ctx, file)
		if err != nil {
			return did, err
		}
		if fixed {
			p.tried[file], did = true, true
		}
	}

	return did || len(p.extra) > 0, nil
}

func (p *repairer) repairRef(ctx context.Context, file string) (bool, error) {
	if name, ok := strings.CutPrefix(file, "logs/"); ok {
		return p.repairLog(ctx, name)
	}
	if strings.HasSuffix(file, "_MSG") {
		return p.discardFile(ctx, file, "removed: the operation that it belongs to cannot go on")
	}

	id, target, how := p.originalValue(ctx, file)
	if len(p.extra) > 0 {
		return false, nil // after these commits are fetched, more may be known
	}
	if id.IsZero() && target == "" {
		if strings.HasPrefix(file, refs.Remotes) {
			return p.discardFile(ctx, file, "removed: 'kist fetch' writes it again")
		}
		if file == refs.OrigHead || file == refs.FetchHead {
			return p.discardFile(ctx, file, "removed: it only helps to find a commit")
		}
		return false, nil // the damaged file stays, so that gc removes nothing
	}
	if p.o.DryRun {
		p.addRepaired(file, how)
		return true, nil
	}
	if err := p.quarantineFile(file); err != nil {
		return false, err
	}
	if err := p.setRef(ctx, file, id, target); err != nil {
		return false, err
	}

	if strings.HasSuffix(how, headUnknown) {
		p.addLossy(file, how)
	} else {
		p.addRepaired(file, how)
	}
	return true, nil
}

// headUnknown ends the description of a HEAD that was set without any hint.
const headUnknown = "the right one is unknown"

// repairReason is the reason that reflogs record for a repair.
const repairReason = "verify --repair"

// setRef rewrites a damaged or missing ref file.
func (p *repairer) setRef(ctx context.Context, file string, id object.ID, target string) error {
	return p.repo.Publish(ctx, func(tx *kist.Tx) {
		switch {
		case file == "HEAD":
			branch, _ := refs.BranchOf(target)
			tx.SetHead(refs.Head{Branch: branch, ID: id}, repairReason)
		case !strings.HasPrefix(file, "refs/"):
			tx.SetSpecial(file, id)
		case target != "":
			tx.NoteStep(func(ctx context.Context) error { return p.repo.Refs().SetRemoteHead(ctx, file, target) })
		default:
			tx.NoteStep(func(ctx context.Context) error {
				err := p.repo.Refs().Repair(ctx, file, id, p.repo.Who(), repairReason)
				if errors.Is(err, refs.ErrMoved) {
					return nil // another process repaired it
				}
				return err
			})
		}
	})
}

// originalValue returns the former value of a damaged file: an ID, or the target of
// a symbolic ref. How describes the source of the value in words. All results
// are empty if the value is unknown.
func (p *repairer) originalValue(ctx context.Context, file string) (id object.ID, target, how string) {
	if id, target, ok := p.repo.Refs().Guess(file); ok && (target != "" || p.findsCommit(ctx, id)) {
		return id, target, "one bit of it had changed"
	}

	switch {
	case file == "HEAD":
		return p.originalHead(ctx)
	case !strings.HasPrefix(file, "refs/") || file != refs.Stash && refs.CheckName(file) != nil:
		return id, "", ""
	}

	if log, err := p.repo.Refs().Log(file); err == nil && len(log) > 0 && p.findsCommit(ctx, log[0].New) {
		return log[0].New, "", fmt.Sprintf("set to %s, the last commit in its log", log[0].New.Short())
	}
	if branch, ok := refs.BranchOf(file); ok {
		for _, tracking := range p.remoteCounterparts(branch) {
			if id, err := p.repo.Refs().Get(tracking); err == nil && p.findsCommit(ctx, id) {
				return id, "", fmt.Sprintf("set to %s, the commit of %s", id.Short(), strings.TrimPrefix(tracking, refs.Remotes))
			}
		}
	}
	if strings.HasPrefix(file, refs.Tags) {
		return p.originalTag(ctx, file)
	}

	return id, "", ""
}

// remoteCounterparts returns the remote-tracking branches that may show where a
// branch was. Its upstream comes first.
func (p *repairer) remoteCounterparts(branch string) (list []string) {
	if u, err := kist.UpstreamOf(p.repo, branch); err == nil {
		list = append(list, u.Tracking())
	}
	for _, m := range registry.All(p.repo) {
		list = append(list, refs.Remotes+m.Name+"/"+branch)
	}
	return list
}

// originalTag reads the value of a tag from the remotes.
func (p *repairer) originalTag(ctx context.Context, file string) (id object.ID, target, how string) {
	sources, err := p.openRemotes(ctx)
	if err != nil {
		return id, "", ""
	}

	for _, s := range sources {
		head, err := s.remote.Head(ctx)
		if err != nil {
			p.repo.Options().Warn(fmt.Sprintf("remote %q: %v", s.name, err))
			continue
		}
		if key, ok := head.Refs[file]; ok && p.findsCommit(ctx, key.ID) {
			return key.ID, "", fmt.Sprintf("set to %s, its value on the remote %q", key.ID.Short(), s.name)
		}
	}

	return id, "", ""
}

// originalHead returns the former value of HEAD. It tries, in this order: the
// last checkout in HEAD's log, the one branch at the last commit of HEAD's
// log, the only branch, the default branch.
func (p *repairer) originalHead(ctx context.Context) (id object.ID, target, how string) {
	list, err := p.repo.Refs().List(refs.Heads)
	if err != nil {
		return id, "", "" // branches must be repaired first
	}

	branches := map[string]object.ID{}
	for _, ref := range list {
		branches[ref.Name] = ref.ID
	}

	log, logErr := p.repo.Refs().Log("HEAD")
	onto := ""
	if i := slices.IndexFunc(log, func(e refs.LogEntry) bool { return refs.CheckedOut(e.Reason) != "" }); i >= 0 && logErr == nil {
		onto = refs.CheckedOut(log[i].Reason)
	}
	if _, ok := branches[refs.Heads+onto]; ok {
		return id, refs.Heads + onto, fmt.Sprintf("set to the branch %q, the last checkout in its log", onto)
	}
	if detached, err := object.ParseID(onto); err == nil && p.hasCommit(ctx, log[0].New) && !detached.IsZero() {
		return log[0].New, "", fmt.Sprintf("detached at %s, the last commit in its log", log[0].New.Short())
	}

	var there []string
	for name, at := range branches {
		if len(log) > 0 && at == log[0].New {
			there = append(there, name)
		}
	}

	if len(there) == 1 {
		return id, there[0], fmt.Sprintf("set to the branch %q, where HEAD's log ends", strings.TrimPrefix(there[0], refs.Heads))
	}
	if len(list) == 1 {
		return id, list[0].Name, fmt.Sprintf("set to the only branch, %q", strings.TrimPrefix(list[0].Name, refs.Heads))
	}
	if _, ok := branches[refs.Heads+kist.DefaultBranch]; ok || len(list) == 0 {
		return id, refs.Heads + kist.DefaultBranch, fmt.Sprintf("set to the branch %q: %s", kist.DefaultBranch, headUnknown)
	}

	return id, "", ""
}

// findsCommit reports whether a commit that a damaged file may name can be
// read. If not, it adds the commit to the objects to restore, because perhaps
// nothing else refers to it. The next pass tries the file again.
func (p *repairer) findsCommit(ctx context.Context, id object.ID) bool {
	if p.hasCommit(ctx, id) {
		return true
	}
	if !id.IsZero() && !p.o.DryRun && p.isFirstTry("commit "+id.String()) {
		p.extra = append(p.extra, object.Key{Kind: object.KindCommit, ID: id}, object.Key{Kind: object.KindTag, ID: id})
	}
	return false
}

// hasCommit reports whether a commit or annotated tag can be read.
func (p *repairer) hasCommit(ctx context.Context, id object.ID) bool {
	if id.IsZero() {
		return false
	}
	if p.o.DryRun && p.wouldHave(id) {
		return true
	}
	if _, err := object.ReadCommit(ctx, p.repo.Objects(), id); err == nil {
		return true
	}
	_, err := object.ReadTag(ctx, p.repo.Objects(), id)
	return err == nil
}

// repairLog repairs a log as far as its lines, their neighbours and the ref show the
// commits.
func (p *repairer) repairLog(ctx context.Context, name string) (bool, error) {
	file := "logs/" + name
	if p.o.DryRun {
		p.addRepaired(file, "restored as far as its other lines show the commits")
		return true, nil
	}
	if err := p.quarantineFile(file); err != nil {
		return false, err
	}

	now := p.repo.Options().Date()
	done, err := p.repo.Refs().RepairLog(ctx, name, func(e *refs.LogEntry) bool { return fillEntry(ctx, p.repo, name, now, e) })
	if err != nil {
		if errors.Is(err, object.ErrCorrupt) {
			err = nil // no line can be read
		}
		return false, err
	}
	if done == (refs.LogRepair{}) {
		return false, nil // another process repaired it, or nothing shows the commits
	}

	how := describeLog(name, done)
	if done.Loses() {
		p.addLossy(file, how)
	} else {
		p.addRepaired(file, how)
	}
	return true, nil
}

// fillEntry completes an entry of a log that a repair rebuilds. A stash has all that the
// entry had in its commit. An entry of the stash's log that names no stash is no stash.
func fillEntry(ctx context.Context, r *kist.Repository, name string, now time.Time, e *refs.LogEntry) bool {
	if e.Time.IsZero() {
		e.Time = now
	}
	e.Reason = repairReason
	if name != refs.Stash {
		return true
	}
	parts, err := stash.Read(ctx, r, e.New)
	if err != nil {
		return false
	}
	by := parts.Stash.Committer
	e.Who, e.Time, e.Reason = refs.Who{Name: by.Name, Email: by.Email}, by.When(), parts.Stash.Subject()
	return true
}

// describeLog says in words how a log was repaired, and which lines are lost.
func describeLog(name string, done refs.LogRepair) string {
	lines := func(n int, is, are string) string {
		if n == 1 {
			return "1 line " + is
		}
		return fmt.Sprintf("%d lines %s", n, are)
	}

	var how []string
	if done.Restored > 0 {
		how = append(how, "one bit of it had changed")
	}
	if done.Rebuilt > 0 {
		how = append(how, lines(done.Rebuilt, "is", "are")+" rebuilt from the commits around it")
	}
	if done.Dropped > 0 {
		how = append(how, lines(done.Dropped, "is", "are")+" lost")
	}
	if done.Cut {
		how = append(how, "lines were lost: it leads to the present commit again")
	}
	if name == refs.Stash && (done.Dropped > 0 || done.Cut) {
		how = append(how, "each lost line was a stash")
	}
	return strings.Join(how, "; ")
}

// discardFile moves a file that cannot be repaired to the quarantine.
func (p *repairer) discardFile(ctx context.Context, file, how string) (bool, error) {
	if !p.o.DryRun {
		did, err := p.repo.Refs().Discard(ctx, file, func() (bool, error) { return true, p.quarantineFile(file) })
		if err != nil || !did {
			return false, err
		}
	}
	p.addLossy(file, how)
	return true, nil
}
