package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// setCommands is the name of the stage that runs the same commands of kist and git on the same
// histories.
const setCommands = "commands"

// pairs is the number of runs of each command, with kist and with git, in a round.
const pairs = 5

// history is a series of commits for commands to work on.
type history struct {
	name     string
	title    string
	write    func(s *stream)
	commands []workCommands
}

// workCommands is a command to measure, or several that take turns.
type workCommands struct {
	work  string     // the name in the report
	turns [][]string // the arguments
}

// stream writes commits for git fast-import.
type stream struct {
	*bufio.Writer
	rng     *rand.Rand
	commits int
	buf     []byte
}

// commit begins a commit of a branch.
func (s *stream) commit(branch string) {
	at := 1_700_000_000 + 600*s.commits
	s.commits++
	message := fmt.Sprintf("%s\n\n%s", s.text(50), s.text(150))
	fmt.Fprintf(s, "commit refs/heads/%s\nmark :%d\nauthor Bench <bench@chest.example> %d +0100\ncommitter Bench <bench@chest.example> %d +0100\ndata %d\n%s\n",
		branch, s.commits, at, at, len(message), message)
}

// file adds a file to the commit.
func (s *stream) file(path string, content []byte) {
	fmt.Fprintf(s, "M 644 inline %s\ndata %d\n%s\n", path, len(content), content)
}

// text returns size bytes of text. They are valid until the next call.
func (s *stream) text(size int) []byte {
	s.buf = text(s.buf[:0], s.rng, size)
	return s.buf
}

// notes adds a commit with a number of files.
func (s *stream) notes(files int) {
	s.commit("main")
	for i := range files {
		s.file(noteName(i), s.text(100+s.rng.IntN(smallFile-100)))
	}
}

// histories returns the histories of the stage.
func histories(opts *options) []history {
	long, commits := opts.scale(1000, 200), opts.scale(10_000, 1000)
	searched, switched := opts.scale(20_000, 2000), opts.scale(200_000, 20_000)
	one := func(args ...string) [][]string { return [][]string{args} }
	often := func(args ...string) [][]string { return slices.Repeat([][]string{args}, 4) } // of some milliseconds each
	return []history{
		{"small", "ten files in one commit", func(s *stream) { s.notes(10) }, []workCommands{
			{"version", often("version")},
			{"status", often("status")},
		}},
		{"long", fmt.Sprintf("%s commits of one file of 2,000 lines", thousands(long)), func(s *stream) { s.oneFile(long) }, []workCommands{
			{"blame FILE", one("blame", "letters.txt")},
			{"log -S WORD -- FILE", one("log", "-S", "harbour 7", "--", "letters.txt")},
			{"log -n 1", one("log", "-n", "1")},
		}},
		{"log", fmt.Sprintf("%s commits of 500 files", thousands(commits)), func(s *stream) { s.manyCommits(commits, 500) }, []workCommands{
			{"log --format=fuller", one("log", "--format=fuller")},
			{"log --format='%h %an %ad %s'", one("log", "--format=%h %an %ad %s")},
			{"log --format='%H %s'", one("log", "--format=%H %s")},
		}},
		{"searched", fmt.Sprintf("%s files", thousands(searched)), func(s *stream) { s.notes(searched) }, []workCommands{
			{"grep WORD", one("grep", "harbour 7")},
			{"grep -i WORD", one("grep", "-i", "Harbour 7")},
			{"grep --cached WORD", one("grep", "--cached", "harbour 7")},
		}},
		{"switched", fmt.Sprintf("two branches of %s files that differ in ten", thousands(switched)), func(s *stream) { s.twoBranches(switched, 10) }, []workCommands{
			{"switch BRANCH", [][]string{{"switch", "-q", "other"}, {"switch", "-q", "main"}}},
		}},
	}
}

// oneFile writes commits that each change one file in three places.
func (s *stream) oneFile(commits int) {
	lines := make([][]byte, 2000)
	line := func() []byte { return slices.Clone(s.text(40 + s.rng.IntN(40))) }
	for i := range lines {
		lines[i] = line()
	}
	for n := range commits {
		s.commit("main")
		for i := range 100 * (1 - min(n, 1)) {
			s.file(noteName(i*37), s.text(1000))
		}
		for range 3 * min(n, 1) {
			at := s.rng.IntN(len(lines))
			switch s.rng.IntN(4) {
			case 0:
				lines = slices.Insert(lines, at, line())
			case 1:
				lines = slices.Delete(lines, at, at+1)
			default:
				lines[at] = line()
			}
		}
		s.file("letters.txt", slices.Concat(lines...))
	}
}

