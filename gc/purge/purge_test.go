package purge_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/purge"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/operation"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// secrets makes three commits. The second one adds a secret at two paths, a short
// one, and a large file. The third one changes the first secret at one path, and
// adds a larger file with the same beginning.
func secrets(t *testing.T) (*kisttest.Repository, []object.ID) {
	s := kisttest.New(t)
	var ids []object.ID
	commit := func(message string) {
		s.Add(stage.AddOptions{})
		ids = append(ids, s.Commit(message).ID)
	}
	s.Write("file", "a file that anybody may see, too long to be kept inline")
	commit("first")
	s.Write("secret", kisttest.Secret)
	s.Write("dir/copy", kisttest.Secret)
	s.Write("dir/short", "short")
	s.Write("big", string(kisttest.Noise(1, 5<<20)))
	commit("second")
	s.Write("secret", strings.ToUpper(kisttest.Secret+kisttest.Secret))
	s.Write("bigger", string(kisttest.Noise(1, 5<<20))+string(kisttest.Noise(2, 1<<20)))
	commit("third")
	return s, ids
}

func TestPlanPurge(t *testing.T) {
	s, ids := secrets(t)
	paths := func(uses []purge.Use) (list []string) {
		for _, u := range uses {
			list = append(list, u.Path)
		}
		return list
	}

	plan := s.Plan(purge.Options{Paths: []purge.Path{{Path: "dir"}}})
	if len(plan.Contents) != 1 || !slices.Equal(paths(plan.Inline), []string{"dir/short"}) {
		t.Fatalf("dir: plan %+v, want one content and dir/short", plan)
	}
	c := plan.Contents[0]
	if !slices.Equal(paths(c.Uses), []string{"dir/copy", "secret"}) || c.Key.ID != object.Sum([]byte(kisttest.Secret)) || c.Size != uint64(len(kisttest.Secret)) {
		t.Errorf("dir: content %+v, want the secret", c)
	}
	if got := c.Uses[0].Commits; !slices.Equal(got, []object.ID{ids[2], ids[1]}) && !slices.Equal(got, []object.ID{ids[1], ids[2]}) {
		t.Errorf("dir/copy is in %v, want the second and third commit", got)
	}
	if got := c.Uses[1].Commits; !slices.Equal(got, []object.ID{ids[1]}) || !slices.Equal(c.Staged, []string{"dir/copy"}) {
		t.Errorf("secret is in %v, staged %q; want the second commit, dir/copy", got, c.Staged)
	}

	if plan := s.Plan(purge.Options{Paths: []purge.Path{{Path: "secret"}}}); len(plan.Contents) != 1 || plan.Contents[0].Size != 2*uint64(len(kisttest.Secret)) {
		t.Errorf("secret: %+v", plan.Contents)
	}
	if plan := s.Plan(purge.Options{Paths: []purge.Path{{Path: "secret"}}, AllHistory: true}); len(plan.Contents) != 2 {
		t.Errorf("secret in all history: %+v", plan.Contents)
	}
	if plan := s.Plan(purge.Options{Paths: []purge.Path{{Path: "secret", Rev: "HEAD~1"}}}); len(plan.Contents) != 1 || plan.Contents[0].Key != c.Key {
		t.Errorf("secret of HEAD~1: %+v", plan.Contents)
	}
	if plan := s.Plan(purge.Options{IDs: []string{c.Key.ID.String()[:12]}}); len(plan.Contents) != 1 || plan.Contents[0].Key != c.Key {
		t.Errorf("by ID: %+v", plan.Contents)
	}

	// Chunks that another file shares stay, unless it is purged too.
	big := s.Plan(purge.Options{Paths: []purge.Path{{Path: "big"}}})
	if big.Shared < 3<<20 || big.Freed > 2<<20 || big.Freed+big.Shared < 5<<20 {
		t.Errorf("big: %d freed, %d shared", big.Freed, big.Shared)
	}
	both := s.Plan(purge.Options{Paths: []purge.Path{{Path: "big"}, {Path: "bigger"}}})
	if both.Shared != 0 || both.Freed < 6<<20 {
		t.Errorf("both: %d freed, %d shared", both.Freed, both.Shared)
	}

	// A chunk is a part of two files.
	var first object.ID
	for c, err := range object.Chunks(t.Context(), s.Repo.Objects(), big.Contents[0].Key, 5<<20, 0) {
		s.Check(err)
		first = c.ID
		break
	}
	part := s.Plan(purge.Options{IDs: []string{first.String()}})
	if got := paths(part.Contents[0].PartOf); !slices.Equal(got, []string{"big", "bigger"}) || part.Shared != 0 {
		t.Errorf("a chunk is a part of %q; %+v", got, part)
	}

	for _, o := range []purge.Options{
		{Paths: []purge.Path{{Path: "nowhere"}}},
		{Paths: []purge.Path{{Path: "nowhere"}}, AllHistory: true},
		{Paths: []purge.Path{{Path: "bigger", Rev: "HEAD~1"}}},
		{IDs: []string{"ffffffffffffffff"}},
	} {
		if _, err := purge.NewPlan(t.Context(), s.Repo, o); !errors.Is(err, kist.ErrNoMatch) {
			t.Errorf("%+v: error %v, want ErrNoMatch", o, err)
		}
	}
	for _, id := range []string{"", "abc", "wxyz", strings.Repeat("a", 65)} {
		if _, err := purge.NewPlan(t.Context(), s.Repo, purge.Options{IDs: []string{id}}); err == nil {
			t.Errorf("ID %q: no error", id)
		}
	}
}

