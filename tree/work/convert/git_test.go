package convert_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/checkout"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/convert"
)

// gitRepo is a git repository.
type gitRepo struct {
	t   *testing.T
	dir string
	now int // time of the next commit, in seconds
}

func newGit(t *testing.T) *gitRepo {
	t.Helper()
	objecttest.NeedProgram(t, "git")
	g := &gitRepo{t: t, dir: t.TempDir(), now: 1e9}
	g.run(nil, "init", "-q", "-b", "main")
	return g
}

// run runs git and returns its output.
func (g *gitRepo) run(stdin []byte, args ...string) []byte {
	g.t.Helper()
	g.now++
	date := fmt.Sprintf("%d -0130", g.now)
	out, err := objecttest.Git(g.dir, string(stdin), []string{
		"GIT_AUTHOR_NAME=Ada Ünal", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_AUTHOR_DATE=" + date,
		"GIT_COMMITTER_NAME=C", "GIT_COMMITTER_EMAIL=c@example.org", "GIT_COMMITTER_DATE=" + date,
	}, args...)
	kisttest.Check(g.t, err)
	return []byte(out)
}

// stream returns the history as a fast-export stream.
func (g *gitRepo) stream() []byte {
	g.t.Helper()
	return g.run(nil, "-c", "core.quotePath=true", "fast-export", "--use-done-feature", "--signed-tags=strip", "--branches", "--tags")
}

// refs lists the branches and tags with their values.
func (g *gitRepo) refs() string { return string(g.run(nil, "for-each-ref")) }

// files returns the files of a commit, in the form of [importing.files].
func (g *gitRepo) files(rev string) string {
	g.t.Helper()
	var list []string
	for line := range strings.SplitSeq(strings.TrimSuffix(string(g.run(nil, "ls-tree", "-r", "-z", rev)), "\x00"), "\x00") {
		if line == "" {
			continue
		}
		fields, path, _ := strings.Cut(line, "\t")
		id := strings.Fields(fields)[2]
		list = append(list, fmt.Sprintf("%s %q %q", fields[:6], path, g.run(nil, "cat-file", "blob", id)))
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// files returns the files of a commit, with git's modes.
func (x *importing) files(rev string) string {
	x.Helper()
	_, c, err := x.Repo.ReadCommit(x.Context(), rev)
	x.Check(err)
	var list []string
	x.Check(tree.Walk(x.Context(), x.Repo.Contents(), c.Tree, func(path string, e object.Entry) error {
		if e.Type == object.TypeDir {
			return nil
		}
		mode, text := "100644", []byte(e.Target)
		switch {
		case e.Target != "":
			mode = "120000"
		case e.Mode&0o100 != 0:
			mode = "100755"
		}
		if e.Target == "" {
			if text, err = kisttest.ReadFile(x.Context(), x.Repo, x.id(rev), path); err != nil {
				return err
			}
		}
		list = append(list, fmt.Sprintf("%s %q %q", mode, path, text))
		return nil
	}))
	slices.Sort(list)
	return strings.Join(list, "\n")
}

func (x *importing) id(rev string) object.ID {
	x.Helper()
	id, err := x.Repo.Resolve(x.Context(), rev)
	x.Check(err)
	return id
}

// Random histories of git have the same files after an import, and the same IDs of commits and
// tags after an export to another git repository.
func TestGitRoundTrip(t *testing.T) {
	for i := range objecttest.Rounds(t, 2) {
		seed := objecttest.Seed() + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			g := newGit(t)
			g.history(rand.New(rand.NewPCG(seed, 14)), 30)
			x := newImporting(t, kist.InitOptions{})
			stream := g.stream()
			found, err := convert.ImportGit(t.Context(), x.Repo, bytes.NewReader(stream), convert.GitOptions{})
			x.Check(err)
			if found.Head != "main" {
				t.Errorf("HEAD is %q, want main", found.Head)
			}
			if s := x.Status(); !s.Clean() || len(s.Untracked) > 0 {
				t.Errorf("status after the import: %+v", s)
			}
			for line := range strings.Lines(g.refs()) {
				ref := strings.Fields(line)[2]
				if got, want := x.files(ref), g.files(ref); got != want {
					t.Errorf("%s has\n%s\nwant\n%s", ref, got, want)
				}
			}
			var out bytes.Buffer
			_, err = convert.ExportGit(t.Context(), x.Repo, &out, convert.GitOptions{})
			x.Check(err)
			again := newGit(t)
			again.run(out.Bytes(), "fast-import", "--quiet", "--done")
			again.run(nil, "fsck", "--strict")
			if got, want := again.refs(), g.refs(); got != want {
				t.Errorf("the refs are\n%s\nwant\n%s", got, want)
			}

			// Importing the same stream again changes nothing.
			found, err = convert.ImportGit(t.Context(), x.Repo, bytes.NewReader(stream), convert.GitOptions{})
			if err != nil || len(found.Refs) > 0 || found.Stats.NewObjects > 0 {
				t.Errorf("second import: %+v, %v, want no changes", found, err)
			}
		})
	}
}

