package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/pack"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

// Problem is damage on a remote.
type Problem struct {
	Blob string     // the name of the record or blob; empty: the problem is of the object
	Key  object.Key // the object; zero: the problem is of the blob
	Err  error      // an [*object.CorruptError] where a stored value is damaged
}

// Error returns the place of the damage and the cause.
func (p Problem) Error() string {
	switch {
	case p.Blob != "":
		return fmt.Sprintf("%s: %v", p.Blob, p.Err)
	case !p.Key.IsZero():
		return fmt.Sprintf("%s %s: %v", p.Key.Kind, p.Key.ID, p.Err)
	}
	return p.Err.Error()
}

// Unwrap returns the cause.
func (p Problem) Unwrap() error { return p.Err }

// Checked are the totals of [Check].
type Checked struct {
	Roots   int   `json:"roots" doc:"the number of roots that were checked"`
	Indexes int   `json:"indexes" doc:"the number of index files"`
	Packs   int   `json:"packs" doc:"the number of packs"`
	Objects int64 `json:"objects" doc:"the number of objects that refs reach"`
	Bytes   int64 `json:"bytes" doc:"the bytes that were read from packs"`

	ArchiveStats

	Last pack.Name `json:"-"` // the last pack of a sample

	// Lost are missing objects that refs reach, with the name of the user who accepted
	// the loss. They are no problem.
	Lost map[object.Key]string `json:"-"`
}

// CheckOptions say what [Check] reads.
type CheckOptions struct {
	// ReadData reads everything: index files, and live packs with all values in them.
	ReadData bool

	// Subset, if not nil, reports whether ReadData reads pack i of n, in the order of
	// their names.
	Subset func(i, n int) bool

	// Sample, if not 0, makes Check read only packs: at least one, and this share of
	// their bytes. They follow the pack After in the order of names, and the first pack
	// follows the last. So checks that begin where the one before ended read all packs.
	Sample float64
	After  pack.Name

	// Progress, if not nil, is called now and then with the bytes read so far. Calls do
	// not overlap.
	Progress func(bytes int64)
}

// Check checks a remote, and reports each problem, one call at a time. Each root must
// follow the one before it. kist.json and the state files must be unchanged. All index
// files and live packs must exist with their sizes. All objects that refs reach must be in
// live packs, or be listed as lost; Check reads and checks the nodes among them. ReadData and
// Sample count the packs that have to be thawed first, and leave them unread. The error is the
// reason why there is no answer.
func Check(ctx context.Context, r *transfer.Remote, o CheckOptions, report func(Problem)) (Checked, error) {
	for {
		snap, err := r.Snapshot(ctx)
		if errors.Is(err, remote.ErrDamaged) || errors.Is(err, object.ErrCorrupt) {
			// Without the head, or the index, nothing can be checked.
			if damage, ok := errors.AsType[*object.DamageError](err); ok && !errors.Is(err, transfer.ErrState) && !errors.Is(err, pack.ErrDamaged) {
				report(Problem{Blob: damage.Name, Err: damage.Err})
			} else {
				report(Problem{Err: err})
			}
			return Checked{}, nil
		}
		if err != nil {
			return Checked{}, err
		}
		c := &checker{r: r, options: o, snap: snap, reached: newEntrySet(), confirmed: newEntrySet(), absent: map[object.Key]bool{}}
		c.reached.addFiles(snap)
		c.confirmed.addFiles(snap)
		c.values = pack.NewValues(c.readPack, transfer.BaseBlock)
		if err := c.checkAll(ctx); err != nil {
			return c.totals, err
		}
		if c.hasMissing {
			// A pack that is no longer live may be deleted meanwhile.
			head, err := r.Head(ctx)
			if err != nil {
				return c.totals, err
			}
			if head.Seq != snap.State.Seq {
				continue
			}
		}
		for _, p := range c.problems {
			report(p)
		}
		return c.totals, nil
	}
}

// checker is a check under way.
type checker struct {
	r       *transfer.Remote
	options CheckOptions
	snap    *transfer.Snapshot
	values  *pack.Values        // objects that are read from packs
	reached *entrySet           // entries of the objects that refs reach
	absent  map[object.Key]bool // objects that refs reach and that have no entry

	mu         sync.Mutex // guards the following
	confirmed  *entrySet  // the entries in reached whose objects lie where the entries say
	totals     Checked
	problems   []Problem
	hasMissing bool // something is missing
}

