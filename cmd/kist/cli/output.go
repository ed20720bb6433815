package cli

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/tree/work/checkout"
)

// Results is the writer of a command's results. It keeps an error, such as a full disk
// behind a redirection, and Flush returns it. So commands need not check every write.
type Results struct {
	buf      *bufio.Writer
	terminal bool
	err      error // a result that cannot be encoded
}

func newResults(w io.Writer, terminal bool) *Results {
	return &Results{buf: bufio.NewWriterSize(w, 16<<10), terminal: terminal}
}

// Write keeps p for later, or passes it on at once if a person is reading.
func (r *Results) Write(p []byte) (int, error) {
	n, err := r.buf.Write(p)
	if err == nil && r.terminal {
		err = r.buf.Flush()
	}
	return n, err
}

// Flush writes the buffered results and returns the first error.
func (r *Results) Flush() error {
	if err := cmp.Or(r.buf.Flush(), r.err); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// Printf prints a result.
func (e *Env) Printf(format string, args ...any) { fmt.Fprintf(e.Stdout, format, args...) }

// PrintOutcome prints the result of a command. It prints nothing with --quiet or --json.
func (e *Env) PrintOutcome(format string, args ...any) {
	if !e.Global.Quiet && !e.Global.JSON {
		e.Printf(format, args...)
	}
}

// TellLines is tell for lines.
func TellLines(e *Env, lines []string) {
	for _, line := range lines {
		e.PrintOutcome("%s\n", line)
	}
}

// PrintOrJSON prints v with --json, and otherwise the text.
func (e *Env) PrintOrJSON(v any, format string, args ...any) {
	e.JSON(v)
	e.PrintOutcome(format, args...)
}

// Would returns done, or after a dry run what the command would do: "deleted" or "would
// delete".
func Would(dryRun bool, done, do string) string {
	if dryRun {
		return "would " + do
	}
	return done
}

// JSON prints v with --json: one JSON object on a line of its own. Times are RFC 3339, IDs
// full, sizes in bytes.
//
// A path that is not UTF-8 cannot be a JSON string. Objects that name a path
// have it in "path", with U+FFFD in place of invalid bytes, and then also as base64
// in "path_raw"; see package jsonform.
func (e *Env) JSON(v any) {
	if !e.Global.JSON {
		return
	}
	err := e.results.checkDeclared(v)
	if err == nil {
		enc := json.NewEncoder(e.Stdout)
		enc.SetEscapeHTML(false)
		err = enc.Encode(v)
	}
	if err != nil {
		e.Stdout.(*Results).err = err
	}
}

// OrNull returns a pointer to v for JSON, or nil, which is null there, if v is zero.
func OrNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Info prints a message that is no result. --quiet suppresses it.
func (e *Env) Info(format string, args ...any) {
	if !e.Global.Quiet {
		fmt.Fprintf(e.Stderr, format+"\n", args...)
	}
}

// Verbose prints a message with --verbose only.
func (e *Env) Verbose(format string, args ...any) {
	if e.Global.Verbose && !e.Global.Quiet {
		fmt.Fprintf(e.Stderr, format+"\n", args...)
	}
}

// Warn prints a warning; the command goes on. It is safe for concurrent use.
func (e *Env) Warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	e.log.Note("warning", "text", text)
	fmt.Fprintf(e.Stderr, "%s %s\n", e.PaintErr(Yellow, "warning:"), Printable(text))
}

// FirstOf returns a line for each of the first items, at most most of them. If there are
// more items, a last line counts them: "and 12 more", followed by suffix.
func FirstOf[T any](list []T, most int, suffix string, line func(T) string) []string {
	var lines []string
	for i, item := range list {
		if i == most {
			return append(lines, AndMore(uint64(len(list)-i))+suffix)
		}
		lines = append(lines, line(item))
	}
	return lines
}

func AndMore(n uint64) string { return "and " + readable.FormatCount(n) + " more" }

// Confirm asks a question. It reports whether the user answers y or yes.
func Confirm(env *Env, question string) bool {
	fmt.Fprintf(env.Stderr, "%s [y/N] ", question)
	line, err := bufio.NewReader(env.Stdin).ReadString('\n')
	if err != nil && line == "" {
		fmt.Fprintln(env.Stderr)
		return false
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

// WriteOutput replaces a file atomically. A device or FIFO is written directly.
func WriteOutput(path string, write func(io.Writer) error) error {
	if err := checkout.OutsideRepository(path); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() || err != nil && !errors.Is(err, fs.ErrNotExist) {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	dir, name := filepath.Split(path)
	return disk.Write(dir, "."+name+".kist-tmp", func(w io.Writer) (string, error) { return name, write(w) })
}
