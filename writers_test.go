package kist_test

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// making lists functions, methods and system calls that make or replace names of files. Those
// without a package count whatever the type is.
var making = []string{
	"os.Create", "os.Link", "os.Rename", "disk.Create", "disk.Rename", "root.Rename", "CreateTemp", "OpenFile", "WriteFile", "WriteUnsynced", "WriteHint",
	"Mkdir", "MkdirAll", "MkdirTemp", "MakeDir", "Symlink", "CopyFS",
	"Openat", "Openat2", "Mkdirat", "Renameat", "Renameat2", "Symlinkat", "Linkat", "Mknod", "Mknodat", "Mkfifo", "Mkfifoat",
}

// writers lists the files that call one of these, and the packages (with a slash at the end),
// each with the place that it writes to. Only tree/worktree and tree/views write what commits
// name, and only they have to leave out git's own folders.
var writers = map[string]string{
	"object/": "below .kist", "refs/": "below .kist", "gc/": "below .kist", "tree/index/": "below .kist", "tree/look/versions/": "below .kist", "tree/lent/": "below .kist", "tree/work/pending/": "below .kist",
	"remote/": "below .kist, and remotes", "repository.go": "below .kist", "userconfig.go": "the user's configuration",

	"tree/worktree/":               "worktrees: TestGitWriters there",
	"tree/views/":                  "views: TestGitFolders of cmd/kist/commands",
	"tree/work/checkout/target.go": "the folder that the user names",
	"tree/work/convert/delete.go":  "a new name for the folder to delete",
	"tree/work/convert/folder.go":  "nothing: it reads a folder",
	"cmd/kist/kisttest/":           "repositories of tests",

	"cmd/kist/cli/output.go":               "the archive that the user names",
	"cmd/kist/cli/notes.go":                "below .kist",
	"cmd/kist/cli/sign.go":                 "nothing: it reads the allowed signers",
	"cmd/kist/commands/work/commit.go":     "the message, below .kist",
	"cmd/kist/cli/debug.go":                "the log and the profile that the user names",
	"cmd/kist/commands/care/remotecopy.go": "an empty repository, for a copy outside of one",
	"cmd/kist/commands/look/difftool.go":   "a folder for copies, without git's own folders",
	"cmd/kist/commands/convert/gitlfs.go":  "the contents of git-lfs, in the repository that the user names",
	"cmd/kist/commands/about/docs.go":      "the pages of this project",
	"cmd/kist/commands/work/hunkchoice.go": "a hunk, below .kist",
	"cmd/kist/mount/folder.go":             "nothing: it opens folders",
	"cmd/kist/schedule/":                   "timers of the system",
}

// Every file that makes names of files is listed. A new writer of worktrees needs a test that it
// leaves out git's own folders.
func TestWritersOfFiles(t *testing.T) {
	met := map[string]bool{}
	for _, file := range goFiles(t) {
		if file.test {
			continue
		}
		row := writerRow(file.path)
		set, parsed := file.parse(t)
		ast.Inspect(parsed, func(n ast.Node) bool {
			e, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains(making, e.Sel.Name) && !slices.Contains(making, selector(e)) {
				return true
			}
			if met[row] = true; row == "" {
				t.Errorf("%s calls %s: give the file a row in writers", set.Position(e.Pos()), e.Sel.Name)
			}
			return true
		})
	}

	for row := range writers {
		if !met[row] {
			t.Errorf("writers has %q, which writes nothing", row)
		}
	}
}

// writerRow returns the row of writers for a file, or "".
func writerRow(path string) string {
	for row := range writers {
		if path == row || strings.HasSuffix(row, "/") && strings.HasPrefix(path, row) {
			return row
		}
	}
	return ""
}
