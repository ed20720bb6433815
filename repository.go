package kist

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/kist-vcs/kist/chunker"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/keyset"
	"github.com/kist-vcs/kist/remote/retry"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/worktree"
)

// Dir is the name of the folder in the root of a worktree that holds its repository.
const Dir = disk.RepositoryDir

// DefaultBranch is the first branch of a new repository.
const DefaultBranch = "main"

// ErrNoRepository is the error for a folder without a repository.
var ErrNoRepository = errors.New("not a kist repository")

// ErrBare is the error for an operation that would write to the worktree of a bare
// repository.
var ErrBare = errors.New("the repository is bare")

// ErrEmbedded is the error for a bare repository in the worktree of another repository.
var ErrEmbedded = errors.New("bare repository in the worktree of another")

// ErrExists is the error of Init for a folder that has a repository.
var ErrExists = errors.New("a kist repository is already there")

// Options has the dependencies of a repository. The zero value is usable.
type Options struct {
	Now    func() time.Time // the clock; default [time.Now]
	Date   func() time.Time // the time to record in commits and logs, in its zone; default: Now
	Random io.Reader        // default [rand.Reader]
	Host   string           // recorded in commits
	Warn   func(string)     // receives warnings; default: they are dropped

	// Lost receives the accepted losses that a reader of [Repository.Contents] passes
	// over. The path is that of the folder or file, if known. Default: the reader passes
	// over nothing.
	Lost func(path string, key object.Key)

	Jobs int // files read or written at once; default: one for each processor

	// WorkDir is the user's working directory. kist does not remove it from the worktree,
	// even if it becomes empty. Default: none.
	WorkDir string

	FileOptions

	// ReadOnly opens the repository without writing, to copy from the repository of another user.
	ReadOnly bool

	// Backend opens the store at the URL of a remote. Default: there are no remotes.
	Backend func(ctx context.Context, url string) (remote.Backend, error)

	// Keys finds an identity for an encrypted remote. Default: there is none.
	Keys *keyset.Identities

	// Retry sets how often and how long uploads of packs are retried.
	Retry retry.Options

	// User has the settings of the user. They count for keys that the repository's
	// configuration lacks. Default: none.
	User *UserConfig

	Committer
}

// Committer says who makes commits and tags.
type Committer struct {
	// Identity returns the committer's name and address. The arguments are those of the
	// configuration, which may be empty. Default: it returns the arguments.
	Identity func(name, email string) (string, string)

	Sign Signing
}

// FileOptions say how files of the worktree are read and written.
type FileOptions struct {
	Umask  uint16 // permission bits that files do not get
	SetID  bool   // files get their set-user-ID and set-group-ID bits
	Xattrs XattrOptions

	// OnlyAway receives the number of bytes of content that only remotes have, after its files in the worktree were removed or
	// replaced. Default: nobody does.
	OnlyAway func(bytes int64)
}

// XattrOptions choose extended attributes in place of the keys [KeyNoXattrs],
// [KeyIncludeXattr] and [KeyExcludeXattr]. A nil field leaves its key in force.
type XattrOptions struct {
	None             *bool
	Include, Exclude []string
}

