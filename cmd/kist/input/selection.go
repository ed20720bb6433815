package input

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/tree/ignore"
	"github.com/kist-vcs/kist/tree/pathspec"
	"github.com/kist-vcs/kist/tree/worktree"
)

// Selection are the options that select the files of a backup, with restic's names and
// meanings.
type Selection struct {
	exclude, excludeFrom []string
	iexclude             []string // regardless of case
	caches               bool
	ifPresent            []string
	largerThan           uint64 // bytes; 0: none
	oneFileSystem        bool
	FilesFrom, RawFrom   []string
	Stdin, Command       string // the file to make from standard input, or from the output of a command

	stdinRead bool // a list came from standard input
}

func (s *Selection) Register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVar(&s.exclude, "exclude", nil, "leave out what matches `PATTERN`, as in a .kistignore file; only a / at its beginning stands for the top of the worktree")
	flags.StringArrayVar(&s.iexclude, "iexclude", nil, "as --exclude `PATTERN`, but the case of letters does not matter")
	flags.StringArrayVar(&s.excludeFrom, "exclude-from", nil, "leave out what the patterns in `FILE` match")
	flags.BoolVar(&s.caches, "exclude-caches", false, "leave out folders tagged as caches by a CACHEDIR.TAG")
	flags.StringArrayVar(&s.ifPresent, "exclude-if-present", nil, "leave out folders with a file `NAME[:HEADER]`, whose content begins with HEADER, except this file")
	flags.Var(cli.NewParsed(&s.largerThan, "", kist.ParseSize), "exclude-larger-than", "leave out files larger than `SIZE`, as in 100MiB")
	flags.BoolVar(&s.oneFileSystem, "one-file-system", false, "leave out the content of folders where another file system is mounted")
	flags.StringArrayVar(&s.FilesFrom, "files-from", nil, "back up the PATHs in `FILE`, one on each line; lines with # are comments; - is standard input")
	flags.StringArrayVar(&s.RawFrom, "files-from-raw", nil, "back up the paths in `FILE`, each ended by a NUL byte, without patterns")
	flags.StringVar(&s.Stdin, "stdin", "", "back up standard input as the file `NAME`")
	flags.StringVar(&s.Command, "stdin-from-command", "", "run the command after --, and back up its output as the file `NAME`")
	cmd.MarkFlagsMutuallyExclusive("stdin", "stdin-from-command", "files-from")
	cmd.MarkFlagsMutuallyExclusive("stdin", "stdin-from-command", "files-from-raw")
}

// Options returns the options of a scan. Excluded paths are not in the commit, even if
// they were tracked before.
func (s *Selection) Options(env *cli.Env) (o worktree.Exclude, err error) {
	o = worktree.Exclude{LargerThan: int64(s.largerThan), OneFileSystem: s.oneFileSystem, Drop: true}
	for _, pattern := range s.exclude {
		if err := addPattern(&o, "--exclude", pattern, parsePatterns); err != nil {
			return o, err
		}
	}
	for _, file := range s.excludeFrom {
		data, err := s.readList(env, "--exclude-from", file)
		if err != nil {
			return o, err
		}
		var lines []string
		for line := range strings.SplitSeq(string(data), "\n") {
			lines = append(lines, ignore.Anywhere(line))
		}
		if err := addPatterns(&o, "--exclude-from "+cli.QuoteArg(file), []byte(strings.Join(lines, "\n")), parsePatterns); err != nil {
			return o, err
		}
	}
	for _, pattern := range s.iexclude {
		if err := addPattern(&o, "--iexclude", pattern, ignore.ParseFold); err != nil {
			return o, err
		}
	}
	if s.caches {
		o.Markers = append(o.Markers, worktree.CacheTag)
	}
	for _, text := range s.ifPresent {
		name, header, _ := strings.Cut(text, ":")
		if name == "" || strings.Contains(name, "/") {
			return o, cli.Usagef("--exclude-if-present %s: not the name of a file", cli.QuoteArg(text))
		}
		o.Markers = append(o.Markers, worktree.Marker{Name: name, Header: header})
	}
	return o, nil
}

