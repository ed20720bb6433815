package worktree

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kist-vcs/kist/tree"
)

// findFold reports whether the file system ignores the case of names. It tries
// the name of the repository's folder in upper case, or else that of a new
// temporary file.
func (w *Worktree) findFold() bool {
	root, err := w.fs.openFolder("")
	if err != nil {
		return false
	}
	defer root.Close()
	name := w.opt.RepoName
	st, have := w.repo()
	if !have {
		at := (*tempFolder)(nil).stage(root)
		f, err := root.create(at.name, 0o600)
		if err != nil {
			return false
		}
		defer at.drop()
		defer f.Close()
		if st, err = f.stat(); err != nil {
			return false
		}
		name = at.name
	}

	other, err := root.lstat(strings.ToUpper(name))
	return err == nil && name != strings.ToUpper(name) && other.ino == st.ino && other.dev == st.dev
}

// refuseCollisions marks operations as failed if the file system would give
// two of their paths, or of the folders above, the same name.
func (a *applier) refuseCollisions() {
	if !a.w.foldsCase() {
		return
	}

	spellings := map[string][2]string{} // by folded path: the first two spellings
	for i := range a.ops {
		if a.ops[i].New == nil {
			continue
		}
		for path, folded := range prefixes(a.ops[i].Path) {
			have := spellings[folded]
			if have[0] == path {
				break // the folders above are known, too
			}
			switch {
			case have[0] == "":
				have[0] = path
			case have[1] == "":
				have[1] = path
			}
			spellings[folded] = have
		}
	}

	for i := range a.ops {
		if a.ops[i].New == nil {
			continue
		}
		for path, folded := range prefixes(a.ops[i].Path) {
			if have := spellings[folded]; have[1] != "" {
				other := have[0]
				if other == path {
					other = have[1]
				}
				a.state[i] = opFailed
				a.fails.add(a.ops[i].Path, &CollisionError{Other: other})
				break
			}
		}
	}
}

// prefixes yields a path and all folders above it, longest first, each as it
// is and folded.
func prefixes(path string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for folded := foldCase(path); path != ""; {
			if !yield(path, folded) {
				return
			}
			path, _ = tree.Split(path)
			folded, _ = tree.Split(folded)
		}
	}
}

// foldCase returns the same string for all paths that differ only in case.
func foldCase(path string) string {
	if !utf8.ValidString(path) {
		return path
	}
	return strings.Map(func(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }, path)
}
