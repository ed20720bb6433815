package transfer

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/remote/rootlog"
)

// DefaultJobs is how many requests are under way at once, unless options say
// otherwise.
const DefaultJobs = 4

// Options are the parts of its surroundings a Remote works with.
type Options struct {
	// Dir is the folder for the state of the remote: its head, copies of its index files,
	// the packs that an interrupted push has sent. All of it is bound to the remote's ID.
	// If another remote is at another URL, all of it is removed. Open makes the folder.
	// Empty: nothing is remembered. The Remote then only reads roots and single objects,
	// and keeps index files in memory.
	Dir string
	URL string // of the remote, without secrets

	Now  func() time.Time // the clock; must be set
	Rand io.Reader        // for names; nil: the system's
	Warn func(string)     // called with a problem that does not stop the work; nil: ignored

	// Retry are the options for retries while packs are put. Each attempt is under another
	// name, so the store's own wrapper (package retry) cannot do it. Without a clock it
	// has Now. Its Sleep is the root log's too.
	Retry retry.Options

	// SingleWriter confirms that no other client writes to the store, which does not
	// support concurrent writers. The first root records that.
	SingleWriter bool

	// Lock is how files are locked that are stored, if the store is a [remote.Locker]. An
	// age of 0: as the remote's roots require. A negative age: not at all. Roots note it.
	Lock remote.Lock

	Keys Keys // of encrypted remotes

	// Sign says how roots are signed and verified. With a Verifier, the roots of this Remote also require signatures of
	// all later writers.
	Sign rootlog.Signing

	// CopiedIndexes is how many bytes of index files are copied in full. Of more, only the needed parts are read
	// for operations that look for few objects. 0: [CopiedIndexes].
	CopiedIndexes int64

	IndexLimit int // entries of the largest index file that is written; 0: [IndexLimit]

	Jobs      int    // requests under way at once; 0: DefaultJobs
	Who, Host string // who pushes, and from where
}