// After gc, no file of the repository has bytes of a purged content.
func TestPurge(t *testing.T) {
	s, ids := secrets(t)
	plan := s.Purge("dir", "big")
	if again, err := purge.Apply(t.Context(), s.Repo, plan, "", true); err != nil || len(again) > 0 {
		t.Errorf("second purge: %v, error %v; want nothing", again, err)
	}
	list, err := purge.All(s.Repo)
	s.Check(err)
	var reasons []string
	for _, rec := range list {
		reasons = append(reasons, rec.Reason)
	}
	slices.Sort(reasons)
	if !slices.Equal(reasons, []string{"big", "dir/copy, secret"}) {
		t.Errorf("reasons %q", reasons)
	}
	if len(s.Stored(kisttest.Secret)) == 0 {
		t.Error("the secret is not stored before gc")
	}
	s.Collect(s.Repo, gc.PlanOptions{MaxWaste: 1})
	if files := s.Stored(kisttest.Secret); len(files) > 0 {
		t.Errorf("the secret is in %q", files)
	}
	for _, c := range plan.Contents {
		if has, err := s.Repo.Objects().Has(t.Context(), c.Key); has || err != nil {
			t.Errorf("%s is still stored: %t, error %v", c.Key, has, err)
		}
	}
	if left := s.Plan(purge.Options{IDs: []string{plan.Contents[0].Key.ID.String()}}); left.Freed != 0 || !left.Contents[0].Already || left.Contents[0].Here {
		t.Errorf("plan after gc: %+v, want nothing to free", left)
	}

	// A file that shares chunks is intact.
	if data, err := kisttest.ReadFile(t.Context(), s.Repo, ids[2], "bigger"); err != nil || !bytes.Equal(data[:5<<20], kisttest.Noise(1, 5<<20)) {
		t.Errorf("bigger: %d bytes, error %v", len(data), err)
	}
	for _, name := range []string{"big", "dir/copy"} {
		if data, err := kisttest.ReadFile(t.Context(), s.Repo, ids[2], name); len(data) > 0 || !errors.Is(err, object.ErrPurged) {
			t.Errorf("%s: %d bytes, error %v; want ErrPurged", name, len(data), err)
		}
	}

	// After both files are purged, gc removes the shared chunks.
	large := kisttest.Noise(1, 5<<20)
	part := func(i int) string { return string(large[i*100_000:][:64]) }
	if len(s.Stored(part(0))) == 0 {
		t.Error("the shared part is not stored before gc")
	}
	both := s.Purge("bigger")
	s.Collect(s.Repo, gc.PlanOptions{MaxWaste: 1})
	if left := s.Plan(purge.Options{IDs: []string{both.Contents[0].Key.ID.String()}}); left.Freed != 0 {
		t.Errorf("%d bytes left to free, want 0", left.Freed)
	}
	for _, i := range []int{0, 20, 40} {
		if files := s.Stored(part(i)); len(files) > 0 {
			t.Errorf("part %d is in %q", i, files)
		}
	}
}