// history makes random commits with all features that git has.
func (g *gitRepo) history(rnd *rand.Rand, n int) {
	g.t.Helper()
	names := []string{"a", "b c", "d/e", "d/f/g", "é", "quo\"te", "back\\slash", "tab\there", "\xff\xfe", "line\nbreak", " lead", "d"}
	branches := []string{"main"}
	for i := range n {
		switch rnd.IntN(8) {
		case 0:
			branch := fmt.Sprintf("topic/%d", i)
			if i > 0 {
				g.run(nil, "checkout", "-q", "-b", branch)
				branches = append(branches, branch)
			}
		case 1:
			if i > 0 {
				g.run(nil, "checkout", "-q", "-f", branches[rnd.IntN(len(branches))])
			}
		case 2:
			if i > 0 {
				g.run(nil, "merge", "-q", "--no-edit", "-X", "ours", "-s", "ort", "--allow-unrelated-histories", "-s", "ours", branches[rnd.IntN(len(branches))])
			}
		case 3:
			if i > 0 {
				g.run(nil, "tag", fmt.Sprintf("light%d", i))
				g.run([]byte("a message\n"), "tag", "-a", "-F", "-", fmt.Sprintf("note%d", i))
			}
		}
		for range 1 + rnd.IntN(4) {
			path := filepath.Join(g.dir, names[rnd.IntN(len(names))])
			for dir := filepath.Dir(path); dir != g.dir; dir = filepath.Dir(dir) {
				if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
					kisttest.Check(g.t, os.Remove(dir))
				}
			}
			kisttest.Check(g.t, os.RemoveAll(path))
			if rnd.IntN(3) == 0 {
				continue
			}
			kisttest.Check(g.t, os.MkdirAll(filepath.Dir(path), 0o755))
			text := strings.Repeat(fmt.Sprintln(rnd.IntN(10)), rnd.IntN(40))
			if rnd.IntN(5) == 0 {
				kisttest.Check(g.t, os.Symlink("to "+path[len(g.dir):], path))
			} else {
				kisttest.Check(g.t, os.WriteFile(path, []byte(text), []os.FileMode{0o644, 0o755}[rnd.IntN(2)]))
			}
		}
		g.run(nil, "add", "-A")
		g.run([]byte(fmt.Sprintf("commit %d\n\nwith a body\n", i)), "commit", "-q", "--allow-empty", "-F", "-")
	}

	// fast-export writes a commit that only an annotated tag reaches as a commit of refs/tags/apart.
	g.run(nil, "checkout", "-q", "--detach")
	g.run([]byte("apart\n"), "commit", "-q", "--allow-empty", "-F", "-")
	g.run([]byte("a message\n"), "tag", "-a", "-F", "-", "apart")
	g.run(nil, "checkout", "-q", "-f", "main")
}

const commitHead = "commit refs/heads/x\nmark :1\ncommitter C <c@x> 1 +0000\ndata 1\nm\n"

