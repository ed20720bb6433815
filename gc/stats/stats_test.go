package stats_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/stats"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// A randomRepo has branches and commits that share most of their content.
type randomRepo struct {
	*kisttest.Repository
	rng     *rand.Rand
	texts   []string
	commits map[object.ID]bool
}

func newRandomRepo(t *testing.T, seed uint64) *randomRepo {
	s := &randomRepo{Repository: kisttest.NewWith(t, kist.InitOptions{ChunkSize: kist.MinChunkSize}), rng: rand.New(rand.NewPCG(seed, 4)), commits: map[object.ID]bool{}}
	s.Check(s.Repo.SetConfig(t.Context(), "gc.reflog-expire", "now"))
	for range 12 {
		s.texts = append(s.texts, s.text([]int{3, 20, 32, 33, 400, 5000, 300_000}[s.rng.IntN(7)]))
	}
	return s
}

func (s *randomRepo) text(n int) string {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(s.rng.IntN(256))
	}
	return string(data)
}

// change stages changes of some files, mostly to contents of other files.
func (s *randomRepo) change() {
	for range 1 + s.rng.IntN(4) {
		path := fmt.Sprintf("%c/%c/%d", 'a'+s.rng.IntN(3), 'a'+s.rng.IntN(2), s.rng.IntN(4))
		switch text := s.texts[s.rng.IntN(len(s.texts))]; s.rng.IntN(4) {
		case 0:
			s.Write(path, s.text(1+s.rng.IntN(3000)))
		case 1:
			s.Write(path, text+"!") // shares most of its chunks
		default:
			s.Write(path, text)
		}
	}
	s.Add(stage.AddOptions{})
}

func (s *randomRepo) grow() {
	ctx := s.T.Context()
	branches := []string{"main"}
	for i := range 4 + s.rng.IntN(6) {
		s.change()
		res, err := commits.Commit(ctx, s.Repo, commits.CommitOptions{Message: fmt.Sprint(i)})
		if err == nil {
			s.commits[res.ID] = true
		} else {
			continue // nothing to commit
		}
		switch s.rng.IntN(4) {
		case 0:
			name := fmt.Sprintf("b%d", i)
			_, err := commits.CreateBranch(ctx, s.Repo, name, "HEAD", false)
			s.Check(err)
			branches = append(branches, name)
		case 1:
			_, _, err := commits.CreateTag(ctx, s.Repo, commits.TagOptions{Name: fmt.Sprintf("v%d", i), Rev: "HEAD", Message: []string{"", "a tag"}[s.rng.IntN(2)]})
			s.Check(err)
		}
		_, err = checkout.Switch(ctx, s.Repo, checkout.SwitchOptions{Rev: branches[s.rng.IntN(len(branches))], Force: true})
		s.Check(err)
	}
	if s.rng.IntN(2) == 0 {
		s.change() // stays staged
	}
}

// collectAll removes names such as ORIG_HEAD, and all garbage.
func (s *randomRepo) collectAll() {
	s.T.Helper()
	names, err := filepath.Glob(filepath.Join(s.Dir, ".kist", "*_HEAD"))
	s.Check(err)
	for _, name := range names {
		s.Check(os.Remove(name))
	}
	s.Collect(s.Repo, gc.PlanOptions{})
}

// stored returns the number of stored bytes of all objects.
func (s *randomRepo) stored() (n int64) {
	s.T.Helper()
	infos, err := s.Repo.Objects().Volumes(s.T.Context())
	s.Check(err)
	for _, info := range infos {
		n += info.Stored
	}
	return n
}

func (s *randomRepo) stats(o stats.Options) *stats.Stats {
	s.T.Helper()
	st, err := stats.Totals(s.T.Context(), s.Repo, o)
	s.Check(err)
	return st
}

