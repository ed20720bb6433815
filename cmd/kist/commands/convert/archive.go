package convert

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/work"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree/look/compare"
	"github.com/kist-vcs/kist/tree/pathspec"
	"github.com/kist-vcs/kist/tree/work/checkout"
)

type archiveOptions struct{ format, output, prefix string }

func NewArchive(env *cli.Env) *cobra.Command {
	var o archiveOptions
	cmd := &cobra.Command{
		Use:   "archive [OPTIONS] REV|FILE@N [[--] PATH...]",
		Short: "write a commit as a tar or zip archive",
		Long: `Writes the files of a commit as an archive, to standard output or to a FILE.
With PATHs, writes only these and the folders that lead to them. With FILE@N, it
writes version N of a file: see 'kist help history'. The archive has
the recorded times, permission bits and symlinks, and a tar archive also owners,
extended attributes, hard links, FIFOs and devices, if the repository records
them. Two archives of a commit have the same bytes.

The formats are zip, tar, and compressed tar: tar.gz (gzip), tar.zst (zstd) and
tar.xz (xz). Without --format the extension of FILE decides; .tgz, .tzst and
.txz are short forms. A FILE without an extension becomes a tar archive.

kist checks content as it reads it, and stops at damaged or missing content:
FILE then stays as it was. 'kist restore --to' writes the rest to a folder.`,
		Example: `  kist archive -o ../v1.zip v1
  kist archive HEAD notes | tar -x -C /tmp
  kist archive --format tar.zst HEAD | ssh host 'cat >backup.tar.zst'`,
		Args:              cli.Arguments(1, -1, "REV"),
		ValidArgsFunction: env.Complete(cli.Revisions),
	}
	env.Prints(cmd, "if a FILE is given", work.ExtractedJSON{})
	env.InRepository(cmd, o.run)
	flags := cmd.Flags()
	flags.StringVar(&o.format, "format", "", "the `FORMAT`: "+strings.Join(checkout.ArchiveFormats, ", "))
	flags.StringVarP(&o.output, "output", "o", "", "write to `FILE` instead of standard output")
	flags.StringVar(&o.prefix, "prefix", "", "put `PREFIX` before each name, such as kist-1.0/")
	cli.Propose(env, cmd, "format", cli.OneOf(checkout.ArchiveFormats...))
	return cmd
}

func (o *archiveOptions) run(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	format, err := o.format, error(nil)
	if format == "" {
		format, err = archiveFormat(o.output)
	}

	switch {
	case err != nil:
		return err
	case !slices.Contains(checkout.ArchiveFormats, format):
		return cli.Usagef("--format %s is not one of %s", cli.QuoteArg(format), strings.Join(checkout.ArchiveFormats, ", "))
	case o.output == "" && env.Terminal.Stdout:
		return cli.Hintf(cli.Usagef("an archive cannot go to a terminal"), "-o FILE writes a file")
	}
	specs, err := input.Pathspecs(env, r, args[1:], false)
	if err != nil {
		return err
	}
	source, paths, err := archived(ctx, env, r, input.Previous(args[0]), specs)
	if err != nil {
		return err
	}
	commit, err := object.ReadCommit(ctx, r.Objects(), source.Commit)
	if err != nil {
		return err
	}

	p := env.Progress("archiving")
	ao := checkout.ArchiveOptions{
		Paths: paths, Format: format, Prefix: o.prefix, Time: commit.Committer.Time.Time(), Progress: p.Amounts(),
	}
	if o.output == "" {
		_, err := checkout.Archive(ctx, source, env.Stdout, ao)
		p.Stop()
		return err
	}
	var wrote kist.Amount
	err = cli.WriteOutput(env.Path(o.output), func(w io.Writer) (err error) {
		wrote, err = checkout.Archive(ctx, source, w, ao)
		return err
	})
	p.Stop()
	if err != nil {
		return err
	}
	if env.Global.JSON {
		env.JSON(work.ExtractedJSON{Files: uint64(wrote.Files), Bytes: uint64(wrote.Bytes)})
	} else {
		env.Info("%s, %s, written to %s", readable.Plural(uint64(wrote.Files), "file", "files"), readable.FormatSize(uint64(wrote.Bytes)), cli.QuotePath(o.output))
	}
	return nil
}

// archived is [input.PathsOf]. For a version of a file, it returns the commit and path of that.
func archived(ctx context.Context, env *cli.Env, r *kist.Repository, rev string, specs pathspec.List) (compare.Side, []string, error) {
	if !input.NamesVersion(ctx, env, r, rev) {
		return input.PathsOf(ctx, env, r, rev, specs)
	}
	if len(specs) > 0 {
		return compare.Side{}, nil, cli.Usagef("%s is a path already", cli.QuoteArg(rev))
	}
	at, err := input.Locate(ctx, env, r, rev)
	return at.View(), []string{at.Path}, err
}

// shortEndings are other extensions of formats.
var shortEndings = map[string]string{".tgz": "tar.gz", ".tzst": "tar.zst", ".txz": "tar.xz"}

// archiveFormat returns the format of an archive by its name. A name without an extension
// is that of a tar archive.
func archiveFormat(name string) (string, error) {
	if long, ok := shortEndings[filepath.Ext(name)]; ok {
		return long, nil
	}
	for _, format := range checkout.ArchiveFormats {
		if strings.HasSuffix(name, "."+format) {
			return format, nil
		}
	}
	if filepath.Ext(name) == "" {
		return "tar", nil
	}
	return "", cli.Hintf(cli.Usagef("the name %s ends like no archive that kist writes", cli.QuoteArg(name)),
		"the formats are %s; --format chooses one", strings.Join(checkout.ArchiveFormats, ", "))
}
