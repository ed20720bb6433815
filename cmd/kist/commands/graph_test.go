package commands

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/object"
)

func plain(_ cli.Style, text string) string { return text }

// picture draws commits. Each is written as its letter and the letters of its next commits.
func picture(commits ...string) string {
	g := show.NewGraph(plain)
	var b strings.Builder
	for _, c := range commits {
		var next []object.ID
		for _, letter := range c[1:] {
			next = append(next, object.ID{byte(letter)})
		}
		rows, _ := g.Commit(object.ID{c[0]}, next)
		for i, row := range rows {
			if i == 0 {
				row += c[:1]
			}
			b.WriteString(strings.TrimRight(row, " ") + "\n")
		}
	}
	return b.String()
}

func TestGraph(t *testing.T) {
	for name, test := range map[string]struct {
		commits string
		want    string
	}{
		"line": {"cb ba a", `
* c
* b
* a
`},
		"merge": {"edc db ca ba a", `
*   e
|\
* | d
| * c
* | b
|/
* a
`},
		"merge with an ancestor": {"dcb cb ba a", `
*   d
|\
* | c
|/
* b
* a
`},
		"criss-cross": {"hgf gde fed dc ec c", `
*   h
|\
* |   g
|\ \
| | * f
| |/
|/|
* | d
| * e
|/
* c
`},
		"two first commits": {"ba a dc c", `
* b
* a
* d
* c
`},
		"a first commit beside a line": {"dcb b ca a", `
*   d
|\
| * b
* c
* a
`},
		"a first commit before a line": {"edcb d cb b", `
*     e
|\
| |\
* | | d
 / /
* | c
|/
* b
`},
		"octopus": {"edcb da ca ba a", `
*     e
|\
| |\
* | | d
| * | c
|/ /
| * b
|/
* a
`},
		"far to the left": {"tabcd da ce be ae e", `
*       t
|\
| |\
| | |\
| | | * d
| |_|/
|/| |
| | * c
| * | b
| |/
* | a
|/
* e
`},
		"far to the right": {"tabcd axd x be ce de e", `
*       t
|\
| |\
| | |\
* | | | a
|\|_| |
| | |\|
* | | | x
 / / /
* | | b
| * | c
|/ /
| * d
|/
* e
`},
		"to both sides": {"tabcd bad ae ce de e", `
*       t
|\
| |\
| | |\
| * | | b
|/| | |
| | |/
| |/|
* | | a
| | * c
| |/
|/|
| * d
|/
* e
`},
	} {
		t.Run(name, func(t *testing.T) {
			got := picture(strings.Fields(test.commits)...)
			if want := strings.TrimPrefix(test.want, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestGraphConnects checks in random histories that a drawn line leads from each commit to each
// of its next commits.
func TestGraphConnects(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		g := show.NewGraph(plain)
		n := 5 + rnd.IntN(40)
		id := func(i int) object.ID { return object.ID{byte(i), 1} }
		var rows []string
		links := map[[2]int]bool{} // drawn lines, from commit to commit
		above := map[int][]int{}   // the commits whose lines are in each column
		next := make([][]object.ID, n)

		for i := range n {
			for range []int{1, 1, 1, 1, 2, 2, 3, 0}[rnd.IntN(8)] {
				if to := i + 1 + rnd.IntN(8); to < n && !slices.Contains(next[i], id(to)) {
					next[i] = append(next[i], id(to))
				}
			}

			drawn, rest := g.Commit(id(i), next[i])
			for _, row := range append(drawn, rest) {
				if len(row) != len(rest) {
					t.Fatalf("seed %d: commit %d: rows of different widths", seed, i)
				}
				above = follow(above, row, i, links)
				rows = append(rows, row)
			}
		}

		for i := range n {
			for _, to := range next[i] {
				if !links[[2]int{i, int(to[0])}] {
					t.Fatalf("seed %d: no line from %d to %d:\n%s", seed, i, to[0], strings.Join(rows, "\n"))
				}
			}
		}
		if len(g.Lanes) > 0 {
			t.Fatalf("seed %d: lanes left: %v", seed, g.Lanes)
		}
	}
}

// follow returns, for each column, the commits whose lines are there after a row. It adds the
// lines that end in the row's commit to links.
func follow(above map[int][]int, row string, commit int, links map[[2]int]bool) map[int][]int {
	at := func(column int) byte {
		if column < 0 || column >= len(row) {
			return ' '
		}
		return row[column]
	}

	below := map[int][]int{}
	for column, from := range above {
		switch at(column) {
		case '*':
			for _, f := range from {
				links[[2]int{f, commit}] = true
			}
		case '|':
			below[column] = append(below[column], from...)
		}

		if at(column-1) == '/' {
			to := column - 2
			for ; at(to-1) == '_'; to -= 2 {
				below[to] = append(below[to], from...)
			}
			below[to] = append(below[to], from...)
		}
		if at(column+1) == '\\' {
			to := column + 2
			for ; at(to+1) == '_'; to += 2 {
				below[to] = append(below[to], from...)
			}
			below[to] = append(below[to], from...)
		}
	}

	if column := strings.IndexByte(row, '*'); column >= 0 {
		below[column] = []int{commit}
	}
	return below
}
