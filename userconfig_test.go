package kist

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
)

// Random changes of a hand-written file keep its comments and unknown keys, and each key has its
// last value. Each value of the file is on a line of its own.
func TestUserConfigEdits(t *testing.T) {
	const byHand = "# top\nlater = 1 # unknown\n\n[user] # who\n# me\nname = \"A\"\n\n[backup]\nexclude = [\"*.tmp\"]\n  jobs = 3\n"
	values := map[string][]string{
		"user.name": {"A", "B \"quoted\" #"}, "user.email": {"a@b"}, "backup.jobs": {"1", "2"}, "gc.auto": {"true", "false"},
		"alias.x": {"log", "!echo 'x = 1'"}, "backup.limit-upload": {"1MiB"}, "core.pager": {"less", "true"},
	}
	keys := slices.Sorted(func(yield func(string) bool) {
		for key := range values {
			if !yield(key) {
				return
			}
		}
	})
	for round := range objecttest.Rounds(t, 5) {
		random := rand.New(rand.NewPCG(objecttest.Seed(), uint64(round)))
		file := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(file, []byte(byHand), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := LoadUserConfig(file)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"user.name": "A", "backup.jobs": "3"}
		for range 12 {
			key := keys[random.IntN(len(keys))]
			choice := random.IntN(len(values[key]) + 1)
			var value any
			delete(want, key)
			if choice < len(values[key]) {
				want[key] = values[key][choice]
				value = ParseSetting(key, want[key])
			} else if c.Get(key) == "" {
				continue // nothing to remove
			}
			if err := c.Set(t.Context(), key, value); err != nil {
				t.Fatal(err)
			}
		}

		again, err := LoadUserConfig(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if got := again.Get(key); got != want[key] || c.Get(key) != got {
				t.Errorf("round %d: %s is %q, want %q", round, key, got, want[key])
			}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"# top\nlater = 1 # unknown\n", "[user] # who\n", "# me\n", "exclude = [\"*.tmp\"]\n"} {
			if !strings.Contains(string(text), part) {
				t.Errorf("round %d: %q is gone:\n%s", round, part, text)
			}
		}
	}
}

// A value in a form of TOML that kist does not write is read, replaced and removed.
func TestUserConfigForms(t *testing.T) {
	for _, byHand := range []string{
		"user.name = \"A\"\n", "user = { name = \"A\" }\n", "[user]\n'name' = '''A'''\n", "[user]\nname = \"\"\"\nA\"\"\"", "\"user\".\"name\" = 'A'",
		"[backup]\nexclude = [\n  \"a\",\n]\n[user]\nname='A'",
	} {
		file := filepath.Join(t.TempDir(), "config")
		if err := os.WriteFile(file, []byte(byHand), 0o600); err != nil {
			t.Fatal(err)
		}

		c, err := LoadUserConfig(file)
		if err != nil || c.Get("user.name") != "A" {
			t.Fatalf("%q: %v, %q", byHand, err, c.Get("user.name"))
		}

		for _, name := range []string{"B", "C"} {
			if err := c.Set(t.Context(), "user.name", name); err != nil {
				t.Fatalf("%q: %v", byHand, err)
			}
			if c, err = LoadUserConfig(file); err != nil || c.Get("user.name") != name {
				t.Errorf("%q: %v, %q", byHand, err, c.Get("user.name"))
			}
		}

		if err := c.Add(t.Context(), "backup.exclude", "b"); err != nil {
			t.Fatal(err)
		}
		if c, err = LoadUserConfig(file); err != nil || !slices.Contains(c.Values("backup.exclude"), "b") {
			t.Errorf("%q: %v", byHand, err)
		}
		if err := c.Set(t.Context(), "user.name", nil); err != nil {
			t.Fatal(err)
		}
		if c, err = LoadUserConfig(file); err != nil || c.Get("user.name") != "" {
			t.Errorf("%q: %v, %q", byHand, err, c.Get("user.name"))
		}
	}
}

// In each combination of sources, the strongest source that has the key wins. Some sources do not
// count for some keys.
func TestPrecedence(t *testing.T) {
	for set := range 8 {
		for key, counts := range map[string]int{"user.name": 7, "core.pager": 5, "backup.paths": 2, "unknown.key": 7} {
			user, repo := &UserConfig{values: settings{}, line: settings{}}, &Config{values: settings{}}
			repo.user = user
			want := ""
			for bit, s := range []settings{user.values, repo.values, user.line} {
				value := fmt.Sprint("source ", bit)
				if set>>bit&1 == 1 {
					if err := s.setAt(value, splitKey(key)...); err != nil {
						t.Fatal(err)
					}
					if counts>>bit&1 == 1 {
						want = value
					}
				}
			}

			if got, _ := repo.Get(key); got != want {
				t.Errorf("%s, set in %03b: got %q, want %q", key, set, got, want)
			}

			last := ""
			for _, s := range Settings(user, repo) {
				if !s.Ignored {
					last = s.Values[0]
				}
			}
			if last != want {
				t.Errorf("%s, set in %03b: the list ends with %q, want %q", key, set, last, want)
			}
		}
	}
}