// An import of an incomplete or invalid stream fails and changes nothing.
func TestImportGitRefuses(t *testing.T) {
	for stream, want := range map[string]string{
		"":                             "incomplete",
		"blob\nmark :1\ndata 9\nx":     "incomplete",
		"blob\nmark :1\ndata -1\n":     "data",
		"blob\nmark :1\ndata <<END\n":  "data",
		"hello\ndone\n":                `unknown command "hello"`,
		commitHead:                     "incomplete",
		commitHead + "M 100644 :9 a\n": `no blob ":9"`,
		commitHead + "M 100644 inline \"a\\\ndata 1\nx\ndone\n":    "bad path",
		commitHead + "M 100644 inline \ndata 1\nx\ndone\n":         "empty",
		commitHead + "M 100600 inline a\ndata 1\nx\ndone\n":        "unknown mode",
		commitHead + "R a b\ndone\n":                               "without -M",
		commitHead + "from :7\ndone\n":                             `no commit ":7"`,
		"commit refs/heads/x\ndata 0\ndone\n":                      "without a committer",
		"tag t\nfrom :1\ntagger C <c> 1 +0000\ndata 0\ndone\n":     `no commit ":1"`,
		commitHead + "M 100644 inline \"a\\9\"\ndata 1\nx\ndone\n": "bad path",
		strings.Repeat("x", 2<<20):                                 "longer than",
	} {
		x := newImporting(t, kist.InitOptions{})
		if _, err := convert.ImportGit(t.Context(), x.Repo, strings.NewReader(stream), convert.GitOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", strings.TrimPrefix(stream, commitHead), err, want)
		}
		if list, err := x.Repo.Refs().List("refs/"); len(list) > 0 || err != nil {
			t.Errorf("refs are %v, error %v, want none", list, err)
		}
	}
}

// oddCommit is a commit with all that the stream has between committer and the end.
func oddCommit(committer, rest string) string {
	return "commit refs/heads/x\nmark :1\n" + committer + rest + "done\n"
}

// Odd objects do not stop an import. The result lists them, and the rest is imported.
func TestImportGitOdd(t *testing.T) {
	const who = "committer C <c@x> 1 +0000\n"
	const file = "M 100644 inline good\ndata 1\nx\n"
	for name, test := range map[string]struct{ stream, skipped, leftOut, changed string }{
		"path above":         {oddCommit(who, "data 0\n"+file+"M 100644 inline ../a\ndata 1\nx\n"), "../a", "", ""},
		"path of kist":       {oddCommit(who, "data 0\n"+file+"M 100644 inline d/.kist/a\ndata 1\nx\nD .kist\n"), "d/.kist/a", "", ""},
		"long name":          {oddCommit(who, "data 0\n"+file+"M 100644 inline "+strings.Repeat("n", 256)+"\ndata 1\nx\n"), strings.Repeat("n", 256), "", ""},
		"no target":          {oddCommit(who, "data 0\n"+file+"M 120000 inline l\ndata 0\n\n"), "l", "", ""},
		"NUL in a target":    {oddCommit(who, "data 0\n"+file+"M 120000 inline l\ndata 3\na\x00b\n"), "l", "", ""},
		"long target":        {oddCommit(who, "data 0\n"+file+"M 120000 inline l\ndata 4096\n"+strings.Repeat("t", 4096)+"\n"), "l", "", ""},
		"submodule":          {oddCommit(who, "data 0\n"+file+"M 160000 0123456789012345678901234567890123456789 sub\n"), "sub", "", ""},
		"no address":         {oddCommit("committer C c@x 1 +0000\n", "data 0\n"+file), "", "", "commit :1"},
		"no date":            {oddCommit("committer C <c@x>\n", "data 0\n"+file), "", "", "commit :1"},
		"huge date":          {oddCommit("committer C <c@x> 99999999999999999999 +0000\n", "data 0\n"+file), "", "", "commit :1"},
		"huge zone":          {oddCommit("committer C <c@x> 1 +9999\n", "data 0\n"+file), "", "", "commit :1"},
		"long person":        {oddCommit("committer "+strings.Repeat("é", 600)+" <c@x> 1 +0000\n", "data 0\n"+file), "", "", "commit :1"},
		"long message":       {oddCommit(who, fmt.Sprintf("data %d\n%s\n%s", 300<<10, strings.Repeat("é", 150<<10), file)), "", "", "commit :1"},
		"short zone":         {oddCommit("committer C <c@x> 1 0\n", "data 0\n"+file), "", "", ""},
		"ref with dots":      {oddCommit(who, "data 0\n"+file+"reset refs/heads/../y\nfrom :1\n"), "", "refs/heads/../y", ""},
		"ref with a dash":    {oddCommit(who, "data 0\n"+file+"reset refs/tags/-y\nfrom :1\n"), "", "refs/tags/-y", ""},
		"ref to a blob":      {"blob\nmark :7\ndata 1\nx\n" + oddCommit(who, "data 0\n"+file+"reset refs/tags/y\nfrom :7\n"), "", "refs/tags/y", ""},
		"tag of a blob":      {"blob\nmark :7\ndata 1\nx\n" + oddCommit(who, "data 0\n"+file+"tag y\nfrom :7\n"+strings.Replace(who, "committer", "tagger", 1)+"data 0\n"), "", "refs/tags/y", ""},
		"tag of a tree":      {oddCommit(who, "data 0\n"+file+"tag y\nfrom 0000000000000000000000000000000000000000\ndata 0\n"), "", "refs/tags/y", ""},
		"tag without date":   {oddCommit(who, "data 0\n"+file+"tag y\nfrom :1\ntagger T <t@x>\ndata 0\n"), "", "", "tag y"},
		"tag without tagger": {oddCommit(who, "data 0\n"+file+"tag y\nfrom :1\ndata 0\n"), "", "", ""},
		"tag of a tag":       {oddCommit(who, "data 0\n"+file+"tag y\nmark :2\nfrom :1\ndata 0\ntag z\nfrom :2\ndata 0\n"), "", "", "tag z"},
		"missing ref":        {oddCommit(who, "data 0\n"+file), "", "refs/heads/expected", ""},
	} {
		x := newImporting(t, kist.InitOptions{})
		o := convert.GitOptions{Expect: []string{"refs/heads/x"}}
		if name == "missing ref" {
			o.Expect = append(o.Expect, "refs/heads/expected")
		}

		found, err := convert.ImportGit(t.Context(), x.Repo, strings.NewReader(test.stream), o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}

		for what, list := range map[string]struct {
			got  []object.Skipped
			want string
		}{"skipped": {found.Skipped, test.skipped}, "left out": {found.LeftOut, test.leftOut}, "changed": {found.Changed, test.changed}} {
			if (len(list.got) != 1 || list.got[0].Path != list.want) && (len(list.got) != 0 || list.want != "") {
				t.Errorf("%s: %s is %v, want %q", name, what, list.got, list.want)
			}
		}

		if files := x.files("refs/heads/x"); files != `100644 "good" "x"` {
			t.Errorf("%s: the files are %s", name, files)
		}
	}
}

