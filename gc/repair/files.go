package repair

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/views"
	"github.com/kist-vcs/kist/tree/work/bisect"
	"github.com/kist-vcs/kist/tree/work/pending"
)

// Sort is the purpose of a file below the .kist folder.
type Sort string

// The sorts of files.
const (
	Data  Sort = "data"  // its loss loses something
	Copy  Sort = "copy"  // of data elsewhere; its loss loses nothing
	Note  Sort = "note"  // a hint of a command for later commands, or for people
	Lock  Sort = "lock"  // its content does not matter
	Temp  Sort = "temp"  // the next writer removes it
	Aside Sort = "aside" // nothing reads it
)

// KnownFiles describes files below the .kist folder. Every file that kist makes there matches an
// entry of [Files].
type KnownFiles struct {
	Pattern string // of [path.Match] for the path; a last element ** matches all below
	Sort    Sort
	What    string // the content, and what its loss means

	// Unproven is why verify does not name changed bytes of the file. Absent is why it does
	// not name its absence, and Cut a lost part. Empty: verify names it.
	Unproven, Cut, Absent string

	// check finds the damage of all files of the entry; nil: verify reads them anyway.
	check func(ctx context.Context, r *kist.Repository, o gc.VerifyOptions) ([]*gc.Problem, error)
}

// Reasons that several files share.
const (
	noProof  = "nothing else here shows that it existed"
	anyText  = "a person may write any text"
	harmless = "nothing is lost with it"
)

