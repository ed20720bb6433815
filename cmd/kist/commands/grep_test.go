package commands

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
)

// greppedHistory returns a fast-import stream with two commits of files with few different words.
func greppedHistory(rnd *rand.Rand) []byte {
	words := []string{"foo", "Foo", "foobar", "bar", "BAR", "_bar", "+foo", "a.b", "axb", "é", "straße", "", "123", "kist", "x foo.", "\tfoo"}
	var out bytes.Buffer
	out.WriteString("feature done\n")
	data := func(text string) { fmt.Fprintf(&out, "data %d\n%s\n", len(text), text) }
	for i := range 2 {
		fmt.Fprintf(&out, "commit refs/heads/main\nmark :%d\ncommitter Bo <bo@chest.example> %d +0000\n", i+1, 1767225600+60*i)
		data(fmt.Sprintf("c%d", i))
		for range 8 {
			var text strings.Builder
			for range rnd.IntN(30) {
				for range rnd.IntN(4) {
					text.WriteString(words[rnd.IntN(len(words))] + " "[:rnd.IntN(2)])
				}
				text.WriteString("\n"[:1-rnd.IntN(40)/39])
			}
			if rnd.IntN(8) == 0 {
				text.WriteString("\x00 foo")
			}
			fmt.Fprintf(&out, "M 100644 inline %s/f%d\n", []string{"d", "d/e", "g"}[rnd.IntN(3)], rnd.IntN(6))
			data(text.String())
		}
	}
	out.WriteString("done\n")
	return out.Bytes()
}

// TestGrepAsGit compares grep with git for random options.
func TestGrepAsGit(t *testing.T) {
	patterns := [][]string{
		{"foo"}, {"-F", "a.b"}, {"a.b"}, {"fo+"}, {"^foo"}, {"bar$"}, {"-e", "foo", "-e", "bar"}, {"nothing"}, {"[^a]x"},
		{"foo|foobar"}, {"o.*b"}, {""}, {"-F", "-e", "+foo"}, {"é"}, {"(foo|bar)+"}, {"-w", "^"}, {"FOO"}, {"str[^ ]+"}, {"[[:space:]]foo"},
	}
	options := [][]string{
		{"-n"}, {"-i"}, {"-l"}, {"-L"}, {"-c"}, {"-v"}, {"-w"}, {"-o"}, {"-h"}, {"-H"}, {"-q"}, {"-A", "1"}, {"-B", "2"}, {"-C", "1"}, {"-C3"}, {"-F"},
	}

	for round := range objecttest.Rounds(t, 2) {
		seed := objecttest.Seed() + uint64(round)
		rnd := rand.New(rand.NewPCG(seed, 2))
		v := newVCSTwins(t, greppedHistory(rnd))
		v.write("changed", "foo here\nand bar\n")
		v.runGit(nil, "add", "changed")
		v.runKist(nil, "add", "changed")
		v.write("changed", "foo there\nand Bar\nfoobar\n")
		v.write("untracked", "foo\n")

		for range 60 {
			args := []string{"grep", "-E"}
			for range rnd.IntN(4) {
				args = append(args, options[rnd.IntN(len(options))]...)
			}
			if slices.Contains(args, "-o") { // git prints "--" even without context
				args = []string{"grep", "-E", "-o"}
			}
			pattern := patterns[rnd.IntN(len(patterns))]
			if slices.Contains(append(args, pattern...), "-F") {
				args = slices.DeleteFunc(args, func(arg string) bool { return arg == "-E" })
			}
			args = append(args, pattern...)
			switch rnd.IntN(5) {
			case 0:
				args = append(args, "main~1")
			case 1:
				args = append(args, "main", "main~1", "--", "d")
			case 2:
				args = slices.Insert(args, 1, "--cached")
			case 3:
				args = append(args, "--", "*1", "changed")
			}

			// With threads, git may count the line about a binary file as a "--" separator.
			v.same(slices.Insert(slices.Clone(args), 1, "--threads=1"), args)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
