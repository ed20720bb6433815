package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/chunker"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
	"github.com/kist-vcs/kist/tree/worktree"
)

// cloningFile marks the folder of an unfinished clone. Once the checkout begins, the
// file names the branch and commit being checked out.
const cloningFile = "CLONING"

// ErrNotEmpty is the error for a folder to clone into that is not empty.
var ErrNotEmpty = errors.New("exists and is not empty")

// CloneOptions are the options of [Clone].
type CloneOptions struct {
	URL          string
	Name         string // of the remote; default [registry.DefaultRemote]
	Branch       string // short name of the branch or tag to check out; default: the remote's own
	NoCheckout   bool   // leave the worktree empty, and the branch without a commit
	NoTags       bool
	Lazy         bool     // fetch only commits; their content stays on the remote until it is needed
	Folders      []string // the only folders of the worktree; nil: all
	SingleBranch bool     // fetch only the branch or tag to check out
	SingleWriter bool     // see [registry.Remote]

	Jobs     int                     // downloads at once; 0: the default of package transfer
	Fetching func(transfer.Progress) // receives the progress of the fetch
	Writing  kist.Progress           // receives the progress of the checkout
}

// CloneResult is the result of a clone.
type CloneResult struct {
	*FetchResult
	Head    refs.Head
	Resumed bool  // the clone continued an interrupted one
	Unkept  error // why the remote does not promise to keep the content of a lazy clone; nil: it does
}

// Clone makes a repository in dir, fetches everything a remote has, and checks out a
// branch. It makes dir if necessary. After an interruption, everything fetched and
// written stays, and cloning again into the same folder continues. The error is
// ErrNotEmpty if the folder has other files. It matches [rootlog.ErrEmpty] if nothing
// was pushed to the remote yet. The repository is nil if the error came before it was
// made.
func Clone(ctx context.Context, dir string, opt kist.Options, o CloneOptions) (*kist.Repository, *CloneResult, error) {
	if o.Name == "" {
		o.Name = registry.DefaultRemote
	}
	m := registry.Remote{Name: o.Name, URL: o.URL, SingleWriter: o.SingleWriter, RequireSigned: kist.RequiresSigned(opt.User, nil, o.Name)}
	cone, err := o.parseCone()
	if err != nil {
		return nil, nil, err
	}
	r, err := interruptedClone(dir, opt, m, o.Lazy, cone)
	if err != nil {
		return nil, nil, err
	}

	var opened transfer.Source
	result := &CloneResult{Resumed: r != nil}
	if result.Resumed {
		r.Worktree().SweepTemp() // they may take as much space as the fetch needs
	} else if r, opened, err = createClone(ctx, dir, opt, m, o.Lazy); err != nil {
		return nil, nil, err
	}

	if o.Lazy {
		registry.ReadEvicted(ctx, r) // the checkout fetches
	}
	ahead := &cloneAhead{r: r, o: o}
	defer ahead.close()
	fetch := FetchOptions{Remote: o.Name, NoTags: o.NoTags, Jobs: o.Jobs, Progress: o.Fetching, ahead: ahead, opened: opened}
	if o.SingleBranch {
		fetch.single, fetch.Refs = true, []registry.FetchRef{{Source: cmp.Or(o.Branch, "HEAD")}}
	}
	result.FetchResult, err = Fetch(ctx, r, fetch)
	if err != nil {
		return r, result, err
	}
	if o.Lazy {
		if result.Unkept = RenewKeep(ctx, r, o.Name, nil); ctx.Err() != nil {
			return r, result, ctx.Err()
		}
	}
	if records, err := r.Records().Load(); err != nil || hasPurge(records) {
		ahead.close() // the checkout leaves out purged contents
	}

	result.Head, err = checkoutClone(ctx, r, o, result.FetchResult)
	ahead.close() // while the clone can still be continued
	if err == nil || stage.IsPartial(err) {
		if rerr := disk.Remove(filepath.Join(r.Dir(), cloningFile)); rerr != nil {
			err = errors.Join(err, rerr)
		}
	}
	return r, result, err
}

// FolderError is the error for a folder of [CloneOptions.Folders] that is not in the commit to check
// out.
type FolderError struct {
	Path   string
	IsFile bool // the commit has a file there
}

func (e *FolderError) Error() string {
	if e.IsFile {
		return fmt.Sprintf("%q is a file", e.Path)
	}
	return fmt.Sprintf("the commit has no folder %q", e.Path)
}

// parseCone returns the cone of the folders, or nil for all.
func (o *CloneOptions) parseCone() (*tree.Cone, error) {
	if o.Folders == nil {
		return nil, nil
	}
	return tree.NewCone(o.Folders)
}

