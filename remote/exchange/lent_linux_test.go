package exchange_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// editingReader changes a lent file before a certain read of it.
type editingReader struct {
	elsewhere

	mu        sync.Mutex // guards the following
	reads, at int        // number of reads; the edit comes before this one
	edit      func()
	found     int // number of lent chunks
}

type elsewhere interface {
	object.BatchReader
	io.Closer
	Room() int64
	FindUnkept(ctx context.Context, keys []object.Key) (gone, unkept []object.Key, err error)
	volume.LentReader
}

func (e *editingReader) GetLent(key object.Key) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reads++; e.reads == e.at {
		e.edit()
	}
	data := e.elsewhere.GetLent(key)
	if data != nil {
		e.found++
	}
	return data
}

// TestEditsOfLent changes a lent file in the middle of a push, a verify and a checkout. No wrong byte comes out, and
// the file is no damage.
func TestEditsOfLent(t *testing.T) {
	film := kisttest.Noise(1, 4_000_000)
	edits := map[string]func(path string) error{
		"truncate": func(path string) error { return os.Truncate(path, 100_000) },
		"replace":  func(path string) error { return replaceFile(path, bytes.ToUpper(film)) },
		"in place": func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("x"), len(film)), 0o666) },
		"map":      func(path string) error { return changeMapped(path) },
		"symlink": func(path string) error {
			if err := os.Rename(path, path+".old"); err != nil {
				return err
			}
			return os.Symlink(filepath.Base(path)+".old", path)
		},
		"remove": os.Remove,
		"symlink above": func(path string) error { // to a folder outside, with another film
			outside := t.TempDir()
			if err := os.WriteFile(filepath.Join(outside, filepath.Base(path)), bytes.Repeat([]byte("s"), len(film)), 0o666); err != nil {
				return err
			}
			if err := os.RemoveAll(filepath.Dir(path)); err != nil {
				return err
			}
			return os.Symlink(outside, filepath.Dir(path))
		},
	}
	reads := map[string]func(t *testing.T, s *kisttest.Repository, r *kist.Repository){
		"push": func(t *testing.T, s *kisttest.Repository, r *kist.Repository) {
			_, err := exchange.Push(t.Context(), r, exchange.PushOptions{Remote: "second", Refs: []registry.PushRef{
				{Name: "refs/heads/main", Source: "main", ID: s.Head(), Kind: object.KindCommit},
			}})
			kisttest.Check(t, err)
		},
		"verify": func(t *testing.T, s *kisttest.Repository, r *kist.Repository) {
			report, err := gc.VerifyRepository(t.Context(), r, gc.VerifyOptions{Volumes: volume.CheckOptions{ReadData: true}})
			if err != nil || len(report.Problems) > 0 || report.Lent.Objects == 0 || report.Lent.Changed == 0 {
				t.Errorf("verify: %+v, %v", report, err)
			}
		},
		"checkout": func(t *testing.T, s *kisttest.Repository, r *kist.Repository) {
			_, err := checkout.Restore(t.Context(), r, checkout.RestoreOptions{Paths: []string{"copy"}, Source: "HEAD", Worktree: true})
			kisttest.Check(t, err)
			got, err := os.ReadFile(filepath.Join(r.Root(), "copy"))
			if err != nil || !bytes.Equal(got, film) {
				t.Errorf("the restored file has %d wrong bytes, %v", len(got), err)
			}
		},
	}

	for read, run := range reads {
		for name, edit := range edits {
			t.Run(read+"/"+name, func(t *testing.T) {
				s := kisttest.New(t)
				stores := map[string]remote.Backend{"/first": remotetest.NewMemory(), "/second": remotetest.NewMemory()}
				r, err := kist.Open(s.Dir, kist.Options{Backend: func(_ context.Context, url string) (remote.Backend, error) { return stores[url], nil }})
				s.Check(err)
				defer r.Close()
				exchange.Connect(t.Context(), r)
				s.Check(registry.Add(t.Context(), r, registry.Remote{Name: "origin", URL: "/first"}))
				s.Check(registry.Add(t.Context(), r, registry.Remote{Name: "second", URL: "/second"}))
				s.Write("d/film", string(film))
				s.Write("copy", string(film))
				s.Add(stage.AddOptions{})
				s.Commit("first")
				s.Push(r, "main")
				s.Check(os.Remove(filepath.Join(s.Dir, "copy"))) // so that film is lent
				_, err = exchange.Evict(t.Context(), r, exchange.EvictOptions{})
				s.Check(err)

				e := &editingReader{elsewhere: r.Objects().Elsewhere.(elsewhere), at: 2, edit: func() { s.Check(edit(filepath.Join(s.Dir, "d/film"))) }}
				r.Objects().Elsewhere = e
				run(t, s, r)
				if e.reads < e.at || e.found == 0 {
					t.Errorf("%d reads and %d lent chunks: the edit has no effect", e.reads, e.found)
				}
				got, err := kisttest.ReadFile(t.Context(), r, s.Head(), "d/film")
				if err != nil || !bytes.Equal(got, film) {
					t.Errorf("the film has %d wrong bytes, %v", len(got), err)
				}
			})
		}
	}
}

func replaceFile(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o666); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// changeMapped changes all pages of a file through a mapping.
func changeMapped(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return err
	}
	for i := 0; i < len(data); i += 100 {
		data[i]++
	}
	return syscall.Munmap(data)
}