func (o *Options) setDefaults() error {
	if o.Now == nil {
		return errors.New("open remote: Options.Now is not set")
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	o.Rand = &lockedReader{r: o.Rand}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	if o.Retry.Now == nil {
		o.Retry.Now = o.Now
	}
	if o.Jobs <= 0 {
		o.Jobs = DefaultJobs
	}
	o.CopiedIndexes = cmp.Or(o.CopiedIndexes, CopiedIndexes)
	o.IndexLimit = cmp.Or(o.IndexLimit, IndexLimit)
	return nil
}

// Remote is an opened remote. One operation at a time may use it; there may be
// any number of Remotes for one store, and for one folder.
type Remote struct {
	b     remote.Backend // encrypts, if the remote is encrypted
	o     Options
	id    *rootlog.Identity
	log   *rootlog.Log
	cache *cache

	indexes *IndexFiles
	values  *pack.Values
	damage  *Damage     // of the repair under way, or nil
	ahead   *EarlyPacks // for the next push, or nil
	inParts bool        // see LookUpInParts
	refused *refusedPacks

	encrypted *encrypted // nil: the remote is in clear
}

// Open opens the remote in b, which from then on belongs to the Remote. It
// writes nothing there. If no remote was made in b the error matches [rootlog.ErrEmpty].
// If the remote is not the one that o.Keys permit, it matches [rootlog.ErrNotEncrypted] or [ErrOtherRemote].
func Open(ctx context.Context, b remote.Backend, o Options) (*Remote, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	if l, ok := remote.As[remote.Locker](b); ok && o.Lock.Age > 0 {
		l.SetLock(o.Lock) // for kist.json of a new remote
	}

	c, err := openCache(o)
	if err != nil {
		return nil, fmt.Errorf("open remote: %w", err)
	}
	if c.id == nil {
		id, err := rootlog.ReadIdentity(ctx, b)
		if err == nil || errors.Is(err, rootlog.ErrEmpty) {
			err = cmp.Or(o.Keys.checkPin(id), err)
		}
		if err != nil {
			return nil, err
		}
		if err := c.bindTo(ctx, id); err != nil {
			return nil, fmt.Errorf("open remote: %w", err)
		}
	}

	if err := o.Keys.checkPin(c.id); err != nil {
		return nil, err
	}

	r := &Remote{b: b, o: o, id: c.id, cache: c, refused: &refusedPacks{packs: map[pack.Name]refusal{}}}
	if r.id.IsEncrypted() {
		if r.encrypted, err = openEncrypted(b, r.id, &o); err != nil {
			return nil, err
		}
		r.b = r.encrypted.store
	}
	r.indexes = &IndexFiles{b: r.b, o: &r.o, opened: map[pack.Name]*IndexFile{}, parts: map[pack.Name]*indexParts{}}
	r.values = pack.NewValues(r.ReadPack, BaseBlock)
	r.openLog()
	return r, nil
}

// BaseBlock is the number of bytes that are read at once near the base of a patch: a line
// transfers about as many in the time of a request.
const BaseBlock = 1 << 20

// ReadPack reads from a pack. It is a [pack.Getter]. If the pack lies in an archive, it does not ask again for [refusedAge].
func (r *Remote) ReadPack(ctx context.Context, p pack.Info, b []byte, off int64) (int, error) {
	if err := r.refused.find(p.Name, r.o.Now()); err != nil {
		return 0, err
	}
	n, err := r.b.Get(ctx, p.Name.Path(), b, off)
	if errors.Is(err, remote.ErrArchived) {
		err = explainArchived(r, p.Name, err)
		r.refused.add(p.Name, err, r.o.Now())
	}
	return n, err
}

// errNoFolder is the error for an operation that needs the folder of the remote.
var errNoFolder = errors.New("the remote was opened without a folder for its state")

// NeedFolder returns an error if an operation cannot work without a folder.
func NeedFolder(r *Remote, op string) error {
	if r.o.Dir == "" {
		return fmt.Errorf("%s: %w", op, errNoFolder)
	}
	return nil
}

// ErrUnfit says that a check found the store unfit: nothing is written to it.
var ErrUnfit = errors.New("a check found the store unfit")

// CheckWritable returns an error if no root may be appended after head, or if there is no key to sign it with. The
// caller has sent nothing yet.
func (r *Remote) CheckWritable(ctx context.Context, head *rootlog.State) error {
	if head.SingleWriter && !r.o.SingleWriter {
		return rootlog.ErrSingleWriter
	}
	if err := r.log.CheckSigner(ctx, head, r.NewChange()); err != nil {
		return err
	}
	if err := r.lockFiles(head); err != nil {
		return err
	}
	if r.o.Dir == "" {
		return nil
	}
	return CheckFit(r.o.Dir)
}

// CheckFit returns ErrUnfit if NoteCheck noted in a folder that the store is not
// fit.
func CheckFit(dir string) error {
	switch _, err := disk.Lstat(filepath.Join(dir, unfitFile)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return ErrUnfit
}

// NoteCheck notes in the folder of a remote, Options.Dir, whether a check found
// its store fit.
func NoteCheck(dir string, fit bool) error {
	path := filepath.Join(dir, unfitFile)
	if fit {
		if err := disk.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := disk.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return disk.WriteFile(path, nil)
}

// RememberIn implements [Source]: from now on, the Remote keeps its state in dir.
func (r *Remote) RememberIn(ctx context.Context, dir string) error {
	seen := r.cache.seen
	r.o.Dir = dir
	c, err := openCache(r.o)
	if err == nil {
		err = c.bindTo(ctx, r.id)
	}
	if err == nil && seen != nil {
		err = c.setHead(ctx, *seen)
	}
	if err == nil && r.encrypted != nil {
		err = r.encrypted.source.RememberIn(ctx, filepath.Join(dir, keysFolder))
	}
	if err != nil {
		return fmt.Errorf("open remote: %w", err)
	}
	r.cache = c
	r.openLog()
	return nil
}

// openLog opens the root log, which keeps its copies in the folder.
func (r *Remote) openLog() {
	r.log = rootlog.Open(r.b, r.id, rootlog.Options{
		Rand: r.o.Rand, Cache: r.cache.stateDir(), Sign: r.o.Sign, Sleep: r.o.Retry.Sleep,
	})
}

// Close closes the remote's store, and files that are open.
func (r *Remote) Close() error {
	if r.ahead != nil {
		r.ahead.u.own.close()
	}
	r.indexes.closeExcept(nil)
	return r.b.Close()
}

// Options returns the options. A change affects later operations, except one of Sign.
func (r *Remote) Options() *Options { return &r.o }

// Backend returns the store.
func (r *Remote) Backend() remote.Backend { return r.b }

// Log returns the root log.
func (r *Remote) Log() *rootlog.Log { return r.log }

// Indexes returns the index files.
func (r *Remote) Indexes() *IndexFiles { return r.indexes }

// KnownHead returns the last head that was seen here, or nil.
func (r *Remote) KnownHead() (*rootlog.Position, error) {
	known, err := r.cache.knownHead()
	if err != nil {
		return nil, fmt.Errorf("read the remembered head: %w", err)
	}
	return known, nil
}

// Identity returns the constants of the remote. The caller must not change them.
func (r *Remote) Identity() *rootlog.Identity { return r.id }

// Head returns the remote's current root, and remembers it. If the remote later has
// another root at this position, or none, it was set back. The error then matches
// [rootlog.ErrRollback]. It matches [rootlog.ErrNoRoots] if the remote has packs, but no
// root: Head never takes such a remote for an empty one.
func (r *Remote) Head(ctx context.Context) (*rootlog.State, error) {
	return headWithRoots(ctx, r, HeadToWrite)
}

// headWithRoots returns the head that read returns. The error matches [rootlog.ErrNoRoots] if the remote has packs, but no root.
func headWithRoots(ctx context.Context, r *Remote, read func(context.Context, *Remote) (*rootlog.State, error)) (*rootlog.State, error) {
	head, err := read(ctx, r)
	if err != nil || head.Seq > 0 {
		return head, err
	}
	noRoots := rootlog.CheckNoPacks(ctx, r.b)
	if noRoots == nil {
		return head, nil
	}
	if head, err = read(ctx, r); err != nil || head.Seq > 0 { // the first push has ended meanwhile
		return head, err
	}
	return nil, noRoots
}

// inspectHead returns the remote's current root, and does not remember it.
func inspectHead(ctx context.Context, r *Remote) (*rootlog.State, error) {
	known, err := r.KnownHead()
	if err != nil {
		return nil, err
	}
	return r.log.Head(ctx, known)
}

// HeadToWrite is Head for a push or a gc. It returns an empty state if the remote has packs,
// but no root: a push makes the remote of an interrupted first push intact, and a gc deletes
// nothing there.
func HeadToWrite(ctx context.Context, r *Remote) (*rootlog.State, error) {
	known, err := r.KnownHead()
	if err != nil {
		return nil, err
	}
	head, err := r.log.Head(ctx, known)
	if err != nil {
		return nil, err
	}
	if err := r.learnKeyset(ctx, head); err != nil {
		return nil, err
	}
	return head, r.RememberHead(ctx, head)
}

// Objects returns a reader of the objects that a remote has at its present head, and
// that head. The reader is safe for concurrent use until the next operation of the remote.
// For a repository, the error matches [ErrRepository].
func Objects(ctx context.Context, s Source) (object.Reader, *rootlog.State, error) {
	r, err := storeOf(s)
	if err != nil {
		return nil, nil, err
	}
	head, err := r.Head(ctx)
	if err != nil {
		return nil, nil, err
	}
	l, err := r.LocatorAt(ctx, head)
	if err != nil {
		return nil, nil, err
	}
	return l, l.State, nil
}

// storeOf returns s if it is a store of packs. For a repository, the error matches [ErrRepository].
func storeOf(s Source) (*Remote, error) {
	r, ok := s.(*Remote)
	if !ok {
		return nil, &remote.Error{Op: "open", Kind: remote.ErrUnsupported, Err: ErrRepository}
	}
	return r, nil
}

// RememberHead notes that the remote is at head.
func (r *Remote) RememberHead(ctx context.Context, head *rootlog.State) error {
	if err := r.cache.setHead(ctx, head.Position()); err != nil {
		return fmt.Errorf("remember the head: %w", err)
	}
	return nil
}

// Roots yields the remote's roots, the newest first, at most n of them, or all
// if n is 0: its history. It does not remember the head: the caller of a Remote without a Verifier only wants to see
// who wrote a root. See [rootlog.Log.Roots] for errors.
func (r *Remote) Roots(ctx context.Context, n int) iter.Seq2[*rootlog.Root, error] {
	return func(yield func(*rootlog.Root, error) bool) {
		head, err := headWithRoots(ctx, r, inspectHead)
		if err != nil {
			yield(nil, err)
			return
		}
		count := 0
		for root, err := range r.log.Roots(ctx, head.Position()) {
			if count++; !yield(root, err) || count == n {
				return
			}
		}
	}
}

// lockedReader makes a reader safe for concurrent use.
type lockedReader struct {
	mu sync.Mutex
	r  io.Reader
}

func (l *lockedReader) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Read(p)
}

// Parallel calls each for 0 to n-1, as many as jobs at once. The first error ends it.
func Parallel(ctx context.Context, jobs, n int, each func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(jobs)
	for i := range n {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return each(ctx, i)
		})
	}
	return group.Wait()
}

