package access_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/cmd/kist/serve/access"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// mayRead returns the answer of a guard for a user, a commit and a path.
func mayRead(s *kisttest.Repository, g *access.Guard, u access.User, commit object.ID, path string) error {
	s.Helper()
	at := compare.Side{Commit: commit, Objects: s.Repo.Objects()}
	if !commit.IsZero() {
		c, err := object.ReadCommit(s.Context(), s.Repo.Objects(), commit)
		s.Check(err)
		at.Tree = c.Tree
	}
	rules, err := g.Rules(s.Context(), u, at)
	if err != nil {
		return err
	}
	return rules.MayRead(s.Context(), path)
}

// wantRead checks whether a user may read a path of a commit.
func wantRead(s *kisttest.Repository, g *access.Guard, u access.User, commit object.ID, path string, want bool) {
	s.Helper()
	err := mayRead(s, g, u, commit, path)
	if got := err == nil; got != want || err != nil && !errors.Is(err, access.ErrDenied) {
		s.Errorf("%s in %s as %q: %v, want access: %v", path, commit.Short(), u.Name, err, want)
	}
}

// next commits the index, which may be empty, and returns the commit.
func next(s *kisttest.Repository) object.ID {
	s.Helper()
	r, err := commits.Commit(s.Context(), s.Repo, commits.CommitOptions{Message: "next\n", AllowEmpty: true})
	s.Check(err)
	return r.ID
}

var eve = access.User{Name: "eve"}

// A rule protects a path in every commit that does not contain the commit with the rule, also
// after the path and its rule are gone.
func TestLaterRules(t *testing.T) {
	s := kisttest.New(t)
	s.Write("a/f", "1")
	s.Write("b/f", "1")
	s.Add(stage.AddOptions{})
	old := next(s)
	setAttrs(s, "a acl=anna", "b acl.read=")
	ruled := next(s)
	setAttrs(s, "b -acl.read")
	opened := next(s)
	s.Check(os.RemoveAll(s.Dir + "/a"))
	s.Add(stage.AddOptions{})
	gone := next(s)
	s.Write("a/f", "2")
	s.Add(stage.AddOptions{})
	fresh := next(s)

	g := access.Open(s.Repo)
	anna := access.User{Name: "anna"}
	for _, tt := range []struct {
		commit object.ID
		a, b   bool // whether eve may read it
	}{{old, false, false}, {ruled, false, false}, {opened, false, true}, {gone, true, true}, {fresh, true, true}} {
		wantRead(s, g, eve, tt.commit, "a/f", tt.a)
		wantRead(s, g, eve, tt.commit, "a/deeper/than/that", tt.a)
		wantRead(s, g, eve, tt.commit, "b/f", tt.b)
		wantRead(s, g, anna, tt.commit, "a/f", true)
		wantRead(s, g, anna, tt.commit, "b/f", tt.b)
		wantRead(s, g, access.User{Owner: true}, tt.commit, "b/f", true)
	}

	// A branch beside the served one has the same rules, whatever the owner has checked out.
	s.Checkout(checkout.SwitchOptions{Rev: old.String(), Detach: true})
	setAttrs(s, "a acl=everyone")
	beside := next(s)
	for range 2 {
		wantRead(s, g, eve, beside, "a/f", false)
		wantRead(s, g, eve, old, "a/f", false)
		wantRead(s, g, eve, object.ID{}, "a/f", false)
		s.Checkout(checkout.SwitchOptions{Rev: "main", Force: true})
	}

	// New commits of the branch bring their rules.
	setAttrs(s, "b/f acl=anna")
	newest := next(s)
	for _, commit := range []object.ID{old, opened, fresh, beside, newest} {
		wantRead(s, g, eve, commit, "b/f", false)
	}
}

// Without the served branch, everything is denied.
func TestServedBranch(t *testing.T) {
	s := kisttest.New(t)
	ctx := t.Context()
	empty := access.Open(s.Repo)
	wantRead(s, empty, eve, object.ID{}, "a", true) // there is nothing yet
	s.Write("a", "1")
	s.Add(stage.AddOptions{})
	first := next(s)
	setAttrs(s, "a acl=anna")
	second := next(s)
	wantRead(s, empty, eve, first, "a", false)

	g := access.Open(s.Repo)
	s.Checkout(checkout.SwitchOptions{Rev: first.String(), Detach: true})
	detached := access.Open(s.Repo)
	wantRead(s, detached, eve, first, "a", true)
	wantRead(s, detached, eve, second, "a", false)
	s.Check(s.Repo.SetConfig(ctx, access.KeyBranch, "main"))
	wantRead(s, access.Open(s.Repo), eve, first, "a", false)
	s.Check(s.Repo.SetConfig(ctx, access.KeyBranch, "no-such-branch"))
	if wrong := access.Open(s.Repo); wrong.Err() == nil || mayRead(s, wrong, eve, first, "b") == nil {
		t.Errorf("a guard of a branch that does not exist: error %v, and eve may read", wrong.Err())
	}

	s.Check(s.Repo.Refs().Update(ctx, []refs.Change{{Name: refs.Heads + "main", Old: second}}, refs.Who{}))
	for _, guard := range []*access.Guard{g, empty} {
		if err := mayRead(s, guard, eve, second, "b"); err == nil || errors.Is(err, access.ErrDenied) {
			t.Errorf("the served branch is gone: %v, want an error", err)
		}
	}
}