func (c *checker) checkAll(ctx context.Context) error {
	if c.options.Sample > 0 {
		return c.readSample(ctx)
	}
	for root, err := range c.r.Log().Roots(ctx, c.snap.State.Position()) {
		switch damage, ok := errors.AsType[*object.DamageError](err); {
		case ok:
			c.addProblem(Problem{Blob: damage.Name, Err: damage.Err})
		case errors.Is(err, rootlog.ErrFormat) && root == nil:
			c.addProblem(Problem{Err: err})
		case err != nil:
			return err
		}
		c.totals.Roots++
	}

	stored, err := c.r.Log().Stored(ctx, c.snap.State)
	if err != nil {
		return err
	}

	for _, damage := range stored {
		c.addProblem(Problem{Blob: damage.Name, Err: damage.Err})
	}
	if c.snap.State.Seq == 0 {
		return nil
	}

	packs := c.snap.LivePacks()
	if err := c.checkFilesExist(ctx, packs); err != nil {
		return err
	}
	if err := c.checkReachable(ctx); err != nil {
		return err
	}
	if !c.options.ReadData {
		return nil
	}
	if err := c.readIndexes(ctx); err != nil {
		return err
	}

	bad := map[string]bool{}
	for _, p := range c.problems {
		bad[p.Blob] = true
	}
	return c.readPacks(ctx, packs, bad)
}

// readSample reads the packs of the sample.
func (c *checker) readSample(ctx context.Context) error {
	packs := c.snap.LivePacks()
	after, _ := slices.BinarySearchFunc(packs, c.options.After, func(p pack.Info, name pack.Name) int {
		return cmp.Or(p.Name.Compare(name), -1) // the pack itself comes before
	})
	packs = slices.Concat(packs[after:], packs[:after])
	var total, left float64
	for _, p := range packs {
		total += float64(p.Size)
	}
	n := 0
	for left = total * c.options.Sample; n < len(packs) && (n == 0 || left > 0); n++ {
		left -= float64(packs[n].Size)
		c.totals.Last = packs[n].Name
	}
	c.totals.Packs = n
	return c.readPacks(ctx, packs[:n], nil)
}

// addProblem notes a problem.
func (c *checker) addProblem(p Problem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, p)
	c.hasMissing = c.hasMissing || errors.Is(p.Err, remote.ErrNotFound)
}

// addLost notes an object that is missing and listed as lost.
func (c *checker) addLost(key object.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.totals.Lost == nil {
		c.totals.Lost = map[object.Key]string{}
	}
	c.totals.Lost[key] = c.snap.State.Lost[key]
}

// addIfDamage notes a problem if err is one, and returns any other error: then there is no answer.
func (c *checker) addIfDamage(blob string, key object.Key, err error) error {
	if err == nil {
		return nil
	}
	if !transfer.IsBadCopy(err) && !object.IsUnreadable(err) {
		return err
	}
	c.addProblem(Problem{Blob: blob, Key: key, Err: err})
	return nil
}

// checkFilesExist checks that index files and packs are there.
func (c *checker) checkFilesExist(ctx context.Context, packs []pack.Info) error {
	files := c.snap.State.Indexes
	c.totals.Indexes, c.totals.Packs = len(files), len(packs)
	return transfer.Parallel(ctx, c.r.Options().Jobs, len(files)+len(packs), func(ctx context.Context, i int) error {
		var name string
		var want int64
		if i < len(files) {
			name, want = files[i].Name.IndexPath(), files[i].Size
		} else {
			p := packs[i-len(files)]
			name, want = p.Name.Path(), int64(p.Size)
		}
		return c.addIfDamage(name, object.Key{}, c.r.CheckSize(ctx, name, want))
	})
}

// readIndexes reads all index files, and their copies.
func (c *checker) readIndexes(ctx context.Context) error {
	for i, f := range c.snap.State.Indexes {
		name := f.Name.IndexPath()
		if err := c.addIfDamage(name, object.Key{}, c.r.Indexes().CheckFile(ctx, f)); err != nil {
			return err
		}
		if err := c.snap.Indexes[i].Verify(); err != nil {
			c.r.Indexes().ForgetCopy(f)
			c.addProblem(Problem{Blob: name, Err: fmt.Errorf("its copy here, which was removed: %w", err)})
		}
	}
	return nil
}