// After branches and tags are deleted, gc frees exactly the bytes that stats
// reported as their own.
func TestUniqueIsFreed(t *testing.T) {
	for i := range objecttest.Rounds(t, 6) {
		seed := objecttest.Seed() + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := newRandomRepo(t, seed)
			s.grow()
			ctx := t.Context()
			reported := s.stats(stats.Options{})
			before := s.stored()
			s.collectAll()
			left := s.stored()

			rest := reported.Account.Unheld.Stored + reported.Account.Copies.Stored + reported.Spaces[len(reported.Spaces)-1].Own.Stored
			if before-left != rest {
				t.Errorf("gc freed %d bytes, stats reported %d as garbage, copies or only in logs", before-left, rest)
			}

			st := s.stats(stats.Options{})
			if st.Account.Held.Stored != left || st.Account.Unheld.Objects != 0 || st.Account.Copies.Objects != 0 {
				t.Errorf("after gc, %d bytes are stored, account %+v", left, st.Account)
			}

			head, err := s.Repo.Refs().Head()
			s.Check(err)
			var deleted []string
			for _, space := range st.Spaces {
				if space.Kind == stats.SpaceIndex || space.Kind == stats.SpaceLogs || space.Name == refs.Heads+head.Branch || s.rng.IntN(2) == 0 || len(deleted) == 3 {
					continue
				}
				deleted = append(deleted, space.Name)
			}

			if len(deleted) == 0 {
				return
			}
			together := s.stats(stats.Options{Revs: deleted}).Account.Together.Stored

			for _, name := range deleted {
				before := s.stored()
				one := s.stats(stats.Options{Revs: []string{name}})
				of := slices.IndexFunc(s.stats(stats.Options{}).Spaces, func(x stats.Space) bool { return x.Name == name })
				if of < 0 || s.stats(stats.Options{}).Spaces[of].Share != one.Spaces[0].Share || one.Account.Together != one.Spaces[0].Own {
					t.Errorf("%s alone: %+v, want its share among all spaces", name, one)
				}

				if _, ok := refs.BranchOf(name); ok {
					_, err = commits.DeleteBranch(ctx, s.Repo, name, true)
				} else {
					_, err = commits.DeleteTag(ctx, s.Repo, strings.TrimPrefix(name, refs.Tags))
				}
				s.Check(err)
				s.collectAll()

				if freed := before - s.stored(); freed != one.Spaces[0].Own.Stored {
					t.Errorf("%s: gc freed %d bytes, stats reported %d", name, freed, one.Spaces[0].Own.Stored)
				}
			}

			if freed := left - s.stored(); freed != together {
				t.Errorf("%v: gc freed %d bytes, stats reported %d together", deleted, freed, together)
			}

			// Without the newest commit, gc frees the commit and its own content.
			s.Check(func() error { _, err := checkout.Reset(ctx, s.Repo, "HEAD", checkout.ResetHard, nil); return err }())
			s.collectAll()
			commit, err := object.ReadCommit(ctx, s.Repo.Objects(), head.ID)
			s.Check(err)
			others := slices.ContainsFunc(s.stats(stats.Options{}).Spaces, func(x stats.Space) bool { return x.ID == head.ID && x.Name != refs.Heads+head.Branch })
			if len(commit.Parents) == 0 || others {
				return
			}
			last := s.stats(stats.Options{Revs: []string{"HEAD"}}).Spaces[0].Own.Stored
			_, itself, err := s.Repo.Objects().StoredSize(ctx, object.Key{Kind: object.KindCommit, ID: head.ID})
			s.Check(err)
			before = s.stored()
			staged := s.ownOfIndex()
			_, err = checkout.Reset(ctx, s.Repo, "HEAD~1", checkout.ResetHard, nil)
			s.Check(err)
			s.collectAll()

			// Files with the same content keep their times, so the index can keep trees.
			want := last + itself + staged - s.ownOfIndex()
			if freed := before - s.stored(); !s.hasCommit(head.ID) && freed != want {
				t.Errorf("newest commit: gc freed %d bytes, stats reported %d with %d of the commit itself", freed, want, itself)
			}
		})
	}
}

// ownOfIndex returns the stored bytes of the objects that only the index reaches.
func (s *randomRepo) ownOfIndex() int64 {
	s.T.Helper()
	for _, space := range s.stats(stats.Options{}).Spaces {
		if space.Kind == stats.SpaceIndex {
			return space.Own.Stored
		}
	}
	return 0
}

// hasCommit reports whether a commit is stored.
func (s *randomRepo) hasCommit(id object.ID) bool {
	has, err := s.Repo.Objects().Has(s.T.Context(), object.Key{Kind: object.KindCommit, ID: id})
	s.Check(err)
	return has
}

