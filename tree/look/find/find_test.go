package find_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/look/find"
	"github.com/kist-vcs/kist/tree/look/versions"
	"github.com/kist-vcs/kist/tree/work/stage"
)

var now = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// fact is a file of the worktree, as the test reads it.
type fact struct {
	path  string
	mode  fs.FileMode
	mtime time.Time
	data  string // content of a file
	since bool   // changed since the first commit
	id    object.ID
}

// repository is a repository with random files and two commits.
type repository struct {
	*kisttest.Repository
	rnd   *rand.Rand
	first object.ID
	facts []fact
	big   []string
}

func newRepository(t *testing.T) *repository {
	s := &repository{Repository: kisttest.New(t), rnd: rand.New(rand.NewPCG(1, 2))}
	shared := s.random(3 << 20)
	s.big = []string{shared, s.random(2<<20) + shared[1<<20:], s.random(1 << 20), shared + "x", s.random(100), "tiny"}
	for range 150 {
		s.change()
	}
	s.Add(stage.AddOptions{})
	s.first = s.Commit("first").ID
	before := s.read(nil)
	for range 50 {
		s.change()
	}
	s.Add(stage.AddOptions{})
	s.Commit("second")
	s.facts = s.read(before)
	return s
}

func (s *repository) random(size int) string {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(s.rnd.Uint32())
	}
	return string(data)
}

// change writes or removes a random path.
func (s *repository) change() {
	name := pick(s.rnd, "a.txt", "b.txt", "A.TXT", "film.mov", "x y", "[x]", "*", "or", "long.name.tar.gz")
	p := path.Join(pick(s.rnd, "", "src", "src/deep", "docs", "docs/src", "photos"), name)
	file := filepath.Join(s.Dir, p)
	s.Check(os.RemoveAll(file))
	switch s.rnd.IntN(12) {
	case 0:
		return
	case 1:
		s.Check(os.MkdirAll(filepath.Dir(file), 0o755))
		s.Check(os.Symlink("target", file))
		return
	case 2:
		s.Write(p, pick(s.rnd, s.big...))
	default:
		s.Write(p, pick(s.rnd, "", "one", "two words", strings.Repeat("middle ", 40), s.random(s.rnd.IntN(3000))))
	}
	s.Check(os.Chtimes(file, now, now.Add(-time.Duration(s.rnd.IntN(60*24))*time.Hour)))
}

func pick[T any](rnd *rand.Rand, list ...T) T { return list[rnd.IntN(len(list))] }

// read returns the facts of the worktree. It compares them with earlier facts.
func (s *repository) read(before []fact) (facts []fact) {
	v, err := compare.OfCommit(s.Context(), s.Repo, "HEAD")
	s.Check(err)
	s.Check(filepath.WalkDir(s.Dir, func(file string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(s.Dir, file)
		if err != nil || rel == "." {
			return err
		}
		if rel == ".kist" {
			return fs.SkipDir
		}
		info, err := d.Info()
		s.Check(err)
		f := fact{path: filepath.ToSlash(rel), mode: info.Mode()}
		if f.mode.IsRegular() {
			data, err := os.ReadFile(file)
			s.Check(err)
			f.data = string(data)
		}
		e, err := v.Find(s.Context(), f.path)
		s.Check(err)
		f.id, f.mtime = tree.ContentID(&e), e.MTime.Time() // a new mtime alone is never staged
		i := slices.IndexFunc(before, func(b fact) bool { return b.path == f.path })
		f.since = i < 0 || !d.IsDir() && (before[i].data != f.data || before[i].mode != f.mode)
		facts = append(facts, f)
		return nil
	}))
	return facts
}

// question is an expression and its meaning.
type question struct {
	words []string
	holds func(f fact) bool
}