// WithDefaults returns o with the defaults of the options that are not set.
func (o Options) WithDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Date == nil {
		o.Date = o.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Identity == nil {
		o.Identity = func(name, email string) (string, string) { return name, email }
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	return o
}

// Repository is an open repository with its worktree. One goroutine at a time may use it.
// Any number of processes may have the repository open at once.
type Repository struct {
	root string // the worktree's; "/" if the repository is bare
	dir  string // the .kist folder, or the folder of a bare repository
	held *disk.Held
	at   string // see [Repository.At]
	opt  Options

	config   *Config
	refs     *refs.Store
	objects  *volume.Store
	purges   *Purges
	chunker  *chunker.Chunker
	worktree *worktree.Worktree

	recordsWarned sync.Once // the warning about damaged records
}

// The limits of [InitOptions.ChunkSize], in bytes.
const (
	MinChunkSize = 64 << 10
	MaxChunkSize = 4 << 20
)

// InitOptions are the choices at the creation of a repository. They are final.
type InitOptions struct {
	// ChunkSize is the average size of a chunk in bytes, a power of two from
	// [MinChunkSize] to [MaxChunkSize]; 0 is the default of package chunker.
	ChunkSize int
	Branch    string // the first branch; default [DefaultBranch]
	Full      bool   // record full metadata
	Shared    bool   // the group of .kist may use the repository, too
	Bare      bool   // see [Repository.IsBare]
}

// Init creates a repository in the folder dir and opens it. It creates the folder if
// necessary. The error matches [ErrExists] if dir has a repository.
func Init(ctx context.Context, dir string, opt Options, init InitOptions) (*Repository, error) {
	opt = opt.WithDefaults()
	polynomial, err := chunker.RandomPolynomial(opt.Random)
	if err != nil {
		return nil, err
	}
	params := chunker.DefaultParams(polynomial)
	if init.ChunkSize != 0 {
		if init.ChunkSize < MinChunkSize || init.ChunkSize > MaxChunkSize {
			return nil, fmt.Errorf("chunk size %d is not from %d to %d", init.ChunkSize, MinChunkSize, MaxChunkSize)
		}
		params = chunker.ParamsFor(polynomial, init.ChunkSize)
	}
	if init.Branch == "" {
		init.Branch = DefaultBranch
	}
	if err := refs.CheckShort(init.Branch); err != nil {
		return nil, err
	}
	c := NewConfig(params)
	if init.Full {
		c.Metadata = MetadataFull
	}
	if !init.Bare {
		if err := MakeRepositoryDir(filepath.Join(dir, Dir), init.Shared); err != nil {
			return nil, err
		}
		return Create(ctx, dir, opt, c, init.Branch)
	}
	return initBare(ctx, dir, opt, c, init)
}

// initBare is Init for a bare repository: dir itself becomes the repository.
func initBare(ctx context.Context, dir string, opt Options, c *Config, init InitOptions) (*Repository, error) {
	if filepath.Base(dir) == Dir {
		return nil, fmt.Errorf("%q: a bare repository cannot have this name", dir)
	}
	if err := MakeRepositoryDir(dir, init.Shared); err != nil {
		return nil, err
	}
	dir, err := realDir(dir)
	if err != nil {
		return nil, err
	}
	entries, err := disk.ReadDir(dir)
	switch {
	case err != nil:
		return nil, err
	case IsBareDir(dir):
		return nil, fmt.Errorf("%q: %w", dir, ErrExists)
	case len(entries) > 0:
		return nil, fmt.Errorf("%q is not empty", dir)
	}

	mode := os.FileMode(0o700)
	if init.Shared {
		mode = sharedMode
	}
	disk.AddRepository(dir)
	if err := disk.Chmod(dir, mode); err != nil {
		return nil, err
	}

	c.Required = []string{bareExtension}
	return create(ctx, dir, opt, c, init.Branch)
}

// sharedMode is the mode of a .kist folder that its group uses, too.
const sharedMode = os.ModeSetgid | disk.SharedMode&0o777

// MakeRepositoryDir creates a .kist folder. Only its owner can read it, or with shared also
// its group. An existing folder stays unchanged.
func MakeRepositoryDir(path string, shared bool) error {
	if err := disk.MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	err := disk.Mkdir(path, 0o700)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if shared {
		if err := disk.Chmod(path, sharedMode); err != nil {
			return err
		}
	}
	return disk.SyncDir(filepath.Dir(path))
}

// Create creates a repository with the configuration c and opens it.
func Create(ctx context.Context, dir string, opt Options, c *Config, branch string) (*Repository, error) {
	if _, err := c.params(); err != nil {
		return nil, err
	}
	if err := refs.CheckShort(branch); err != nil {
		return nil, err
	}
	kistDir := filepath.Join(dir, Dir)
	if _, err := isRepositoryDir(kistDir); err != nil {
		return nil, err
	}
	return create(ctx, kistDir, opt, c, branch)
}

// create is Create for the repository in kistDir.
func create(ctx context.Context, kistDir string, opt Options, c *Config, branch string) (*Repository, error) {
	config, err := c.encode()
	if err != nil {
		return nil, err
	}
	dir := kistDir
	if !c.bare() {
		dir = filepath.Dir(kistDir)
	}
	file := filepath.Join(kistDir, "config")
	if _, err := disk.Lstat(file); err == nil {
		return nil, fmt.Errorf("%q: %w", dir, ErrExists)
	}

	for _, d := range []string{"volumes", "refs/heads", "refs/tags", "logs", "tmp"} {
		if err := disk.MakeDir(filepath.Join(kistDir, d)); err != nil {
			return nil, err
		}
	}
	names := refs.Open(kistDir, opt.Date)
	if err := names.BeginLogs("HEAD", refs.Heads+branch); err != nil { // so the first commit has fewer names to sync
		return nil, err
	}
	if err := names.SetHead(ctx, refs.Head{Branch: branch}, refs.Who{}, ""); err != nil {
		return nil, err
	}

	// The configuration comes last, because a folder without it is no repository.
	if err := disk.WriteFile(file, config); err != nil {
		return nil, err
	}
	return Open(dir, opt)
}

// Discover returns the nearest folder, from dir upwards, that has a repository or is a bare
// one. The error matches [ErrEmbedded] for a bare repository in the worktree of another
// one, since it may have come with the files there. The error matches [disk.ErrSymlink] if
// .kist is a symlink.
func Discover(dir string) (string, error) {
	start, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	bare := ""
	for at := start; ; at = filepath.Dir(at) {
		exists, err := isRepositoryDir(filepath.Join(at, Dir))
		switch {
		case exists && bare != "":
			return "", fmt.Errorf("%q, in the worktree %q: %w", bare, at, ErrEmbedded)
		case exists || err != nil:
			return at, err
		case bare == "" && IsBareDir(at):
			bare = at
		}
		switch {
		case at != filepath.Dir(at):
		case bare != "":
			return bare, nil
		default:
			return "", fmt.Errorf("%q and the folders above it: %w", start, ErrNoRepository)
		}
	}
}

// isRepositoryDir reports whether path is a folder. For a symlink it returns an error: the
// target may lie in the worktree, where kist adds and removes files.
func isRepositoryDir(path string) (bool, error) {
	info, err := disk.Lstat(path)
	if err != nil {
		return false, nil
	}
	if info.Mode()&os.ModeSymlink != 0 {
		return false, &os.PathError{Op: "open", Path: path, Err: disk.ErrSymlink}
	}
	return info.IsDir(), nil
}

// Open opens the repository of the worktree with the given root.
func Open(root string, opt Options) (*Repository, error) {
	opt = opt.WithDefaults()
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	r := &Repository{root: root, dir: filepath.Join(root, Dir), opt: opt}
	exists, err := isRepositoryDir(r.dir)
	if err != nil {
		return nil, err
	}
	bare := !exists && IsBareDir(root)
	if bare {
		if r.dir, err = realDir(root); err != nil {
			return nil, err
		}
		r.root = "/"
		disk.AddRepository(r.dir)
	}
	if r.at = pathBelow(r.root, opt.WorkDir); bare && pathBelow(r.dir, opt.WorkDir) != "" {
		r.at = ""
	}

	r.config, err = loadConfig(r.dir)
	if err == nil {
		r.config.user = opt.User
		r.opt.Sign.signer = opt.Sign.newSigner(r.config)
	}
	if err == nil && r.config.bare() != bare {
		err = &ConfigError{Err: fmt.Errorf("%w: a bare repository is a folder of its own, not named .kist", ErrUnsupportedFormat)}
	}
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%q: %w", root, ErrNoRepository)
	}
	if err != nil {
		return nil, err
	}
	params, err := r.config.params()
	if err != nil {
		return nil, err
	}
	if r.chunker, err = chunker.New(params); err != nil {
		return nil, err
	}

	r.refs = refs.Open(r.dir, opt.Date)
	r.refs.ByDate = func(rev string) {
		opt.Warn(rev + ": the reflog does not go back so far; this is the commit of that time by its date")
	}
	r.refs.Upstream = func(branch string) (string, error) { return r.config.TrackingBranch(branch) }
	r.purges = &Purges{dir: r.dir, damaged: r.warnRecords}
	if r.held, err = disk.HoldRepository(r.dir); err != nil {
		return nil, err
	}
	r.objects, err = volume.Open(r.dir, volume.Options{Now: opt.Now, Rand: opt.Random, Warn: opt.Warn, ReadOnly: opt.ReadOnly, Lazy: r.config.IsLazy()})
	if err != nil {
		r.held.Close()
		return nil, err
	}
	lost, err := ReadLost(r.dir)
	if err == nil || errors.Is(err, ErrLostList) { // verify reports damage
		r.objects.SetLost(lost)
		r.worktree, err = worktree.Open(r.root, r.WorktreeOptions(r.root))
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// pathBelow returns the path of dir below root, with slashes. It is "" if dir is not below
// root.
func pathBelow(root, dir string) string {
	rel, err := filepath.Rel(root, dir)
	if err != nil || dir == "" {
		return ""
	}
	path, err := tree.CleanPath(filepath.ToSlash(rel))
	if err != nil {
		return ""
	}
	return path
}

// WorktreeOptions returns the options to open dir as a worktree. It then stores files as the
// configuration says.
func (r *Repository) WorktreeOptions(dir string) worktree.Options {
	o := worktree.Options{Chunker: r.chunker, Objects: r.objects, Now: r.opt.Now, Jobs: r.opt.Jobs, Umask: r.opt.Umask, SetID: r.opt.SetID, Metadata: r.config.Metadata == MetadataFull, IgnoreFiles: append(r.config.Values(KeyIgnoreFiles), worktree.IgnoreFile)}
	git, _ := r.config.Get(KeyGit)
	o.Git = git == GitWrite
	if dir == r.root {
		o.RepoName = strings.TrimPrefix(filepath.ToSlash(r.dir[len(r.root):]), "/")
		o.TempDir = o.RepoName + "/tmp"
		o.Roots, o.Remotes = recordedRoots(r), remoteFolders(r)
		o.Xattrs = selectedXattrs(r.config, r.opt.Xattrs)
		if text, _ := r.config.Get(KeyBackupIgnore); r.IsBare() && text != "true" {
			o.IgnoreFiles = []string{}
		}
	}
	return o
}

// selectedXattrs returns the choice of extended attributes, or nil for all.
func selectedXattrs(c *Config, o XattrOptions) func(name string) bool {
	include, exclude := o.Include, o.Exclude
	if include == nil {
		include = c.Values(KeyIncludeXattr)
	}
	if exclude == nil {
		exclude = c.Values(KeyExcludeXattr)
	}
	text, _ := c.Get(KeyNoXattrs)
	none := text == "true"
	if o.None != nil {
		none = *o.None
	}

	if none {
		exclude = []string{"*"}
	}
	if len(include)+len(exclude) == 0 {
		return nil
	}
	return worktree.SelectXattrs(include, exclude)
}

// IsBare reports whether the repository is bare: it has no worktree of its own. A bare
// repository records the paths in the key [KeyBackupPaths] under their absolute paths. It
// never writes to them.
func (r *Repository) IsBare() bool { return r.config.bare() }

// recordedRoots returns the paths that a bare repository records, relative to "/". The result is nil
// for other repositories.
func recordedRoots(r *Repository) []string {
	if !r.IsBare() {
		return nil
	}
	roots := []string{}
	for _, path := range r.config.Values(KeyBackupPaths) {
		roots = append(roots, filepath.ToSlash(filepath.Clean("/" + path))[1:])
	}
	return roots
}

// remoteFolders returns the paths, relative to "/", of the remotes that a bare repository has
// in folders. A remote that is another repository with files of its own is none.
func remoteFolders(r *Repository) (paths []string) {
	if !r.IsBare() {
		return nil // such a remote is not inside the worktree
	}
	for _, m := range r.config.Remote {
		path, ok := remote.FolderPath(m.URL)
		if !ok {
			continue
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.Home(), path)
		}
		parent, err := realDir(filepath.Dir(path)) // the first push makes the folder
		if err != nil {
			continue
		}
		path = filepath.Join(parent, filepath.Base(path))
		if real, err := realDir(path); err == nil {
			path = real
		}
		if _, err := disk.Lstat(filepath.Join(path, Dir)); err != nil && !IsBareDir(path) {
			paths = append(paths, filepath.ToSlash(path)[1:])
		}
	}

	return paths
}

// realDir returns the absolute path of a folder, with all symlinks resolved.
func realDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// IsBareDir reports whether dir is a bare repository. If its configuration is damaged,
// [Open] reports that.
func IsBareDir(dir string) bool {
	for _, name := range []string{"config", "HEAD", "volumes", "refs"} {
		info, err := disk.Lstat(filepath.Join(dir, name))
		if err != nil || info.IsDir() != (name == "volumes" || name == "refs") {
			return false
		}
	}
	c, err := loadConfig(dir)
	return filepath.Base(dir) != Dir && (err != nil || c.bare())
}

// Close closes the repository's files.
func (r *Repository) Close() error { return errors.Join(r.objects.Close(), r.held.Close()) }

// Root returns the absolute path of the worktree.
func (r *Repository) Root() string { return r.root }

// Home returns the folder by which users name the repository: the worktree, or the
// repository itself if it is bare.
func (r *Repository) Home() string {
	if r.IsBare() {
		return r.dir
	}
	return r.root
}

// Config returns the configuration. The caller must not change it.
func (r *Repository) Config() *Config { return r.config }

// SetConfig changes a key of the configuration, such as "user.name"; a nil
// value removes it.
func (r *Repository) SetConfig(ctx context.Context, key string, value any) error {
	return r.EditConfig(ctx, func(c *Config) error {
		return c.set(key, value)
	})
}

// AddConfig adds a value to the list of a key, unless the list has it already.
func (r *Repository) AddConfig(ctx context.Context, key, value string) error {
	return r.EditConfig(ctx, func(c *Config) error {
		return c.values.add(key, value, RepositoryOnly, c.bare())
	})
}

// EditConfig reads the configuration from disk, changes it with edit, and writes it. It
// holds config.lock meanwhile.
func (r *Repository) EditConfig(ctx context.Context, edit func(*Config) error) error {
	lock, err := disk.Lock(ctx, filepath.Join(r.dir, "config.lock"), disk.Exclusive, disk.DefaultWait)
	if err != nil {
		return err
	}
	defer lock.Unlock()

	c, err := loadConfig(r.dir)
	if err != nil {
		return err
	}
	if err := edit(c); err != nil {
		return err
	}

	data, err := c.encode()
	if err != nil {
		return err
	}
	if c, err = parseConfig(data); err != nil {
		return err
	}
	if err := disk.WriteFile(filepath.Join(r.dir, "config"), data); err != nil {
		return err
	}
	c.user = r.opt.User
	r.config = c
	return nil
}

// Refs returns the names of commits: HEAD, branches and tags.
func (r *Repository) Refs() *refs.Store { return r.refs }

// Objects returns the local store. Read the contents of files through Contents.
func (r *Repository) Objects() *volume.Store { return r.objects }

// Index reads the index. If the index is missing although HEAD has files, the error matches
// [index.ErrDamaged]: with an empty index, the next commit would remove all files.
func (r *Repository) Index() (*index.Index, error) {
	idx, err := index.Load(r.dir)
	if err != nil || idx.Saved() {
		return idx, err
	}

	at, err := r.refs.Head()
	if err != nil {
		return idx, err
	}
	head, err := r.RecordedTree(context.Background(), at.ID)
	if empty, _ := object.EmptyTree(); err != nil || head.IsZero() || head == empty {
		return idx, err
	}

	if idx, err = index.Load(r.dir); err != nil || idx.Saved() {
		return idx, err // another process wrote the index, and then the commit
	}
	return nil, index.Damaged("index", errors.New("missing, though HEAD has files"))
}

// Worktree returns the worktree.
func (r *Repository) Worktree() *worktree.Worktree { return r.worktree }

// Resolve returns the ID of the commit that a revision names. docs/revisions.md describes
// the forms of a revision.
func (r *Repository) Resolve(ctx context.Context, rev string) (object.ID, error) {
	return r.refs.Resolve(ctx, r.objects, rev)
}

// ReadCommit returns the commit that a revision names.
func (r *Repository) ReadCommit(ctx context.Context, rev string) (object.ID, *object.Commit, error) {
	id, err := r.Resolve(ctx, rev)
	if err != nil {
		return id, nil, err
	}
	c, err := object.ReadCommit(ctx, r.objects, id)
	return id, c, err
}

// Stamp returns the committer and the present time.
func (r *Repository) Stamp() object.Stamp {
	name, _ := r.config.Get("user.name")
	email, _ := r.config.Get("user.email")
	name, email = r.opt.Identity(name, email)
	now := r.opt.Date()
	_, offset := now.Zone()
	return object.Stamp{Name: name, Email: email, Time: object.TimeOf(now), Zone: int16(offset / 60)}
}

// Who returns the user's name and address, as reflogs record them.
func (r *Repository) Who() refs.Who {
	s := r.Stamp()
	return refs.Who{Name: s.Name, Email: s.Email}
}

// Dir returns the absolute path of the .kist folder.
func (r *Repository) Dir() string { return r.dir }

// At returns the path, in the repository, of the user's working directory. It is empty for
// the root, and for a directory elsewhere.
func (r *Repository) At() string { return r.at }

// Options returns the options of [Open], with defaults.
func (r *Repository) Options() Options { return r.opt }

// Chunker returns the chunker with the repository's parameters.
func (r *Repository) Chunker() *chunker.Chunker { return r.chunker }

// Purges returns the purges in the repository's records.
func (r *Repository) Purges() *Purges { return r.purges }

// RecordedTree returns the tree that a commit names. It is zero for the zero commit, and for
// a commit whose loss was accepted. The tree of an expired commit may be missing.
func (r *Repository) RecordedTree(ctx context.Context, commit object.ID) (object.ID, error) {
	if commit.IsZero() || r.objects.IsLost(object.Key{Kind: object.KindCommit, ID: commit}) {
		return object.ID{}, nil
	}
	c, err := object.ReadCommit(ctx, r.objects, commit)
	if err != nil {
		return object.ID{}, err
	}
	return c.Tree, nil
}
