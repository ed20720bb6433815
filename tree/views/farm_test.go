package views_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/views"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// viewed is a repository with views.
type viewed struct{ *kisttest.Repository }

func newViewed(t *testing.T) *viewed {
	s := &viewed{kisttest.New(t)}
	views.Follow(s.Context(), s.Repo)
	return s
}

// commit commits all files.
func (s *viewed) commit(message string) {
	s.Helper()
	s.Add(stage.AddOptions{})
	s.Commit(message)
}

func (s *viewed) add(v views.View) {
	s.Helper()
	_, err := views.Add(s.Context(), s.Repo, v)
	s.Check(err)
}

func (s *viewed) view(name string) views.View {
	s.Helper()
	v, err := views.Find(s.Repo, name)
	s.Check(err)
	return v
}

func (s *viewed) verify(name string, o views.VerifyOptions) *views.Report {
	s.Helper()
	report, err := views.Verify(s.Context(), s.Repo, name, o)
	s.Check(err)
	return report
}

// snapshot returns the files below a folder: the target of a symlink, the content of a file,
// and "dir" for a folder.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		switch {
		case d.IsDir():
			found[rel] = "dir"
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			found[rel] = "link " + target
			return err
		default:
			data, err := os.ReadFile(path)
			found[rel] = "file " + string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// contents returns the content behind each link of a view.
func (s *viewed) contents(dir string) map[string]string {
	s.Helper()
	found := map[string]string{}
	for path, what := range snapshot(s.T, dir) {
		if !strings.HasPrefix(what, "link ") || path == ".kist-view" {
			continue
		}
		if filepath.IsAbs(strings.TrimPrefix(what, "link ")) {
			s.Errorf("%s is an absolute link: %s", path, what)
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		s.Check(err)
		found[path] = string(data)
	}
	return found
}

func (s *viewed) want(dir string, want map[string]string) {
	s.Helper()
	if got := s.contents(dir); !maps.Equal(got, want) {
		s.Errorf("the view has %q, want %q", got, want)
	}
}

func TestViewFollowsCommits(t *testing.T) {
	s := newViewed(t)
	large := string(kisttest.Noise(1, 3<<20)) // a manifest
	s.Write("a/one.TXT", "one")
	s.Write("two", strings.Repeat("two ", 100))
	s.Write("large.bin", large)
	s.commit("first")
	s.add(views.View{Name: "types", Template: "{ext}/{path}"})
	dir := s.view("types").Dir
	s.want(dir, map[string]string{"txt/a/one.TXT": "one", "none/two": strings.Repeat("two ", 100), "bin/large.bin": large})
	if info, err := os.Stat(filepath.Join(dir, "none/two")); err != nil || info.Mode().Perm()&0o222 != 0 {
		t.Errorf("a pool file is writable: %v, %v", info.Mode(), err)
	}

	s.Write("two", "2")
	s.Check(os.Remove(filepath.Join(s.Dir, "a/one.TXT")))
	s.Check(os.Rename(filepath.Join(s.Dir, "large.bin"), filepath.Join(s.Dir, "large.dat")))
	s.commit("second")
	s.want(dir, map[string]string{"none/two": "2", "dat/large.dat": large})
	if report := s.verify("types", views.VerifyOptions{}); report.Left() != 2 { // files of the old versions
		t.Errorf("problems %+v, want 2", report.Problems)
	}
	if _, err := os.Lstat(filepath.Join(dir, "txt")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty folder still exists: %v", err)
	}

	_, err := views.Remove(t.Context(), s.Repo, "types")
	s.Check(err)
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the view still exists: %v", err)
	}
	for path, what := range snapshot(t, filepath.Join(s.Dir, ".kist/views")) {
		if what != "dir" {
			t.Errorf("%s still exists", path)
		}
	}
}

