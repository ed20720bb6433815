package convert_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/purge"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/convert"
	"github.com/kist-vcs/kist/tree/work/stage"
)

func TestTimeInName(t *testing.T) {
	zone := time.FixedZone("", 3600)
	for name, want := range map[string]string{
		"backup-2024-01-31":            "2024-01-31T00:00:00+01:00",
		"2024-01-31-120304":            "2024-01-31T12:03:04+01:00",
		"home_20240131T120304Z.tar.gz": "2024-01-31T12:03:04Z",
		"20240131":                     "2024-01-31T00:00:00+01:00",
		"2024.01.31_12.03":             "2024-01-31T12:03:00+01:00",
		"host-2024-01-31 12:03:04":     "2024-01-31T12:03:04+01:00",
		"v20240131":                    "2024-01-31T00:00:00+01:00",
		"99999999-then-2024-01-31":     "2024-01-31T00:00:00+01:00",
		"2024-02-30":                   "", // no such day
		"daily.0":                      "",
		"120240131":                    "", // digits of another number
		"1969-12-31":                   "",
		"release-1.2.3":                "",
		"2024-01-31-2500":              "", // no such time
	} {
		dir := filepath.Join(t.TempDir(), name)
		kisttest.Check(t, os.Mkdir(dir, 0o755))
		then := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
		kisttest.Check(t, os.Chtimes(dir, then, then))
		if want == "" {
			want = "2001-02-03T05:05:06+01:00"
		}
		s, err := convert.Folder(dir, zone)
		if got := s.Time.Format(time.RFC3339); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, want)
		}
	}
}

// importing is a repository with the results of its last import.
type importing struct {
	*kisttest.Repository
	results []convert.Imported
}

func newImporting(t *testing.T, o kist.InitOptions) *importing {
	return &importing{Repository: kisttest.NewWith(t, o)}
}

func (x *importing) run(o convert.ImportOptions, sources ...convert.Source) error {
	x.Helper()
	x.results = nil
	if o.Branch == "" {
		o.Branch = "imported"
	}
	return convert.Import(x.Context(), x.Repo, sources, o, func(i *convert.Imported) error {
		x.results = append(x.results, *i)
		return nil
	})
}

// folder makes a folder with files and returns its source.
func (x *importing) folder(name string, files map[string]string) convert.Source {
	x.Helper()
	dir := filepath.Join(x.TempDir(), name)
	for path, text := range files {
		file := filepath.Join(dir, path)
		x.Check(os.MkdirAll(filepath.Dir(file), 0o755))
		x.Check(os.WriteFile(file, []byte(text), 0o644))
	}
	return x.source(dir)
}

func (x *importing) source(dir string) convert.Source {
	x.Helper()
	s, err := convert.Folder(dir, time.UTC)
	x.Check(err)
	return s
}

// want checks that a commit has the files of a folder and their times.
func (x *importing) want(id object.ID, dir string) {
	x.Helper()
	c, err := object.ReadCommit(x.Context(), x.Repo.Objects(), id)
	x.Check(err)
	to := filepath.Join(x.TempDir(), "restored")
	_, err = checkout.Extract(x.Context(), x.Repo, compare.Side{Tree: c.Tree, Objects: x.Repo.Contents()}, checkout.ExtractOptions{To: to, Paths: []string{""}})
	x.Check(err)
	if got, want := x.describe(to), x.describe(dir); got != want {
		x.Errorf("restored:\n%s\nwant\n%s", got, want)
	}
}

// describe returns the names, modes, times and contents in a folder.
func (x *importing) describe(dir string) string {
	x.Helper()
	var text strings.Builder
	x.Check(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var data []byte
		if !d.IsDir() {
			if data, err = os.ReadFile(path); err != nil {
				return err
			}
			data = info.ModTime().AppendFormat(data, time.RFC3339Nano)
		}
		fmt.Fprintln(&text, strings.TrimPrefix(path, dir), info.Mode(), string(data))
		return nil
	}))
	return text.String()
}

const long = "content that is too long to be kept in the entry of a folder, so it becomes a chunk\n"

