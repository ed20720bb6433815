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
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/intact"
	"github.com/kist-vcs/kist/tree/treetest"
)

// years are a random history, with what is in its commits: two branches that
// are merged now and then, by clocks that jump.
type years struct {
	*shell
	rng     *rand.Rand
	now     time.Time
	tips    map[string]object.ID // of each branch
	commits map[object.ID]map[string]string
	only    map[object.ID]object.ID // of each commit, a chunk that no other has
}

// add makes commits, each with a file that no other has.
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
				was, err := r.Refs().Get("refs/heads/" + branch)
				if err != nil && !errors.Is(err, refs.ErrNotFound) {
					return err
				}
				err = r.Refs().Update(ctx, []refs.Change{{Name: "refs/heads/" + branch, Old: was, New: id, Reason: "test"}}, refs.Who{})
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	y.kist("reset", "-q", "--hard")
}

// commit stores a commit, with some of its files as its first parent has them.
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
	who := object.Signature{Name: "Anna", Time: object.TimeOf(y.now), Zone: int16(60 * y.rng.IntN(3))}
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

// expire runs kist expire, and returns which commits it names in a list.
func (y *years) expire(list string, args ...string) map[object.ID]bool {
	y.Helper()
	var result map[string]json.RawMessage
	var commits []struct{ ID object.ID }
	out := y.kist(append([]string{"expire", "--json"}, args...)...)
	if err := errors.Join(json.Unmarshal([]byte(out), &result), json.Unmarshal(result[list], &commits)); err != nil {
		y.Fatal(err, out)
	}
	ids := map[object.ID]bool{}
	for _, c := range commits {
		ids[c.ID] = true
	}
	return ids
}

// wantContent wants that the content of all commits is there to the last byte,
// but for those that have expired: these say so. Nothing of these alone is
// left once they are gone.
func (y *years) wantContent(expired, gone map[object.ID]bool) {
	y.Helper()
	y.open(func(ctx context.Context, r *kist.Repository) error {
		for id, want := range y.commits {
			there, err := r.Objects().Has(ctx, object.Key{Kind: object.KindChunk, ID: y.only[id]})
			if err != nil {
				return err
			}
			if there == gone[id] {
				y.Errorf("commit %s, expired: %v: its content is there: %v", id.Short(), expired[id], there)
			}
			got, err := treetest.ReadFiles(ctx, r, id)
			if expired[id] {
				if !errors.Is(err, intact.ErrExpired) {
					y.Errorf("commit %s has expired: %v", id.Short(), err)
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

// TestExpireAndCollect has policies applied to random histories, and garbage
// collected: what is kept is whole, and what is not is gone. Not all of it is:
// that of one commit was taken back.
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
				would := y.expire("expired", append(args, "--dry-run")...)
				y.wantContent(expired, gone)
				now := y.expire("expired", args...)
				if !maps.Equal(would, now) || len(now) == 0 || len(now) > len(y.commits)-5 {
					t.Fatalf("%d of %d commits expire, %d would", len(now), len(y.commits), len(would))
				}
				if again := y.expire("expired", args...); len(again) > 0 {
					t.Fatalf("%d commits expire though nothing has changed", len(again))
				}
				maps.Copy(expired, now)
				y.wantContent(expired, gone)
				for id := range now { // any
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

// wantCheckouts checks out some commits, and wants to be told of others that
// their content has expired.
func (y *years) wantCheckouts(expired map[object.ID]bool) {
	y.Helper()
	left := map[bool]int{true: 3, false: 3}
	for id, want := range y.commits {
		if left[expired[id]]--; left[expired[id]] < 0 {
			continue
		}
		if expired[id] {
			if o := y.exits(1, "checkout", "--detach", id.String()); !strings.Contains(o.stderr, "the content of "+id.Short()+" expired on ") {
				y.Error(o)
			}
			y.exits(1, "expire", "--undo", id.String())
			continue
		}
		y.kist("checkout", "-q", "--detach", id.String())
		for path, text := range want {
			if got, err := os.ReadFile(y.path(path)); string(got) != text {
				y.Errorf("%s of commit %s is %q, want %q; %v", path, id.Short(), got, text, err)
			}
		}
		if out := y.kist("status", "-s"); out != "" {
			y.Errorf("commit %s: %s", id.Short(), out)
		}
	}
}
