package views_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/tree/views"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// BenchmarkView compares a view of 50,000 files, with a filled pool, with making as many
// symlinks. It also measures the update after a change of one file.
func BenchmarkView(b *testing.B) {
	check := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	dir := b.TempDir()
	r, err := kist.Init(b.Context(), dir, kist.Options{}, kist.InitOptions{})
	check(err)
	defer r.Close()
	path := func(i int) string { return fmt.Sprintf("d%d/e%d/f%d", i%500, i%7, i) }
	for i := range 50_000 {
		at := filepath.Join(dir, path(i))
		check(os.MkdirAll(filepath.Dir(at), 0o777))
		check(os.WriteFile(at, fmt.Appendf(nil, "%s%d", kisttest.Secret, i), 0o666))
	}
	commit := func() {
		_, _, err := commits.StageAndCommit(b.Context(), r, stage.AddOptions{}, commits.CommitOptions{Message: "next"})
		check(err)
	}
	commit()
	_, err = views.Add(b.Context(), r, views.View{Name: "full", Template: "{path}"})
	check(err)
	full := filepath.Join(dir, ".kist/views/full")

	b.Run("symlinks", func(b *testing.B) {
		for b.Loop() {
			to := b.TempDir()
			check(filepath.WalkDir(full, func(path string, d fs.DirEntry, err error) error {
				if err != nil || path == full {
					return err
				}
				at := filepath.Join(to, path[len(full):])
				if d.IsDir() {
					return os.Mkdir(at, 0o777)
				}
				target, err := os.Readlink(path)
				if err == nil {
					err = os.Symlink(target, at)
				}
				return err
			}))
		}
	})
	b.Run("add", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n++
			_, err := views.Add(b.Context(), r, views.View{Name: fmt.Sprint("v", n), Template: fmt.Sprint(n, "/{path}")})
			check(err)
		}
		for ; n > 0; n-- {
			_, err := views.Remove(b.Context(), r, fmt.Sprint("v", n))
			check(err)
		}
	})
	b.Run("update", func(b *testing.B) {
		n := 0
		for b.Loop() {
			b.StopTimer()
			n++
			check(os.WriteFile(filepath.Join(dir, path(3)), fmt.Appendln(nil, "another content of more than 32 bytes ", n), 0o644))
			views.Follow(b.Context(), r)
			follow := r.Objects().Published
			r.Objects().Published = nil
			commit()
			b.StartTimer()
			follow(b.Context())
		}
	})
}