// chooseFolders makes the worktree of a clone one that has only the folders of o. The error is a
// [*FolderError], and nothing is changed, if the commit of rev has no such folder. An empty rev
// stands for no commit. It reads only the trees above the folders.
func (o *CloneOptions) chooseFolders(ctx context.Context, r *kist.Repository, rev string) error {
	cone, err := o.parseCone()
	if err != nil || cone.Equal(r.Config().Cone()) {
		return err
	}
	var source compare.Side
	if rev != "" && cone != nil {
		if source, err = compare.OfCommit(ctx, r, rev); err != nil {
			return err
		}
	}
	for _, dir := range o.Folders {
		if source.Tree.IsZero() {
			break
		}
		e, err := source.Find(ctx, dir)
		switch {
		case errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir):
			return &FolderError{Path: dir}
		case err != nil:
			return err
		case !tree.IsDir(&e):
			return &FolderError{Path: dir, IsFile: true}
		}
	}
	return r.EditConfig(ctx, func(c *kist.Config) error { return c.SetCone(cone) })
}

// interruptedClone opens the repository that an interrupted clone of m left in dir.
// It returns nil if there is none yet. Once its checkout has begun, the folders stay the same.
func interruptedClone(dir string, opt kist.Options, m registry.Remote, lazy bool, cone *tree.Cone) (*kist.Repository, error) {
	entries, err := disk.ReadDir(dir)
	if err == nil && len(entries) == 1 && entries[0].Name() == kist.Dir { // killed before it left its mark?
		entries, err = disk.ReadDir(filepath.Join(dir, kist.Dir))
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == cloningFile+disk.TempSuffix })
	}
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	notEmpty := fmt.Errorf("%q %w", dir, ErrNotEmpty)
	mark, err := disk.Lstat(filepath.Join(dir, kist.Dir, cloningFile))
	if err != nil {
		return nil, notEmpty
	}

	r, err := kist.Open(dir, opt)
	if errors.Is(err, kist.ErrNoRepository) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	list := registry.All(r)
	if len(list) == 1 {
		m.SingleWriter = m.SingleWriter || list[0].SingleWriter // the remote recorded it
		m.Encrypted = list[0].Encrypted
		m.RequireSigned = m.RequireSigned || list[0].RequireSigned
	}
	began := mark.Size() > 0
	if len(list) != 1 || list[0] != m || r.Config().IsLazy() != lazy || began && !r.Config().Cone().Equal(cone) {
		r.Close()
		return nil, notEmpty
	}
	return r, nil
}

// createClone makes an empty repository with the remote's chunker parameters. It also
// returns the opened remote.
func createClone(ctx context.Context, dir string, opt kist.Options, m registry.Remote, lazy bool) (r *kist.Repository, opened transfer.Source, err error) {
	if err := m.Check(); err != nil {
		return nil, nil, err
	}
	opt = opt.WithDefaults()
	if opened, err = registry.OpenURL(ctx, opt, m); err != nil {
		return nil, nil, err
	}

	source := opened
	defer func() {
		if err != nil {
			source.Close()
		}
	}()

	// The contents of kist.json become part of the configuration. Reading the
	// head shows whether kist.json is damaged.
	head, err := opened.Head(ctx)
	if err != nil {
		return nil, nil, err
	}
	if _, store := opened.(*transfer.Remote); lazy && !store {
		return nil, nil, fmt.Errorf("a lazy clone of %q: %w", remote.Redact(m.URL), transfer.ErrRepository)
	}
	if head.SingleWriter && !m.SingleWriter {
		m.SingleWriter = true
		opt.Warn(fmt.Sprintf("remote %q: %v", m.Name, rootlog.ErrSingleWriter))
	}
	if encrypted, ok := opened.(*transfer.Remote); ok && encrypted.IsEncrypted() {
		pin, err := encrypted.PinOf(ctx)
		if err != nil {
			return nil, nil, err
		}
		m.Encrypted = pin.String()
	}
	if r, err = initClone(ctx, dir, opt, newCloneConfig(m, opened.Identity().Chunker, lazy)); err != nil {
		return nil, nil, err
	}
	if err = opened.RememberIn(ctx, registry.Dir(r, m.Name)); err != nil {
		r.Close()
		return nil, nil, err
	}
	return r, opened, nil
}

// newCloneConfig returns the configuration of a clone.
func newCloneConfig(m registry.Remote, c rootlog.Chunker, lazy bool) *kist.Config {
	config := kist.NewConfig(chunker.Params{})
	config.Chunker.Polynomial, config.Chunker.Min, config.Chunker.Average, config.Chunker.Max = c.Polynomial, c.Min, c.Average, c.Max
	config.Remote = map[string]kist.RemoteConfig{m.Name: {URL: m.URL, SingleWriter: m.SingleWriter, Encrypted: m.Encrypted, RequireSigned: m.RequireSigned}}
	if lazy {
		config.Required = kist.LazyExtensions()
	}
	return config
}