// below adds an object and all objects below it, except commits, to a set.
func (s *randomRepo) below(key object.Key, to map[object.Key]bool) {
	if key.IsZero() || to[key] {
		return
	}
	to[key] = true
	data, err := s.Repo.Objects().Get(s.T.Context(), key)
	s.Check(err)
	links, err := object.Links(key.Kind, data)
	s.Check(err)
	for _, link := range links {
		if link.Kind != object.KindCommit {
			s.below(link, to)
		}
	}
}

// size returns the stored bytes of the objects of a set that are not in another.
func (s *randomRepo) size(keys, without map[object.Key]bool) (n int64) {
	for key := range keys {
		if !without[key] {
			_, stored, err := s.Repo.Objects().StoredSize(s.T.Context(), key)
			s.Check(err)
			n += stored
		}
	}
	return n
}

// The stats of commits and paths equal the sums over their complete sets of
// objects.
func TestStatsOfPathsAndCommits(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			s := newRandomRepo(t, 100+seed)
			s.grow()
			idx, err := s.Repo.Index()
			s.Check(err)
			staged := map[object.Key]bool{}
			for key := range idx.Roots() {
				if has, err := s.Repo.Objects().Has(ctx, key); err == nil && has {
					s.below(key, staged)
				}
			}
			head, err := s.Repo.Refs().Head()
			s.Check(err)
			content := map[object.ID]map[object.Key]bool{}
			trees := map[object.ID]object.ID{}
			for id := range s.commits {
				c, err := object.ReadCommit(ctx, s.Repo.Objects(), id)
				s.Check(err)
				content[id], trees[id] = map[object.Key]bool{}, c.Tree
				s.below(object.Key{Kind: object.KindTree, ID: c.Tree}, content[id])
			}
			st := s.stats(stats.Options{Commits: true})
			if len(st.Spaces) != len(s.commits) {
				t.Fatalf("%d spaces, want %d", len(st.Spaces), len(s.commits))
			}
			for _, space := range st.Spaces {
				others := map[object.Key]bool{}
				if space.ID != head.ID {
					maps.Copy(others, staged)
				}
				for id, keys := range content {
					if id != space.ID {
						maps.Copy(others, keys)
					}
				}
				all, own := s.size(content[space.ID], nil), s.size(content[space.ID], others)
				if space.All.Stored != all || space.Own.Stored != own {
					t.Errorf("%s: stats %+v, want %d bytes, %d of its own", space.ID.Short(), space.Share, all, own)
				}
			}

			for _, paths := range [][]string{{"a"}, {"a/b"}, {"a", "b/a", "c/b/1"}, {"b/a/2"}, {""}} {
				got, err := stats.Totals(ctx, s.Repo, stats.Options{Paths: paths})
				if errors.Is(err, tree.ErrNotExist) {
					continue
				}
				kisttest.Check(t, err)
				sets := make([]map[object.Key]bool, len(paths)+1) // by path; the last for other paths
				for i := range sets {
					sets[i] = map[object.Key]bool{}
				}
				put := func(path string, key object.Key) {
					for i, p := range paths {
						if p == "" || path == p || strings.HasPrefix(path, p+"/") {
							s.below(key, sets[i])
							return
						}
						if path == "" || strings.HasPrefix(p, path+"/") {
							return
						}
					}
					s.below(key, sets[len(paths)])
				}
				for _, root := range trees {
					put("", object.Key{Kind: object.KindTree, ID: root})
					s.Check(tree.Walk(ctx, s.Repo.Objects(), root, func(path string, e object.Entry) error {
						put(path, e.Content)
						return nil
					}))
				}
				for path, e := range idx.All() {
					put(path, e.Content)
				}
				for i, space := range got.Spaces {
					others := map[object.Key]bool{}
					for k, set := range sets {
						if k != i {
							maps.Copy(others, set)
						}
					}
					all, own := s.size(sets[i], nil), s.size(sets[i], others)
					if space.Name != paths[i] || space.All.Stored != all || space.Own.Stored != own {
						t.Errorf("%q of %q: stats %+v, want %d bytes, %d of its own", paths[i], paths, space, all, own)
					}
				}
			}
		})
	}
}
