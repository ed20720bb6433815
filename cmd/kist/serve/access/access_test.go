package access_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/cmd/kist/serve/access"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// commit commits the index and returns the tree.
func commit(s *kisttest.Repository, message string) object.ID {
	s.Helper()
	return s.Commit(message).Commit.Tree
}

// setAttrs sets attributes. A line is "path key=value", or "path -key" to remove the attribute.
func setAttrs(s *kisttest.Repository, lines ...string) {
	s.Helper()
	for _, line := range lines {
		path, attr, _ := strings.Cut(line, " ")
		_, err := stage.EditAttrs(s.Context(), s.Repo, []string{path}, func(_ string, attrs map[string]string) error {
			if key, ok := strings.CutPrefix(attr, "-"); ok {
				delete(attrs, key)
				return nil
			}
			key, value, _ := strings.Cut(attr, "=")
			attrs[key] = value
			return nil
		})
		s.Check(err)
	}
}

func TestRules(t *testing.T) {
	s := kisttest.New(t)
	for _, path := range []string{"plain", "open/a", "crew/a", "crew/sub/b", "crew/open", "crew/none", "both/a", "both/more/a", "users/a"} {
		s.Write(path, path)
	}
	s.Add(stage.AddOptions{})
	setAttrs(s, "open acl.read=everyone", "crew acl.read= crew , bob,", "crew acl.write=anna", "crew/open acl.read=everyone",
		"crew/none acl.read=", "both acl=anna", "both/more acl.read=users", "users acl.read=users")
	root := commit(s, "rules")

	anna := access.User{Name: "anna", Groups: []string{"crew"}}
	bob, eve, nobody := access.User{Name: "bob"}, access.User{Name: "eve"}, access.User{}
	impostor := access.User{Groups: []string{"crew"}} // no name
	owner := access.User{Owner: true}
	tests := []struct {
		path        string
		read, write string // the users with this access, of anna, bob, eve, nobody, impostor
	}{
		{"", "anna bob eve", "anna bob eve"},
		{"plain", "anna bob eve", "anna bob eve"},
		{"absent", "anna bob eve", "anna bob eve"},
		{"open", "anna bob eve nobody impostor", "anna bob eve"},
		{"open/a", "anna bob eve nobody impostor", "anna bob eve"},
		{"open/absent/deep", "anna bob eve nobody impostor", "anna bob eve"},
		{"open/a/below a file", "anna bob eve nobody impostor", "anna bob eve"},
		{"crew", "anna bob", "anna"},
		{"crew/a", "anna bob", "anna"},
		{"crew/sub/b", "anna bob", "anna"},
		{"crew/sub/absent", "anna bob", "anna"},
		{"crew/open", "anna bob eve nobody impostor", "anna"},
		{"crew/none", "", ""},
		{"both/a", "anna", "anna"},
		{"both/more/a", "anna bob eve", "anna"},
		{"users/a", "anna bob eve", "anna bob eve"},
	}
	users := map[string]access.User{"anna": anna, "bob": bob, "eve": eve, "nobody": nobody, "impostor": impostor}
	for _, tt := range tests {
		for name, user := range users {
			rules := access.New(user, s.Repo.Objects(), root)
			for what, err := range map[string]error{tt.read: rules.MayRead(t.Context(), tt.path), "write " + tt.write: rules.MayWrite(t.Context(), tt.path)} {
				want := strings.Contains(" "+what+" ", " "+name+" ")
				if got := err == nil; got != want || err != nil && !errors.Is(err, access.ErrDenied) {
					t.Errorf("%q, user %s (allowed: %s): %v", tt.path, name, what, err)
				}
			}
		}
		rules := access.New(owner, s.Repo.Objects(), root)
		if rules.MayRead(t.Context(), tt.path) != nil || rules.MayWrite(t.Context(), tt.path) != nil {
			t.Errorf("%q: the owner has no access", tt.path)
		}
	}
}

// A new rule also protects old versions. Removing a rule does not open old versions.
func TestRulesOfTwoTrees(t *testing.T) {
	s := kisttest.New(t)
	s.Write("a/f", "1")
	s.Write("b/f", "1")
	s.Add(stage.AddOptions{})
	setAttrs(s, "b acl.read=anna")
	old := commit(s, "old")
	setAttrs(s, "a acl.read=anna", "b -acl.read")
	present := commit(s, "present")

	eve := access.User{Name: "eve"}
	for _, path := range []string{"a/f", "b/f", "a/gone"} {
		if err := access.New(eve, s.Repo.Objects(), old, present).MayRead(t.Context(), path); !errors.Is(err, access.ErrDenied) {
			t.Errorf("%s by the rules of both trees: %v, want ErrDenied", path, err)
		}
	}
	for path, root := range map[string]object.ID{"a/f": old, "b/f": present} {
		if err := access.New(eve, s.Repo.Objects(), root).MayRead(t.Context(), path); err != nil {
			t.Errorf("%s by the rules of one tree: %v, want access", path, err)
		}
	}
}

// If the rules cannot be read, access is denied.
func TestUnreadableRules(t *testing.T) {
	s := kisttest.New(t)
	missing := object.Sum([]byte("no such tree"))
	for _, user := range []access.User{{}, {Name: "eve"}} {
		if err := access.New(user, s.Repo.Objects(), missing).MayRead(t.Context(), "a"); err == nil {
			t.Errorf("user %q may read although the rules are missing", user.Name)
		}
	}
	if err := access.New(access.User{}, s.Repo.Objects()).MayRead(t.Context(), "a"); !errors.Is(err, access.ErrDenied) {
		t.Errorf("visitor without a tree of rules: %v, want ErrDenied", err)
	}
}