// A pointer of git-lfs becomes the file that it stands for. A missing or damaged content is listed,
// and the pointer stays. So are links and pointers of git-annex.
func TestImportGitLFS(t *testing.T) {
	pointer := func(content string) string {
		return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%x\nsize %d\n", sha256.Sum256([]byte(content)), len(content))
	}
	store := map[string]string{}
	for content, stored := range map[string]string{long: long, "tiny": "tiny", "damaged": "other"} {
		store[fmt.Sprintf("%x", sha256.Sum256([]byte(content)))] = stored
	}
	lfs := func(sum string) (io.ReadCloser, error) {
		content, ok := store[sum]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(strings.NewReader(content)), nil
	}

	var stream strings.Builder
	blob := func(mark int, content string) {
		fmt.Fprintf(&stream, "blob\nmark :%d\ndata %d\n%s\n", mark, len(content), content)
	}
	blob(1, pointer(long))
	blob(2, pointer("missing"))
	blob(3, pointer("damaged"))
	blob(4, pointer(long)+"more\n")
	fmt.Fprintf(&stream, "commit refs/heads/x\ncommitter C <c@x> 1 +0000\ndata 0\nM 100644 :1 a\nM 100755 :1 b\nM 100644 :2 missing\nM 100644 :3 damaged\nM 100644 :4 text\nM 120000 :1 link\nM 100644 inline tiny\ndata %d\n%s\nM 100644 inline annex-file\ndata 20\n/annex/objects/KEY2\n\nM 120000 inline annex\ndata 26\n../.git/annex/objects/KEY1\ndone\n", len(pointer("tiny")), pointer("tiny"))

	for _, known := range []bool{true, false} {
		x := newImporting(t, kist.InitOptions{})
		o := convert.GitOptions{}
		want := map[string]string{"a": pointer(long), "b": pointer(long), "tiny": pointer("tiny"), "missing": pointer("missing"), "damaged": pointer("damaged"), "text": pointer(long) + "more\n"}
		skipped := "a annex annex-file b damaged missing tiny"
		if known {
			o.LFS = lfs
			want["a"], want["b"], want["tiny"], skipped = long, long, "tiny", "annex annex-file damaged missing"
		}
		found, err := convert.ImportGit(t.Context(), x.Repo, strings.NewReader(stream.String()), o)
		x.Check(err)
		for path, content := range want {
			if got, err := kisttest.ReadFile(t.Context(), x.Repo, x.id("x"), path); err != nil || string(got) != content {
				t.Errorf("with git-lfs %v: %s is %.200q, %v, want %.200q", known, path, got, err, content)
			}
		}
		var paths []string
		for _, s := range found.Skipped {
			paths = append(paths, s.Path)
		}
		if got := strings.Join(paths, " "); got != skipped {
			t.Errorf("with git-lfs %v: skipped are %s, want %s", known, got, skipped)
		}
	}
}

