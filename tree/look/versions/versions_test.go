package versions_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/keys"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/versions"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// randomHistory returns commits with changes, renames, deletions, re-creations and merges. New
// contents are unique.
func randomHistory(rng *rand.Rand, commits int) []kisttest.Version {
	paths := []string{"a", "b", "c", "d/a", "d/b", "d/e/f", "g/h"}
	var history []kisttest.Version

	content := func(i int) string {
		text := fmt.Sprintf("content %d of commit %d", rng.IntN(1000), i)
		if rng.IntN(2) == 0 {
			text += strings.Repeat(" that is stored as a chunk", 3)
		}
		return text
	}

	for i := range commits {
		v := kisttest.Version{Files: map[string]string{}}
		if i > 0 {
			v.Parents = []int{max(0, i-1-rng.IntN(3))}
			v.Files = maps.Clone(history[v.Parents[0]].Files)
		}
		if i > 3 && rng.IntN(3) == 0 {
			for range 1 + rng.IntN(2) { // a merge that takes some files from other commits
				other := rng.IntN(i)
				if slices.Contains(v.Parents, other) {
					continue
				}
				v.Parents = append(v.Parents, other)

				for _, path := range paths {
					text, has := history[other].Files[path]
					switch {
					case rng.IntN(2) == 0:
					case has:
						v.Files[path] = text
					default:
						delete(v.Files, path)
					}
				}
			}
		}

		for range rng.IntN(3) {
			from, to := paths[rng.IntN(len(paths))], paths[rng.IntN(len(paths))]
			text, has := v.Files[from]
			switch rng.IntN(4) {
			case 0:
				delete(v.Files, from)
			case 1:
				if has {
					delete(v.Files, from)
					v.Files[to] = text
				}
			default:
				v.Files[from] = content(i)
			}
		}

		history = append(history, v)
	}
	return history
}

// walker answers the same queries as the index, from complete file lists.
type walker []kisttest.Version

// state is the last change of a path in the history of a commit.
type state struct {
	commit int // -1: the path never existed
	path   string
}

// last returns the last change of a path up to a commit.
func (w walker) last(commit int, path string) state {
	for {
		parents := w[commit].Parents
		text, has := w[commit].Files[path]
		next := -1
		for _, p := range parents {
			if before, had := w[p].Files[path]; had == has && before == text {
				next = p
				break
			}
		}
		switch {
		case next >= 0:
			commit = next
		case len(parents) == 0 && !has:
			return state{-1, path}
		default:
			return state{commit, path}
		}
	}
}

// from returns the path before a rename, or "". A file is the same if its content vanishes at one
// path and appears at another.
func (w walker) from(commit int, path string) string {
	text, has := w[commit].Files[path]
	if !has || w.last(commit, path).commit != commit {
		return ""
	}
	for _, p := range w[commit].Parents {
		if _, had := w[p].Files[path]; had {
			continue
		}
		for old, before := range w[p].Files {
			if _, still := w[commit].Files[old]; !still && before == text {
				return old
			}
		}
	}
	return ""
}

// movedAway reports whether the change that removed a file moved it to another path.
func (w walker) movedAway(s state) bool {
	for path := range w[s.commit].Files {
		if w.from(s.commit, path) == s.path {
			return true
		}
	}
	return false
}

// life returns the changes of a file up to one, oldest first.
func (w walker) life(s state, seen map[state]bool) (list []state) {
	if seen[s] {
		return nil
	}
	seen[s] = true
	for _, p := range w[s.commit].Parents {
		prev := w.last(p, s.path)
		if from := w.from(s.commit, s.path); from != "" {
			if _, has := w[p].Files[s.path]; !has {
				prev = w.last(p, from)
			}
		}
		if prev.commit < 0 {
			continue
		}
		if _, has := w[prev.commit].Files[prev.path]; !has && w.movedAway(prev) {
			continue
		}
		list = append(list, w.life(prev, seen)...)
	}
	return append(list, s)
}