// The configuration has the rules of the top folder.
func TestTopRules(t *testing.T) {
	s := kisttest.New(t)
	s.Write("plain", "1")
	s.Write("open/f", "1")
	s.Add(stage.AddOptions{})
	first := next(s)
	setAttrs(s, "open acl.read=everyone")
	second := next(s)
	s.Check(s.Repo.SetConfig(t.Context(), access.KeyTop, "anna"))
	s.Check(s.Repo.SetConfig(t.Context(), access.KeyTopRead, "anna, bob"))

	g := access.Open(s.Repo)
	for name, plain := range map[string]bool{"": false, "anna": true, "bob": true, "eve": false} {
		u := access.User{Name: name}
		wantRead(s, g, u, first, "plain", plain)
		wantRead(s, g, u, first, "open/f", plain)
		wantRead(s, g, u, second, "", plain)
		wantRead(s, g, u, second, "absent", plain)
		wantRead(s, g, u, second, "open/f", true)
	}
	c, err := object.ReadCommit(t.Context(), s.Repo.Objects(), second)
	s.Check(err)
	rules, err := g.Rules(t.Context(), access.User{Name: "bob"}, compare.Side{Commit: second, Tree: c.Tree, Objects: s.Repo.Objects()})
	s.Check(err)
	if err := rules.MayWrite(t.Context(), "plain"); !errors.Is(err, access.ErrDenied) {
		t.Errorf("bob may write by %s: %v", access.KeyTop, err)
	}
}

// partial is a reader without some objects.
type partial struct {
	object.Reader
	without map[object.ID]bool
}

func (p partial) Get(ctx context.Context, key object.Key) ([]byte, error) {
	if p.without[key.ID] {
		return nil, &object.AbsentError{Key: key}
	}
	return p.Reader.Get(ctx, key)
}

// A folder shows no size, number or ID while something in it is hidden, or cannot be read.
func TestReadsAll(t *testing.T) {
	s := kisttest.New(t)
	for _, path := range []string{"mixed/open", "mixed/secret", "open/sub/f", "later/f", "damaged/sub/f"} {
		s.Write(path, path)
	}
	s.Add(stage.AddOptions{})
	first := next(s)
	setAttrs(s, "mixed/secret acl=anna", "later acl.read=everyone", "later/f acl.read=anna", "open/sub acl.write=anna")
	next(s)
	setAttrs(s, "later/f -acl.read")
	last := next(s)
	g := access.Open(s.Repo)

	for _, tt := range []struct {
		commit object.ID
		path   string
		want   bool
	}{
		{last, "", false}, {last, "mixed", false}, {last, "open", true}, {last, "later", true}, {last, "damaged", false}, {last, "damaged/sub", false},
		{first, "later", false}, {first, "mixed", false}, {first, "open/sub", true},
	} {
		c, err := object.ReadCommit(t.Context(), s.Repo.Objects(), tt.commit)
		s.Check(err)
		damaged, err := tree.Find(t.Context(), s.Repo.Objects(), c.Tree, "damaged/sub")
		s.Check(err)
		objects := partial{s.Repo.Objects(), map[object.ID]bool{damaged.Content.ID: true}}
		rules, err := g.Rules(t.Context(), eve, compare.Side{Commit: tt.commit, Tree: c.Tree, Objects: objects})
		s.Check(err)
		e, err := tree.Find(t.Context(), s.Repo.Objects(), c.Tree, tt.path)
		s.Check(err)
		shown, err := rules.Shown(t.Context(), tt.path, e)
		s.Check(err)
		if got := shown.Size == e.Size && shown.Content == e.Content && shown.Files == e.Files; got != tt.want || !tt.want && (shown.Size != 0 || !shown.Content.IsZero() || shown.Files != 0) {
			t.Errorf("%q of %s is shown as %+v, want all of it: %v", tt.path, tt.commit.Short(), shown, tt.want)
		}
	}
}

// A rule that only an expired commit has counts while its content is there.
func TestExpiredRules(t *testing.T) {
	s := kisttest.New(t)
	s.Write("a/f", "1")
	s.Write("b/f", "1")
	s.Add(stage.AddOptions{})
	first := next(s)
	setAttrs(s, "b acl=anna")
	second := next(s)
	setAttrs(s, "a acl=anna")
	expired := next(s)
	setAttrs(s, "a -acl", "b -acl")
	last := next(s)
	s.Hold(first, true)
	s.Hold(second, true)
	result, err := retain.Expire(t.Context(), s.Repo, retain.ExpireOptions{Policy: retain.Policy{Last: 1}})
	s.Check(err)
	if len(result.Expired) != 1 || result.Expired[0].ID != expired {
		t.Fatalf("expired: %+v, want only the third commit", result.Expired)
	}

	g := access.Open(s.Repo)
	wantRead(s, g, eve, first, "a/f", false)
	wantRead(s, g, eve, first, "b/f", false)
	s.Collect(s.Repo, gc.PlanOptions{})
	g = access.Open(s.Repo)
	wantRead(s, g, eve, first, "a/f", true)
	wantRead(s, g, eve, first, "b/f", false)
	wantRead(s, g, eve, last, "b/f", true)
}
