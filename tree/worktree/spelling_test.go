package worktree

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// foldFS is a file system whose folder "fold", with everything below it, ignores the case of
// names. Like some file systems of networks, that folder gives a file another inode number at
// each look.
type foldFS struct{ opener }

// foldFolder is a folder of a foldFS.
type foldFolder struct {
	folder
	path  string
	folds bool
}

func (f foldFS) openFolder(path string) (folder, error) {
	top, err := f.opener.openFolder("")
	if err != nil || path == "" {
		return foldFolder{folder: top}, err
	}
	at := folder(foldFolder{folder: top})
	for name := range strings.SplitSeq(path, "/") {
		next, err := at.openSub(name)
		at.Close()
		if err != nil {
			return nil, err
		}
		at = next
	}
	return at, nil
}

// stored returns the spelling of a name in the folder.
func (d foldFolder) stored(name string) string {
	var l listing
	if !d.folds || d.readNames(&l) != nil {
		return name
	}
	for i := range l.entries {
		if strings.EqualFold(l.nameAt(i), name) {
			return strings.Clone(l.nameAt(i))
		}
	}
	return name
}

func (d foldFolder) lstat(name string) (fileStat, error) {
	st, err := d.folder.lstat(d.stored(name))
	if d.folds {
		st.ino = rand.Uint64()
	}
	return st, err
}

func (d foldFolder) openSub(name string) (folder, error) {
	name = d.stored(name)
	sub, err := d.folder.openSub(name)
	if err != nil {
		return nil, err
	}
	path := tree.Join(d.path, name)
	return foldFolder{sub, path, tree.Below(path, "fold")}, nil
}

func (d foldFolder) open(name string) (file, error) { return d.folder.open(d.stored(name)) }
func (d foldFolder) unlink(name string) error       { return d.folder.unlink(d.stored(name)) }
func (d foldFolder) rmdir(name string) error        { return d.folder.rmdir(d.stored(name)) }
func (d foldFolder) mkdir(name string, perm uint32) error {
	return d.folder.mkdir(d.stored(name), perm)
}
func (d foldFolder) pin(name string) (openPath, error) { return d.folder.pin(d.stored(name)) }

func (d foldFolder) rename(name string, to folder, newName string) error {
	target := to.(foldFolder)
	return d.folder.rename(d.stored(name), target.folder, target.stored(newName))
}

func (d foldFolder) renameNew(name string, to folder, newName string) error {
	target := to.(foldFolder)
	return d.folder.renameNew(d.stored(name), target.folder, target.stored(newName))
}

func (d foldFolder) link(name string, to folder, newName string) error {
	target := to.(foldFolder)
	return d.folder.link(d.stored(name), target.folder, target.stored(newName))
}

// Names that the file system takes for one are not written over each other, or removed for each
// other. Here only a folder below the top ignores case, and inode numbers do not show it.
func TestApplyCollisions(t *testing.T) {
	for _, test := range []struct {
		name    string
		before  string // paths of files
		make    string // paths of files, folders (/) and symlinks (@)
		remove  string
		want    string // PATH:CONTENT; made files have a + before their path
		refused string // path=other
	}{
		{"files", "", "A a b", "", "A:+A b:+b", "a=A"},
		{"letters that are not ASCII", "", "É é É2", "", "É:+É É2:+É2", "é=É"},
		{"folders with a file each", "", "Dir/ Dir/x dir/ dir/y dir/z", "", "Dir/x:+Dir/x", "dir=Dir dir/y=Dir dir/z=Dir"},
		{"an existing folder", "Dir/x", "dir/ dir/y", "", "Dir/x:Dir/x", "dir=Dir dir/y=Dir"},
		{"an existing folder, made by no operation", "Dir/x", "dir/y", "", "Dir/x:Dir/x", "dir/y=Dir"},
		{"a folder and a file", "", "A/ a", "", "", "a=A"},
		{"a symlink and a folder", "", "a@ A/ A/x", "", "A/x:+A/x", "a=A"},
		{"an existing file", "a", "A", "", "a:a", "A=a"},
		{"the same again", "a", "a A", "", "a:+a", "A=a"},
		{"a rename", "gone", "GONE", "gone", "GONE:+GONE", ""},
		{"a rename of a folder", "Dir/x", "dir/ dir/x", "Dir/x Dir/", "dir/x:+dir/x", ""},
		{"removal of the other file", "a", "", "A", "a:a", ""},
		{"removal below the other folder", "Dir/x", "", "dir/x dir/", "Dir/x:Dir/x", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newReal(t)
			f.mkdir("fold")
			for path := range strings.FieldsSeq(test.before) {
				f.write("fold/"+path, path)
			}
			f.w.fs = foldFS{f.w.fs}

			var ops []Op
			for path := range strings.FieldsSeq(test.remove) {
				op := Op{Path: "fold/" + strings.TrimSuffix(path, "/")}
				if !strings.HasSuffix(path, "/") {
					op.Old = &index.Entry{}
				}
				ops = append(ops, op)
			}
			for path := range strings.FieldsSeq(test.make) {
				entry := f.file("+" + path)
				switch at := strings.TrimRight(path, "/@"); {
				case strings.HasSuffix(path, "/"):
					ops = append(ops, Op{Path: "fold/" + at, New: dir(0o755)})
				case strings.HasSuffix(path, "@"):
					ops = append(ops, Op{Path: "fold/" + at, New: link("/nowhere")})
				default:
					ops = append(ops, Op{Path: "fold/" + at, New: entry})
				}
			}
			_, err := f.w.Apply(ctx, f.store, ops, ApplyOptions{})

			want := map[string]string{}
			for pair := range strings.FieldsSeq(test.refused) {
				path, other, _ := strings.Cut(pair, "=")
				want["fold/"+path] = "fold/" + other
			}
			same(t, "collisions", collisions(t, err), want)

			content := map[string]string{}
			for pair := range strings.FieldsSeq(test.want) {
				path, text, _ := strings.Cut(pair, ":")
				content[path] = text
			}
			same(t, "files", readFiles(t, filepath.Join(f.root, "fold")), content)
		})
	}
}

// collisions returns the paths of the collisions in the error of Apply, each with the other path.
func collisions(t *testing.T, err error) map[string]string {
	t.Helper()
	got := map[string]string{}
	var failed *ApplyError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	if failed == nil {
		return got
	}
	for _, x := range failed.Failed {
		var collision *CollisionError
		if !errors.As(x.Err, &collision) {
			t.Errorf("%s: error %v, want a CollisionError", x.Path, x.Err)
			continue
		}
		got[x.Path] = collision.Other
	}
	return got
}

// A path that Pending leaves as it is has exactly its name: a file of another name does not count.
func TestPendingCollision(t *testing.T) {
	f := newReal(t)
	f.mkdir("fold")
	f.w.fs = foldFS{f.w.fs}
	x := f.file("same")
	ops := []Op{{Path: "fold/A", New: x}, {Path: "fold/a", New: x}}
	_, err := f.w.Apply(ctx, f.store, ops, ApplyOptions{RestoreTimes: true})
	same(t, "collisions", collisions(t, err), map[string]string{"fold/a": "fold/A"})

	pending, err := f.w.Pending(ctx, ops, OverwriteAlways, ApplyOptions{RestoreTimes: true})
	f.check(err)
	if len(pending) != 1 || pending[0].Path != "fold/a" {
		t.Errorf("pending %v, want fold/a", pending)
	}
}

// readFiles returns the content of all files below a folder.
func readFiles(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, root+"/")] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