// A checkout skips purged contents and reports them. It does not delete the last
// copy in the worktree without force.
func TestPurgedCheckout(t *testing.T) {
	for _, gone := range []bool{false, true} {
		s, ids := secrets(t)
		s.Purge("dir", "big")
		if gone {
			s.Collect(s.Repo, gc.PlanOptions{})
		}
		// The files in the worktree are the only copies.
		_, err := checkout.Switch(t.Context(), s.Repo, checkout.SwitchOptions{Rev: ids[0].String()})
		var local *stage.LocalChangesError
		if !errors.As(err, &local) || len(local.Obstacles) != 2 || !s.Exists("big") {
			t.Fatalf("checkout over the only copies: error %v, want LocalChangesError", err)
		}
		if _, err := checkout.Remove(t.Context(), s.Repo, checkout.RemoveOptions{Paths: []string{"big"}}); !errors.As(err, &local) || !s.Exists("big") {
			t.Errorf("rm of the only copy: error %v, want LocalChangesError", err)
		}
		if st := s.Status(); !st.Clean() || len(st.Purged) > 0 {
			t.Errorf("status: %+v, want clean", st)
		}
		_, err = checkout.Switch(t.Context(), s.Repo, checkout.SwitchOptions{Rev: ids[0].String(), Force: true})
		s.Check(err)

		_, err = checkout.Switch(t.Context(), s.Repo, checkout.SwitchOptions{Rev: ids[1].String()})
		s.Unwritten(err, "big", "dir/copy", "secret")
		if s.Exists("big") || s.Exists("secret") || !s.Exists("dir/short") {
			t.Error("checkout wrote a purged file, or did not write dir/short")
		}
		st := s.Status()
		if !st.Clean() || len(st.Purged) != 3 || len(st.Skipped) > 0 {
			t.Errorf("status: %+v, want clean with three purged files", st)
		}
		// The next commit keeps the purged files, although they are not in the worktree.
		s.Write("more", "more")
		s.Add(stage.AddOptions{})
		c := s.Commit("more")
		if len(c.Changes) != 1 || c.Commit.Files != 6 {
			t.Errorf("commit changes %+v and has %d files, want one change, 6 files", c.Changes, c.Commit.Files)
		}
		// A checkout of the purged version of secret deletes the other version.
		_, err = checkout.Switch(t.Context(), s.Repo, checkout.SwitchOptions{Rev: ids[2].String()})
		s.Check(err)
		if !s.Exists("secret") {
			t.Error("secret was not written")
		}
		_, err = checkout.Switch(t.Context(), s.Repo, checkout.SwitchOptions{Rev: c.ID.String()})
		s.Unwritten(err, "secret")
		if s.Exists("secret") {
			t.Error("secret still has the other version")
		}
		// rm removes a purged file from the next commit.
		_, err = checkout.Remove(t.Context(), s.Repo, checkout.RemoveOptions{Paths: []string{"secret"}})
		s.Check(err)
		if c := s.Commit("rm"); c.Commit.Files != 5 {
			t.Errorf("commit after rm has %d files, want 5", c.Commit.Files)
		}
		n, err := checkout.Restore(t.Context(), s.Repo, checkout.RestoreOptions{Paths: []string{""}, Worktree: true})
		s.Unwritten(err, "big", "dir/copy")
		if n != 2 {
			t.Errorf("restore reports %d paths, want 2", n)
		}
		_, err = checkout.Reset(t.Context(), s.Repo, ids[1].String(), checkout.ResetHard, nil)
		s.Unwritten(err, "big", "dir/copy", "secret")
		view, err := compare.OfCommit(t.Context(), s.Repo, "HEAD")
		s.Check(err)
		out := t.TempDir()
		_, err = checkout.Extract(t.Context(), s.Repo, view, checkout.ExtractOptions{Paths: []string{""}, To: out})
		s.Unwritten(err, "big", "dir/copy", "secret")
		if list, err := os.ReadDir(out); err != nil || len(list) != 2 {
			t.Errorf("extracted %v, error %v; want 2 names", list, err)
		}
	}
}

// add skips files with a purged content, small or large.
func TestPurgedAdd(t *testing.T) {
	s, _ := secrets(t)
	s.Purge("dir", "big")
	s.Check(os.RemoveAll(filepath.Join(s.Dir, "dir")))
	s.Write("again", kisttest.Secret)
	s.Write("twice", string(kisttest.Noise(1, 5<<20)))

	r := s.Add(stage.AddOptions{})
	if r.Added.Len()+len(r.Modified) > 0 || !slices.Equal(r.Deleted, []string{"dir/short"}) || len(r.Skipped) != 2 || r.Skipped[0].Path != "again" || r.Skipped[1].Path != "twice" ||
		!strings.HasPrefix(r.Skipped[0].Reason, object.ErrPurged.Error()) {
		t.Errorf("add: %+v, want again and twice skipped", r)
	}
	if !s.Exists("again") {
		t.Error("add deleted the skipped file")
	}

	// The purged dir/copy stays in the commit, although dir was deleted: a checkout
	// would not have written it.
	s.Check(os.Remove(filepath.Join(s.Dir, "again")))
	s.Check(os.Remove(filepath.Join(s.Dir, "twice")))
	s.Write("bigger", "small")
	c := func() *commits.CommitResult {
		c, err := commits.Commit(t.Context(), s.Repo, commits.CommitOptions{Message: "all", All: true})
		s.Check(err)
		return c
	}()

	var paths []string
	for _, change := range c.Changes {
		paths = append(paths, change.Path)
	}
	if !slices.Equal(paths, []string{"bigger", "dir/short"}) || c.Commit.Files != 5 {
		t.Errorf("commit changes %q and has %d files, want bigger and dir/short, 5 files", paths, c.Commit.Files)
	}
}

