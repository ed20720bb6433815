package exchange

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// EvictOptions say what [Evict] gives away.
type EvictOptions struct {
	Remote string // the remote to begin with; default: [registry.Default]
	Copies int    // the number of remotes that must keep a chunk; 0: one

	Below  []object.Key // only chunks below these objects; nil: all
	Before time.Time    // only chunks in volumes that were sealed before; zero: all
	Limit  int64        // stop when the store has at most so many bytes; 0: give all away
	Small  bool         // also content of files that are smaller than 1 MiB; Below and Volumes imply it
	Verify bool         // read each chunk from each remote before

	// Volumes are names of volumes whose chunks are given away whether or not a commit needs them, and
	// no others. The keep refs name these chunks. MergeAfter is that of [gc.EvictOptions].
	Volumes    []string
	MergeAfter string
	Ahead      *EarlyPush // see [PushOptions]
	Jobs       int

	DryRun   bool // only count, by the present commits of the remotes
	Progress func(bytes int64)
}

// EvictResult is the result of [Evict].
type EvictResult struct {
	gc.EvictStats
	Freed   int64    // bytes, less than those of the chunks if nodes were rewritten
	Left    int64    // bytes of the store afterwards
	Small   int64    // bytes of the content of small files that was left out, without Below, Volumes and Small of the options
	Remotes []string // that keep the chunks
	Sent    int64    // bytes, for the keep refs
}

// CopiesError means that fewer remotes than wanted keep the content.
type CopiesError struct {
	Want, Have int
	Errs       []error // why the others do not
}

func (e *CopiesError) Error() string {
	return fmt.Sprintf("%d of %d remotes keep the content: %v", e.Have, e.Want, errors.Join(e.Errs...))
}

// Unwrap returns the reasons.
func (e *CopiesError) Unwrap() []error { return e.Errs }

// Evict gives chunks away that remotes keep: it removes them here, and the store reads them from there. On
// each of o.Copies remotes, the keep ref must reach a chunk, a live pack must have it, and the file of that pack must be there
// with its size. Evict moves the keep refs first.
//
// Without o.Volumes, o.Below and o.Small, the content of small files stays. Without o.Volumes, Evict gives away only content that
// commits of the remotes need, and not what a hold protects here and not there. Nodes, damaged volumes, and volumes of running
// sessions stay.
//
// The error is a [*CopiesError] if there are not enough such remotes. It matches [ErrNoKeep] if one permits no keep ref, and
// [disk.ErrBusy] if another process moves keep refs or maintains the store.
func Evict(ctx context.Context, r *kist.Repository, o EvictOptions) (*EvictResult, error) {
	lock, err := lockKeep(ctx, r)
	if err != nil {
		return nil, err
	}
	defer lock.Unlock()
	e := &evictor{EvictOptions: o, repo: r, result: &EvictResult{}}
	defer e.close()

	before, err := r.Objects().Size(ctx)
	if err != nil {
		return nil, err
	}
	e.result.Left = before
	if o.Limit > 0 && before <= o.Limit {
		return e.result, nil
	}
	if err := e.moveKeeps(ctx); err != nil {
		return e.result, err
	}
	if err := e.prove(ctx); err != nil {
		return e.result, err
	}

	local := gc.EvictOptions{
		FindKept: e.findGivable, Volumes: o.Volumes, MergeAfter: o.MergeAfter, Before: o.Before, DryRun: o.DryRun, Progress: o.Progress,
	}
	if o.Limit > 0 {
		local.Excess = before - o.Limit
	}
	if e.result.EvictStats, err = gc.Evict(ctx, r.Objects(), local); err != nil || o.DryRun {
		return e.result, err
	}
	if e.result.Chunks > 0 {
		stage.RecordLent(ctx, r)
	}
	e.result.Left, err = r.Objects().Size(ctx)
	e.result.Freed = max(0, before-e.result.Left)
	return e.result, err
}

// evictor is a call of Evict.
type evictor struct {
	EvictOptions
	repo   *kist.Repository
	keeps  []*keeper // of the remotes that are to keep the content
	proofs []*proof
	below  *gc.Reach // of o.Below; nil: all
	large  *gc.Reach // from the manifests of large files; nil: small ones are given away, too
	held   *gc.Reach // by holds that a remote lacks; nil: nothing
	result *EvictResult
}

// close closes the remotes.
func (e *evictor) close() {
	for _, p := range e.proofs {
		p.reader.Close()
	}
}

