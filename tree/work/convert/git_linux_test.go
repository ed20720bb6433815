package convert_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree/work/convert"
)

// reads returns the number of system calls with which this process has read.
func reads(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		objecttest.Skip(t, "the system does not count reads: ", err)
	}
	for line := range strings.Lines(string(text)) {
		if count, ok := strings.CutPrefix(line, "syscr: "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(count))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no line syscr")
	return 0
}

// An import of many tags reads each commit as often as an import of one.
func TestImportGitReads(t *testing.T) {
	const commits = 300
	count := func(tags int) int {
		var stream strings.Builder
		for i := 1; i <= commits; i++ {
			fmt.Fprintf(&stream, "commit refs/heads/x\nmark :%d\ncommitter C <c@x> %d +0000\ndata 0\nM 100644 inline f\ndata 3\n%03d\n", i, i, i)
		}
		for i := range tags {
			fmt.Fprintf(&stream, "reset refs/tags/t%d\nfrom :%d\n\n", i, commits-i)
		}
		stream.WriteString("done\n")

		x := newImporting(t, kist.InitOptions{})
		before := reads(t)
		found, err := convert.ImportGit(t.Context(), x.Repo, strings.NewReader(stream.String()), convert.GitOptions{})
		x.Check(err)
		if len(found.Refs) != tags+1 {
			t.Fatalf("%d refs, want %d", len(found.Refs), tags+1)
		}
		return reads(t) - before
	}

	one, many := count(1), count(commits)
	if limit := one + 50*commits; many > limit {
		t.Errorf("%d reads with %d tags, %d with one; want at most %d", many, commits, one, limit)
	}
}
