package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/operation"
)

// files maps the path of each entry of a folder to its type, permissions and
// content. It has no entries of the repository.
type files map[string]string

// readFiles returns the entries of a folder.
func (s *shell) readFiles(dir string) files {
	s.Helper()
	dir = s.path(dir)
	found := files{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == "." {
			return err
		}
		if name == kist.Dir {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := ""
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = fmt.Sprintf(" %d %x", len(data), sha256.Sum256(data))
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			content = " to " + target
		}

		found[name] = info.Mode().String() + content
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	return found
}

// wantFiles fails the test if two folders differ.
func (s *shell) wantFiles(got, want files) {
	s.Helper()
	if diff := got.diff(want); len(diff) > 0 {
		s.Fatalf("files differ:\n%s", strings.Join(diff, "\n"))
	}
}

// diff describes how f differs from want.
func (f files) diff(want files) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if f[name] != want[name] {
			lines = append(lines, fmt.Sprintf("%q: got %q, want %q", name, f[name], want[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if _, ok := want[name]; !ok {
			lines = append(lines, fmt.Sprintf("%q: got %q, want nothing", name, f[name]))
		}
	}
	return lines
}

// state is the content of a repository and its worktree, as far as commands show
// it.
type state struct {
	head      string // branch and commit
	operation string
	index     string // the tree that would be committed
	conflicts string
	refs      map[string]string // ID by name
	records   string            // names of the records that are on
	files     files
}

// readState returns the state of the repository in the folder.
func (s *shell) readState() state {
	s.Helper()
	var now state
	s.open(func(ctx context.Context, r *kist.Repository) error {
		head, err := r.Refs().Head()
		if err != nil {
			return err
		}
		now.head = head.Branch + " " + head.ID.String()
		operation, err := operation.Current(r)
		if err != nil {
			return err
		}
		if operation.Operation != "" {
			now.operation = fmt.Sprint(operation)
		}
		idx, err := r.Index()
		if err != nil {
			return err
		}
		staged, err := compare.OfIndex(ctx, r)
		if err != nil {
			return err
		}
		now.index, now.conflicts = staged.Tree.String(), conflicts(idx)
		list, err := r.Refs().List("")
		if err != nil {
			return err
		}
		now.refs = map[string]string{}

		for _, ref := range list {
			now.refs[ref.Name] = ref.ID.String()
		}

		records, err := r.Records().Load()
		for rec := range records.All() {
			if rec.On {
				now.records += rec.Name() + "\n"
			}
		}
		return err
	})

	now.files = s.readFiles(".")
	return now
}

func conflicts(idx *index.Index) string {
	var paths []string
	for _, c := range idx.Conflicts() {
		paths = append(paths, c.Path)
	}
	return fmt.Sprintf("%q", paths)
}

// diff describes how a state differs from want.
func (now state) diff(want state) []string {
	lines := now.files.diff(want.files)
	for _, part := range []struct {
		name, got, want string
	}{
		{"HEAD", now.head, want.head}, {"operation", now.operation, want.operation}, {"index", now.index, want.index},
		{"conflicts", now.conflicts, want.conflicts}, {"refs", fmt.Sprint(now.refs), fmt.Sprint(want.refs)},
		{"records", now.records, want.records},
	} {
		if part.got != part.want {
			lines = append(lines, fmt.Sprintf("%s: got %v, want %v", part.name, part.got, part.want))
		}
	}
	return lines
}

// mix describes the parts of a state that are neither old nor new: HEAD, the index,
// each ref and each file.
func (now state) mix(old, new state) (lines []string) {
	for _, part := range []struct {
		name, got, old, new string
	}{
		{"HEAD", now.head, old.head, new.head}, {"index", now.index, old.index, new.index},
		{"conflicts", now.conflicts, old.conflicts, new.conflicts},
	} {
		if part.got != part.old && part.got != part.new {
			lines = append(lines, fmt.Sprintf("%s is %v, neither %v nor %v", part.name, part.got, part.old, part.new))
		}
	}

	names := map[string]bool{}
	for _, list := range []map[string]string{now.refs, old.refs, new.refs} {
		for name := range list {
			names[name] = true
		}
	}

	for name := range names {
		if got := now.refs[name]; got != old.refs[name] && got != new.refs[name] {
			lines = append(lines, fmt.Sprintf("%s is %q, neither %q nor %q", name, got, old.refs[name], new.refs[name]))
		}
	}

	for name, got := range now.files {
		if got == old.files[name] || got == new.files[name] {
			continue
		}
		// A folder has other permissions while its entries are made.
		if strings.HasPrefix(got, "d") && (strings.HasPrefix(old.files[name], "d") || strings.HasPrefix(new.files[name], "d")) {
			continue
		}
		lines = append(lines, fmt.Sprintf("%q is %q, neither %q nor %q", name, got, old.files[name], new.files[name]))
	}

	for name, was := range old.files {
		if _, ok := now.files[name]; !ok && new.files[name] == was {
			lines = append(lines, fmt.Sprintf("%q is missing", name))
		}
	}

	slices.Sort(lines)
	return lines
}

// open calls f with the repository in the folder.
func (s *shell) open(f func(ctx context.Context, r *kist.Repository) error) {
	s.Helper()
	r, err := kist.Open(s.dir, kist.Options{Now: time.Now, Warn: func(w string) { s.Error("warning:", w) }})
	if err != nil {
		s.Fatal(err)
	}
	defer r.Close()
	if err := f(context.Background(), r); err != nil {
		s.Fatal(err)
	}
}

// wantStoredOnce fails the test if an object is in more than one volume.
func (s *shell) wantStoredOnce() {
	s.Helper()
	s.open(func(ctx context.Context, r *kist.Repository) error {
		seen := map[object.Key]bool{}
		for key, err := range r.Objects().Keys(ctx) {
			if err != nil {
				return err
			}
			if seen[key] {
				return fmt.Errorf("%s is stored twice", key)
			}
			seen[key] = true
		}
		return nil
	})
}

// copyFolder copies the folder, with times and permissions, to a new one.
func (s *shell) copyFolder() *shell {
	s.Helper()
	to := tempDir(s)
	if err := copyTree(s.dir, to); err != nil {
		s.Fatal(err)
	}
	return s.in(to)
}

// copyTree copies a folder with times and permissions. It copies symlinks as such,
// and skips devices.
func copyTree(from, to string) error {
	type folder struct {
		path string
		info fs.FileInfo
	}
	var folders []folder
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target := to + strings.TrimPrefix(path, from)
		switch {
		case d.IsDir():
			folders = append(folders, folder{target, info})
			return os.MkdirAll(target, 0o700)
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case !info.Mode().IsRegular():
			return nil
		}

		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(target, data, 0o600); err != nil {
			return err
		}
		if err := os.Chmod(target, info.Mode()); err != nil {
			return err
		}
		return os.Chtimes(target, time.Time{}, info.ModTime())
	})

	for _, f := range slices.Backward(folders) {
		if err == nil {
			err = os.Chmod(f.path, f.info.Mode())
		}
	}
	return err
}