// moveKeeps moves the keep refs on as many remotes as are wanted. The keep refs on other remotes
// no longer reach everything that is away.
func (e *evictor) moveKeeps(ctx context.Context) error {
	first := e.Remote
	if first == "" {
		var err error
		if first, err = registry.Default(e.repo); err != nil {
			return err
		}
	}
	all := registry.All(e.repo)
	if i := slices.IndexFunc(all, func(m registry.Remote) bool { return m.Name == first }); i > 0 {
		all = slices.Insert(slices.Delete(slices.Clone(all), i, i+1), 0, all[i])
	}

	missing := &CopiesError{Want: max(1, e.Copies)}
	ids := map[string]bool{} // a copy of a remote is no second remote
	for _, m := range all {
		if missing.Have == missing.Want {
			if err := e.forgetOthers(ctx, m.Name); err != nil {
				return err
			}
			continue
		}
		k := &keeper{repo: e.repo, name: m.Name, except: ids, giving: true, volumes: e.Volumes, jobs: e.Jobs, dryRun: e.DryRun}
		if m.Name == first {
			k.ahead = e.Ahead
		}
		err := k.move(ctx)
		if err == nil {
			missing.Have++
			e.keeps = append(e.keeps, k)
			e.result.Sent += k.sent
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		missing.Errs = append(missing.Errs, fmt.Errorf("%s: %w", m.Name, err))
		if err := e.forgetOthers(ctx, m.Name); err != nil {
			return err
		}
	}
	if missing.Have < missing.Want {
		return missing
	}
	return nil
}

// forgetOthers notes that the keep ref on a remote no longer reaches everything that is away.
func (e *evictor) forgetOthers(ctx context.Context, name string) error {
	dir := registry.Dir(e.repo, name)
	note := transfer.ReadKeep(dir)
	if note.ID == "" || e.DryRun {
		return nil
	}
	for i := range note.Commits {
		note.Commits[i].All = false
	}
	return transfer.WriteKeep(ctx, dir, note)
}

// proof shows which chunks a remote keeps, at a head that was read under the lock of the keep refs.
type proof struct {
	reader *transfer.Reader
	reach  *gc.Reach // from the keep commit
	verify bool
}

// prove reads the heads of the remotes (EVICT_KEPT).
func (e *evictor) prove(ctx context.Context) error {
	records, err := e.repo.RecordView()
	if err != nil {
		return err
	}
	var held []object.Key
	for _, k := range e.keeps {
		p, err := newProof(ctx, k, e.Verify)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		e.proofs = append(e.proofs, p)
		there := p.reader.State().Records.View()
		for _, id := range records.Holds() {
			if _, ok := there.Held(id); !ok {
				held = append(held, object.Key{Kind: object.KindCommit, ID: id})
			}
		}
		e.result.Remotes = append(e.result.Remotes, k.name)
	}

	// Everything counts that these may need, also what records exclude.
	all := (&record.Set{}).View()
	if len(e.Below) > 0 {
		if e.below, err = gc.NewReach(ctx, e.repo.Objects(), all, e.Below...); err != nil {
			return err
		}
	}
	if len(held) > 0 {
		if e.held, err = gc.NewReach(ctx, e.repo.Objects(), all, held...); err != nil {
			return err
		}
	}
	if !e.Small && len(e.Below) == 0 && len(e.Volumes) == 0 {
		err = e.findLarge(ctx)
	}
	return err
}

// errKeepMoved means that another process moved the keep ref after this one.
var errKeepMoved = errors.New("the keep ref was moved or deleted meanwhile")

// newProof reads the head of the remote of k.
func newProof(ctx context.Context, k *keeper, verify bool) (*proof, error) {
	opened, err := registry.OpenNamed(ctx, k.repo, k.name)
	if err != nil {
		return nil, err
	}
	p := &proof{verify: verify}
	if p.reader, err = transfer.NewReader(ctx, opened); err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	from := k.below
	if !k.dryRun {
		from = []object.Key{k.commit}
		if p.reader.State().Refs[k.note.Ref()] != k.commit {
			err = errKeepMoved
		}
	}
	if err == nil {
		p.reach, err = gc.NewReach(ctx, k.repo.Objects(), p.reader.State().Records.View(), from...)
	}
	if err != nil {
		return nil, errors.Join(err, p.reader.Close())
	}
	return p, nil
}

// findKept returns those of the chunks, in their order, that the remote keeps.
func (p *proof) findKept(ctx context.Context, chunks []object.Key) ([]object.Key, error) {
	chunks, err := filterReached(chunks, p.reach, true)
	if err != nil {
		return nil, err
	}
	unkept, err := p.reader.FindUnkept(ctx, chunks)
	if err != nil {
		return nil, err
	}
	lacks := make(map[object.Key]bool, len(unkept))
	for _, key := range unkept {
		lacks[key] = true
	}
	chunks = slices.DeleteFunc(chunks, func(key object.Key) bool { return lacks[key] })
	if !p.verify {
		return chunks, nil
	}

	var mu sync.Mutex // guards intact
	intact := make(map[object.Key]bool, len(chunks))
	err = p.reader.GetAll(ctx, chunks, func(key object.Key, _ []byte) error {
		mu.Lock()
		defer mu.Unlock()
		intact[key] = true
		return nil
	})
	return slices.DeleteFunc(chunks, func(key object.Key) bool { return !intact[key] }), err
}

// filterReached returns those of the chunks, in their order, for which reach.Has is want.
func filterReached(chunks []object.Key, reach *gc.Reach, want bool) (kept []object.Key, err error) {
	for _, chunk := range chunks {
		has, err := reach.Has(chunk)
		if err != nil {
			return nil, err
		}
		if has == want {
			kept = append(kept, chunk)
		}
	}
	return kept, nil
}

// findGivable returns those of the chunks, in their order, that may be given away.
func (e *evictor) findGivable(ctx context.Context, chunks []object.Key) (givable []object.Key, err error) {
	chunks, err = e.withoutSmall(ctx, chunks)
	if e.below != nil && err == nil {
		chunks, err = filterReached(chunks, e.below, true)
	}
	if e.held != nil && err == nil {
		chunks, err = filterReached(chunks, e.held, false)
	}
	for _, p := range e.proofs {
		if err != nil {
			break
		}
		chunks, err = p.findKept(ctx, chunks)
	}
	return chunks, err
}

// LocalLimit returns the settings local.limit, in bytes, and local.copies. 0: it is not set.
func LocalLimit(r *kist.Repository) (limit int64, copies int) {
	if text, ok := r.Config().Get(kist.KeyLocalLimit); ok {
		size, _ := kist.ParseSize(text) // the configuration was checked
		limit = int64(size)
	}
	if text, ok := r.Config().Get(kist.KeyLocalCopies); ok {
		copies, _ = strconv.Atoi(text)
	}
	return limit, copies
}

// EvictDue gives content away until the store has the size of the setting local.limit. The result is nil if the store is
// smaller, or if another process moves keep refs or maintains the store.
func EvictDue(ctx context.Context, r *kist.Repository) (*EvictResult, error) {
	limit, copies := LocalLimit(r)
	size, err := r.Objects().Size(ctx)
	if limit == 0 || size <= limit || err != nil {
		return nil, err
	}
	result, err := Evict(ctx, r, EvictOptions{Limit: limit, Copies: copies})
	if errors.Is(err, disk.ErrBusy) {
		return nil, nil
	}
	return result, err
}

// lastAway is the file below the .kist folder with the time of the last [MaintainAway].
const lastAway = "away.last"

// awayInterval is the shortest time between two calls of MaintainAway that [IsAwayDue] wants: the content may be unpushed,
// or the remote unreachable.
const awayInterval = time.Hour

// IsAwayDue reports whether [MaintainAway] has something to do. It is cheap.
func IsAwayDue(ctx context.Context, r *kist.Repository) bool {
	if data, err := disk.ReadFile(filepath.Join(r.Dir(), lastAway)); err == nil {
		last, err := time.Parse(time.RFC3339, strings.TrimSpace(string(data)))
		if since := r.Options().Now().Sub(last); err == nil && since >= 0 && since < awayInterval {
			return false
		}
	}
	if limit, _ := LocalLimit(r); limit > 0 && len(registry.All(r)) > 0 {
		if size, err := r.Objects().Size(ctx); err == nil && size > limit {
			return true
		}
	}
	due, err := dueKeeps(ctx, r)
	return err == nil && len(due) > 0
}

// MaintainAway gives content away as EvictDue does, and renews the keep refs that are a month old.
func MaintainAway(ctx context.Context, r *kist.Repository) error {
	if !IsAwayDue(ctx, r) {
		return nil
	}
	err := disk.WriteFile(filepath.Join(r.Dir(), lastAway), fmt.Appendln(nil, r.Options().Now().UTC().Format(time.RFC3339)))
	if err != nil {
		return err
	}
	_, err = EvictDue(ctx, r)
	names, derr := dueKeeps(ctx, r)
	err = errors.Join(err, derr)
	for _, name := range names {
		err = errors.Join(err, RenewKeep(ctx, r, name, nil))
	}
	return err
}