// manyCommits writes commits that each change one file.
func (s *stream) manyCommits(commits, files int) {
	s.notes(files)
	for n := range commits - 1 {
		s.commit("main")
		s.file(noteName(n%files), s.text(1000))
	}
}

// twoBranches writes the branches main and other. They differ in some files.
func (s *stream) twoBranches(files, differ int) {
	s.notes(files)
	s.commit("other")
	fmt.Fprintf(s, "from :1\n")
	for i := range differ {
		s.file(noteName(i*files/differ), s.text(1000))
	}
}

// commandRace is a history in repositories of kist and git.
type commandRace struct {
	*bench
	history
	dir      string
	programs [2]tool // kist and git
	touched  time.Time
}

// planCommands adds the stages of commands.
func (p *schedule) planCommands() {
	at := slices.IndexFunc(p.tools, func(t tool) bool { return t.name == "git" })
	if at < 0 {
		p.report.skip(setCommands, "git is missing")
		return
	}
	for _, h := range histories(p.opts) {
		race := &commandRace{bench: p.bench, history: h, dir: filepath.Join(p.dir, "of-"+h.name), programs: [2]tool{p.tools[0], p.tools[at]}}
		p.stages = append(p.stages, stage{h.name, race.run})
		p.report.Sets = append(p.report.Sets, Set{Name: h.name, Title: h.title})
	}
	p.most = max(p.most, 8*int64(p.opts.scale(200_000, 20_000))*block)
}

// make makes both repositories and checks out the branch main.
func (c *commandRace) make(ctx context.Context) error {
	kist, git := c.folder(0), c.folder(1)
	for _, dir := range []string{kist, git} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	command := func(i int, args ...string) error {
		_, err := c.output(ctx, c.command(i, args...))
		return err
	}
	if err := command(1, "init", "-q", "-b", "main"); err != nil {
		return err
	}
	if err := c.fastImport(ctx, git); err != nil {
		return err
	}
	if err := errors.Join(command(1, "reset", "-q", "--hard"), command(1, "gc", "-q"), command(0, "init", "-q"), command(0, "import", "git", "-q", git)); err != nil {
		return err
	}
	c.touched = time.Now()
	return errors.Join(command(0, "reset", "-q", "--hard", "main"), command(0, "gc", "-q"))
}

func (c *commandRace) folder(i int) string { return filepath.Join(c.dir, c.programs[i].name) }

func (c *commandRace) command(i int, args ...string) command {
	return command{dir: c.folder(i), args: append([]string{c.programs[i].program}, args...), env: []string{"GIT_CONFIG_NOSYSTEM=1"}}
}

// fastImport writes the history into a repository of git.
func (c *commandRace) fastImport(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, c.programs[1].program, "-C", dir, "fast-import", "--quiet")
	cmd.Env = c.env
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s := &stream{Writer: bufio.NewWriterSize(in, 1<<20), rng: rand.New(rand.NewPCG(1, 4))}
	c.write(s)
	err = errors.Join(s.Flush(), in.Close())
	return errors.Join(cmd.Wait(), err)
}

// run runs each command with kist and with git, in turn.
func (c *commandRace) run(ctx context.Context, round int) error {
	if round == 1 {
		fmt.Fprintf(c.log, "making %s: %s\n", c.name, c.title)
		if err := c.make(ctx); err != nil {
			return err
		}
	}
	if err := (&folder{dataSet: dataSet{name: c.name}, touched: c.touched}).age(ctx, c.log); err != nil {
		return err
	}
	for _, w := range c.commands {
		if err := c.settle(ctx); err != nil {
			return err
		}
		for step := range pairs * len(w.turns) {
			for _, i := range [2]int{step % 2, 1 - step%2} {
				s, err := c.runner.run(ctx, c.command(i, w.turns[step%len(w.turns)]...))
				if err != nil {
					return err
				}
				s.Round, s.Step = round, step+1
				c.report.add(c.name, w.work, c.programs[i].name, s)
			}
		}
		ours, theirs := c.report.samples(c.name, w.work, kistTool), c.report.samples(c.name, w.work, "git")
		fmt.Fprintf(c.log, "%-9s %-28s kist %.3f s, %.2f × git, processor %.2f × git\n", c.name, w.work, medianOf(ours, seconds), ratio(ours, theirs, seconds), ratio(ours, theirs, cpu))
	}
	return nil
}
