package refs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/object"
)

var (
	ctx = context.Background()
	ann = Who{Name: "Ann Other", Email: "ann@example.org"}
)

// id returns the n-th ID of a test.
func id(n int) object.ID { return object.Sum(fmt.Appendf(nil, "%d", n)) }

// A clock advances by a minute each time it is read.
type clock struct{ time.Time }

func (c *clock) now() time.Time {
	c.Time = c.Add(time.Minute)
	return c.Time
}

// newStore returns a store in a new folder, with HEAD on the unborn main.
func newStore(t testing.TB) *Store {
	t.Helper()
	c := &clock{time.Date(2026, 1, 31, 12, 0, 0, 0, time.FixedZone("", 3600))}
	s := Open(t.TempDir(), c.now)
	if err := s.Init("main"); err != nil {
		t.Fatal(err)
	}
	return s
}

// set makes or moves a ref, whatever its value.
func (s *Store) set(t testing.TB, name string, to object.ID) {
	t.Helper()
	old, err := s.Get(name)
	if err != nil && !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if err := s.Update(ctx, []Change{{Name: name, Old: old, New: to, Reason: "test"}}, ann); err != nil {
		t.Fatal(err)
	}
}

// spoil writes a file behind the store's back.
func (s *Store) spoil(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(s.filePath(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.filePath(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (s *Store) mustRead(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(s.filePath(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestFiles(t *testing.T) {
	s := newStore(t)
	s.set(t, Heads+"main", id(1))
	for name, want := range map[string]string{
		"HEAD":            "ref: refs/heads/main\ncrc32c f74bffcf\n",
		"refs/heads/main": id(1).String() + "\ncrc32c d6909b94\n",
		"logs/HEAD": "922bf622 " + strings.Repeat("0", 64) + " " + id(1).String() +
			" 2026-01-31T12:01:00+01:00 Ann Other <ann@example.org>\ttest\n",
	} {
		if diff := cmp.Diff(want, s.mustRead(t, name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if a, b := s.mustRead(t, "logs/HEAD"), s.mustRead(t, "logs/refs/heads/main"); a != b {
		t.Errorf("logs differ:\n%s%s", a, b)
	}
	if _, err := os.Stat(s.filePath(staging)); !os.IsNotExist(err) {
		t.Errorf("the staging folder is still there: %v", err)
	}
}

func TestGetAndList(t *testing.T) {
	s := newStore(t)
	names := []string{"refs/heads/a-b", "refs/heads/a/b", "refs/heads/a/c/d", "refs/heads/main",
		"refs/holds/x", "refs/remotes/origin/main", "refs/tags/v1"}
	for i, name := range names {
		s.set(t, name, id(i))
	}

	if err := s.SetRemoteHead(ctx, "refs/remotes/origin/HEAD", "refs/remotes/origin/main"); err != nil {
		t.Fatal(err)
	}
	if err := s.SetRemoteHead(ctx, "refs/remotes/other/HEAD", "refs/remotes/other/gone"); err != nil {
		t.Fatal(err)
	}

	s.spoil(t, "refs/heads/.new", "x")
	s.spoil(t, "refs/heads/main.lock", "x")

	for prefix, want := range map[string]string{
		"":                         strings.Join(append(append(append([]string{}, names[:5]...), "refs/remotes/origin/HEAD"), names[5:]...), " "),
		"refs/heads/":              strings.Join(names[:4], " "),
		"refs/heads/a":             "refs/heads/a-b refs/heads/a/b refs/heads/a/c/d",
		"refs/heads/a/":            "refs/heads/a/b refs/heads/a/c/d",
		"refs/h":                   strings.Join(names[:5], " "),
		"refs/heads/main/":         "",
		"refs/none/":               "",
		"refs/../refs/":            "",
		"refs/heads/../../../etc/": "",
		"x":                        "",
	} {
		refs, err := s.List(prefix)
		var got []string
		for _, r := range refs {
			got = append(got, r.Name)
			if one, err := s.Get(r.Name); err != nil || one != r.ID || one.IsZero() {
				t.Errorf("get %s: %v, %v, want %v", r.Name, one, err, r.ID)
			}
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); err != nil || diff != "" {
			t.Errorf("list %q: %v %s", prefix, err, diff)
		}
	}

	refs, _ := s.List(Remotes)
	if want := (Ref{"refs/remotes/origin/HEAD", id(5), "refs/remotes/origin/main"}); refs[0] != want {
		t.Errorf("got %v, want %v", refs[0], want)
	}

	for _, name := range []string{"refs/heads/none", "refs/heads/a", "refs/heads/main/x", "refs/remotes/other/HEAD"} {
		if _, err := s.Get(name); !errors.Is(err, ErrNotFound) {
			t.Errorf("get %s: %v", name, err)
		}
	}

	if err := s.SetRemoteHead(ctx, "refs/remotes/origin/HEAD", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("refs/remotes/origin/HEAD"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}

	for _, bad := range [][2]string{
		{"refs/heads/HEAD", "refs/heads/main"}, {"refs/remotes/origin/HEAD", "refs/heads/main"},
		{"refs/remotes/origin/HEAD", "refs/remotes/origin/HEAD"}, {"refs/remotes/origin/HEAD", "refs/remotes/origin/../x"},
		{"HEAD", ""}, {"refs/remotes/../HEAD", ""},
	} {
		var name *NameError
		if err := s.SetRemoteHead(ctx, bad[0], bad[1]); !errors.As(err, &name) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// Reading a damaged ref returns an error with its name. The other refs stay readable, and
// Repair replaces the damaged ref.
func TestDamage(t *testing.T) {
	hex := id(1).String()
	for text, ok := range map[string]bool{
		hex + "\ncrc32c d6909b94\n":            true,
		hex + "\n":                             true, // without a checksum, as written by hand
		"":                                     false,
		hex:                                    false,
		hex[1:] + "\n":                         false,
		strings.ToUpper(hex) + "\n":            false,
		strings.Repeat("0", 64) + "\n":         false,
		strings.Repeat("\x00", 81):             false,
		hex + "\ncrc32c d6909b90\n":            false,
		hex + "\ncrc32c d6909b94":              false,
		hex + "\ncrc32c D6909B94\n":            false,
		hex + "\n\n":                           false,
		hex + "\ncrc32c d6909b94\n\n":          false,
		id(2).String() + "\ncrc32c d6909b94\n": false,
		"ref: refs/heads/other\n":              false,
		hex + "\n" + strings.Repeat("x", 4096): false,
	} {
		s := newStore(t)
		s.set(t, "refs/heads/b", id(2))
		s.spoil(t, "refs/heads/a", text)
		got, err := s.Get("refs/heads/a")
		refs, listErr := s.List("")
		if ok {
			if err != nil || listErr != nil || got != id(1) || len(refs) != 2 {
				t.Errorf("%q: %v, %v, %v, %v", text, got, err, refs, listErr)
			}
			continue
		}

		var corrupt *object.DamageError
		if !errors.As(err, &corrupt) || corrupt.Name != "refs/heads/a" || !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%q: %v, want damage of refs/heads/a", text, err)
		}
		if !errors.Is(listErr, object.ErrCorrupt) || len(refs) != 1 || refs[0].ID != id(2) {
			t.Errorf("%q: list: %v, %v", text, refs, listErr)
		}
		if _, err := s.Roots(ctx); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%q: roots: %v", text, err)
		}
		if err := s.Update(ctx, []Change{{Name: "refs/heads/a", New: id(3)}}, ann); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%q: update: %v", text, err)
		}
		if err := s.Repair(ctx, "refs/heads/a", id(1), ann, "repair"); err != nil {
			t.Error(err)
		}
		if got, err := s.Get("refs/heads/a"); got != id(1) || err != nil {
			t.Errorf("%q: after repair: %v, %v", text, got, err)
		}
		if err := s.Repair(ctx, "refs/heads/a", id(4), ann, "repair"); !errors.Is(err, ErrMoved) {
			t.Errorf("repair of an intact ref: %v, want ErrMoved", err)
		}
	}
}

// Reading HEAD, a ref or a log detects every single flipped bit.
func TestFlippedBits(t *testing.T) {
	s := newStore(t)
	s.set(t, Heads+"main", id(1))
	for _, name := range []string{"HEAD", "refs/heads/main"} {
		text := s.mustRead(t, name)
		for bit := range 8 * len(text) {
			data := []byte(text)
			data[bit/8] ^= 1 << (bit % 8)
			s.spoil(t, name, string(data))
			var corrupt *object.DamageError
			if h, err := s.Head(); !errors.As(err, &corrupt) || corrupt.Name != name {
				t.Errorf("%s with bit %d flipped: %v, %v", name, bit, h, err)
			}
		}
		s.spoil(t, name, text)
	}
	text := s.mustRead(t, "logs/HEAD")
	for bit := range 8 * (len(text) - 1) { // without the last "\n", the line is a torn one
		data := []byte(text)
		data[bit/8] ^= 1 << (bit % 8)
		s.spoil(t, "logs/HEAD", string(data))
		if e, err := s.Log("HEAD"); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("log with bit %d flipped: %v, %v", bit, e, err)
		}
	}
}

// Reading a ref that is a pipe does not hang. A ref that is a symlink is not followed.
func TestNotRegular(t *testing.T) {
	s := newStore(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, refValue{id: id(1)}.encode(), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(s.filePath("refs/heads"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, s.filePath("refs/heads/link")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(s.filePath("refs/heads/fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"refs/heads/link", "refs/heads/fifo"} {
		if _, err := s.Get(name); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("get %s: %v, want damage", name, err)
		}
	}
}

func TestManyRefs(t *testing.T) {
	s := newStore(t)
	const n = 300
	changes := make([]Change, n)
	for i := range changes {
		changes[i] = Change{Name: fmt.Sprintf("refs/remotes/r/d%d/b%d", i%10, i), New: id(i)}
	}
	if err := s.Update(ctx, changes, ann); err != nil {
		t.Fatal(err)
	}
	if refs, err := s.List(""); len(refs) != n || err != nil {
		t.Fatalf("%d refs, %v, want %d", len(refs), err, n)
	}
	roots, err := s.Roots(ctx)
	if err != nil || len(roots) != 2*n {
		t.Fatalf("%d roots, %v, want %d", len(roots), err, 2*n)
	}
	for i := range changes {
		changes[i].Old, changes[i].New = changes[i].New, object.ID{}
	}
	if err := s.Update(ctx, changes, ann); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"refs", "logs"} {
		if entries, err := os.ReadDir(s.filePath(dir)); len(entries) != 0 || err != nil {
			t.Errorf("left in %s: %v, %v", dir, entries, err)
		}
	}
}

func BenchmarkList(b *testing.B) {
	s := newStore(b)
	changes := make([]Change, 10_000)
	for i := range changes {
		changes[i] = Change{Name: fmt.Sprintf("refs/tags/t%d", i), New: id(i)}
	}
	if err := s.Update(ctx, changes, ann); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if refs, err := s.List(""); len(refs) != len(changes) || err != nil {
			b.Fatal(len(refs), err)
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	s := newStore(b)
	s.set(b, Heads+"main", id(0))
	for i := 0; b.Loop(); i++ {
		if err := s.Update(ctx, []Change{{Name: "HEAD", Old: id(i), New: id(i + 1), Reason: "commit: x"}}, ann); err != nil {
			b.Fatal(err)
		}
	}
}
