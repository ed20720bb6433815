package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
)

type catOptions struct{ byteRange string }

func newCat(env *Env) *cobra.Command {
	var o catOptions
	cmd := &cobra.Command{
		Use:   "cat [OPTIONS] REV:PATH...",
		Short: "print the content of files in commits",
		Long: `Prints the content of each file as it is in a commit, byte for byte, one after
the other; of a symlink, where it points to. ':PATH' is what is staged. A PATH
starts from the root of the worktree, or from the current folder if it begins
with './' or '../'.

Content is checked as it is read, and printed at once: a file of any size takes
no more memory than a small one. With --range only the chunks that hold the
range are read. With --json the content is the same; only errors are JSON.`,
		Example: `  kist cat HEAD:notes.txt
  kist cat v1:film/scene1.mov > old.mov
  kist cat --range 1GiB:4096 HEAD:disk.img | xxd`,
		Args:              arguments(1, -1, "the file (REV:PATH)"),
		ValidArgsFunction: env.complete(treePaths),
	}
	env.inRepository(cmd, o.run)
	cmd.Flags().StringVar(&o.byteRange, "range", "", "only the `OFF:LEN` bytes from offset OFF on; OFF: goes to the end")
	must(cmd.RegisterFlagCompletionFunc("range", cobra.NoFileCompletions))
	return cmd
}

func (o *catOptions) run(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
	offset, length, err := parseRange(o.byteRange)
	if err != nil {
		return err
	}
	for _, arg := range args {
		if !strings.Contains(arg, ":") {
			err := hintf(usagef("%s is not REV:PATH", quoteArg(arg)), "for a file in HEAD write 'HEAD:%s'", printable(arg))
			return err
		}
		at, err := env.locate(ctx, r, arg)
		if err != nil {
			return err
		}
		if err := env.copyContent(ctx, at, offset, length); err != nil {
			return err
		}
	}
	return nil
}

// parseRange reads OFF:LEN. The length is -1 for all there is.
func parseRange(text string) (offset, length int64, err error) {
	if text == "" {
		return 0, -1, nil
	}
	first, second, ok := strings.Cut(text, ":")
	if !ok {
		return 0, 0, usagef("--range %s is not OFF:LEN", quoteArg(text))
	}
	off, err := kist.ParseSize(first)
	if err != nil {
		return 0, 0, usagef("--range: %w", err)
	}
	if second == "" {
		return int64(off), -1, nil
	}
	n, err := kist.ParseSize(second)
	if err != nil || n > math.MaxInt64 {
		return 0, 0, usagef("--range: %w", err)
	}
	return int64(off), int64(n), nil
}

// copyContent prints length bytes of a file from an offset on, or all of them
// if length is negative; of a symlink, where it points to.
func (e *Env) copyContent(ctx context.Context, at located, offset, length int64) error {
	var content io.ReadSeeker = object.NewContentReader(ctx, at.objects, at.entry)
	switch at.entry.Type {
	case object.TypeFile:
	case object.TypeSymlink:
		content = strings.NewReader(at.entry.Target)
	case object.TypeDir:
		return hintf(failf(exitFailed, "is-directory", "%s is a folder", quoteArg(at.rev+":"+at.path)), "'kist ls %s' lists it", printable(at.rev+":"+at.path))
	default:
		return failf(exitFailed, "", "%s is a %s", quoteArg(at.rev+":"+at.path), typeName(at.entry.Type))
	}
	if offset > 0 {
		if _, err := content.Seek(offset, io.SeekStart); err != nil {
			return err
		}
	}
	var from io.Reader = content
	if length >= 0 {
		from = io.LimitReader(content, length)
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{e.Stdout}, struct{ io.Reader }{from}, make([]byte, 256<<10))
	var purged *kist.PurgedError
	if errors.As(err, &purged) {
		err = fmt.Errorf("%s: %w", quoteArg(at.rev+":"+at.path), purged)
	}
	return err
}