func openAndUpdate(t *testing.T, r *kist.Repository) *versions.Index {
	t.Helper()
	x, err := versions.Open(t.Context(), r, nil)
	kisttest.Check(t, err)
	return x
}

// openUnchanged opens an index whose files already have all commits.
func openUnchanged(t *testing.T, r *kist.Repository) *versions.Index {
	t.Helper()
	x, err := versions.Open(t.Context(), r, func(n int) { t.Errorf("%d commits were added", n) })
	kisttest.Check(t, err)
	return x
}

// tagged returns the tips of a mirrored history, by the numbers of their commits.
func tagged(x *versions.Index, n int) []versions.Tip {
	tips := make([]versions.Tip, n)
	for _, tip := range x.Tips() {
		var i int
		if _, err := fmt.Sscanf(tip.Name, refs.Tags+"t%d", &i); err == nil {
			tips[i] = tip
		}
	}
	return tips
}

// TestRandomHistories compares the index with the walker on random histories.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		history := walker(randomHistory(rng, 40))
		if ambiguous(history) {
			continue
		}
		r := kisttest.Mirror(t, t.TempDir(), history)
		x := openAndUpdate(t, r)
		compareLives(t, seed, x, history)
		compareUses(t, seed, x, history)
		if t.Failed() {
			return
		}
	}
}

// ambiguous reports whether a commit has a content twice, which makes renames ambiguous.
func ambiguous(history walker) bool {
	for _, v := range history {
		seen := map[string]bool{}
		for _, text := range v.Files {
			if seen[text] {
				return true
			}
			seen[text] = true
		}
	}
	return false
}

