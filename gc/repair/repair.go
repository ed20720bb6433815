// Package repair restores damaged and missing data of a repository.
package repair

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/registry"
	"github.com/kist-vcs/kist/tree/index"
)

// Options say how [Run] works.
type Options struct {
	// Remotes are the names of those that good copies are taken from; nil: all.
	Remotes []string

	// AcceptLoss goes on without what nothing can restore. Damaged records are
	// replaced by those of them that can be read: what was held may be collected
	// as garbage then, and what had expired seems to be missing. The head of a
	// remote that was set back is taken as it is now. Objects that are missing
	// need not be there any more.
	AcceptLoss bool

	DryRun     bool                    // only show what would be done
	SingleHost bool                    // see [volume.MaintainOptions]
	Checking   func(volume.Checked)    // told how far the stored data has been read; may be nil
	Following  func(nodes int)         // told how far history has been followed; may be nil
	Restoring  func(done, total int64) // told how many objects were stored anew, of those that are damaged; may be nil
}

// Repaired is something that was repaired, or in a dry run would be.
type Repaired struct {
	Key  object.Key // the object; zero: it is a file
	File string     // below the .kist folder, with slashes; empty: it is an object
	How  string     // in words: where from, and what was lost of it
}

// Quarantined is a file or folder that was damaged.
type Quarantined struct {
	File string // where it was, below the .kist folder
	To   string // where it, or a copy of it, is now; empty in a dry run
}

// Result tells what came of a repair.
type Result struct {
	Found       *gc.Report // what there was before
	Repaired    []Repaired
	Quarantined []Quarantined
	Lost        []*gc.Problem // what is still damaged or missing
	Accepted    []*gc.Problem // objects whose loss is accepted from now on
}

// Run verifies the repository, with all stored data, and repairs what is
// damaged: records and objects first, then the index, then refs. Objects come from other
// volumes, from remotes, from the worktree and the index. Volumes are replaced by new ones
// with all that is whole in them. What was damaged is moved to the folder
// quarantine, nothing is deleted. It can be stopped at any moment, and run again.
//
// The error is [disk.ErrBusy] if another process removes volumes; it matches
// ErrNoRemote if one of the remotes is not configured. That something stays lost
// is no error.
func Run(ctx context.Context, r *kist.Repository, o Options) (*Result, error) {
	for _, name := range o.Remotes {
		if _, err := registry.Find(r, name); err != nil {
			return nil, err
		}
	}
	volumes, err := r.Objects().Repair(ctx, volume.RepairOptions{
		MaintainOptions: volume.MaintainOptions{SingleHost: o.SingleHost}, DryRun: o.DryRun,
	})
	if err != nil {
		return nil, err
	}
	defer volumes.Close()
	p := &repairer{
		repo: r, o: o, stores: volumes, result: &Result{},
		how: map[object.Key]string{}, found: map[object.Key]bool{}, tried: map[any]bool{}, mended: map[string]bool{},
	}
	defer p.close()
	check := gc.VerifyOptions{Volumes: volume.CheckOptions{ReadData: true, Progress: o.Checking}, Progress: o.Following}
	for _, first := range []func(context.Context) error{p.repairLostList, p.repairRemoteState, p.repairRecords} {
		if err := first(ctx); err != nil {
			return nil, err
		}
	}
	for {
		report, err := p.verify(ctx, check)
		if err != nil {
			return nil, err
		}
		p.note(report)
		did, err := p.pass(ctx, report)
		if err != nil {
			return nil, err
		}
		if !did || o.DryRun {
			p.end(report)
			return p.result, p.acceptLoss(ctx)
		}
		check.Volumes.ReadData = false // what was written since was read back
	}
}

// repairer is a repair under way.
type repairer struct {
	repo   *kist.Repository
	o      Options
	stores *volume.Repair
	result *Result

	order   []object.Key          // objects that were found to be damaged or missing
	found   map[object.Key]bool   // the same
	how     map[object.Key]string // how they were restored
	extra   []object.Key          // lost with a volume, whether or not they are needed
	tried   map[any]bool          // objects and files
	mended  map[string]bool       // files, in a dry run: of those nothing is lost
	sources []*source             // remotes; nil: not opened yet
	aside   string                // the folder for files, below .kist; empty: none was needed yet
	damage  []*gc.Problem         // of files that were replaced before the first report
	unsure  bool                  // records were lost: missing objects may have expired
	view    *record.View          // in a dry run: what the records would say that replace them
}

// note takes down which objects are damaged.
func (p *repairer) note(report *gc.Report) {
	if p.result.Found == nil {
		p.result.Found = p.withReplaced(report)
		for _, healed := range report.Healed {
			p.noteKey(healed.Key)
		}
	}
	for _, problem := range report.Problems {
		p.noteKey(problem.Key)
	}
}

// withReplaced returns a report that names files, too, that were replaced before
// it was made.
func (p *repairer) withReplaced(report *gc.Report) *gc.Report {
	all := *report
	all.Problems = append(slices.Clip(p.damage), report.Problems...)
	return &all
}

func (p *repairer) noteKey(key object.Key) {
	if !key.IsZero() && !p.found[key] {
		p.found[key] = true
		p.order = append(p.order, key)
	}
}

// try reports whether something was not tried before.
func (p *repairer) try(what any) bool {
	first := !p.tried[what]
	p.tried[what] = true
	return first
}

