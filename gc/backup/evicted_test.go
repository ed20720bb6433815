package backup_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc/backup"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfer"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
)

// evictedFiles makes a repository whose files are only on the remote.
func evictedFiles(t *testing.T, files map[string]string) (*kisttest.Repository, *remotetest.Memory) {
	t.Helper()
	s, b := kisttest.New(t), remotetest.NewMemory()
	r := s.WithRemote(b)
	exchange.Connect(t.Context(), r)
	for path, data := range files {
		s.Write(path, data)
	}
	for _, limit := range []int64{0, 1} { // one push of all, and then the eviction
		report := backup.Run(t.Context(), r, backup.Options{LocalLimit: limit})
		s.Check(report.Err())
	}
	return s, b
}

// reads opens the repository once more and returns the number of requests that read needs.
func reads(s *kisttest.Repository, b *remotetest.Memory, read func(r *kist.Repository) error) int {
	s.Helper()
	r, err := kist.Open(s.Dir, kisttest.Opens(b))
	s.Check(err)
	exchange.Connect(s.Context(), r)
	b.ResetCounts()
	s.Check(read(r))
	s.Check(r.Close())
	return b.Calls(remotetest.Any)
}

// Many evicted files are read with few requests, and the second time with none.
func TestReadsOfEvicted(t *testing.T) {
	files := map[string]string{"large": objecttest.Noise(1000, 24<<20)}
	for i := range 100 {
		files[fmt.Sprintf("small/%02d", i)] = objecttest.Noise(i, 5_000)
	}
	restore := func(paths ...string) func(*kisttest.Repository, *kist.Repository) error {
		return func(s *kisttest.Repository, r *kist.Repository) error {
			for _, path := range paths {
				if err := os.RemoveAll(filepath.Join(s.Dir, path)); err != nil {
					return err
				}
			}
			_, err := checkout.Restore(s.Context(), r, checkout.RestoreOptions{Paths: paths, Source: "HEAD", Worktree: true})
			return err
		}
	}

	// Where chunks begin, and how far a reader is behind the read-ahead, differs from run to run. So the limits are
	// far above the usual number, and far below one request for each chunk.
	for name, test := range map[string]struct {
		read  func(*kisttest.Repository, *kist.Repository) error
		most  int
		again int
	}{
		"restore":                 {restore("small"), 24, 0},
		"restore of a large file": {restore("large"), 48, 48}, // the file itself is the copy here, and restore removes it first
		"archive": {func(s *kisttest.Repository, r *kist.Repository) error {
			at, err := compare.OfCommit(s.Context(), r, "HEAD")
			if err == nil {
				_, err = checkout.Archive(s.Context(), at, io.Discard, checkout.ArchiveOptions{Format: "tar", Paths: []string{"small"}})
			}
			return err
		}, 24, 0},
		"cat": {func(s *kisttest.Repository, r *kist.Repository) error {
			at, err := compare.OfCommit(s.Context(), r, "HEAD")
			if err != nil {
				return err
			}
			e, err := at.Find(s.Context(), "large")
			if err != nil {
				return err
			}
			data, err := io.ReadAll(object.NewContentReader(s.Context(), r.Contents(), e))
			if string(data) != files["large"] {
				t.Errorf("%d bytes differ", len(data))
			}
			return err
		}, 48, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := evictedFiles(t, files)
			for _, most := range []int{test.most, test.again} {
				if n := reads(s, b, func(r *kist.Repository) error { return test.read(s, r) }); n > most {
					t.Errorf("%d requests, want at most %d", n, most)
				}
			}
			for path, want := range files {
				data, err := os.ReadFile(filepath.Join(s.Dir, path))
				if err != nil || !bytes.Equal(data, []byte(want)) {
					t.Errorf("%s: %d bytes, %v; want %d", path, len(data), err, len(want))
				}
			}
		})
	}
}

// Fetched content stays here only up to the local limit.
func TestRoomForFetched(t *testing.T) {
	files := map[string]string{}
	for i := range 100 {
		files[fmt.Sprintf("%02d", i)] = objecttest.Noise(i, 5_000)
	}
	s, b := evictedFiles(t, files)
	s.Check(s.Repo.SetConfig(t.Context(), "backup.local-limit", "100KB"))
	for range 2 {
		n := reads(s, b, func(r *kist.Repository) error {
			_, err := kisttest.ReadFiles(s.Context(), r, s.Head())
			return err
		})
		if n == 0 {
			t.Error("no requests: more was kept than the limit permits")
		}
	}
	if size, err := s.Repo.Objects().Size(t.Context()); err != nil || size > 200_000 {
		t.Errorf("the repository has %d bytes, %v", size, err)
	}
}

// TestUpgradeStoresNothingTwice checks that a backup of a repository whose content was given away without a keep ref makes one
// first: it does not store the content of touched files again.
func TestUpgradeStoresNothingTwice(t *testing.T) {
	ctx := t.Context()
	s, b := evictedFiles(t, map[string]string{"file": objecttest.Noise(1, 100_000)})
	r, err := kist.Open(s.Dir, kisttest.Opens(b))
	s.Check(err)
	note := transfer.ReadKeep(registry.Dir(r, "origin"))
	_, err = exchange.Push(ctx, r, exchange.PushOptions{Remote: "origin", Refs: []registry.PushRef{{Name: note.Ref()}}})
	s.Check(err)
	s.Check(transfer.WriteKeep(ctx, registry.Dir(r, "origin"), transfer.KeepNote{}))
	s.Check(r.Close())

	s.Write("copy", objecttest.Noise(1, 100_000))
	for _, limit := range []int64{0, 1 << 20} {
		r, err := kist.Open(s.Dir, kisttest.Opens(b))
		s.Check(err)
		exchange.Connect(ctx, r)
		report := backup.Run(ctx, r, backup.Options{LocalLimit: limit})
		s.Check(report.Err())
		if report.Stored.StoredBytes > 10_000 {
			t.Errorf("limit %d: stored %d bytes again", limit, report.Stored.StoredBytes)
		}
		s.Check(r.Close())
	}
}