func compareLives(t *testing.T, seed uint64, x *versions.Index, history walker) {
	tips := tagged(x, len(history))
	number := map[object.ID]int{}
	for i, tip := range tips {
		number[tip.Commit] = i
	}

	for i, tip := range tips {
		for _, path := range []string{"a", "b", "c", "d/a", "d/b", "d/e/f", "g/h"} {
			f, err := x.File(t.Context(), tip, path)
			kisttest.Check(t, err)
			end := history.last(i, path)
			if f == nil || end.commit < 0 {
				if f != nil || end.commit >= 0 {
					t.Errorf("seed %d: %s in %d: %+v, want a life that ends with %v", seed, path, i, f, end)
				}
				continue
			}

			want := history.life(end, map[state]bool{})
			var got []state
			numbers := 0
			for _, v := range f.Versions {
				got = append(got, state{number[v.Commit], v.Path})
				text, has := history[number[v.Commit]].Files[v.Path]
				if has != (v.Type != 0) || has && (v.ID != object.Sum([]byte(text)) || v.Size != uint64(len(text))) {
					t.Errorf("seed %d: %s in %d: %+v, want %q", seed, path, i, v, text)
				}
				if has {
					numbers++
				}
				if from := history.from(number[v.Commit], v.Path); v.From != from || has && v.Number != numbers || !has && v.Number != 0 {
					t.Errorf("seed %d: %s in %d: %+v, want number %d, from %q", seed, path, i, v, numbers, from)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("seed %d: %s in %d: changes %v, want %v", seed, path, i, got, want)
			}
			if id := versions.FileID(tips[want[0].commit].Commit, want[0].path); f.ID != id {
				t.Errorf("seed %d: %s in %d: file %s, want %s", seed, path, i, f.ID, id)
			}
			if again, err := x.Find(t.Context(), f.ID.String()[:20]); err != nil || again == nil && !f.Versions[len(f.Versions)-1].Moved || again != nil && again.ID != f.ID {
				t.Errorf("seed %d: %s in %d: by ID %+v, %v", seed, path, i, again, err)
			}
		}

		compareDeleted(t, x, tip, history, i)
	}
}

func compareDeleted(t *testing.T, x *versions.Index, tip versions.Tip, history walker, commit int) {
	deleted, err := x.Deleted(t.Context(), tip)
	kisttest.Check(t, err)
	var got, want []string
	for _, f := range deleted {
		got = append(got, f.Path)
	}
	for _, path := range []string{"a", "b", "c", "d/a", "d/b", "d/e/f", "g/h"} {
		end := history.last(commit, path)
		if _, has := history[commit].Files[path]; !has && end.commit >= 0 && !history.movedAway(end) {
			want = append(want, path)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("deleted in %d: %q, want %q", commit, got, want)
	}
}

func compareUses(t *testing.T, seed uint64, x *versions.Index, history walker) {
	tips := tagged(x, len(history))
	want := map[string]map[string][]object.ID{} // by content and path: newest first
	for i, v := range slices.Backward(history) {
		for path, text := range v.Files {
			if want[text] == nil {
				want[text] = map[string][]object.ID{}
			}
			want[text][path] = append(want[text][path], tips[i].Commit)
		}
	}

	for text, paths := range want {
		got := map[string][]object.ID{}
		for use := range x.Uses(map[object.ID]bool{object.Sum([]byte(text)): true}) {
			got[use.Path] = use.Commits
			for _, id := range use.Commits {
				if i := slices.IndexFunc(tips, func(tip versions.Tip) bool { return tip.Commit == id }); !slices.Contains(use.Now, tips[i].Name) {
					t.Errorf("seed %d: %q is at %s in %v, without %s", seed, text, use.Path, use.Now, tips[i].Name)
				}
			}
		}

		for _, ids := range [](map[string][]object.ID){got, paths} {
			for _, list := range ids {
				slices.SortFunc(list, object.ID.Compare)
			}
		}
		if !maps.EqualFunc(got, paths, slices.Equal) {
			t.Errorf("seed %d: uses of %q: %v, want %v", seed, text, got, paths)
		}
	}
}

// An index that grew with the history equals a new one. A damaged or foreign file changes no
// answer.
func TestIncrements(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	history := randomHistory(rng, 60)
	dir := t.TempDir()
	r := kisttest.Mirror(t, dir, history)
	all, err := r.Refs().List("")
	kisttest.Check(t, err)
	keep := func(n int) {
		var changes []refs.Change
		for _, ref := range all {
			var i int
			fmt.Sscanf(ref.Name, refs.Tags+"t%d", &i)
			now, err := r.Refs().Get(ref.Name)
			gone := err != nil
			if wanted := strings.HasPrefix(ref.Name, refs.Tags) && i < n || n >= len(history); wanted == gone {
				c := refs.Change{Name: ref.Name, Old: now}
				if wanted {
					c = refs.Change{Name: ref.Name, New: ref.ID}
				}
				changes = append(changes, c)
			}
		}
		kisttest.Check(t, r.Refs().Update(t.Context(), changes, refs.Who{}))
	}
	file := filepath.Join(dir, kist.Dir, versions.Dir, "changes")
	size := func() int64 {
		info, err := os.Stat(file)
		kisttest.Check(t, err)
		return info.Size()
	}

	last := int64(0)
	for _, n := range []int{1, 2, 20, 21, 45} {
		keep(n)
		openAndUpdate(t, r)
		if size() <= last {
			t.Fatalf("with %d commits the file has %d bytes, want more than %d", n, size(), last)
		}
		last = size()
	}
	keep(len(history))
	grown := answers(t, openAndUpdate(t, r))
	full := size()
	if again := answers(t, openUnchanged(t, r)); !reflect.DeepEqual(grown, again) || size() != full {
		t.Errorf("opened again, the index differs, or it grew from %d to %d bytes", full, size())
	}

	data, err := os.ReadFile(file)
	kisttest.Check(t, err)
	for name, damage := range map[string]func() []byte{
		"torn":    func() []byte { return data[:len(data)-3] },
		"flipped": func() []byte { d := slices.Clone(data); d[len(d)/2] ^= 1; return d },
		"foreign": func() []byte { return []byte("a text that has nothing to do with kist, but is longer than a header") },
		"longer":  func() []byte { return append(slices.Clone(data), "more"...) },
		"empty":   func() []byte { return nil },
	} {
		kisttest.Check(t, os.WriteFile(file, damage(), 0o600))
		if got := answers(t, openAndUpdate(t, r)); !reflect.DeepEqual(grown, got) {
			t.Errorf("%s: the answers differ", name)
		}
		if got := answers(t, openUnchanged(t, r)); !reflect.DeepEqual(grown, got) {
			t.Errorf("%s: the answers of the repaired file differ", name)
		}
	}

	kisttest.Check(t, os.RemoveAll(filepath.Dir(file)))
	kisttest.Check(t, os.Symlink(t.TempDir(), filepath.Dir(file)))
	if got := answers(t, openAndUpdate(t, r)); !reflect.DeepEqual(grown, got) {
		t.Error("behind a symlink: the answers differ")
	}
	if list, err := os.ReadDir(filepath.Dir(file)); err != nil || len(list) > 0 {
		t.Errorf("the index was written through a symlink: %v, %v", list, err)
	}
}

// answers returns all answers of an index, independent of the order in which commits were added.
func answers(t *testing.T, x *versions.Index) map[string]any {
	out := map[string]any{}
	for v := range x.All() {
		out[fmt.Sprint("version ", v.Commit, v.Path)] = v
		for use := range x.Uses(map[object.ID]bool{v.ID: true}) {
			slices.SortFunc(use.Commits, object.ID.Compare)
			out[fmt.Sprint("use ", v.ID, use.Path)] = []any{use.Now, use.Commits, len(use.Since)}
		}
		for _, tip := range x.Tips() {
			f, err := x.File(t.Context(), tip, v.Path)
			kisttest.Check(t, err)
			out[fmt.Sprint("life ", tip, v.Path)] = f
		}
	}
	return out
}

// damage flips a bit of a stored object and returns a function that repairs it.
func damage(t *testing.T, dir string, key object.Key) (repair func()) {
	t.Helper()
	indexes, err := filepath.Glob(filepath.Join(dir, kist.Dir, "volumes", "*", "KEYS"))
	kisttest.Check(t, err)
	for _, name := range indexes {
		data, err := os.ReadFile(name)
		kisttest.Check(t, err)
		x, err := keys.Open(bytes.NewReader(data), int64(len(data)))
		kisttest.Check(t, err)
		rec, has, err := x.Find(key)
		kisttest.Check(t, err)
		if !has {
			continue
		}
		file := filepath.Join(filepath.Dir(name), fmt.Sprintf("%06d.vlog", rec.File))
		kisttest.Check(t, os.Chmod(file, 0o600))
		flip := func() {
			data, err := os.ReadFile(file)
			kisttest.Check(t, err)
			data[rec.Offset+rec.Stored/2] ^= 1
			kisttest.Check(t, os.WriteFile(file, data, 0o600))
		}
		flip()
		return flip
	}
	t.Fatalf("no volume has %s", key)
	return nil
}

// A damaged object hides only some history, with a warning. The index on disk does not record the
// damage.
func TestDamage(t *testing.T) {
	s := kisttest.New(t)
	text := string(kisttest.Noise(1, 5000))
	commit := func() object.ID {
		s.Add(stage.AddOptions{})
		return s.Commit("x").ID
	}
	s.Write("a", text)
	s.Write("dir/file", "a file in a folder")
	first := commit()
	s.Write("between", "a file of a commit in between")
	second := commit()
	kisttest.Check(t, os.Rename(filepath.Join(s.Dir, "a"), filepath.Join(s.Dir, "b")))
	s.Write("b", text+"and more")
	s.Write("dir/file", "changed")
	commit()
	c, err := object.ReadCommit(t.Context(), s.Repo.Objects(), first)
	kisttest.Check(t, err)
	folder, err := tree.Find(t.Context(), s.Repo.Objects(), c.Tree, "dir")
	kisttest.Check(t, err)

	for _, test := range []struct {
		key  object.Key
		want string // the numbers of changes of a, b, dir/file and between
	}{
		{object.Key{Kind: object.KindChunk, ID: object.Sum([]byte(text))}, "2 1 2 1"},
		{folder.Content, "2 2 1 1"},
		{object.Key{Kind: object.KindCommit, ID: second}, "0 1 1 1"},
		{object.Key{}, "2 2 2 1"},
	} {
		warnings := 0
		r, err := kist.Open(s.Dir, kist.Options{Warn: func(text string) {
			if strings.Contains(text, "history is incomplete") {
				warnings++
			}
		}})
		kisttest.Check(t, err)
		repair := func() {}
		if !test.key.IsZero() {
			repair = damage(t, s.Dir, test.key)
		}
		x := openAndUpdate(t, r)
		var got []string
		for _, path := range []string{"a", "b", "dir/file", "between"} {
			f, err := x.File(t.Context(), x.Tips()[0], path)
			kisttest.Check(t, err)
			n := 0
			if f != nil {
				n = len(f.Versions)
			}
			got = append(got, fmt.Sprint(n))
		}
		if got := strings.Join(got, " "); got != test.want || warnings == 0 != test.key.IsZero() {
			t.Errorf("%s: %s changes, want %s; %d warnings", test.key, got, test.want, warnings)
		}
		if _, err := os.Stat(filepath.Join(s.Dir, kist.Dir, versions.Dir)); os.IsNotExist(err) == test.key.IsZero() {
			t.Errorf("%s: index on disk: %v", test.key, err)
		}
		repair()
		r.Close()
	}
}

// Containing finds the files with a chunk, even if the manifest of another file is damaged.
func TestContaining(t *testing.T) {
	s := kisttest.New(t)
	s.Write("one", string(kisttest.Noise(1, 5<<20)))
	s.Write("two", string(kisttest.Noise(1, 5<<20))+"and more")
	s.Write("other", string(kisttest.Noise(2, 5<<20)))
	s.Add(stage.AddOptions{})
	c, err := object.ReadCommit(t.Context(), s.Repo.Objects(), s.Commit("x").ID)
	kisttest.Check(t, err)
	content := map[string]object.Key{}
	kisttest.Check(t, tree.Walk(t.Context(), s.Repo.Objects(), c.Tree, func(path string, e object.Entry) error {
		content[path] = e.Content
		return nil
	}))
	chunks, err := graph.Links(t.Context(), s.Repo.Objects(), content["one"])
	kisttest.Check(t, err)
	if content["one"].Kind != object.KindManifest || len(chunks) < 2 {
		t.Fatalf("content %v with %d chunks, want a manifest of several", content, len(chunks))
	}

	warnings := 0
	r, err := kist.Open(s.Dir, kist.Options{Warn: func(string) { warnings++ }})
	kisttest.Check(t, err)
	defer r.Close()
	x := openAndUpdate(t, r)
	paths := func(id object.ID) (list []string) {
		ids, err := x.Containing(t.Context(), r, map[object.ID]bool{id: true})
		kisttest.Check(t, err)
		for use := range x.Uses(ids) {
			list = append(list, use.Path)
		}
		return list
	}
	if got := paths(chunks[0].ID); !slices.Equal(got, []string{"one", "two"}) || warnings > 0 {
		t.Errorf("the chunk is in %q, %d warnings", got, warnings)
	}
	defer damage(t, s.Dir, content["other"])()
	if got := paths(chunks[0].ID); !slices.Equal(got, []string{"one", "two"}) || warnings != 1 {
		t.Errorf("with a damaged manifest, the chunk is in %q, %d warnings", got, warnings)
	}
	if got := paths(content["other"].ID); !slices.Equal(got, []string{"other"}) {
		t.Errorf("the damaged manifest is in %q, want other", got)
	}
}

// Processes that open the index concurrently get the same answers.
func TestProcesses(t *testing.T) {
	dir := t.TempDir()
	kisttest.Mirror(t, dir, randomHistory(rand.New(rand.NewPCG(8, 8)), 40))

	all := make([]map[string]any, 6)
	var group sync.WaitGroup
	for i := range all {
		group.Go(func() {
			r, err := kist.Open(dir, kist.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			x, err := versions.Open(t.Context(), r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			all[i] = answers(t, x)
		})
	}

	group.Wait()
	r, err := kist.Open(dir, kist.Options{})
	kisttest.Check(t, err)
	defer r.Close()

	want := answers(t, openUnchanged(t, r))
	for i, got := range all {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("process %d has other answers", i)
		}
	}
}

// A file and a folder at the same path have different lives. A file can move into a folder that
// replaces it.
func TestFilesAndFolders(t *testing.T) {
	s := kisttest.New(t)
	commit := func() {
		s.Add(stage.AddOptions{})
		s.Commit("x")
	}
	s.Write("p", "a first content of the file, which is longer than that")
	commit()
	kisttest.Check(t, os.Rename(filepath.Join(s.Dir, "p"), filepath.Join(s.Dir, "q")))
	kisttest.Check(t, os.Mkdir(filepath.Join(s.Dir, "p"), 0o777))
	kisttest.Check(t, os.Rename(filepath.Join(s.Dir, "q"), filepath.Join(s.Dir, "p/x")))
	commit()
	kisttest.Check(t, os.RemoveAll(filepath.Join(s.Dir, "p")))
	s.Write("p", "another content of another file, which has its place now")
	commit()

	x := openAndUpdate(t, s.Repo)
	ids := map[object.ID]bool{}
	for path, want := range map[string]string{"p": "[1 p]", "p/x": "[1 p 2 p/x 0 p/x]"} {
		f, err := x.File(t.Context(), x.Tips()[0], path)
		kisttest.Check(t, err)
		var got []string
		for _, v := range f.Versions {
			got = append(got, fmt.Sprint(v.Number, " ", v.Path))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", path, got, want)
		}
		again, err := x.Find(t.Context(), f.ID.String())
		if err != nil || again == nil || !reflect.DeepEqual(again, f) {
			t.Errorf("%s by its ID: %+v, %v", path, again, err)
		}
		ids[f.ID] = true
	}
	if len(ids) != 2 {
		t.Error("two files have the same ID")
	}
}

// A file is found by its ID after another file or a folder replaced it at its path.
func TestReplaced(t *testing.T) {
	s := kisttest.New(t)
	commit := func() {
		s.Add(stage.AddOptions{})
		s.Commit("x")
	}
	path := func(name string) string { return filepath.Join(s.Dir, name) }
	s.Write("removed", "the file that is removed")
	s.Write("folder", "the file that becomes a folder")
	s.Write("other", "a file that takes the place of the removed one")
	commit()
	s.Write("folder", "a second version")
	kisttest.Check(t, os.Remove(path("removed")))
	commit()
	x := openAndUpdate(t, s.Repo)
	ids := map[string]object.ID{}
	for _, name := range []string{"removed", "folder"} {
		f, err := x.File(t.Context(), x.Tips()[0], name)
		kisttest.Check(t, err)
		ids[name] = f.ID
	}
	kisttest.Check(t, os.Rename(path("other"), path("removed")))
	kisttest.Check(t, os.Remove(path("folder")))
	s.Write("folder/file", "a file in the folder")
	commit()

	x = openAndUpdate(t, s.Repo)
	for name, want := range map[string]string{"removed": "[1 0]", "folder": "[1 2]"} {
		f, err := x.Find(t.Context(), ids[name].String())
		if err != nil || f == nil || f.ID != ids[name] || f.Path != name || f.Tip.Name != "HEAD" {
			t.Errorf("%s by its ID: %+v, %v", name, f, err)
			continue
		}
		var got []int
		for _, v := range f.Versions {
			got = append(got, v.Number)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: versions %v, want %s", name, got, want)
		}
	}
}
