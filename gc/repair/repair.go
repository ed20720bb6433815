// Package repair restores damaged and missing data of a repository.
package repair

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/tree/index"
)

// Options configure [Run].
type Options struct {
	// Remotes are the names of the remotes to take intact copies from; nil
	// means all.
	Remotes []string

	// AcceptLoss continues without data that cannot be restored. Damaged
	// records are replaced by the readable ones, so gc may remove content that
	// was held, and content that had expired may look missing. The present
	// head of a rolled-back remote is trusted. Missing objects become accepted
	// losses.
	AcceptLoss bool

	DryRun     bool                    // only report what Run would do
	SingleHost bool                    // see [volume.MaintainOptions]
	Checking   func(volume.Checked)    // receives the progress of reading stored data; may be nil
	Following  func(nodes int)         // receives the number of nodes followed; may be nil
	Restoring  func(done, total int64) // receives the number of restored and of damaged objects; may be nil
}

// Repaired is an object or file that was repaired, or would be.
type Repaired struct {
	Key  object.Key // the object; zero for a file
	File string     // slash-separated path below the .kist folder; empty for an object
	How  string     // in words: the source, and the loss

	// Loses reports that a part is lost for good, or unknown. How names it.
	Loses bool
}

// Quarantined is a damaged file or folder that was set aside.
type Quarantined struct {
	File string `json:"file" doc:"its former path, below .kist"`
	To   string `json:"to,omitempty" doc:"its path now, below .kist"`
}

// Result is the result of a repair.
type Result struct {
	Found       *gc.Report // before the repair
	Repaired    []Repaired
	Quarantined []Quarantined
	Lost        []*gc.Problem // still damaged or missing
	Accepted    []*gc.Problem // objects whose loss is accepted from now on
}

// Run verifies the repository, with all stored data, and repairs the damage:
// records and objects first, then the index, then refs. Intact copies come
// from other volumes, remotes, the worktree and the index. A damaged volume is
// replaced by a new one with its intact objects. Damaged files are moved to
// the quarantine; nothing is deleted. Run can be stopped at any moment and
// repeated.
//
// The error is [disk.ErrBusy] if another process removes volumes. It matches
// ErrNoRemote if one of o.Remotes is not configured. Damage that remains is in
// the result and no error.
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
		records, damage := p.currentRecords()
		report, err := gc.VerifyBy(ctx, r, records, damage, check)
		if err != nil {
			return nil, err
		}
		problems, err := checkFiles(ctx, r, check)
		if err != nil {
			return nil, err
		}
		report.Problems = append(report.Problems, problems...)
		p.noteDamage(report)
		did, err := p.repairOnce(ctx, report)
		if err != nil {
			return nil, err
		}
		if !did || o.DryRun {
			p.completeResult(report)
			return p.result, p.acceptLoss(ctx)
		}
		check.Volumes.ReadData = false // everything written since was read back
	}
}

// repairer is the state of one repair.
type repairer struct {
	repo   *kist.Repository
	o      Options
	stores *volume.Repair
	result *Result

	order         []object.Key          // damaged and missing objects, as they were found
	found         map[object.Key]bool   // the objects in order
	how           map[object.Key]string // how objects were restored, in words
	extra         []object.Key          // objects to restore, whether or not they are reachable
	tried         map[any]bool          // keys and file names that need no second attempt
	mended        map[string]bool       // repaired files, which a dry run does not report as lost
	sources       []*remoteSource       // remotes; nil: not opened yet
	quarantineDir string                // the quarantine folder, below .kist; empty: not made yet
	damage        []*gc.Problem         // problems that were repaired before the first report
	unsure        bool                  // records were lost: missing objects may have expired
	dryRecords    *record.Effects       // in a dry run: the records that would replace damaged ones
}