// TestImportFolders imports three states of a folder out of order, after an interrupted import.
func TestImportFolders(t *testing.T) {
	x := newImporting(t, kist.InitOptions{})
	one := x.folder("b-2024-01-01", map[string]string{"a": long, "old/gone": long + "1", ".kistignore": "a\n"})
	two := x.folder("b-2024-02-01", map[string]string{"a": long, "new": long + "2"})
	three := x.folder("b-2024-03-01", map[string]string{"a": long + "changed", "new": long + "2"})

	stop := errors.New("stop")
	err := convert.Import(t.Context(), x.Repo, []convert.Source{one, two}, convert.ImportOptions{Branch: "imported"},
		func(*convert.Imported) error { return stop })
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	x.Check(x.run(convert.ImportOptions{}, three, one, two))
	if len(x.results) != 3 || !x.results[0].Already || x.results[1].Already || x.results[2].Already {
		t.Fatalf("results %+v, want three, the first one already imported", x.results)
	}
	for i, s := range []convert.Source{one, two, three} {
		x.want(x.results[i].ID, s.Path)
		c, err := object.ReadCommit(t.Context(), x.Repo.Objects(), x.results[i].ID)
		x.Check(err)
		if c.Author.Time.Time() != s.Time || c.Committer.Time.Time() != s.Time || c.Message != "import "+s.Name+"\n" {
			t.Errorf("commit of %s: %+v", s.Name, c)
		}
		if i > 0 && (len(c.Parents) != 1 || c.Parents[0] != x.results[i-1].ID) {
			t.Errorf("commit %d has parents %v, want %v", i, c.Parents, x.results[i-1].ID)
		}
	}
	if got := x.results[1]; got.Files != 2 || got.Duplicates != 1 || got.Bytes != int64(2*len(long)+1) {
		t.Errorf("result of the second folder: %+v", got)
	}
}

// A dry run counts the same as an import and stores nothing.
func TestImportDryRun(t *testing.T) {
	x := newImporting(t, kist.InitOptions{})
	x.Write("known", long)
	sources := []convert.Source{
		x.folder("2024-01-01", map[string]string{"a": long, "b": long + "b"}),
		x.folder("2024-01-02", map[string]string{"a": long, "b": long + "b", "c": long + "b", "d": long + "d"}),
	}
	x.Check(x.run(convert.ImportOptions{DryRun: true}, sources...))
	dry := x.results
	x.Check(x.run(convert.ImportOptions{}, sources...))
	for i, want := range []int64{0, 3} {
		if dry[i].Duplicates != want || x.results[i].Duplicates != want || dry[i].Files != x.results[i].Files || dry[i].Bytes != x.results[i].Bytes {
			t.Errorf("folder %d: dry run %+v, import %+v, want %d duplicates", i, dry[i], x.results[i], want)
		}
		if dry[i].Already || !dry[i].ID.IsZero() || dry[i].New >= x.results[i].New || dry[i].New == 0 {
			t.Errorf("folder %d: dry run %+v, import %+v", i, dry[i], x.results[i])
		}
	}
}

// Imports keep file times if folders differ in nothing else, also with hard links to one file.
func TestImportKeepsTimes(t *testing.T) {
	x := newImporting(t, kist.InitOptions{})
	one := x.folder("2024-01-01", map[string]string{"a": long, "b": long})
	two := x.folder("2024-01-02", map[string]string{"a": long})
	then := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	x.Check(os.Chtimes(filepath.Join(two.Path, "a"), then, then))
	x.Check(os.Link(filepath.Join(one.Path, "b"), filepath.Join(two.Path, "b")))
	x.Check(x.run(convert.ImportOptions{}, one, two))
	x.want(x.results[0].ID, one.Path)
	x.want(x.results[1].ID, two.Path)
}

// An import reports repositories in the folder, and does not store them.
func TestImportReportsRepository(t *testing.T) {
	x := newImporting(t, kist.InitOptions{})
	s := x.folder("2024-01-01", map[string]string{"a": long, ".kist/config": "x", "sub/.kist/config": "x"})
	x.Check(x.run(convert.ImportOptions{}, s))
	if got := x.results[0]; got.Files != 1 || len(got.Special) != 2 {
		t.Errorf("result of the import: %+v", got)
	}
}

// An import refuses HEAD's branch and bad branch names.
func TestImportRefusesCheckedOut(t *testing.T) {
	x := newImporting(t, kist.InitOptions{})
	s := x.folder("2024-01-01", map[string]string{"a": long})
	if err := x.run(convert.ImportOptions{Branch: "main"}, s); !errors.Is(err, commits.ErrCheckedOut) {
		t.Errorf("HEAD's branch: error %v, want ErrCheckedOut", err)
	}
	if err := x.run(convert.ImportOptions{Branch: "../x"}, s); err == nil {
		t.Error("a bad branch name is accepted")
	}
}