func TestViewsShareThePool(t *testing.T) {
	s := newViewed(t)
	for i := range 20 {
		s.Write(fmt.Sprintf("f%d", i), strings.Repeat("the same ", 10))
	}
	s.commit("first")
	outside := filepath.Join(t.TempDir(), "new", "view")
	s.add(views.View{Name: "a", Template: "{path}"})
	s.add(views.View{Name: "b", Template: "all/{path}", Dir: outside})
	s.add(views.View{Name: "c", Template: "{id}"}) // one link for all files
	if got := s.contents(outside); len(got) != 20 {
		t.Errorf("%d links, want 20", len(got))
	}
	if got := s.contents(s.view("c").Dir); len(got) != 1 {
		t.Errorf("%d links, want 1", len(got))
	}
	files := 0
	for _, what := range snapshot(t, filepath.Join(s.Dir, ".kist/views/.pool")) {
		if strings.HasPrefix(what, "file ") {
			files++
		}
	}
	if files != 1 {
		t.Errorf("%d files in the pool, want 1", files)
	}
}

func TestVerifyRestores(t *testing.T) {
	for seed := range uint64(6) {
		random := mathrand.New(mathrand.NewPCG(seed, 0))
		s := newViewed(t)
		for i := range 30 {
			s.Write(fmt.Sprintf("d%d/f%d", i%5, i), strings.Repeat(fmt.Sprint(i%20), 1+random.IntN(100)))
		}
		s.commit("first")
		s.add(views.View{Name: "v", Template: "{date:%Y/%m}/{path}"})
		dir, pool := s.view("v").Dir, filepath.Join(s.Dir, ".kist/views/.pool")
		wantView, wantPool := snapshot(t, dir), snapshot(t, pool)

		damaged := 0
		for path, what := range wantView {
			if path = filepath.Join(dir, path); what == "dir" || random.IntN(3) > 0 {
				continue
			}
			damaged++
			target := strings.TrimPrefix(what, "link ")
			s.Check(os.Remove(path))
			switch random.IntN(3) {
			case 0:
				s.Check(os.Symlink("/etc/passwd", path))
			case 1:
				if !strings.HasSuffix(path, ".kist-view") {
					s.Check(os.Symlink(target, path+" orphan"))
				}
			}
		}
		for path, what := range wantPool {
			if path = filepath.Join(pool, path); what == "dir" || random.IntN(3) > 0 {
				continue
			}
			damaged++
			s.Check(os.Remove(path))
			switch random.IntN(3) {
			case 0:
				s.Check(os.WriteFile(path, []byte("damage"), 0o444))
			case 1:
				s.Check(os.WriteFile(path+"x", []byte("orphan"), 0o444))
			}
		}
		if report := s.verify("v", views.VerifyOptions{}); report.Left() < damaged {
			t.Errorf("%d problems after %d damages", report.Left(), damaged)
		}
		if report := s.verify("v", views.VerifyOptions{Fix: true, Vacuum: true}); report.Left() > 0 {
			t.Errorf("not repaired: %+v", report.Problems)
		}
		if got := snapshot(t, dir); !maps.Equal(got, wantView) {
			t.Errorf("seed %d: the view differs", seed)
		}
		if got := snapshot(t, pool); !maps.Equal(got, wantPool) {
			t.Errorf("seed %d: the pool differs", seed)
		}
		if report := s.verify("v", views.VerifyOptions{}); len(report.Problems) > 0 {
			t.Errorf("after the repair: %+v", report.Problems)
		}
	}
}