// add skips a file whose content is purged while add runs.
func TestPurgedWhileAdding(t *testing.T) {
	s, _ := secrets(t)
	s.Write("again", kisttest.Secret)
	s.Write("other", "text")
	purged := false
	r := s.Add(stage.AddOptions{Progress: func(kist.Amount, kist.Amount) {
		if !purged {
			purged = true
			s.Purge("dir")
		}
	}})
	if !purged || !slices.Equal(r.Added.Paths(), []string{"other"}) || len(r.Skipped) != 1 || r.Skipped[0].Path != "again" ||
		!strings.HasPrefix(r.Skipped[0].Reason, object.ErrPurged.Error()) {
		t.Errorf("add: %+v, want again skipped", r)
	}
}

// A purge can be undone until gc has removed the content.
func TestUnpurge(t *testing.T) {
	s, _ := secrets(t)
	plan := s.Purge("dir", "big", "bigger")

	id := func(path string) string {
		for _, c := range plan.Contents {
			if c.Uses[0].Path == path {
				return c.Key.ID.String()
			}
		}
		t.Fatalf("nothing was purged at %s", path)
		return ""
	}

	for _, path := range []string{"big", "dir/copy"} {
		_, err := purge.Undo(t.Context(), s.Repo, id(path)[:16])
		s.Check(err)
		if _, err := purge.Undo(t.Context(), s.Repo, id(path)); !errors.Is(err, purge.ErrNotPurged) {
			t.Errorf("second undo of %s: error %v, want ErrNotPurged", path, err)
		}
	}

	s.Collect(s.Repo, gc.PlanOptions{})
	if data, err := kisttest.ReadFile(t.Context(), s.Repo, s.Head(), "big"); err != nil || !bytes.Equal(data, kisttest.Noise(1, 5<<20)) {
		t.Errorf("big: %d bytes, error %v; want its content", len(data), err)
	}
	if _, err := purge.Undo(t.Context(), s.Repo, id("bigger")); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("undo after gc: error %v, want ErrNotFound", err)
	}
	if _, err := purge.Undo(t.Context(), s.Repo, "abc"); !errors.Is(err, purge.ErrNotPurged) {
		t.Errorf("undo by three digits: error %v, want ErrNotPurged", err)
	}
	if list, err := purge.All(s.Repo); err != nil || len(list) != 1 {
		t.Errorf("purged: %v, error %v; want only bigger", list, err)
	}
}

// A merge takes a purged file that only one side changed. A purged file that both
// sides changed is a conflict.
func TestPurgedMerge(t *testing.T) {
	s, _ := secrets(t)
	s.Write("both", kisttest.Secret+"base\n")
	s.Add(stage.AddOptions{})
	s.Commit("base")
	_, err := checkout.Switch(t.Context(), s.Repo, checkout.SwitchOptions{Create: "theirs"})
	s.Check(err)
	s.Write("theirs", kisttest.Secret+"theirs")
	s.Write("both", kisttest.Secret+"base\ntheirs\n")
	s.Add(stage.AddOptions{})
	s.Commit("theirs")
	s.Purge("theirs", "both", "dir")
	_, err = checkout.Switch(t.Context(), s.Repo, checkout.SwitchOptions{Rev: "main", Force: true})
	s.Check(err)
	s.Write("ours", "ours")
	s.Add(stage.AddOptions{})
	s.Commit("ours")
	m, err := commits.Merge(t.Context(), s.Repo, commits.MergeOptions{Rev: "theirs"})
	s.Unwritten(err, "both", "theirs")
	if len(m.Conflicts) > 0 || m.Commit == nil || m.Commit.Commit.Files != 9 {
		t.Fatalf("merge: %+v, want no conflict", m)
	}

	for _, name := range []string{"both", "theirs"} {
		if s.Exists(name) {
			t.Errorf("merge wrote the purged %s", name)
		}
	}

	_, err = checkout.Reset(t.Context(), s.Repo, "HEAD~1", checkout.ResetHard, nil)
	s.Check(err)
	s.Write("both", "ours\n"+kisttest.Secret+"base\n")
	s.Add(stage.AddOptions{})
	s.Commit("ours of both")
	m, err = commits.Merge(t.Context(), s.Repo, commits.MergeOptions{Rev: "theirs"})
	if err == nil || m == nil || len(m.Conflicts) != 1 || m.Conflicts[0].Path != "both" || m.Conflicts[0].Markers {
		t.Fatalf("merge: %+v, error %v; want a conflict of both, without markers", m, err)
	}
	s.Check(commits.Abort(t.Context(), s.Repo, operation.Merging, commits.StepOptions{}))
}