// An import skips purged content.
func TestImportWithoutPurged(t *testing.T) {
	x := newImporting(t, kist.InitOptions{})
	files := map[string]string{"a": long, "secret": kisttest.Secret}
	s := x.folder("2024-01-01", files)
	x.Check(x.run(convert.ImportOptions{}, s))
	plan := x.Plan(purge.Options{Paths: []purge.Path{{Rev: "imported", Path: "secret"}}})
	_, err := purge.Apply(t.Context(), x.Repo, plan, "", true)
	x.Check(err)
	x.Check(x.run(convert.ImportOptions{Branch: "again"}, s))
	if got := x.results[0]; len(got.Skipped) != 1 || got.Skipped[0].Path != "secret" || got.Files != 1 {
		t.Errorf("result of the import: %+v", got)
	}
	x.Check(x.run(convert.ImportOptions{Branch: "archive"}, x.tarball("x-2024-01-01.tar", "", header("secret", kisttest.Secret), header("a", long))))
	if got := x.results[0]; len(got.Skipped) != 1 || got.Skipped[0].Path != "secret" || got.Files != 1 {
		t.Errorf("result of the import: %+v", got)
	}
}

type member struct {
	tar.Header
	text string
}

func header(name, text string) member {
	return member{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o640, Size: int64(len(text)), ModTime: time.Unix(1e9, 0)}, text}
}

func linkTo(kind byte, name, target string) member {
	return member{Header: tar.Header{Name: name, Typeflag: kind, Linkname: target, Mode: 0o777}}
}

// tarball writes a tar file, followed by the bytes of end, and returns its source.
func (x *importing) tarball(name, end string, members ...member) convert.Source {
	x.Helper()
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	for _, m := range members {
		x.Check(w.WriteHeader(&m.Header))
		_, err := w.Write([]byte(m.text))
		x.Check(err)
	}
	x.Check(w.Close())
	data.WriteString(end)
	return x.file(name, data.Bytes())
}

func (x *importing) file(name string, data []byte) convert.Source {
	x.Helper()
	path := filepath.Join(x.TempDir(), name)
	x.Check(os.WriteFile(path, data, 0o644))
	s, err := convert.Archive(path, time.UTC)
	x.Check(err)
	return s
}

// Importing an archive of a commit gives the same tree. A zip archive keeps less metadata.
func TestImportArchives(t *testing.T) {
	x := newImporting(t, kist.InitOptions{Full: true})
	x.Write("dir/file", long)
	x.Write("inline", "short")
	x.Write("dir/empty", "")
	x.Check(os.Symlink("dir/file", filepath.Join(x.Dir, "link")))
	x.Check(os.Link(filepath.Join(x.Dir, "dir/file"), filepath.Join(x.Dir, "another")))
	x.Check(os.Chmod(filepath.Join(x.Dir, "inline"), 0o6750))
	x.Check(os.Mkdir(filepath.Join(x.Dir, "nothing"), 0o700))
	x.Add(stage.AddOptions{})
	first := x.Commit("first")
	source := compare.Side{Tree: first.Commit.Tree, Objects: x.Repo.Contents()}
	for _, format := range checkout.ArchiveFormats {
		var data bytes.Buffer
		_, err := checkout.Archive(t.Context(), source, &data, checkout.ArchiveOptions{Paths: []string{""}, Format: format})
		x.Check(err)
		x.Check(x.run(convert.ImportOptions{Branch: format}, x.file("2024-01-01."+format, data.Bytes())))
		c, err := object.ReadCommit(t.Context(), x.Repo.Objects(), x.results[0].ID)
		x.Check(err)
		if format != "zip" && c.Tree != first.Commit.Tree {
			changes, err := compare.Diff(t.Context(), source, compare.Side{Tree: c.Tree, Objects: x.Repo.Contents()}, nil, false)
			t.Errorf("%s: the tree differs: %+v, %v", format, changes, err)
		}
		if format == "zip" && (c.Files != first.Commit.Files || c.Bytes != first.Commit.Bytes) {
			t.Errorf("zip: %d files of %d bytes, want %d of %d", c.Files, c.Bytes, first.Commit.Files, first.Commit.Bytes)
		}
	}
}

// A link to a member that a later member replaces keeps the first version, as with tar.
func TestImportLinkToOldVersion(t *testing.T) {
	x := newImporting(t, kist.InitOptions{})
	x.Check(x.run(convert.ImportOptions{}, x.tarball("a.tar", "", header("f", long+"1"), linkTo(tar.TypeLink, "l", "f"), header("f", long+"2"))))
	for path, want := range map[string]string{"f": long + "2", "l": long + "1"} {
		got, err := kisttest.ReadFile(t.Context(), x.Repo, x.results[0].ID, path)
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, error %v, want %q", path, got, err, want)
		}
	}
}