// atom returns a random test.
func (s *repository) atom() question {
	one := func(word string, holds func(f fact) bool) question { return question{[]string{word}, holds} }
	f := pick(s.rnd, s.facts...)
	base := path.Base(f.path)
	size := s.rnd.IntN(400)
	days := s.rnd.IntN(60)
	at := now.AddDate(0, 0, -days)
	regular := func(f fact) bool { return f.mode.IsRegular() }

	switch s.rnd.IntN(16) {
	case 0:
		return one("*.txt", func(f fact) bool { return strings.HasSuffix(f.path, ".txt") })
	case 1:
		return one("iname=*.TXT", func(f fact) bool { return strings.HasSuffix(strings.ToLower(f.path), ".txt") })

	case 2:
		if base == "*" {
			base = "film.mov"
		}
		return one("name="+base, func(f fact) bool { return path.Base(f.path) == base })

	case 3:
		return one("path=src", func(f fact) bool { return f.path == "src" || strings.HasPrefix(f.path, "src/") })
	case 4:
		return one("docs/*", func(f fact) bool { return strings.HasPrefix(f.path, "docs/") })
	case 5:
		return one(pick(s.rnd, "type=f", "type=file"), regular)
	case 6:
		return one(pick(s.rnd, "type=d", "type=dir"), func(f fact) bool { return f.mode.IsDir() })
	case 7:
		return one("type=l", func(f fact) bool { return f.mode&fs.ModeSymlink != 0 })
	case 8:
		return one(fmt.Sprintf("size=+%d", size), func(f fact) bool { return regular(f) && len(f.data) >= size })
	case 9:
		return one("size=-1M", func(f fact) bool { return regular(f) && len(f.data) <= 1<<20 })
	case 10:
		return one("size="+fmt.Sprint(len(f.data)), func(g fact) bool { return regular(g) && len(g.data) == len(f.data) })
	case 11:
		return one(fmt.Sprintf("newer=%dd", days), func(f fact) bool { return !f.mode.IsDir() && f.mtime.After(at) })
	case 12:
		return one("older="+at.Format(time.RFC3339), func(f fact) bool { return !f.mode.IsDir() && f.mtime.Before(at) })
	case 13:
		return one("changed="+s.first.String(), func(f fact) bool { return f.since })
	case 14:
		return one("id="+f.id.String()[:12], func(g fact) bool { return g.id == f.id })
	default:
		return one(fmt.Sprintf("sha256=%x", sha256.Sum256([]byte(f.data))), func(g fact) bool { return regular(g) && g.data == f.data })
	}
}

// question returns a random expression.
func (s *repository) question(depth int) question {
	if depth == 0 {
		return s.atom()
	}
	a, b := s.question(s.rnd.IntN(depth)), s.question(s.rnd.IntN(depth))
	group := func(q question) []string {
		if len(q.words) == 1 {
			return q.words
		}
		return slices.Concat([]string{"("}, q.words, []string{")"})
	}
	switch s.rnd.IntN(4) {
	case 0:
		return question{append([]string{pick(s.rnd, "not", "!")}, group(a)...), func(f fact) bool { return !a.holds(f) }}
	case 1:
		return question{slices.Concat(group(a), []string{"or"}, group(b)), func(f fact) bool { return a.holds(f) || b.holds(f) }}
	case 2:
		return question{slices.Concat(group(a), []string{"and"}, group(b)), func(f fact) bool { return a.holds(f) && b.holds(f) }}
	default:
		return question{slices.Concat(group(a), group(b)), func(f fact) bool { return a.holds(f) && b.holds(f) }}
	}
}

func (s *repository) options() find.Options {
	return find.Options{
		Now: now,
		Paths: func(pattern string) (func(string) bool, error) {
			folder, below := strings.CutSuffix(pattern, "/*")
			return func(p string) bool { return tree.Below(p, folder) && (!below || p != folder) }, nil
		},
		Index: func() (*versions.Index, error) { return versions.Open(s.Context(), s.Repo, nil) },
		Open:  func(name string) (io.ReadCloser, error) { return os.Open(filepath.Join(s.Dir, name)) },
	}
}

// run returns the results of an expression in a folder of HEAD.
func (s *repository) run(words []string, folder string) (files []find.File) {
	s.Helper()
	q, err := find.Parse(s.Context(), s.Repo, words, s.options())
	if err != nil {
		s.Fatalf("%q: %v", words, err)
	}
	v, err := compare.OfCommit(s.Context(), s.Repo, "HEAD")
	s.Check(err)
	e, err := tree.Find(s.Context(), v.Objects, v.Tree, folder)
	s.Check(err)
	for f, err := range q.In(s.Context(), find.SearchStart{Path: folder, Entry: e, Root: v.Tree, Commit: v.Commit, Objects: v.Objects}) {
		s.Check(err)
		files = append(files, f)
	}
	return files
}

func paths(files []find.File) (list []string) {
	for _, f := range files {
		list = append(list, f.Path)
	}
	return list
}