// Files lists everything that kist makes below the .kist folder. A file belongs to the first
// entry whose pattern matches.
var Files = []KnownFiles{
	{Pattern: "HEAD", Sort: Data, What: "the current branch"},
	{Pattern: "config", Sort: Data, What: "settings; without its polynomial, new content is not deduplicated with older content",
		Unproven: anyText + "; no command opens a file with an error", Cut: anyText,
		Absent: "without it, the folder is no repository, and no command opens it"},
	{Pattern: "index", Sort: Data, What: "the staged changes"},
	{Pattern: "index.base-*", Sort: Data, What: "the larger part of the index"},

	{Pattern: "refs/heads/**", Sort: Data, What: "branches"},
	{Pattern: "refs/stash", Sort: Data, What: "the newest stash"},
	{Pattern: "refs/remotes/*/HEAD", Sort: Copy, What: "the branch that a remote has checked out", Absent: "fetch writes it again"},
	{Pattern: "refs/remotes/**", Sort: Data, What: "the last known branches of remotes"},
	{Pattern: "refs/tags/**", Sort: Data, What: "tags", Absent: noProof + ": a tag has no log"},
	{Pattern: "refs/bisect/*", Sort: Data, What: "marked commits of a bisect", Absent: "the log in BISECT_MSG has them"},
	{Pattern: "refs/pending/**", Sort: Data, What: "changes that a server has taken", Absent: noProof},
	{Pattern: "refs/**", Sort: Data, What: "other names that keep commits", Absent: noProof},
	{Pattern: "logs/**", Sort: Data, What: "former values of refs, and the list of stashes"},
	{Pattern: "*_HEAD", Sort: Data, What: "commits of an operation in progress", Absent: noProof},
	{Pattern: "BISECT_MSG", Sort: Data, What: "the state of a bisect", Unproven: "it has no checksum", Cut: "it has no checksum",
		Absent: noProof, check: checkBisect},
	{Pattern: "STEPS_MSG", Sort: Data, What: "the steps of a revert, cherry-pick or rebase", Unproven: "it has no checksum",
		Cut: "it has no checksum", Absent: noProof},
	{Pattern: "*_MSG", Sort: Data, What: "the message of the next commit", Unproven: anyText, Cut: anyText, Absent: noProof},

	{Pattern: "records", Sort: Data, What: "holds, expirations and purges"},
	{Pattern: "records.copy", Sort: Copy, What: "a copy of the records", Absent: "the next change writes it again", check: checkCopy},
	{Pattern: "lost", Sort: Data, What: "objects whose loss was accepted", Absent: "verify names the objects again"},
	{Pattern: "rewritten/*", Sort: Note, What: "the new IDs of rewritten commits", Unproven: harmless, Cut: harmless, Absent: harmless},
	{Pattern: "pending/*.cut", Sort: Aside, What: "a copy of a damaged journal", Unproven: harmless, Cut: harmless, Absent: harmless},
	{Pattern: "pending/*", Sort: Data, What: "changes that a server has taken since the last checkpoint",
		Cut: "after a kill, a journal may end within a record", Absent: noProof, check: checkJournals},

	{Pattern: "volumes/damaged", Sort: Note, What: "known damaged copies", Unproven: harmless, Cut: harmless, Absent: harmless},
	{Pattern: "volumes/dropped", Sort: Note, What: "removed commits in volumes that stay", Unproven: "the commits are garbage",
		Cut: "the commits are garbage", Absent: "the commits are garbage, and gc drops them again"},
	{Pattern: "volumes/trash-*/**", Sort: Temp, What: "a removed volume", Unproven: harmless, Cut: harmless, Absent: harmless},
	{Pattern: "volumes/tmp-*/**", Sort: Temp, What: "a volume that is being written", Unproven: harmless, Cut: harmless, Absent: harmless},
	{Pattern: "volumes/tmp-*", Sort: Lock, What: "the lock of a volume that is being written", Unproven: harmless, Cut: harmless, Absent: harmless},
	{Pattern: "volumes/*/*", Sort: Data, What: "objects"},

	{Pattern: "remotes/*/head", Sort: Data, What: "the last root seen: shows that a remote was set back"},
	{Pattern: "remotes/*/remote", Sort: Copy, What: "the identity of a remote", Absent: "it is read from the remote again"},
	{Pattern: "remotes/*/index/*", Sort: Copy, What: "copies of index files", Absent: "they are read from the remote again"},
	{Pattern: "remotes/*/state/*", Sort: Copy, What: "copies of the state of a remote", Absent: "they are read from the remote again"},
	{Pattern: "remotes/*/keys/lock", Sort: Lock, What: "a lock", Unproven: harmless, Cut: harmless, Absent: harmless},
	{Pattern: "remotes/*/keys/known", Sort: Data, What: "the keys of an encrypted remote that were seen: shows that others took their place",
		Absent: noProof},
	{Pattern: "remotes/*/keys/keyset", Sort: Copy, What: "a copy of the encrypted keys of a remote", Absent: "it is read from the remote again"},
	{Pattern: "remotes/*/push/*/lock", Sort: Lock, What: "a lock", Unproven: harmless, Cut: harmless, Absent: harmless},
	{Pattern: "remotes/*/push/*/*", Sort: Copy, What: "packs of an interrupted push", Absent: "the next push sends them again"},
	{Pattern: "remotes/*/promise", Sort: Copy, What: "the commits whose content may be away", Absent: "the next fetch makes it again"},
	{Pattern: "remotes/*/*", Sort: Note, What: "locks of files, the last backup, notes", Unproven: harmless, Cut: harmless, Absent: harmless},

	{Pattern: "versions/changes", Sort: Copy, What: "the index of history", Unproven: "its reader heals it",
		Cut: "its reader heals it", Absent: "its reader makes it"},
	{Pattern: "lent", Sort: Copy, What: "files of the worktree that have content which is away", Unproven: "its reader checks the content of the files",
		Cut: "nothing is lent without it", Absent: "nothing is lent without it"},
	{Pattern: "views/.state/*.dirty", Sort: Temp, What: "a view that is being changed", Unproven: harmless, Cut: harmless, Absent: harmless},
	{Pattern: "views/.state/*", Sort: Copy, What: "the states of views", check: checkViews},
	{Pattern: "views/.pool/**", Sort: Copy, What: "the files of views"},
	{Pattern: "views/**", Sort: Copy, What: "the links of views", Unproven: "kist view verify compares them",
		Cut: "kist view verify compares them", Absent: "kist view verify compares them"},

	{Pattern: "quarantine/**", Sort: Aside, What: "damaged files of earlier repairs", Unproven: harmless, Cut: harmless, Absent: harmless},
	{Pattern: "CLONING", Sort: Note, What: "an unfinished clone", Unproven: harmless, Cut: harmless, Absent: "the next clone starts again"},
	noteFile("backup.last"), noteFile("checked"), noteFile("gc.due"), noteFile("gc.last"), noteFile("gc.failed"), noteFile("away.last"), noteFile("unrecorded"), noteFile("identity"),
	noteFile("beside-git"),
	{Pattern: "reserve", Sort: Aside, What: "space for commands that free space on a full disk", Unproven: harmless, Cut: harmless, Absent: harmless},
	{Pattern: "*.lock", Sort: Lock, What: "a lock", Unproven: harmless, Cut: harmless, Absent: harmless},
	{Pattern: "refs.tmp/**", Sort: Temp, What: "refs that are being written", Unproven: harmless, Cut: harmless, Absent: harmless},
	{Pattern: "tmp/**", Sort: Temp, What: "files that are being written", Unproven: harmless, Cut: harmless, Absent: harmless},
	{Pattern: "*.tmp", Sort: Temp, What: "a file that is being written", Unproven: harmless, Cut: harmless, Absent: harmless},
	{Pattern: "index*.new", Sort: Temp, What: "an index that is being written", Unproven: harmless, Cut: harmless, Absent: harmless},
}

// noteFile returns the entry of a file that a program may remove.
func noteFile(name string) KnownFiles {
	return KnownFiles{Pattern: name, Sort: Note, What: "a note of a command", Unproven: harmless, Cut: harmless, Absent: harmless}
}