// initClone makes the repository of a clone, without a commit.
func initClone(ctx context.Context, dir string, opt kist.Options, config *kist.Config) (*kist.Repository, error) {
	if err := kist.MakeRepositoryDir(filepath.Join(dir, kist.Dir), false); err != nil {
		return nil, err
	}
	if err := disk.WriteFile(filepath.Join(dir, kist.Dir, cloningFile), nil); err != nil {
		return nil, err
	}
	return kist.Create(ctx, dir, opt, config, kist.DefaultBranch)
}

// cloneTarget returns the full name, on the remote, of the branch or tag to check out,
// or "" for none. It also returns all fetched refs by name.
func cloneTarget(o CloneOptions, fetched *FetchResult) (full string, tracking map[string]FetchedRef, err error) {
	full, tracking = fetched.Head, map[string]FetchedRef{}
	for _, f := range fetched.Refs {
		tracking[f.Name] = f
	}
	if o.Branch != "" {
		full = refs.Heads + o.Branch
		if _, ok := tracking[full]; !ok {
			full = refs.Tags + o.Branch
		}
		if _, ok := tracking[full]; !ok {
			return "", nil, &refs.NotFoundError{Name: o.Branch}
		}
	}
	if _, ok := tracking[full]; !ok { // the default branch was never pushed, or deleted
		full = ""
		for _, name := range slices.Sorted(maps.Keys(tracking)) {
			if strings.HasPrefix(name, refs.Heads) {
				full = name
				break
			}
		}
	}
	return full, tracking, nil
}

// checkoutClone makes the branch that a clone begins with, and checks it out.
func checkoutClone(ctx context.Context, r *kist.Repository, o CloneOptions, fetched *FetchResult) (refs.Head, error) {
	full, tracking, err := cloneTarget(o, fetched)
	if err != nil {
		return refs.Head{}, err
	}
	if err := o.chooseFolders(ctx, r, tracking[full].Local); err != nil {
		return refs.Head{}, err
	}
	if full == "" {
		return r.Refs().Head()
	}
	if err := adoptMetadata(ctx, r, tracking[full].Local); err != nil {
		return refs.Head{}, err
	}

	co := checkout.SwitchOptions{Rev: tracking[full].Local, Detach: true, Progress: o.Writing}
	if branch, ok := strings.CutPrefix(full, refs.Heads); ok {
		if err := kist.SetUpstream(ctx, r, branch, kist.Upstream{Remote: o.Name, Ref: full}); err != nil {
			return refs.Head{}, err
		}
		co.Detach, co.Create = false, branch
		if _, err := r.Refs().Get(full); err == nil { // an interrupted clone has made it
			co.Rev, co.Create = branch, ""
		}
	}
	if o.NoCheckout {
		if co.Create == "" {
			return r.Refs().Head()
		}
		head := refs.Head{Branch: co.Create}
		return head, r.Publish(ctx, func(tx *kist.Tx) { tx.SetHead(head, "") })
	}

	noted, err := cloneCommit(ctx, r, full, &co)
	if err != nil {
		return refs.Head{}, err
	}

	head, err := checkout.Switch(ctx, r, co)
	if err != nil || co.Detach {
		return head, err
	}

	now, err := r.Resolve(ctx, tracking[full].Local)
	if err != nil {
		return head, err
	}
	return catchUp(ctx, r, full, []object.ID{noted, now}, o.Writing)
}

// adoptMetadata makes a clone record full metadata if the commit rev has it: a remote does
// not say what its repositories record. The next process to open the clone does so. It reads no
// folder that is left out.
func adoptMetadata(ctx context.Context, r *kist.Repository, rev string) error {
	source, err := compare.OfCommit(ctx, r, rev)
	if err != nil {
		return nil // the checkout reports it
	}

	// Folders above the roots of a bare repository have no metadata.
	for id, dir := source.Tree, ""; ; {
		first := object.Entry{}
		for e, err := range object.Entries(ctx, source.Objects, id) {
			if err != nil {
				return nil
			}
			if e.Meta != nil || !tree.IsDir(&e) || r.Config().Cone().Has(tree.Join(dir, e.Name)) {
				first = e
				break
			}
		}
		switch {
		case first.Meta != nil:
			return r.EditConfig(ctx, func(c *kist.Config) error { return c.SetAt(kist.MetadataFull, "metadata") })
		case first.Type != object.TypeDir:
			return nil
		}
		id, dir = first.Content.ID, tree.Join(dir, first.Name)
	}
}