// CheckSize returns an error if a file of the remote is missing, or damaged because it cannot have
// as many bytes as want.
func (r *Remote) CheckSize(ctx context.Context, name string, want int64) error {
	info, err := r.b.Stat(ctx, name)
	if err == nil && !r.HasSize(info, want) {
		err = errDamaged(name, fmt.Errorf("%d bytes are stored, want %d", info.Size, remote.StoredSize(r.b, name, want)))
	}
	return err
}

// HasSize reports whether a stored file has the size that a file of so many bytes has there.
func (r *Remote) HasSize(info remote.Info, want int64) bool {
	return info.Size == remote.StoredSize(r.b, info.Name, want)
}

// Phases of a push or fetch.
const (
	PhasePlan = "plan" // finds the objects that the other end does not have; a fetch receives nodes meanwhile
	PhaseCopy = "copy" // moves these objects
)

// Progress is the progress of a push or fetch.
type Progress struct {
	Phase string // one of the Phase constants

	// Moved so far, and to be moved in all; 0: not known yet.
	Objects, TotalObjects int64
	Bytes, TotalBytes     int64
}

// Meter counts the progress and reports it.
type Meter struct {
	report func(Progress) // may be nil

	mu sync.Mutex // held while report is called
	at Progress
}

// NewMeter returns a meter that calls report, which may be nil.
func NewMeter(report func(Progress)) *Meter { return &Meter{report: report} }

// Now returns the progress so far.
func (m *Meter) Now() Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

// Update changes the progress.
func (m *Meter) Update(change func(*Progress)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.at)
	if m.report != nil {
		m.report(m.at)
	}
}
