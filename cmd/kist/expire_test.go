package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
)

// years is a random history of two branches, with the content of its commits. The
// branches merge now and then, and the clock jumps.
type years struct {
	*shell
	rng     *rand.Rand
	now     time.Time
	tips    map[string]object.ID            // by branch
	commits map[object.ID]map[string]string // the files of each commit
	only    map[object.ID]object.ID         // by commit: a chunk that no other commit has
}

// add makes n commits, and resets the worktree to the last one of main.
func (y *years) add(n int) {
	y.Helper()
	y.open(func(ctx context.Context, r *kist.Repository) error {
		session := r.Objects().Begin(volume.SessionOptions{})
		defer session.Close()

		for range n {
			y.now = y.now.Add(time.Duration(y.rng.IntN(100)) * time.Hour)
			if y.rng.IntN(30) == 0 { // the clock is set back
				y.now = y.now.AddDate(0, 0, -y.rng.IntN(30))
			}
			branch := "main"
			var parents []object.ID
			if len(y.commits) > 20 && y.rng.IntN(4) == 0 {
				branch = "side"
			}

			for _, from := range []string{branch, "main", "side"} {
				id, there := y.tips[from]
				if there && (len(parents) == 0 || y.rng.IntN(20) == 0) && !slices.Contains(parents, id) {
					parents = append(parents, id)
				}
			}

			id, err := y.commit(ctx, session, parents)
			if err != nil {
				return err
			}
			y.tips[branch] = id
		}
		return session.Publish(ctx, func(ctx context.Context) error {
			for branch, id := range y.tips {
				old, err := r.Refs().Get("refs/heads/" + branch)
				if err != nil && !errors.Is(err, refs.ErrNotFound) {
					return err
				}
				err = r.Refs().Update(ctx, []refs.Change{{Name: "refs/heads/" + branch, Old: old, New: id, Reason: "test"}}, refs.Who{})
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	y.kist("reset", "-q", "--hard")
}

// commit stores a commit that changes some files of its first parent.
func (y *years) commit(ctx context.Context, session *volume.Session, parents []object.ID) (object.ID, error) {
	content := map[string]string{}
	if len(parents) > 0 {
		maps.Copy(content, y.commits[parents[0]])
	}
	content["unique"] = fmt.Sprintf("content number %d of all that there is: %d", len(y.commits), y.rng.Uint64())

	for range y.rng.IntN(3) {
		content[fmt.Sprint("file", y.rng.IntN(9))] = fmt.Sprintf("one of some texts that come again and again: %d", y.rng.IntN(40))
	}

	tree := object.NewTreeWriter(session)
	var size uint64
	for _, name := range slices.Sorted(maps.Keys(content)) {
		text := []byte(content[name])
		size += uint64(len(text))
		id, err := session.Put(ctx, object.KindChunk, text)
		if err == nil {
			err = tree.Add(ctx, object.Entry{
				Name: name, Type: object.TypeFile, Mode: 0o644, Size: uint64(len(text)), Content: object.Key{Kind: object.KindChunk, ID: id},
			})
		}
		if err != nil {
			return id, err
		}
	}

	root, err := tree.Finish(ctx)
	if err != nil {
		return root, err
	}
	who := object.Stamp{Name: "Anna", Time: object.TimeOf(y.now), Zone: int16(60 * y.rng.IntN(3))}
	c := &object.Commit{
		Tree: root, Parents: parents, Author: who, Committer: who, Files: uint64(len(content)), Bytes: size,
		Message: fmt.Sprint("number ", len(y.commits)),
	}
	data, err := c.Encode()
	if err != nil {
		return root, err
	}
	id, err := session.Put(ctx, object.KindCommit, data)
	y.commits[id], y.only[id] = content, object.Sum([]byte(content["unique"]))
	return id, err
}

// expire runs kist expire, and returns the commits that it lists as expired.
func (y *years) expire(args ...string) map[object.ID]bool {
	y.Helper()
	var result map[string]json.RawMessage
	var commits []struct{ ID object.ID }
	out := y.kist(append([]string{"expire", "--json"}, args...)...)
	if err := errors.Join(json.Unmarshal([]byte(out), &result), json.Unmarshal(result["expired"], &commits)); err != nil {
		y.Fatal(err, out)
	}
	ids := map[object.ID]bool{}
	for _, c := range commits {
		ids[c.ID] = true
	}
	return ids
}

// wantContent fails the test if a commit does not have its content, or if reading an
// expired commit does not return object.ErrExpired. The store must have the unique
// chunks of all commits, except of the ones in gone.
func (y *years) wantContent(expired, gone map[object.ID]bool) {
	y.Helper()
	y.open(func(ctx context.Context, r *kist.Repository) error {
		for id, want := range y.commits {
			stored, err := r.Objects().Has(ctx, object.Key{Kind: object.KindChunk, ID: y.only[id]})
			if err != nil {
				return err
			}
			if stored == gone[id] {
				y.Errorf("commit %s, expired = %v: its unique chunk is stored = %v, want %v", id.Short(), expired[id], stored, !stored)
			}
			got, err := kisttest.ReadFiles(ctx, r, id)
			if expired[id] {
				if !errors.Is(err, object.ErrExpired) {
					y.Errorf("reading the expired commit %s: error %v, want ErrExpired", id.Short(), err)
				}
				continue
			}
			if err != nil {
				return fmt.Errorf("commit %s: %w", id.Short(), err)
			}
			if !maps.Equal(got, want) {
				y.Errorf("commit %s has %q, want %q", id.Short(), got, want)
			}
		}
		return nil
	})
}

// TestExpireAndCollect checks that expire and gc remove the content of exactly the
// expired commits. It applies policies to random histories. One commit of each round is
// unexpired before gc.
func TestExpireAndCollect(t *testing.T) {
	t.Parallel()
	for seed, policies := range [][]string{
		{"--keep-daily 7 --keep-weekly 5 --keep-monthly 6", "--keep-daily 3 --keep-monthly 4"},
		{"--keep-within 2m --keep-yearly unlimited", "--keep-last 12 --keep-tag gold*"},
		{"--keep-last 20 --branch main", "--keep-within-weekly 1y --keep-hourly 30"},
	} {
		t.Run(policies[0], func(t *testing.T) {
			t.Parallel()
			y := &years{
				shell: newShell(t), rng: rand.New(rand.NewPCG(uint64(seed), 3)), now: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
				tips: map[string]object.ID{}, commits: map[object.ID]map[string]string{}, only: map[object.ID]object.ID{},
			}
			y.kist("init")

			expired, gone := map[object.ID]bool{}, map[object.ID]bool{}
			for round, policy := range policies {
				y.add(150)
				y.kist("tag", fmt.Sprint("gold", round), "HEAD~7")
				args := strings.Fields(policy)
				would := y.expire(append(args, "--dry-run")...)
				y.wantContent(expired, gone)

				now := y.expire(args...)
				if !maps.Equal(would, now) || len(now) == 0 || len(now) > len(y.commits)-5 {
					t.Fatalf("%d of %d commits expired, want the %d of the dry run: some, but not nearly all", len(now), len(y.commits), len(would))
				}
				if again := y.expire(args...); len(again) > 0 {
					t.Fatalf("a repeated expire lists %d commits, want none", len(again))
				}

				maps.Copy(expired, now)
				y.wantContent(expired, gone)
				for id := range now { // one of them
					y.kist("expire", "--undo", id.String())
					delete(expired, id)
					break
				}

				y.kist(collectAll...)
				y.verify()
				gone = maps.Clone(expired)
				y.wantContent(expired, gone)
			}

			y.wantCheckouts(expired)
		})
	}
}

// wantCheckouts checks out some commits. It fails the test if the checkout of an
// expired commit does not report the expiry.
func (y *years) wantCheckouts(expired map[object.ID]bool) {
	y.Helper()
	left := map[bool]int{true: 3, false: 3}
	for id, want := range y.commits {
		if left[expired[id]]--; left[expired[id]] < 0 {
			continue
		}
		if expired[id] {
			if o := y.exits(1, "checkout", "--detach", id.String()); !strings.Contains(o.stderr, "the content of "+id.Short()+" expired on ") {
				y.Errorf("checkout does not report the expiry: %v", o)
			}
			y.exits(1, "expire", "--undo", id.String())
			continue
		}
		y.kist("checkout", "-q", "--detach", id.String())
		for path, text := range want {
			if got, err := os.ReadFile(y.path(path)); string(got) != text {
				y.Errorf("%s of commit %s = %q, %v, want %q", path, id.Short(), got, err, text)
			}
		}
		if out := y.kist("status", "-s"); out != "" {
			y.Errorf("commit %s: status, want nothing:\n%s", id.Short(), out)
		}
	}
}