// noteDamage remembers the damaged objects of a report.
func (p *repairer) noteDamage(report *gc.Report) {
	if p.result.Found == nil {
		found := *report
		found.Problems = append(slices.Clip(p.damage), report.Problems...)
		p.result.Found = &found
		for _, healed := range report.Healed {
			p.noteKey(healed.Key)
		}
	}
	for _, problem := range report.Problems {
		p.noteKey(problem.Key)
	}
}

func (p *repairer) noteKey(key object.Key) {
	if !key.IsZero() && !p.found[key] {
		p.found[key] = true
		p.order = append(p.order, key)
	}
}

// isFirstTry reports whether this is the first attempt on a key or file.
func (p *repairer) isFirstTry(what any) bool {
	first := !p.tried[what]
	p.tried[what] = true
	return first
}

// repairOnce repairs as much of a report as it can. It reports whether it repaired
// anything: that may make more repairs possible.
func (p *repairer) repairOnce(ctx context.Context, report *gc.Report) (did bool, err error) {
	if did, err = p.repairVolumes(ctx, report); err != nil || did && !p.o.DryRun {
		return did, err // the next report shows the remaining losses
	}
	for _, step := range []func(context.Context, *gc.Report) (bool, error){p.repairObjects, p.repairIndex, p.repairRefs} {
		more, err := step(ctx, report)
		if err != nil {
			return did, err
		}
		did = did || more
	}
	more, err := repairViews(ctx, p, report)
	return did || more, err
}

// repairVolumes replaces damaged volumes.
func (p *repairer) repairVolumes(ctx context.Context, report *gc.Report) (did bool, err error) {
	names := slices.DeleteFunc(slices.Clone(report.Damaged), func(name string) bool { return !p.isFirstTry("volumes/" + name) })
	if len(names) == 0 {
		return false, nil
	}

	list, err := p.rebuildVolumes(ctx, names)
	if err != nil {
		return false, err
	}

	names = names[:0]
	for _, v := range list {
		file := "volumes/" + v.Volume
		if v.Err != nil {
			p.repo.Options().Warn(fmt.Sprintf("%s stays as it is: %v", file, v.Err))
			continue
		}
		p.extra = append(p.extra, v.Lost...)
		names = append(names, v.Volume)
		p.result.Repaired = append(p.result.Repaired, Repaired{File: file, How: describeRebuilt(v)})
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

// rebuildVolumes rebuilds volumes. It does so twice if it could restore lost objects
// from elsewhere: patches on these objects are then intact again.
func (p *repairer) rebuildVolumes(ctx context.Context, names []string) ([]volume.Rebuilt, error) {
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

	if did, err := p.restoreObjects(ctx, lost); !did || err != nil {
		return list, err
	}

	again, err := p.stores.Rebuild(ctx, names)
	for i := range again {
		again[i].Copied += list[i].Copied
	}

	return again, err
}

// describeRebuilt describes the repair of a volume.
func describeRebuilt(v volume.Rebuilt) string {
	how := "its intact objects are in other volumes"
	if v.Copied > 0 {
		how = fmt.Sprintf("replaced by a new volume with its %d intact objects", v.Copied)
	}
	if len(v.Lost) > 0 {
		how += fmt.Sprintf("; damaged: %d", len(v.Lost))
	}
	return how
}

// completeResult completes the result from the last report.
func (p *repairer) completeResult(report *gc.Report) {
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
				continue // unreachable, so its loss does not matter
			}
			how = "from another copy here"
		}
		objects = append(objects, Repaired{Key: key, How: how})
	}

	p.result.Repaired = append(objects, p.result.Repaired...)
}

// wouldMend reports whether a dry run found a way to repair a problem.
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

// wouldHave reports whether a dry run found an intact copy of a commit or
// annotated tag.
func (p *repairer) wouldHave(id object.ID) bool {
	return slices.ContainsFunc([]object.Kind{object.KindCommit, object.KindTag}, func(kind object.Kind) bool {
		key := object.Key{Kind: kind, ID: id}
		return p.how[key] != "" || p.stores.Found(key)
	})
}

