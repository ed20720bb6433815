package collect_test

import (
	"context"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/collect"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/transfertest"
)

// An icebox is a store that has one blob in an archive.
type icebox struct {
	*remotetest.Memory
	archived string
	thawed   bool
}

func (b *icebox) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if name == b.archived && !b.thawed {
		return 0, &remote.Error{Op: "get", Name: name, Err: remote.ErrArchived}
	}
	return b.Memory.Get(ctx, name, p, off)
}

func (b *icebox) Stat(ctx context.Context, name string) (remote.Info, error) {
	info, err := b.Memory.Stat(ctx, name)
	info.Archived = name == b.archived && !b.thawed
	return info, err
}

func (b *icebox) List(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) {
		for info, err := range b.Memory.List(ctx, prefix) {
			info.Archived = info.Name == b.archived
			if !yield(info, err) {
				return
			}
		}
	}
}

// A check counts an archived pack, and reads all others. A thawed pack is read.
func TestCheckArchived(t *testing.T) {
	b := &icebox{Memory: transfertest.NewRemote(t)}
	p := transfertest.NewPusher(t, b)
	p.KeepSmall = true
	p.MustPush("main", p.MakeCommit(p.MakeTree(map[string]string{"a": "first", "b": "second"}, nil)))
	p.MustPush("more", p.MakeCommit(p.MakeTree(map[string]string{"a": "first", "b": "other"}, nil)))
	packs := b.Names("packs/")
	check := func(o collect.CheckOptions) (collect.Checked, int) {
		t.Helper()
		r, err := transfertest.OpenTest(t, b, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		problems := 0
		done, err := collect.Check(t.Context(), r, o, func(collect.Problem) { problems++ })
		if err != nil {
			t.Fatal(err)
		}
		return done, problems
	}

	all, _ := check(collect.CheckOptions{Sample: 1})
	for _, name := range packs {
		b.archived, b.thawed = name, false
		size := int64(len(b.Data(name)))
		done, problems := check(collect.CheckOptions{Sample: 1})
		if want := (collect.ArchiveStats{Archived: 1, ArchivedBytes: size}); done.ArchiveStats != want || problems > 0 || done.Bytes != all.Bytes-size {
			t.Errorf("%s: %+v, %d problems; want %+v and %d bytes", name, done, problems, want, all.Bytes-size)
		}
		b.thawed = true
		if done, problems := check(collect.CheckOptions{ReadData: true}); done.Archived > 0 || problems > 0 {
			t.Errorf("%s, thawed: %+v, %d problems", name, done, problems)
		}
	}

	b.archived, b.thawed = packs[0], false
	b.Damage(packs[1], 20)
	if done, problems := check(collect.CheckOptions{Sample: 1}); done.Archived != 1 || problems == 0 {
		t.Errorf("with a damaged pack: %+v, %d problems", done, problems)
	}
}

// A collection leaves an archived pack until half of it is garbage. Then it copies the rest if the store has thawed the pack, and
// otherwise leaves it and says so. It never reads an archived pack.
func TestArchivedPacks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	words := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte(byte(rng.IntN(256)))
		}
		return b.String()
	}
	for name, test := range map[string]struct {
		garbage, live int // bytes
		thawed        bool
		left          int // packs
		stays         bool
	}{
		"a little garbage":                  {2_000, 10_000, false, 0, true},
		"a little garbage, thawed":          {2_000, 10_000, true, 0, true},
		"more garbage than content":         {10_000, 2_000, false, 1, true},
		"more garbage than content, thawed": {10_000, 2_000, true, 0, false},
		"only garbage":                      {10_000, 0, false, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := &icebox{Memory: transfertest.NewRemote(t), thawed: test.thawed}
			p := transfertest.NewPusher(t, b)
			p.KeepSmall = true
			all, kept := map[string]string{"garbage": words(test.garbage)}, map[string]string{}
			if test.live > 0 {
				all["live"] = words(test.live)
				kept["live"] = all["live"]
			}
			p.MustPush("old", p.MakeCommit(p.MakeTree(all, nil)))
			largest := remote.Info{}
			for info, err := range b.Memory.List(t.Context(), "packs/") {
				if err != nil {
					t.Fatal(err)
				}
				if info.Size > largest.Size {
					largest = info
				}
			}
			main := p.MakeCommit(p.MakeTree(kept, nil))
			p.MustPush("main", main)
			transfertest.NewCollector(t, b.Memory).DeleteBranch("old")

			b.archived = largest.Name
			for _, o := range []collect.Options{{DryRun: true, Repack: true}, {Repack: true}} {
				st, err := transfertest.CollectIn(t, b, nil, o)
				if err != nil || st.Archived != test.left || st.ArchivedBytes != int64(test.left)*largest.Size {
					t.Errorf("dry run %t: %d archived packs with %d bytes left, error %v; want %d", o.DryRun, st.Archived, st.ArchivedBytes, err, test.left)
				}
			}
			if stays := slices.Contains(b.Names("packs/"), largest.Name); stays != test.stays {
				t.Errorf("the archived pack is there: %t, want %t", stays, test.stays)
			}
			transfertest.WantIntact(t, b.Memory, map[string]object.ID{"main": main})
		})
	}
}
