package show

import (
	"strings"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/cli/clitest"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/look/compare"
)

// The expected lines are the output of git for the same changes.
func TestPrintStat(t *testing.T) {
	env, stdout, _ := clitest.NewEnv(t)
	c := &Comparison{Env: env, Form: &ChangeForm{}}
	list := []counts{
		{name: "a/rather/long/path/with/many/folders/and/more/file-with-a-long-name.txt", added: 176, removed: 176},
		{name: "b", added: 497, removed: 1},
		{name: "bin", binary: true, before: 3000, after: 300000},
		{name: "m => n"},
		{name: "é/é.txt", removed: 100},
		{name: "u", unmerged: true},
	}
	c.printStat(list)

	want := strings.TrimPrefix(`
 .../folders/and/more/file-with-a-long-name.txt     | 352 +++++++--------
 b                                                  | 498 ++++++++++++++++++++-
 bin                                                | Bin 3000 -> 300000 bytes
 m => n                                             |   0
 é/é.txt                                            | 100 -----
 u                                                  | Unmerged
`, "\n")
	if got := stdout.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	for _, test := range []struct {
		list []counts
		want string
	}{
		{list, " 5 files changed, 673 insertions(+), 277 deletions(-)"},
		{list[1:2], " 1 file changed, 497 insertions(+), 1 deletion(-)"},
		{list[3:4], " 1 file changed, 0 insertions(+), 0 deletions(-)"},
		{list[4:5], " 1 file changed, 100 deletions(-)"},
		{[]counts{{added: 1}}, " 1 file changed, 1 insertion(+)"},
		{list[5:], " 0 files changed"},
	} {
		if got := statTotal(test.list); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestRenamed(t *testing.T) {
	for _, test := range []struct{ from, to, want string }{
		{"", "a", "a"},
		{"", "tab\t", `"tab\t"`},
		{"a", "b", "a => b"},
		{"d/a", "d/b", "d/{a => b}"},
		{"d/a", "a", "d/a => a"},
		{"d/a", "e/a", "{d => e}/a"},
		{"d/x/a", "d/y/a", "d/{x => y}/a"},
		{"d/a", "d/e/a", "d/{ => e}/a"},
		{"d/e/a", "d/a", "d/{e => }/a"},
		{"d/d/a", "d/a", "d/{d => }/a"},
		{"ab/c", "ac/c", "{ab => ac}/c"},
		{"d/\t", "d/b", `"d/\t" => d/b`},
	} {
		change := compare.Change{Change: tree.Change{Path: test.to, From: test.from}}
		if got := renamed(change); got != test.want {
			t.Errorf("%q to %q: got %s, want %s", test.from, test.to, got, test.want)
		}
	}
}