// parsePatterns parses patterns in which the case of letters matters.
func parsePatterns(data []byte) (*ignore.Patterns, error) { return ignore.Parse(data, "") }

// addPattern adds the pattern of an option.
func addPattern(o *worktree.Exclude, option, pattern string, parse func([]byte) (*ignore.Patterns, error)) error {
	if strings.Contains(pattern, "\n") {
		return cli.Usagef("%s %s: has more than one line", option, cli.QuoteArg(pattern))
	}
	if strings.HasPrefix(pattern, "#") {
		pattern = `\` + pattern // only files have comments
	}
	return addPatterns(o, option, []byte(ignore.Anywhere(pattern)), parse)
}

// addPatterns adds patterns from source, the option that names them.
func addPatterns(o *worktree.Exclude, source string, data []byte, parse func([]byte) (*ignore.Patterns, error)) error {
	parsed, err := parse(data)
	var large *ignore.LimitError
	switch {
	case errors.As(err, &large) && large.Line > 0:
		return cli.Usagef("%s: line %d has more than %s", source, large.Line, readable.FormatSize(uint64(large.Limit)))
	case errors.As(err, &large):
		return cli.Usagef("%s: more than %s", source, readable.FormatSize(uint64(large.Limit)))
	case err != nil:
		return err
	}
	if o.Patterns == nil {
		o.Patterns = new(ignore.Matcher)
	}
	o.Patterns = o.Patterns.Push(parsed)
	return nil
}

// LiteralPath begins a pathspec that is no pattern.
const LiteralPath = ":(literal)"

// Args returns the PATHs of the command line and of the files that name some, as
// pathspecs.
func (s *Selection) Args(env *cli.Env, args []string) ([]string, error) {
	for _, file := range s.FilesFrom {
		data, err := s.readList(env, "--files-from", file)
		if err != nil {
			return nil, err
		}
		for line := range strings.SplitSeq(string(data), "\n") {
			line = strings.TrimSpace(line)
			if line != "" && line[0] != '#' {
				args = append(args, line)
			}
		}
	}
	for _, file := range s.RawFrom {
		data, err := s.readList(env, "--files-from-raw", file)
		if err != nil {
			return nil, err
		}
		if len(data) > 0 && data[len(data)-1] != 0 {
			return nil, cli.Usagef("--files-from-raw %s: the last path does not end with a NUL byte", cli.QuoteArg(file))
		}
		for path := range strings.SplitSeq(string(data), "\x00") {
			if path != "" {
				args = append(args, LiteralPath+path)
			}
		}
	}
	if len(args) == 0 && len(s.FilesFrom)+len(s.RawFrom) > 0 {
		return nil, errors.New("the files that should list PATHs list none")
	}
	return args, nil
}

// maxList is the largest file with patterns or paths, in bytes.
const maxList = 256 << 20

// readList reads the file that an option names; - is standard input.
func (s *Selection) readList(env *cli.Env, option, name string) ([]byte, error) {
	in := env.Stdin
	if name != "-" {
		f, err := os.Open(env.Path(name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", option, err)
		}
		defer f.Close()
		in = f
	} else if s.stdinRead {
		return nil, cli.Usagef("only one option can read standard input")
	}
	s.stdinRead = s.stdinRead || name == "-"
	data, err := io.ReadAll(io.LimitReader(in, maxList+1))
	if len(data) > maxList {
		return nil, cli.Usagef("%s %s: more than %s", option, cli.QuoteArg(name), readable.FormatSize(maxList))
	}
	if option == "--files-from-raw" {
		return data, err
	}
	return bytes.TrimPrefix(data, []byte("\ufeff")), err // editors on Windows put it at the beginning
}

// Find returns the paths that args select. A plain path need not exist.
func (s *Selection) Find(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) ([]string, error) {
	args, err := s.Args(env, args)
	if err != nil {
		return nil, err
	}
	specs, err := Pathspecs(env, r, args, false)
	if err != nil {
		return nil, err
	}
	return pathspec.Find(ctx, r, specs, pathspec.Places{Index: true, Worktree: true, Absent: true})
}

// Streams reports whether the backup is of standard input, or of a command's output.
func (s *Selection) Streams() bool { return s.Stdin != "" || s.Command != "" }