func TestForeignFiles(t *testing.T) {
	s := newViewed(t)
	s.Write("a/one", "one")
	s.commit("first")
	dir := t.TempDir()
	s.Check(os.Mkdir(filepath.Join(dir, "a"), 0o755))
	s.Check(os.WriteFile(filepath.Join(dir, "a/mine"), nil, 0o644))
	before := snapshot(t, dir)
	_, err := views.Add(t.Context(), s.Repo, views.View{Name: "v", Template: "{path}", Dir: dir})
	var foreign *views.ForeignError
	if !errors.As(err, &foreign) || !slices.Equal(foreign.Paths, []string{"a/mine"}) {
		t.Errorf("error %v, want a ForeignError for a/mine", err)
	}
	if got := snapshot(t, dir); !maps.Equal(got, before) || len(views.All(s.Repo)) > 0 {
		t.Errorf("the refused Add left %v", got)
	}

	s.Check(os.Remove(filepath.Join(dir, "a/mine")))
	if _, err := views.Add(t.Context(), s.Repo, views.View{Name: "v", Template: "{path}", Dir: dir}); !errors.As(err, &foreign) {
		t.Errorf("an empty folder: error %v, want a ForeignError", err)
	}
	s.Check(os.Remove(filepath.Join(dir, "a")))
	s.add(views.View{Name: "v", Template: "{path}", Dir: dir})
	s.Check(os.WriteFile(filepath.Join(dir, "b"), []byte("mine"), 0o644)) // in the place of a link
	s.Check(os.Symlink("/etc/passwd", filepath.Join(dir, "a/other")))     // beside the links
	s.Write("b/two", "two")
	s.commit("second")
	if views.IsCurrent(t.Context(), s.Repo, s.view("v")) {
		t.Error("a view that could not be updated counts as current")
	}
	if _, err := views.Verify(t.Context(), s.Repo, "v", views.VerifyOptions{Fix: true, Vacuum: true, Rebuild: true}); !errors.As(err, &foreign) {
		t.Errorf("error %v", err)
	}
	report := s.verify("v", views.VerifyOptions{Fix: true, Vacuum: true})
	want := []views.Problem{{Kind: views.MissingLink, Path: "b/two"}, {Kind: views.ForeignFile, Path: "a/other"}, {Kind: views.ForeignFile, Path: "b"}}
	if !slices.Equal(report.Problems, want) {
		t.Errorf("problems %+v, want %+v", report.Problems, want)
	}
	left, err := views.Remove(t.Context(), s.Repo, "v")
	if err != nil || !slices.Equal(left, []string{"a/other", "b"}) {
		t.Errorf("left %q, error %v", left, err)
	}
	if got := snapshot(t, dir); !maps.Equal(got, map[string]string{".": "dir", "a": "dir", "a/other": "link /etc/passwd", "b": "file mine"}) {
		t.Errorf("after the removal: %v", got)
	}
}

// A commit writes to no folder that a manipulated configuration names.
func TestUpdateWritesOnlyToViews(t *testing.T) {
	s := newViewed(t)
	s.Write("one", "one")
	s.commit("first")
	s.add(views.View{Name: "v", Template: "{path}"})
	for _, other := range []string{t.TempDir(), filepath.Join(t.TempDir(), "absent")} {
		s.Check(s.Repo.EditConfig(t.Context(), func(c *kist.Config) error { return c.SetAt(other, "view", "v", "dir") }))
		s.Write("two", other)
		s.commit("another")
		if list, _ := os.ReadDir(other); len(list) > 0 {
			t.Errorf("%s has %v, want nothing", other, list)
		}
	}
}

func TestAttributes(t *testing.T) {
	s := newViewed(t)
	s.Write("a/x", "one")
	s.Write("a/y", "two")
	set := func(path, key, value string) {
		_, err := stage.EditAttrs(t.Context(), s.Repo, []string{path}, func(_ string, attrs map[string]string) error {
			attrs[key] = value
			return nil
		})
		s.Check(err)
	}
	s.Add(stage.AddOptions{})
	set("a/x", "domain", "example.org")
	s.commit("first")
	s.add(views.View{Name: "v", Template: "{attr.domain}/{attr.acl}/{content-type}/{name}"})
	dir := s.view("v").Dir
	s.want(dir, map[string]string{"example.org/none/text/plain/x": "one", "none/none/text/plain/y": "two"})
	set("a", "acl", "public")
	set("a/y", "content-type", "image/png")
	s.commit("second")
	s.want(dir, map[string]string{"example.org/public/text/plain/x": "one", "none/public/image/png/y": "two"})
	s.add(views.View{Name: "w", Template: "{attr.domain}/{name}"})
	set("a/y", "domain", "example.com")
	s.commit("third")
	s.want(s.view("w").Dir, map[string]string{"example.org/x": "one", "example.com/y": "two"})
}