// The results of random expressions equal those of tests on the files themselves.
func TestRandomQuestions(t *testing.T) {
	s := newRepository(t)
	some := 0
	for i := range 300 {
		q := s.question(s.rnd.IntN(4))
		folder := pick(s.rnd, "", "", "src", "docs")
		var want []string
		for _, f := range s.facts {
			if f.path != folder && tree.Below(f.path, folder) && q.holds(f) {
				want = append(want, f.path)
			}
		}
		slices.SortFunc(want, tree.ComparePaths)
		if got := paths(s.run(q.words, folder)); !slices.Equal(got, want) {
			t.Fatalf("question %d, %q in %q:\n%q, want\n%q", i, q.words, folder, got, want)
		}
		if len(want) > 0 && len(want) < len(s.facts) {
			some++
		}
	}
	if some < 100 {
		t.Errorf("%d questions select some but not all files, want at least 100", some)
	}
}

// like= returns identical files first, and then files by shared bytes.
func TestLike(t *testing.T) {
	s := newRepository(t)
	s.Check(os.RemoveAll(filepath.Join(s.Dir, "like")))
	first := "" // chunk
	s.Check(s.Repo.Chunker().Split(strings.NewReader(s.big[0]), func(chunk []byte) error {
		first = cmp.Or(first, string(chunk))
		return nil
	}))
	half := first + s.random(2<<20)
	for name, data := range map[string]string{"a-half": half, "b-most": s.big[0] + "more", "c-same": s.big[0], "d-other": s.random(3 << 20), "e-same": s.big[0]} {
		s.Write("like/"+name, data)
	}
	s.Add(stage.AddOptions{})
	s.Commit("like")
	s.Write("outside", s.big[0])
	s.Write("empty", "")
	s.Write("short", "short")

	files := s.run([]string{"like=outside", "path=like"}, "")
	if got, want := paths(files), []string{"like/c-same", "like/e-same", "like/b-most", "like/a-half"}; !slices.Equal(got, want) {
		t.Fatalf("like=outside finds %q, want %q", got, want)
	}
	for i, f := range files {
		if f.Same != (i < 2) || f.Same != (f.Shared == uint64(len(s.big[0]))) {
			t.Errorf("%s: same %v, shared %d", f.Path, f.Same, f.Shared)
		}
	}
	if shared := files[3].Shared; shared != uint64(len(first)) {
		t.Errorf("a-half shares %d bytes, want %d", shared, len(first))
	}
	for _, f := range s.run([]string{"like=empty"}, "") {
		if f.Entry.Size != 0 || !f.Same {
			t.Errorf("like=empty finds %s", f.Path)
		}
	}
	if files := s.run([]string{"like=short"}, ""); len(files) > 0 {
		t.Errorf("like=short finds %q", paths(files))
	}
}

// changed= with a time compares with the last first-parent commit before that time.
func TestChangedSinceTime(t *testing.T) {
	s := kisttest.New(t)
	r := &repository{Repository: s}
	s.Write("a", "1")
	s.Add(stage.AddOptions{})
	first := s.Commit("first")
	c, err := object.ReadCommit(context.Background(), s.Repo.Objects(), first.ID)
	s.Check(err)
	at := c.Committer.When()
	for _, test := range []struct {
		since string
		want  []string
	}{
		{at.Add(-time.Hour).Format(time.RFC3339), []string{"a"}},
		{at.Add(time.Hour).Format(time.RFC3339), nil},
	} {
		if got := paths(r.run([]string{"changed=" + test.since}, "")); !slices.Equal(got, test.want) {
			t.Errorf("since %s: %q, want %q", test.since, got, test.want)
		}
	}
}

// Each invalid test has an error that names its word.
func TestWrongTests(t *testing.T) {
	s := &repository{Repository: kisttest.New(t)}
	s.Write("a", "1")
	s.Add(stage.AddOptions{})
	s.Commit("first")
	for word, want := range map[string]string{
		"color=red":       `no test is called "color"`,
		"name=":           "name= has no value",
		"name=a/b":        "a name has no slash",
		"type=folder":     `no type is called "folder"`,
		"size=big":        "is no size",
		"size=+":          "is no size",
		"size=+-1":        "is no size",
		"newer=soon":      "soon",
		"changed=nowhere": `"nowhere" is neither a revision nor a time`,
		"id=abc":          "4 to 64 hexadecimal digits",
		"id=xyzzy":        "4 to 64 hexadecimal digits",
		"sha256=abcd":     "64 hexadecimal digits",
		"like=nothing":    "nothing",
	} {
		_, err := find.Parse(s.Context(), s.Repo, []string{"type=f", word}, s.options())
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "word 2: ") {
			t.Errorf("%s: error %v, want %s", word, err, want)
		}
	}
}