// cloneCommit notes the commit that a clone checks out and returns it. A continued
// clone checks out the same commit, even if the remote's branch has moved: the files
// of the first attempt would be in the way of another one.
func cloneCommit(ctx context.Context, r *kist.Repository, full string, co *checkout.SwitchOptions) (object.ID, error) {
	data, err := disk.ReadFile(filepath.Join(r.Dir(), cloningFile))
	if err != nil {
		return object.ID{}, err
	}
	if name, rev, ok := strings.Cut(strings.TrimSuffix(string(data), "\n"), " "); ok && name == full {
		if id, err := object.ParseID(rev); err == nil && kist.CheckUsable(ctx, r, id) == nil {
			if co.Create != "" || co.Detach {
				co.Rev = rev
			}
			return id, nil
		}
	}
	id, err := r.Resolve(ctx, co.Rev)
	if err != nil {
		return id, err
	}
	return id, noteCloning(r, full, id)
}

// noteCloning notes which commit a clone is about to check out.
func noteCloning(r *kist.Repository, full string, id object.ID) error {
	return disk.WriteFile(filepath.Join(r.Dir(), cloningFile), fmt.Appendf(nil, "%s %s\n", full, id))
}

// catchUp moves the branch of a clone to the given commits, one after the other, as far
// as they are ahead of it: to the target of an interrupted clone, then to the place of
// the remote's branch.
func catchUp(ctx context.Context, r *kist.Repository, full string, to []object.ID, progress kist.Progress) (refs.Head, error) {
	head, err := r.Refs().Head()
	if err != nil {
		return head, err
	}

	for _, id := range to {
		if id == head.ID {
			continue
		}
		if err := noteCloning(r, full, id); err != nil {
			return head, err
		}
		_, err := commits.Merge(ctx, r, commits.MergeOptions{Rev: id.String(), FastForwardOnly: true, Progress: progress})
		if errors.Is(err, commits.ErrNotFastForward) || errors.Is(err, commits.ErrNoCommonHistory) {
			return head, nil // a merge is for a person to decide on
		}
		if err != nil && !stage.IsPartial(err) {
			return head, err
		}
		var headErr error
		if head, headErr = r.Refs().Head(); err != nil || headErr != nil {
			return head, cmp.Or(err, headErr)
		}
	}
	return head, nil
}

// aheadChunk is the smallest average size, in bytes, of the chunks of a fetch for
// which files are written ahead of the checkout. With many small files, writing ahead
// gains nothing.
const aheadChunk = 32 << 10

// cloneAhead writes the large files of a clone from chunks as these arrive, so the
// checkout need not read the chunks again. It leaves every failure to the checkout,
// which also reports it.
type cloneAhead struct {
	r     *kist.Repository
	o     CloneOptions
	files *worktree.EarlyWriter // nil: none
}

// begin chooses the files to write. Fetched has the refs, and the number and bytes of the
// chunks to come. The objects have everything but those chunks.
func (c *cloneAhead) begin(ctx context.Context, objects object.Reader, fetched *FetchResult) {
	c.close()
	if c.o.NoCheckout || c.o.Lazy || fetched.Bytes < fetched.Objects*aheadChunk {
		return
	}
	ops, err := c.ops(ctx, objects, fetched)
	if err != nil || len(ops) == 0 {
		return
	}
	if files, err := c.r.Worktree().WriteEarly(ctx, objects, ops); err == nil {
		c.files = files
	}
}

// chunk receives a chunk. Several goroutines call it at once, also before begin: then the checkout writes the file.
func (c *cloneAhead) chunk(id object.ID, data []byte) {
	if c.files != nil {
		c.files.Chunk(id, data)
	}
}

// ops returns the operations for the files of several chunks in the checkout.
func (c *cloneAhead) ops(ctx context.Context, objects object.Reader, fetched *FetchResult) ([]worktree.Op, error) {
	full, tracking, err := cloneTarget(c.o, fetched)
	if err != nil || full == "" {
		return nil, err
	}
	id, err := refs.Peel(ctx, objects, tracking[full].New)
	if err != nil {
		return nil, err
	}
	commit, err := object.ReadCommit(ctx, objects, id)
	if err != nil {
		return nil, err
	}
	var ops []worktree.Op
	err = tree.Walk(ctx, objects, commit.Tree, func(path string, e object.Entry) error {
		if e.Content.Kind == object.KindManifest {
			ops = append(ops, worktree.Op{Path: path, New: &e})
		}
		return nil
	})
	return ops, err
}

// close removes the files that the checkout did not take.
func (c *cloneAhead) close() {
	if c.files != nil {
		c.files.Close()
		c.files = nil
	}
}