// Names and texts in other encodings come in UTF-8, and names of files keep their bytes.
func TestImportGitEncodings(t *testing.T) {
	for name, test := range map[string]struct{ encoding, author, message, wantAuthor, wantMessage string }{
		"named":         {"encoding ISO8859-1\n", "J\xf6rg", "gr\xfcn", "Jörg", "grün"},
		"not named":     {"", "J\xf6rg", "gr\xfcn", "Jörg", "grün"},
		"UTF-8":         {"", "Jörg", "grün", "Jörg", "grün"},
		"wrongly named": {"encoding UTF-8\n", "J\xf6rg", "gr\xfcn", "Jörg", "grün"},
		"unknown":       {"encoding martian\n", "J\xf6rg", "grün", "Jörg", "grün"},
		"Russian":       {"encoding KOI8-R\n", "\xf0\xc5\xd4\xd2", "\xe4\xc1", "Петр", "Да"},
		"Japanese":      {"encoding ISO-2022-JP\n", "\x1b$B;3\x1b(B", "\x1b$B@n\x1b(B", "山", "川"},
	} {
		x := newImporting(t, kist.InitOptions{})
		stream := fmt.Sprintf("commit refs/heads/x\nauthor %s <j@x> 1 +0000\ncommitter C <c@x> 1 +0000\n%sdata %d\n%s\nM 100644 inline \"q\\\"\xff\"\ndata 1\nx\nM 100644 inline \"o\\376\"\ndata 1\ny\nM 100644 inline r\xfd\ndata 1\nz\ndone\n",
			test.author, test.encoding, len(test.message), test.message)
		found, err := convert.ImportGit(t.Context(), x.Repo, strings.NewReader(stream), convert.GitOptions{})
		x.Check(err)
		_, c, err := x.Repo.ReadCommit(t.Context(), "x")
		x.Check(err)
		if c.Author.Name != test.wantAuthor || c.Message != test.wantMessage || len(found.Changed) > 0 {
			t.Errorf("%s: author %q, message %q, changed %v", name, c.Author.Name, c.Message, found.Changed)
		}
		want := "100644 \"o\\xfe\" \"y\"\n100644 \"q\\\"\\xff\" \"x\"\n100644 \"r\\xfd\" \"z\""
		if files := x.files("x"); files != want {
			t.Errorf("%s: the files are %s, want %s", name, files, want)
		}
	}
}

// An import only moves branches forward, and never moves the checked-out branch.
func TestImportGitMovesForward(t *testing.T) {
	g := newGit(t)
	g.run(nil, "commit", "-q", "--allow-empty", "-m", "one")
	g.run(nil, "branch", "side")
	x := newImporting(t, kist.InitOptions{Branch: "other"})
	imports := func() error {
		_, err := convert.ImportGit(t.Context(), x.Repo, bytes.NewReader(g.stream()), convert.GitOptions{})
		return err
	}
	x.Check(imports())
	g.run(nil, "commit", "-q", "--allow-empty", "-m", "two")
	x.Check(imports())
	g.run(nil, "commit", "-q", "--amend", "--allow-empty", "-m", "another two")
	before := x.id("main")
	if err := imports(); !errors.Is(err, convert.ErrDiverged) || x.id("main") != before {
		t.Errorf("diverged branch: error %v, want ErrDiverged and no change", err)
	}
	x.Write("local", long)
	x.Checkout(checkout.SwitchOptions{Rev: "side"})
	g.run(nil, "reset", "-q", "--hard", "HEAD~1")
	g.run(nil, "checkout", "-q", "side")
	g.run(nil, "commit", "-q", "--allow-empty", "-m", "on side")
	g.run(nil, "branch", "-q", "-D", "main")
	if err := imports(); !errors.Is(err, commits.ErrCheckedOut) {
		t.Errorf("checked-out branch: error %v, want ErrCheckedOut", err)
	}
}