// An import reads extended attributes from a tar file, with tar's escaped names.
func TestImportXattrs(t *testing.T) {
	x := newImporting(t, kist.InitOptions{Full: true})
	m := header("a", long)
	m.PAXRecords = map[string]string{"SCHILY.xattr.user.a%3D%25": "1", "SCHILY.xattr.user.b": "2"}
	x.Check(x.run(convert.ImportOptions{}, x.tarball("a.tar", "", m)))
	c, err := object.ReadCommit(t.Context(), x.Repo.Objects(), x.results[0].ID)
	x.Check(err)
	e, err := tree.Find(t.Context(), x.Repo.Objects(), c.Tree, "a")
	x.Check(err)
	if got := fmt.Sprintf("%s", e.Meta.Xattrs); got != "map[user.a=%:1 user.b:2]" {
		t.Errorf("extended attributes are %s", got)
	}
}

// An import refuses broken archives, and names that lead outside.
func TestImportHostileArchives(t *testing.T) {
	for name, test := range map[string]struct {
		source func(x *importing) convert.Source
		want   string
	}{
		"above":      {func(x *importing) convert.Source { return x.tarball("a.tar", "", header("../a", long)) }, "component"},
		"repository": {func(x *importing) convert.Source { return x.tarball("a.tar", "", header("d/.kist/config", long)) }, ".kist"},
		"link out": {func(x *importing) convert.Source {
			return x.tarball("a.tar", "", linkTo(tar.TypeLink, "a", "../../etc/passwd"))
		}, "component"},
		"without an end": {func(x *importing) convert.Source {
			s := x.tarball("a.tar", "", header("a", long))
			x.Check(os.Truncate(s.Path, 1024))
			return s
		}, "incomplete"},
		"empty":        {func(x *importing) convert.Source { return x.file("a.tar", nil) }, "incomplete"},
		"a second one": {func(x *importing) convert.Source { return x.tarball("a.tar", "more", header("a", long)) }, "follows the end"},
		"bad checksum": {func(x *importing) convert.Source {
			data, err := os.ReadFile(x.tarball("a.tar", "", header("a", long)).Path)
			x.Check(err)
			var z bytes.Buffer
			w := gzip.NewWriter(&z)
			w.Write(data)
			w.Close()
			z.Bytes()[z.Len()-6]++
			return x.file("a.tar.gz", z.Bytes())
		}, "checksum"},
		"owner beyond 32 bits": {func(x *importing) convert.Source {
			m := header("a", long)
			m.Uid = 1 << 40
			return x.tarball("a.tar", "", m)
		}, "32 bits"},
		"link to nothing": {func(x *importing) convert.Source { return x.tarball("a.tar", "", linkTo(tar.TypeLink, "a", "b")) }, "no file before"},
		"links in a ring": {func(x *importing) convert.Source {
			return x.tarball("a.tar", "", linkTo(tar.TypeLink, "a", "b"), linkTo(tar.TypeLink, "b", "a"))
		}, "no file before"},
		"cut off": {func(x *importing) convert.Source {
			s := x.tarball("a.tar", "", header("a", strings.Repeat(long, 100)))
			x.Check(os.Truncate(s.Path, 2000))
			return s
		}, "unexpected EOF"},
		"no xz":  {func(x *importing) convert.Source { return x.file("a.tar.xz", []byte("\xfd7zXZ\x00")) }, "unexpected EOF"},
		"7-Zip":  {func(x *importing) convert.Source { return x.file("a.7z", []byte("7z\xbc\xaf\x27\x1c\x00\x04")) }, "a file of 7-Zip"},
		"a text": {func(x *importing) convert.Source { return x.file("a.txt", []byte("some text\n")) }, "no tar or zip archive"},
		"no zip": {func(x *importing) convert.Source { return x.file("a.zip", []byte("PK\x03\x04 and no more")) }, "zip: not a valid zip file"},
		"no tar": {func(x *importing) convert.Source { return x.file("a.tar", bytes.Repeat([]byte("x"), 1024)) }, "invalid tar header"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newImporting(t, kist.InitOptions{})
			if err := x.run(convert.ImportOptions{}, test.source(x)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
			if list, err := x.Repo.Refs().List("refs/"); len(list) > 0 || err != nil {
				t.Errorf("refs are %v, error %v, want none", list, err)
			}
		})
	}
}

// If gc runs between two folders, all commits stay complete.
func TestImportSurvivesGC(t *testing.T) {
	x := newImporting(t, kist.InitOptions{})
	sources := []convert.Source{
		x.folder("2024-01-01", map[string]string{"a": long, "dir/b": long + "b"}),
		x.folder("2024-01-02", map[string]string{"a": long + "2", "dir/b": long + "b"}),
	}
	err := convert.Import(t.Context(), x.Repo, sources, convert.ImportOptions{Branch: "imported"}, func(*convert.Imported) error {
		x.Collect(x.Clocked(1000*time.Hour), gc.PlanOptions{})
		return nil
	})
	x.Check(err)
}
