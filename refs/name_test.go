package refs

import (
	"errors"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/kist-vcs/kist/object/objecttest"
)

func TestCheckName(t *testing.T) {
	long := strings.Repeat("x", MaxComponentSize)
	for name, ok := range map[string]bool{
		"refs/heads/main":                   true,
		"refs/heads/a/b/c":                  true,
		"refs/heads/@":                      true,
		"refs/heads/a@b":                    true,
		"refs/heads/a{b}":                   true,
		"refs/heads/-x":                     true,
		"refs/heads/a.b":                    true,
		"refs/heads/Zoë":                    true,
		"refs/heads/a.lockx":                true,
		"refs/tags/v1.0":                    true,
		"refs/remotes/origin/HEAD":          true,
		"refs/heads/" + long:                true,
		"refs/heads/x" + long:               false,
		"refs" + strings.Repeat("/xx", 341): false,
		"":                                  false,
		"HEAD":                              false,
		"refs":                              false,
		"refs/heads":                        false,
		"refs/heads/":                       false,
		"refs//main":                        false,
		"/refs/heads/main":                  false,
		"heads/main":                        false,
		"refs/heads/.":                      false,
		"refs/heads/..":                     false,
		"refs/../heads/main":                false,
		"refs/heads/a/../b":                 false,
		"refs/heads/a..b":                   false,
		"refs/heads/.a":                     false,
		"refs/heads/a/.b":                   false,
		"refs/heads/a.":                     false,
		"refs/heads/a.lock":                 false,
		"refs/heads/a.lock/b":               false,
		"refs/heads/a b":                    false,
		"refs/heads/a~b":                    false,
		"refs/heads/a^b":                    false,
		"refs/heads/a:b":                    false,
		"refs/heads/a?b":                    false,
		"refs/heads/a*b":                    false,
		"refs/heads/a[b":                    false,
		`refs/heads/a\b`:                    false,
		"refs/heads/a@{b":                   false,
		"refs/heads/a\nb":                   false,
		"refs/heads/a\x00b":                 false,
		"refs/heads/a\x7fb":                 false,
		"refs/heads/a\u0085b":               false,
		"refs/heads/a\xffb":                 false,
	} {
		err := CheckName(name)
		var bad *NameError
		if ok != (err == nil) || err != nil && (!errors.As(err, &bad) || bad.Name != name || bad.Reason == "") {
			t.Errorf("CheckName(%q) = %v, want valid: %v", name, err, ok)
		}
	}
}

func TestCheckShort(t *testing.T) {
	for name, ok := range map[string]bool{
		"main": true, "a/b": true, "v1": true, "HEAD2": true, "a/HEAD": true, strings.Repeat("a", 63): true,
		"": false, "HEAD": false, "@": false, "-d": false, "a b": false, "a/": false, strings.Repeat("a", 64): false,
	} {
		if err := CheckShort(name); ok != (err == nil) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A name that CheckName accepts is a path below refs, and revision syntax parses it unchanged.
func FuzzCheckName(f *testing.F) {
	for _, name := range []string{"refs/heads/main", "refs/heads/../../config", "refs/heads/a.lock", "refs/tags/v1.0-é", "refs/heads/a@{1}", "refs/x/.y"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := CheckName(name)
		if err == nil {
			clean := filepath.Clean(filepath.Join("/repo/.kist", name))
			if clean != "/repo/.kist/"+name || !strings.HasPrefix(clean, "/repo/.kist/refs/") || !filepath.IsLocal(name) {
				t.Errorf("%q is accepted, but its path is %q", name, clean)
			}
			if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || len(name) > MaxNameSize {
				t.Errorf("%q is accepted, but is not valid text", name)
			}
			if rev, path, has := SplitPath(name + ":x"); rev != name || path != "x" || !has {
				t.Errorf("SplitPath(%q) = %q, %q, %v, want %q and x", name+":x", rev, path, has, name)
			}
			if r, err := parseRevision(name + "@{1}~2"); err != nil || r.name != name || r.number != 1 || len(r.steps) != 1 {
				t.Errorf("revision %q parsed as %+v, %v", name+"@{1}~2", r, err)
			}
		}
	})
}

// CheckName accepts the same random names as git check-ref-format. The names avoid the cases
// that only CheckName refuses.
func TestCheckNameAsGit(t *testing.T) {
	git := objecttest.NeedProgram(t, "git")
	parts := []string{"/", "/", ".", "..", ".lock", "@", "@{", "{", "a", "b", "main", "-", " ", "~", "^", ":", "?", "*", "[", "]", "\\", "\x01", "\x7f", "é", "\u200d", "$", "#"}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 250 {
		name := "refs/heads/"
		for range 1 + rnd.IntN(6) {
			i := rnd.IntN(len(parts))
			name += parts[i%(1+rnd.IntN(len(parts)))]
		}
		theirs := exec.Command(git, "check-ref-format", name).Run() == nil
		if err := CheckName(name); (err == nil) != theirs {
			t.Errorf("CheckName(%q) = %v, git accepts: %v", name, err, theirs)
		}
	}
}