func TestCollisions(t *testing.T) {
	s := newViewed(t)
	s.Write("a/x", "one")
	s.Write("b/x", "two")
	s.Write("c/y", "one")
	s.commit("first")
	for template, want := range map[string][2]string{
		"{name}":       {"a/x", "b/x"},
		"all/{author}": {"a/x", "b/x"},
	} {
		_, err := views.Add(t.Context(), s.Repo, views.View{Name: "v", Template: template})
		var e *views.CollisionError
		if !errors.As(err, &e) || e.Paths != want {
			t.Errorf("%s: error %v, want a CollisionError for %q", template, err, want)
		}
	}
	s.Write("x", "a file in the place of a folder")
	s.Write("d/x/z", "z")
	s.commit("second")
	_, err := views.Add(t.Context(), s.Repo, views.View{Name: "v", Template: "{stem}/{ext}"})
	var e *views.CollisionError
	if !errors.As(err, &e) {
		t.Errorf("error %v", err)
	}
	if list, _ := os.ReadDir(filepath.Join(s.Dir, ".kist/views")); len(list) != 1 {
		t.Errorf("the views folder has %v, want only the pool", list)
	}
}

// A manipulated configuration does not make kist remove or replace other symlinks.
func TestForeignFolder(t *testing.T) {
	s := newViewed(t)
	s.Write("one", "one")
	s.commit("first")
	s.add(views.View{Name: "v", Template: "{path}"})
	other := t.TempDir()
	s.Check(os.Symlink("/etc/passwd", filepath.Join(other, "one")))
	before := snapshot(t, other)
	s.Check(s.Repo.EditConfig(t.Context(), func(c *kist.Config) error { return c.SetAt(other, "view", "v", "dir") }))
	report := s.verify("v", views.VerifyOptions{Vacuum: true})
	if want := []views.Problem{{Kind: views.MissingLink, Path: ".kist-view"}, {Kind: views.MissingLink, Path: "one"}, {Kind: views.ForeignFile, Path: "one"}}; !slices.Equal(report.Problems, want) {
		t.Errorf("problems %+v", report.Problems)
	}
	left, err := views.Remove(t.Context(), s.Repo, "v")
	if err != nil || !slices.Equal(left, []string{"one"}) {
		t.Errorf("left %q, error %v", left, err)
	}
	if got := snapshot(t, other); !maps.Equal(got, before) {
		t.Errorf("the folder changed: %v", got)
	}
}

// Add can be repeated after a kill.
func TestInterruptedAdd(t *testing.T) {
	s := newViewed(t)
	s.Write("a/one", "one")
	s.Write("two", "two")
	s.commit("first")
	dir := filepath.Join(t.TempDir(), "v")
	v := views.View{Name: "v", Template: "{path}", Dir: dir}
	s.add(v)
	complete := snapshot(t, dir)

	// Killed after the rename, and before that.
	for _, left := range []string{dir, dir + ".kist-new"} {
		s.Check(s.Repo.EditConfig(t.Context(), func(c *kist.Config) error { return c.SetAt(nil, "view", "v") }))
		if left != dir {
			s.Check(os.Rename(dir, left))
			s.Check(os.Remove(filepath.Join(left, "two")))
		}
		s.add(v)
		if got := snapshot(t, dir); !maps.Equal(got, complete) {
			t.Errorf("%v, want %v", got, complete)
		}
		if list, _ := os.ReadDir(filepath.Dir(dir)); len(list) != 1 {
			t.Errorf("left: %v", list)
		}
	}
	s.add(v) // the same definition
	if _, err := views.Add(t.Context(), s.Repo, views.View{Name: "v", Template: "x{path}"}); !errors.Is(err, kist.ErrNameTaken) {
		t.Errorf("error %v", err)
	}
}