// pass repairs what it can of what a report tells. It reports whether it did
// something, which may make more possible.
func (p *repairer) pass(ctx context.Context, report *gc.Report) (did bool, err error) {
	if did, err = p.repairVolumes(ctx, report); err != nil || did && !p.o.DryRun {
		return did, err // then it is known what is lost
	}
	for _, step := range []func(context.Context, *gc.Report) (bool, error){p.repairObjects, p.repairIndex, p.repairRefs} {
		more, err := step(ctx, report)
		if err != nil {
			return did, err
		}
		did = did || more
	}
	return did, nil
}

// repairVolumes replaces volumes in which something is damaged.
func (p *repairer) repairVolumes(ctx context.Context, report *gc.Report) (did bool, err error) {
	names := slices.DeleteFunc(slices.Clone(report.Damaged), func(name string) bool { return !p.try("volumes/" + name) })
	if len(names) == 0 {
		return false, nil
	}
	list, err := p.rebuild(ctx, names)
	if err != nil {
		return false, err
	}
	names = names[:0]
	for _, v := range list {
		file := "volumes/" + v.Volume
		if v.Err != nil {
			p.repo.Options().Warn(fmt.Sprintf("%s is left as it is: %v", file, v.Err))
			continue
		}
		p.extra = append(p.extra, v.Lost...)
		names = append(names, v.Volume)
		p.result.Repaired = append(p.result.Repaired, Repaired{File: file, How: rebuilt(v)})
		if p.o.DryRun {
			p.mended[file] = true
			p.result.Quarantined = append(p.result.Quarantined, Quarantined{File: file})
		}
	}
	for _, key := range p.extra {
		p.noteKey(key)
	}
	if p.o.DryRun || len(names) == 0 {
		return len(names) > 0, nil
	}
	moved, err := p.stores.Quarantine(ctx, names)
	for _, to := range moved {
		p.result.Quarantined = append(p.result.Quarantined, Quarantined{File: "volumes/" + path.Base(to), To: to})
	}
	return true, err
}

// rebuild has volumes rebuilt, and once more if something that is lost with them
// was found elsewhere: what they have as patches of that is then whole again.
func (p *repairer) rebuild(ctx context.Context, names []string) ([]volume.Rebuilt, error) {
	list, err := p.stores.Rebuild(ctx, names)
	if err != nil || p.o.DryRun {
		return list, err
	}
	var lost []object.Key
	for _, v := range list {
		lost = append(lost, v.Lost...)
	}
	for _, key := range lost {
		p.noteKey(key)
	}
	if did, err := p.restore(ctx, lost); !did || err != nil {
		return list, err
	}
	again, err := p.stores.Rebuild(ctx, names)
	for i := range again {
		again[i].Copied += list[i].Copied
	}
	return again, err
}

// rebuilt says in words what became of a volume.
func rebuilt(v volume.Rebuilt) string {
	how := "what is whole in it is in other volumes"
	if v.Copied > 0 {
		how = fmt.Sprintf("replaced by a new volume with the %d objects that are whole", v.Copied)
	}
	if len(v.Lost) > 0 {
		how += fmt.Sprintf("; damaged: %d", len(v.Lost))
	}
	return how
}

// end tells what came of it, now that a last report is there.
func (p *repairer) end(report *gc.Report) {
	still := map[object.Key]bool{}
	for _, problem := range report.Problems {
		if p.o.DryRun && p.wouldMend(problem) {
			continue
		}
		still[problem.Key] = true
		p.result.Lost = append(p.result.Lost, problem)
	}
	var objects []Repaired
	for _, key := range p.order {
		if still[key] {
			continue
		}
		how, restored := p.how[key]
		if !restored {
			if _, err := p.repo.Objects().Get(context.Background(), key); err != nil && !p.stores.Found(key) {
				continue // nothing needs it
			}
			how = "from another copy here"
		}
		objects = append(objects, Repaired{Key: key, How: how})
	}
	p.result.Repaired = append(objects, p.result.Repaired...)
}

// wouldMend reports whether a dry run has found a way to repair something.
func (p *repairer) wouldMend(problem *gc.Problem) bool {
	if !problem.Key.IsZero() {
		return p.how[problem.Key] != "" || p.stores.Found(problem.Key) || problem.Key.Kind == object.KindCommit && p.wouldHave(problem.Key.ID)
	}
	file := damagedFile(problem)
	if volume, ok := strings.CutPrefix(file, "volumes/"); ok {
		name, _, _ := strings.Cut(volume, "/")
		return p.mended["volumes/"+name]
	}
	return p.mended[file]
}

// wouldHave reports whether a dry run has found a good copy of a commit, or of an
// annotated tag.
func (p *repairer) wouldHave(id object.ID) bool {
	return slices.ContainsFunc([]object.Kind{object.KindCommit, object.KindTag}, func(kind object.Kind) bool {
		key := object.Key{Kind: kind, ID: id}
		return p.how[key] != "" || p.stores.Found(key)
	})
}

// damagedFile returns the file, below the .kist folder, that a problem is about;
// "" if it is about none.
func damagedFile(problem *gc.Problem) string {
	var ref *refs.CorruptError
	var idx *index.CorruptError
	switch {
	case !problem.Key.IsZero():
		return ""
	case errors.As(problem.Err, &ref):
		return ref.File
	case errors.As(problem.Err, &idx):
		return indexFile
	case kist.IsRecordDamage(problem.Err):
		return record.File
	}
	return problem.Where
}

// indexFile is what the files of the index are called together.
const indexFile = "index"
