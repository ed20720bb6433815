package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/commits"
)

type tagOptions struct {
	list     bool
	annotate bool
	messages []string
	file     string
	force    bool
	delete   bool
	commitFilter
}

func newTag(env *Env) *cobra.Command {
	var o tagOptions
	cmd := &cobra.Command{
		Use:   "tag [OPTIONS] [NAME [REV]]",
		Short: "list, create and delete tags",
		Long: `Without arguments, lists the tags. With --verbose, also shows the commit, and
the first line of the tag's message or else the commit's. With --list, the
arguments are patterns: * stands for any characters, ? for one character, [a-z]
for one character of this range.

With NAME, creates a tag at the commit REV, by default HEAD. A tag does not
move. With a message, it also records who created it, when and why.

With --json, for each tag: name, ref (its full name), id (the commit, or the
object of a tag with a message), target (the commit), and if there is a message
tagger (name, email, time) and message.`,
		Example: `  kist tag                            list the tags
  kist tag v1                         name the current commit
  kist tag -m 'as delivered' v1 HEAD~2
  kist tag -l 'v1.*'
  kist tag -d v1`,
		ValidArgsFunction: completeNth(env.complete(tags), env.complete(revisions)),
	}
	env.inRepository(cmd, func(ctx context.Context, env *Env, r *kist.Repository, args []string) error {
		return runTag(cmd, env, r, o, args)
	}, exitMoved, exitBusy)
	flags := cmd.Flags()
	flags.BoolVarP(&o.list, "list", "l", false, "list the tags that fit a pattern")
	o.commitFilter.register(cmd, env)
	flags.BoolVarP(&o.annotate, "annotate", "a", false, "create a tag with a message from -m or -F")
	flags.StringArrayVarP(&o.messages, "message", "m", nil, "the `MESSAGE`; if given more than once, each is a paragraph")
	flags.StringVarP(&o.file, "file", "F", "", "read the message from `FILE`; - is standard input")
	flags.BoolVarP(&o.force, "force", "f", false, "replace a tag that exists")
	flags.BoolVarP(&o.delete, "delete", "d", false, "delete tags")
	cmd.MarkFlagsMutuallyExclusive("list", "delete", "message", "file")
	cmd.MarkFlagsMutuallyExclusive("list", "delete", "annotate")
	return cmd
}

func runTag(cmd *cobra.Command, env *Env, r *kist.Repository, o tagOptions, args []string) error {
	ctx := cmd.Context()
	message, err := o.message(env)
	if err != nil {
		return err
	}
	switch {
	case o.delete:
		return env.deleteTags(ctx, r, args)
	case o.list || o.wanted(cmd) || len(args) == 0 && message == "":
		return env.listTags(cmd, r, o, args)
	case len(args) == 0:
		return usagef("the NAME of the tag is missing")
	case len(args) > 2:
		return usagef("one argument too many: %s", quoteArg(args[2]))
	}
	rev := "HEAD"
	if len(args) == 2 {
		rev = env.previous(args[1])
	}
	id, was, err := commits.CreateTag(ctx, r, commits.TagOptions{Name: args[0], Rev: rev, Message: message, Force: o.force})
	if errors.Is(err, kist.ErrNameTaken) {
		return hintf(err, "-f replaces it")
	}
	if err != nil {
		return err
	}
	if env.global.json {
		env.json(newNamedJSON(ctx, r, refs.Ref{Name: refs.Tags + args[0], ID: id}))
		return nil
	}
	if !was.IsZero() && was != id {
		env.tell("Updated tag '%s' (was %s)\n", printable(args[0]), was.Short())
	}
	return nil
}

// message returns what -m or -F say, "" for a tag without a message.
func (o *tagOptions) message(env *Env) (string, error) {
	text := strings.Join(o.messages, "\n\n")
	var data []byte
	var err error
	switch {
	case o.messages != nil:
	case o.file == "-":
		data, err = io.ReadAll(env.Stdin)
	case o.file != "":
		data, err = os.ReadFile(env.path(o.file))
	case o.annotate:
		return "", hintf(usagef("no message for the tag"), "-m MESSAGE or -F FILE gives one")
	default:
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if o.messages == nil {
		text = string(data)
	}
	if text = cleanMessage(text); text == "" {
		return "", failf(exitFailed, "", "the tag's message is empty")
	}
	return text, nil
}

func (e *Env) deleteTags(ctx context.Context, r *kist.Repository, args []string) error {
	if len(args) == 0 {
		return usagef("the NAME of a tag is missing")
	}
	var failed error
	for _, name := range args {
		id, err := commits.DeleteTag(ctx, r, name)
		switch {
		case errors.Is(err, refs.ErrNotFound):
			err = failf(exitFailed, "unknown-ref", "tag %s not found", quoteArg(name))
		case err == nil && e.global.json:
			e.json(branchJSON{Name: name, Ref: refs.Tags + name, ID: id})
		case err == nil:
			e.tell("Deleted tag '%s' (was %s)\n", printable(name), id.Short())
		}
		if err != nil {
			if failed != nil {
				e.report(failed)
			}
			failed = err
		}
	}
	return failed
}

// namedJSON is a tag as tag prints it with --json.
type namedJSON struct {
	Name    string      `json:"name"`
	Ref     string      `json:"ref"`
	ID      object.ID   `json:"id"`
	Target  *object.ID  `json:"target"` // the commit; null: it cannot be read
	Tagger  *personJSON `json:"tagger,omitempty"`
	Message string      `json:"message,omitempty"`
}

func newNamedJSON(ctx context.Context, r *kist.Repository, ref refs.Ref) namedJSON {
	out := namedJSON{Name: shortRef(ref.Name), Ref: ref.Name, ID: ref.ID}
	if commit, err := refs.Peel(ctx, r.Objects(), ref.ID); err == nil {
		out.Target = &commit
		if commit != ref.ID {
			if tag, err := object.ReadTag(ctx, r.Objects(), ref.ID); err == nil {
				tagger := newPersonJSON(tag.Tagger)
				out.Tagger, out.Message = &tagger, tag.Message
			}
		}
	}
	return out
}

func (e *Env) listTags(cmd *cobra.Command, r *kist.Repository, o tagOptions, args []string) error {
	ctx := cmd.Context()
	keep, args, err := o.filter(cmd, r, args)
	if err != nil {
		return err
	}
	list, err := r.Refs().List(refs.Tags)
	if err != nil {
		return err
	}
	width := 0
	var kept []refs.Ref
	for _, ref := range list {
		name := strings.TrimPrefix(ref.Name, refs.Tags)
		if !matchesAny(args, name) {
			continue
		}
		ok, err := keep(ctx, ref.ID)
		if err != nil {
			return err
		}
		if ok {
			kept = append(kept, ref)
			width = max(width, len([]rune(name)))
		}
	}
	for _, ref := range kept {
		name := shortRef(ref.Name)
		switch {
		case e.global.json:
			e.json(newNamedJSON(ctx, r, ref))
		case e.global.verbose:
			e.printf("%-*s %s\n", width, printable(name), e.describeTag(ctx, r, ref.ID))
		default:
			e.printf("%s\n", printable(name))
		}
	}
	return nil
}

// describeTag returns the short ID of a tag's commit, and the first line of
// the tag's message, or else of the commit's.
func (e *Env) describeTag(ctx context.Context, r *kist.Repository, id object.ID) string {
	tag, err := object.ReadTag(ctx, r.Objects(), id)
	if err != nil {
		return e.describe(ctx, r, id)
	}
	return tag.Target.Short() + " " + printable(subject(tag.Message))
}