// An update completes one that was killed, even if it has other changes.
func TestInterruptedUpdate(t *testing.T) {
	s := newViewed(t)
	s.Write("a", "one")
	s.Write("b", "one")
	s.commit("first")
	s.add(views.View{Name: "v", Template: "{id}/{path}"})
	dir, id := s.view("v").Dir, s.Head()
	s.Write("a", "two")
	s.commit("second")
	second := snapshot(t, dir)

	// Restore the state after a kill between the links and the state of the second commit.
	state := filepath.Join(s.Dir, ".kist/views/.state/v")
	_, err := checkout.Reset(t.Context(), s.Repo, id.String(), checkout.ResetHard, nil)
	s.Check(err)
	s.verify("v", views.VerifyOptions{Fix: true, Vacuum: true})
	for path, what := range second {
		path = filepath.Join(dir, path)
		if _, err := os.Lstat(path); err != nil && what != "dir" {
			s.Check(os.MkdirAll(filepath.Dir(path), 0o755))
			s.Check(os.Symlink(strings.TrimPrefix(what, "link "), path))
		}
	}
	s.Check(os.WriteFile(state+".dirty", nil, 0o644))

	s.Write("b", "three")
	s.commit("third")
	s.want(dir, map[string]string{sum("one") + "/a": "one", sum("three") + "/b": "three"})
	if list, _ := os.ReadDir(filepath.Dir(state)); len(list) != 1 {
		t.Errorf("left: %v", list)
	}
}

func sum(text string) string { return object.Sum([]byte(text)).String() }

func TestPlacesOfViews(t *testing.T) {
	s := newViewed(t)
	s.Write("one", "one")
	s.commit("first")
	s.add(views.View{Name: "v", Template: "{path}", Dir: filepath.Join(t.TempDir(), "v")})
	link := filepath.Join(t.TempDir(), "link")
	s.Check(os.Symlink(s.Dir, link))
	for _, dir := range []string{s.Dir, s.Dir + "/sub", s.Dir + "/.kist/volumes", link + "/sub", s.view("v").Dir + "/sub", t.TempDir() + "/.kist/x"} {
		if _, err := views.Add(t.Context(), s.Repo, views.View{Name: "w", Template: "{path}", Dir: dir}); !errors.Is(err, views.ErrFolder) {
			t.Errorf("%s: error %v", dir, err)
		}
	}
	for _, name := range []string{"", "-v", "a/b", "..", ".pool", "a b", strings.Repeat("x", 65)} {
		if _, err := views.Add(t.Context(), s.Repo, views.View{Name: name, Template: "{path}"}); !errors.Is(err, views.ErrName) {
			t.Errorf("%q: error %v", name, err)
		}
	}
}

func TestPurgeReachesThePool(t *testing.T) {
	s := newViewed(t)
	s.Write("secret", kisttest.Secret)
	s.Write("other", "other")
	s.commit("first")
	s.add(views.View{Name: "v", Template: "{path}"})
	s.add(views.View{Name: "blocked", Template: "{path}"})
	s.Check(os.Remove(filepath.Join(s.view("blocked").Dir, ".kist-view")))
	s.Purge("secret")
	s.want(s.view("v").Dir, map[string]string{"other": "other"})
	for path, what := range snapshot(t, filepath.Join(s.Dir, ".kist/views")) {
		if strings.Contains(what, kisttest.Secret) {
			t.Errorf("%s has the purged content", path)
		}
	}
}

// A purge clears the pool even if no view can be updated. One view's branch is gone, and the
// other one's state is damaged.
func TestPurgeReachesThePoolOfBrokenViews(t *testing.T) {
	s := newViewed(t)
	s.Write("secret", kisttest.Secret)
	s.Write("other", "other")
	s.commit("first")
	_, err := commits.CreateBranch(t.Context(), s.Repo, "old", "HEAD", false)
	s.Check(err)
	s.add(views.View{Name: "gone", Template: "{path}", Rev: "old"})
	s.add(views.View{Name: "damaged", Template: "{path}"})
	_, err = commits.DeleteBranch(t.Context(), s.Repo, refs.Heads+"old", true)
	s.Check(err)
	s.Check(os.WriteFile(filepath.Join(s.Dir, ".kist/views/.state/damaged"), nil, 0o644))

	s.Purge("secret")
	for path, what := range snapshot(t, filepath.Join(s.Dir, ".kist/views/.pool")) {
		if strings.Contains(what, kisttest.Secret) {
			t.Errorf("%s has the purged content", path)
		}
	}
	if data, err := os.ReadFile(filepath.Join(s.view("gone").Dir, "other")); string(data) != "other" {
		t.Errorf("the content that was not purged is %q: %v", data, err)
	}
}

