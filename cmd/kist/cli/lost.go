package cli

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// lostAt is an object whose loss was accepted, with the path of its file or folder, or the
// name of its branch or tag. path may be empty.
type lostAt struct {
	path string
	key  object.Key
}

func (l lostAt) String() string {
	if l.path == "" {
		return l.key.String()
	}
	return QuotePath(l.path) + ": " + l.key.String()
}

// Losses are the accepted losses that a command skipped. A nil *losses skips none.
type Losses struct {
	mu      sync.Mutex // held by add
	all     map[lostAt]bool
	base    string          // the folder from which paths start
	folders map[string]bool // skipped since begin
}

// PassesOverLost makes a command skip objects whose loss was accepted. At its end, the
// command names them and exits with status 3. It is for commands that only show data.
func PassesOverLost(cmd *cobra.Command, e *Env) {
	MayExit(cmd, ExitPartial)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		e.Repo.Lost = NewLosses()
		err := e.Repo.Lost.PassOver(run(cmd, args))
		lost := e.Repo.Lost.Err()
		if lost == nil || err == nil || OutcomeOf(err).quiet {
			return cmp.Or(lost, err)
		}
		e.Warn("%v", lost)
		return err
	}
}

func NewLosses() *Losses { return &Losses{all: map[lostAt]bool{}} }

// IsTipLost reports whether the commit of a branch or tag is lost, and notes it.
func (l *Losses) IsTipLost(ctx context.Context, r *kist.Repository, name string) bool {
	_, _, err := r.ReadCommit(ctx, name)
	key, lost := object.AbsentKey(err, object.ErrLost)
	if lost {
		l.Add(ShortRef(name), key)
	}
	return lost
}

// noteFunc returns the function that receives the losses that a repository finds.
func (l *Losses) noteFunc() func(path string, key object.Key) {
	if l == nil {
		return nil
	}
	return l.Add
}

func (l *Losses) Add(path string, key object.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	path = strings.TrimSuffix(tree.Join(l.base, path), "/")
	l.all[lostAt{path, key}] = true
	if l.folders != nil && key.Kind == object.KindTree {
		l.folders[path] = true
	}
}

// BeginAt sets the folder from which paths start, and clears the folders of inSkippedFolder.
func (l *Losses) BeginAt(base string) {
	if l != nil {
		l.base, l.folders = base, map[string]bool{}
	}
}

// BeginFolders begins to note folders, and returns the method inSkippedFolder.
func (l *Losses) BeginFolders() func(path string) bool {
	l.BeginAt("")
	return l.inSkippedFolder
}

// inSkippedFolder reports whether path is in a folder that was skipped since begin.
func (l *Losses) inSkippedFolder(path string) bool {
	if l == nil || len(l.folders) == 0 {
		return false
	}
	for path != "" {
		if path, _ = tree.Split(path); l.folders[path] {
			return true
		}
	}
	return false
}

// PassOver notes err and returns nil if err is about a lost object. It returns all other errors,
// and also that of a lost commit: no command can go on without it.
func (l *Losses) PassOver(err error) error {
	key, lost := object.AbsentKey(err, object.ErrLost)
	if !lost || key.Kind == object.KindCommit {
		return err
	}
	l.Add("", key)
	return nil
}

// Err returns the error that names all losses, or nil.
func (l *Losses) Err() error {
	for lost := range l.all {
		if lost.path != "" {
			delete(l.all, lostAt{key: lost.key})
		}
	}
	if len(l.all) == 0 {
		return nil
	}

	list := slices.SortedFunc(maps.Keys(l.all), func(a, b lostAt) int {
		return cmp.Or(tree.ComparePaths(a.path, b.path), a.key.Compare(b.key))
	})
	err := LinesError(ExitPartial, "lost",
		readable.Plural(uint64(len(list)), "object is lost and left out:", "objects are lost and left out:"),
		FirstOf(list, DetailLines, "", lostAt.String))
	return Hintf(err, "'kist verify' names the commits; a fetch from a remote that has these objects brings them back")
}