// Describe returns the entry for a slash-separated path below the .kist folder, or nil.
func Describe(file string) *KnownFiles {
	for i, f := range Files {
		if f.matchesPath(file) {
			return &Files[i]
		}
	}
	return nil
}

// matchesPath reports whether the pattern matches a path.
func (f *KnownFiles) matchesPath(file string) bool {
	pattern, all := strings.CutSuffix(f.Pattern, "/**")
	if all {
		elements := strings.SplitN(file, "/", strings.Count(pattern, "/")+2)
		if len(elements) != strings.Count(pattern, "/")+2 {
			return false
		}
		file = strings.Join(elements[:len(elements)-1], "/")
	}
	ok, err := path.Match(pattern, file)
	return ok && err == nil
}

// Verify is [gc.VerifyRepository] that also checks the files of [Files] which no other part
// reads, and lists unknown files.
func Verify(ctx context.Context, r *kist.Repository, o gc.VerifyOptions) (*gc.Report, error) {
	report, err := gc.VerifyRepository(ctx, r, o)
	if err != nil {
		return nil, err
	}
	problems, err := checkFiles(ctx, r, o)
	report.Problems = append(report.Problems, problems...)
	if err == nil {
		report.Unknown, err = unknownFiles(r.Dir())
	}
	return report, err
}

// checkFiles makes the checks of [Files].
func checkFiles(ctx context.Context, r *kist.Repository, o gc.VerifyOptions) (problems []*gc.Problem, err error) {
	for _, f := range Files {
		if f.check == nil {
			continue
		}
		found, err := f.check(ctx, r, o)
		if err != nil {
			return problems, err
		}
		problems = append(problems, found...)
	}
	return problems, nil
}

// unknownFiles returns the sorted paths of the files that match no entry of [Files].
func unknownFiles(dir string) (list []string, err error) {
	err = fs.WalkDir(os.DirFS(dir), ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed meanwhile
		case err != nil:
			return err
		case d.IsDir() && (file == "quarantine" || path.Dir(file) == "views" && !strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir // the user's, as a whole
		case !d.IsDir() && Describe(file) == nil:
			list = append(list, file)
		}
		return nil
	})
	return list, err
}

func checkCopy(_ context.Context, r *kist.Repository, _ gc.VerifyOptions) ([]*gc.Problem, error) {
	err := r.Records().CheckCopy()
	if errors.Is(err, object.ErrCorrupt) {
		return []*gc.Problem{{Err: err}}, nil
	}
	return nil, err
}

func checkBisect(_ context.Context, r *kist.Repository, _ gc.VerifyOptions) ([]*gc.Problem, error) {
	_, err := bisect.Current(r)
	if errors.Is(err, object.ErrCorrupt) {
		return []*gc.Problem{{Err: err}}, nil
	}
	if errors.Is(err, bisect.ErrNone) {
		err = nil
	}
	return nil, err
}

func checkJournals(_ context.Context, r *kist.Repository, _ gc.VerifyOptions) (problems []*gc.Problem, err error) {
	damage, err := pending.CheckJournals(r)
	for _, d := range damage {
		problems = append(problems, &gc.Problem{Where: d.Name, Err: d})
	}
	return problems, err
}

// ErrView is the kind of the [*object.DamageError] for a file of a view.
var ErrView = errors.New("a file of a view is damaged")

func checkViews(ctx context.Context, r *kist.Repository, o gc.VerifyOptions) (problems []*gc.Problem, err error) {
	found, err := views.CheckFiles(ctx, r, o.Volumes.ReadData)
	for _, p := range found {
		damage := &object.DamageError{Name: p.Path, Err: errors.New(string(p.Kind)), Kind: ErrView}
		problems = append(problems, &gc.Problem{Where: p.Path, Err: damage})
	}
	return problems, err
}

// repairViews rebuilds the damaged files of views from history.
func repairViews(ctx context.Context, p *repairer, report *gc.Report) (did bool, err error) {
	var files []string
	for _, problem := range report.Problems {
		if errors.Is(problem.Err, ErrView) && p.isFirstTry(problem.Where) {
			files = append(files, problem.Where)
		}
	}
	if len(files) == 0 {
		return false, nil
	}

	if !p.o.DryRun {
		for _, v := range views.All(p.repo) {
			if _, err := views.Verify(ctx, p.repo, v.Name, views.VerifyOptions{Fix: true}); err != nil {
				if err := ctx.Err(); err != nil {
					return false, err
				}
				p.repo.Options().Warn("the view \"" + v.Name + "\" is not rebuilt: " + err.Error())
			}
		}
	}
	left, err := checkViews(ctx, p.repo, gc.VerifyOptions{})
	for _, file := range files {
		stays := slices.ContainsFunc(left, func(problem *gc.Problem) bool { return problem.Where == file })
		if p.o.DryRun || !stays {
			p.addRepaired(file, "rebuilt from history")
			did = true
		}
	}
	return did, err
}