// Add refuses a link with the name of the temporary link, because an update would move it away.
func TestTemporaryName(t *testing.T) {
	s := newViewed(t)
	s.Write("d/.kist-view-new", "one")
	s.commit("first")
	if _, err := views.Add(t.Context(), s.Repo, views.View{Name: "v", Template: "{path}"}); err == nil {
		t.Error("Add accepts a link with the temporary name")
	}
}

// A user's files with the name of the temporary link stay.
func TestForeignTemporary(t *testing.T) {
	s := newViewed(t)
	s.Write("a", "one")
	s.Write("d/b", "one")
	s.commit("first")
	s.add(views.View{Name: "v", Template: "{path}"})
	dir := s.view("v").Dir
	file, link := filepath.Join(dir, ".kist-view-new"), filepath.Join(dir, "d/.kist-view-new")
	s.Check(os.WriteFile(file, []byte("mine"), 0o644))
	s.Check(os.Symlink("/etc/passwd", link))
	s.Write("a", "two")
	s.Write("d/b", "two")
	s.commit("second")
	s.verify("v", views.VerifyOptions{Vacuum: true})
	if data, err := os.ReadFile(file); string(data) != "mine" {
		t.Errorf("the file is %q: %v", data, err)
	}
	if target, err := os.Readlink(link); target != "/etc/passwd" {
		t.Errorf("the link leads to %q: %v", target, err)
	}

	s.Check(os.Remove(file))
	s.Check(os.Remove(link))
	s.verify("v", views.VerifyOptions{Fix: true, Vacuum: true})
	s.want(dir, map[string]string{"a": "two", "d/b": "two"})
}

// A repair makes pool files read-only again.
func TestVerifyProtects(t *testing.T) {
	s := newViewed(t)
	s.Write("a", "one")
	s.commit("first")
	s.add(views.View{Name: "v", Template: "{path}"})
	path := filepath.Join(s.view("v").Dir, "a")
	s.Check(os.Chmod(path, 0o666))
	s.verify("v", views.VerifyOptions{Fix: true})
	info, err := os.Stat(path)
	s.Check(err)
	if info.Mode().Perm() != 0o444 {
		t.Errorf("mode %v, want 0444", info.Mode())
	}
}

// A view that follows random commits equals a new one at the end.
func TestUpdateEqualsRebuild(t *testing.T) {
	for seed := range uint64(6) {
		random := mathrand.New(mathrand.NewPCG(seed, 1))
		s := newViewed(t)
		s.Write("begin", "begin")
		s.commit("first")
		const template = "{commit}/{tag}/{path}"
		s.add(views.View{Name: "v", Template: template})

		for i := range 12 {
			for range 1 + random.IntN(4) {
				path := fmt.Sprintf("d%d/f%d", random.IntN(2), random.IntN(4))
				if random.IntN(4) == 0 {
					s.Check(os.RemoveAll(filepath.Join(s.Dir, path)))
				} else {
					s.Write(path, fmt.Sprint(random.IntN(3)))
				}
			}

			s.Write("n", fmt.Sprint(i))
			if random.IntN(3) == 0 { // several commits at once, which may change files back
				follow := s.Repo.Objects().Published
				s.Repo.Objects().Published = nil
				s.commit("quiet")
				s.Repo.Objects().Published = follow
				continue
			}
			s.commit("next")
			if random.IntN(3) == 0 {
				_, _, err := commits.CreateTag(t.Context(), s.Repo, commits.TagOptions{Name: fmt.Sprint("t", i), Rev: "HEAD"})
				s.Check(err)
			}
		}

		s.Write("n", "end")
		s.commit("end")
		s.add(views.View{Name: "w", Template: template})
		if got, want := s.contents(s.view("v").Dir), s.contents(s.view("w").Dir); !maps.Equal(got, want) {
			t.Errorf("seed %d: %q, want %q", seed, got, want)
		}
	}
}