// damagedFile returns the file that a problem is about, below the .kist
// folder, or "".
func damagedFile(problem *gc.Problem) string {
	var damage *object.DamageError
	switch {
	case !problem.Key.IsZero():
		return ""
	case errors.Is(problem.Err, index.ErrDamaged):
		return indexFile
	case errors.As(problem.Err, &damage) && (errors.Is(damage, refs.ErrDamaged) || errors.Is(damage, record.ErrDamaged)):
		return damage.Name
	}

	return problem.Where
}

// indexFile stands for all files of the index in results.
const indexFile = "index"

// acceptLoss accepts the loss of the objects that are still missing, if
// AcceptLoss is set. It does not if records were lost in this run, because the
// objects may have expired: a person should look first. It also removes
// restored objects from the list of losses.
func (p *repairer) acceptLoss(ctx context.Context) error {
	if p.o.AcceptLoss && !p.unsure {
		missing := func(problem *gc.Problem) bool {
			return !problem.Key.IsZero() && errors.Is(problem.Err, object.ErrNotFound)
		}
		for _, problem := range p.result.Lost {
			if missing(problem) {
				p.result.Accepted = append(p.result.Accepted, problem)
			}
		}
		p.result.Lost = slices.DeleteFunc(p.result.Lost, missing)
	}
	if p.o.DryRun {
		return nil
	}

	before, err := kist.ReadLost(p.repo.Dir())
	if err != nil {
		return err
	}

	lost, err := p.repo.Objects().Lost(ctx)
	if err != nil || len(lost) == len(before) && len(p.result.Accepted) == 0 {
		return err
	}

	for _, problem := range p.result.Accepted {
		lost = append(lost, problem.Key)
	}

	if len(lost) == 0 {
		return disk.Remove(p.absPath(kist.LostFile))
	}

	p.repo.Objects().SetLost(lost)
	return disk.WriteFile(p.absPath(kist.LostFile), kist.EncodeLost(lost))
}

// quarantineFile copies a file into the quarantine folder, so that a wrong repair
// can be undone. File is a path below the .kist folder. It does nothing if the
// file does not exist.
func (p *repairer) quarantineFile(file string) error {
	if _, err := disk.Lstat(p.absPath(file)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if p.quarantineDir == "" {
		if err := p.makeQuarantine(); err != nil {
			return err
		}
	}
	to := p.quarantineDir + "/" + file
	if err := copyFile(p.absPath(file), p.absPath(to)); err != nil {
		return err
	}
	p.result.Quarantined = append(p.result.Quarantined, Quarantined{File: file, To: to})
	return nil
}

// absPath returns the path of a file below the .kist folder.
func (p *repairer) absPath(file string) string {
	return filepath.Join(p.repo.Dir(), filepath.FromSlash(file))
}

// makeQuarantine makes the quarantine folder of this repair.
func (p *repairer) makeQuarantine() error {
	if err := disk.MakeDir(p.absPath(volume.QuarantineDir)); err != nil {
		return err
	}

	base := volume.QuarantineDir + "/files-" + p.repo.Options().Now().UTC().Format("20060102T150405Z")
	for name := base; ; name += "x" {
		err := disk.Mkdir(p.absPath(name), 0o777)
		if err == nil {
			p.quarantineDir = name
			return disk.SyncDir(p.absPath(volume.QuarantineDir))
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// copyFile copies a regular file durably to a new path. It moves anything
// else.
func copyFile(from, to string) error {
	dir, name := filepath.Split(to)
	if err := disk.MakeDir(filepath.Clean(dir)); err != nil {
		return err
	}

	info, err := disk.Lstat(from)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return disk.Rename(from, to)
	}

	f, err := disk.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()

	return disk.Write(dir, name+".tmp", func(w io.Writer) (string, error) {
		_, err := io.Copy(w, f)
		return name, err
	})
}
