package work

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/jsonform"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/sshsig"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/look/log"
	"github.com/kist-vcs/kist/tree/work/commits"
)

type tagOptions struct {
	list, annotate, force, delete, verify bool
	lines                                 int // of messages, with -n
	MessageOptions
	commitFilter
	refOrder
}

func NewTag(env *cli.Env) *cobra.Command {
	var o tagOptions
	cmd := &cobra.Command{
		Use:   "tag [OPTIONS] [NAME [REV]]",
		Short: "list, create and delete tags",
		Long: `Without arguments, lists the tags. With --verbose, also shows the commit, and
the first line of the tag's message or else the commit's; -n shows only that
line, and -n3 three lines. With --list, the arguments are patterns: * stands for
any characters, ? for one character, [a-z] for one character of this range.

With NAME, creates a tag at the commit REV, by default HEAD. A tag does not
move. With a message, it also records who created it, when and why.

--sign also signs the tag, so it has a message. -v NAME, or --verify, checks the
signatures of tags. The exit status is 1 unless all are good. See 'kist help
sign'.`,
		Example: `  kist tag                            list the tags
  kist tag v1                         name the current commit
  kist tag -m 'as delivered' v1 HEAD~2
  kist tag -l 'v1.*'
  kist tag -n --sort=-v:refname       with messages, v1.10 before v1.9
  kist tag -s -m 'release' v2         sign it with your ssh key
  kist tag -v v2                      who signed it?
  kist tag -d v1`,
		ValidArgsFunction: cli.CompleteNth(env.Complete(cli.Tags), env.Complete(cli.Revisions)),
	}
	env.Prints(cmd, "for each tag", namedJSON{})
	env.Prints(cmd, "with -d, for each tag", branchJSON{})
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		return runTag(cmd, env, r, o, args)
	}, cli.ExitMoved, cli.ExitBusy)
	flags := cmd.Flags()
	flags.BoolVarP(&o.list, "list", "l", false, "list the tags that fit a pattern")
	o.commitFilter.register(cmd)
	o.refOrder.register(env, cmd)
	flags.IntVarP(&o.lines, "lines", "n", 0, "list the tags with `N` lines of each message; -n3 is short for -n=3")
	flags.Lookup("lines").NoOptDefVal = "-1" // stands for 1; digits that follow replace it
	cli.RegisterDigits(cmd, &o.lines)
	flags.BoolVarP(&o.annotate, "annotate", "a", false, "create a tag with a message, from the editor without -m and -F")
	o.MessageOptions.Register(cmd)
	flags.BoolVarP(&o.force, "force", "f", false, "replace a tag that exists")
	flags.BoolVarP(&o.delete, "delete", "d", false, "delete tags")
	env.Repo.Tags.Register(cmd, "s", "the tag")
	flags.FuncP("local-user", "u", "the same as --sign with `KEY`", env.Repo.Tags.Use)
	flags.BoolVar(&o.verify, "verify", false, "check the signatures of tags; the same as -v with names")
	cmd.MarkFlagsMutuallyExclusive("list", "delete", "message", "file")
	cmd.MarkFlagsMutuallyExclusive("list", "delete", "annotate", "verify")
	cmd.MarkFlagsMutuallyExclusive("list", "delete", "verify", "sign")
	cmd.MarkFlagsMutuallyExclusive("list", "delete", "verify", "local-user")
	return cmd
}

func runTag(cmd *cobra.Command, env *cli.Env, r *kist.Repository, o tagOptions, args []string) error {
	ctx := cmd.Context()
	message, err := o.ReadMessage(env, nil)
	if err != nil {
		return err
	}

	o.annotate = o.annotate || env.Repo.Tags.Wanted()

	switch {
	case o.verify || o.onlyVerbose(cmd) && len(args) > 0 && !o.list && !o.delete:
		return verifyTags(ctx, env, r, args)
	case o.delete:
		return each(env, args, "NAME", func(name string) error { return deleteTag(ctx, env, r, name) })
	case o.list || o.isFiltered(cmd) || len(o.sort) > 0 || cmd.Flags().Changed("lines") || len(args) == 0 && !o.isGiven() && !o.annotate:
		return listTags(env, cmd, r, o, args)
	case len(args) == 0:
		return cli.Usagef("the NAME of the tag is missing")
	case len(args) > 2:
		return cli.Usagef("one argument too many: %s", cli.QuoteArg(args[2]))
	}
	tag := commits.TagOptions{Name: args[0], Rev: "HEAD", Message: message, Annotate: o.isGiven() || o.annotate, Force: o.force}
	if len(args) == 2 {
		tag.Rev = input.Previous(args[1])
	}
	return createTag(ctx, env, r, tag, o.isGiven())
}

// createTag creates a tag and prints it. If it needs a message, and none was given, createTag starts an editor.
func createTag(ctx context.Context, env *cli.Env, r *kist.Repository, tag commits.TagOptions, given bool) (err error) {
	if tag.Annotate && !given {
		if tag.Message, err = editTagMessage(ctx, env, r, tag.Name); err != nil {
			return err
		}
	}
	id, was, err := commits.CreateTag(ctx, r, tag)
	if errors.Is(err, kist.ErrNameTaken) {
		return cli.Hintf(err, "-f replaces it")
	}
	if err != nil {
		return err
	}
	env.JSON(newNamedJSON(ctx, r, refs.Ref{Name: refs.Tags + tag.Name, ID: id}))
	if !was.IsZero() && was != id {
		env.PrintOutcome("Updated tag '%s' (was %s)\n", cli.Printable(tag.Name), was.Short())
	}
	return nil
}

// editTagMessage starts an editor for the message of a tag, and returns the message.
func editTagMessage(ctx context.Context, env *cli.Env, r *kist.Repository, name string) (string, error) {
	if editor(env) == "" {
		return "", cli.Hintf(cli.Usagef("no message for the tag"), "-m MESSAGE or -F FILE gives one")
	}
	draft := fmt.Sprintf("\n# The message of the tag %s. Lines that begin with # are left out.\n", cli.Printable(name))
	text, err := editText(ctx, env, r, "TAG_EDITMSG", draft)
	if err != nil {
		return "", err
	}
	message := CleanMessage(withoutComments(text))
	if message == "" {
		return "", errors.New("the message of the tag is empty")
	}
	return message, nil
}

// onlyVerbose reports whether -v comes without options that make a tag. With a name, it verifies the
// tag, as in git.
func (o *tagOptions) onlyVerbose(cmd *cobra.Command) bool {
	return cmd.Flags().Changed("verbose") && !o.isGiven() && !o.force && !o.annotate
}

// verifyTags checks the signatures of tags, and prints the results.
func verifyTags(ctx context.Context, env *cli.Env, r *kist.Repository, names []string) error {
	signers, err := env.NeedAllowedSigners()
	if err != nil {
		return err
	}
	return each(env, names, "NAME", func(name string) error { return verifyTag(ctx, env, r, signers, name) })
}

// verifyTag returns an error unless a tag has a good signature.
func verifyTag(ctx context.Context, env *cli.Env, r *kist.Repository, signers *sshsig.AllowedSigners, name string) error {
	ref := refs.Ref{Name: refs.Tags + name}
	var err error
	if ref.ID, err = r.Refs().Get(ref.Name); errors.Is(err, refs.ErrNotFound) {
		return cli.HintSimilar(cli.Failf(cli.ExitFailed, "unknown-ref", "tag %s not found", cli.QuoteArg(name)), name, cli.RefNames(r, refs.Tags))
	}
	if err != nil {
		return err
	}

	result := sshsig.Result{Status: sshsig.None}
	tag, err := object.ReadTag(ctx, r.Objects(), ref.ID)
	switch {
	case errors.Is(err, object.ErrNotFound): // the tag names a commit directly
	case err != nil:
		return err
	default:
		if result, err = signers.CheckNode(ctx, r.Objects(), object.Key{Kind: object.KindTag, ID: ref.ID}); err != nil {
			return err
		}
	}
	if result.Status == sshsig.Good && tag.Name != name { // somebody gave a signed tag another name
		result = sshsig.Result{Status: sshsig.Bad, Fingerprint: result.Fingerprint, KeyType: result.KeyType, Err: fmt.Errorf("it is for the name %q", tag.Name)}
	}

	out := newNamedJSON(ctx, r, ref)
	out.Signature = jsonform.NewSignature(result)
	env.JSON(out)
	if err := cli.WantGood("tag "+cli.QuoteArg(name), result); err != nil {
		return err
	}
	env.PrintOutcome("tag %s, signature %s\n", cli.Printable(name), cli.SignatureText(result))
	return nil
}

func deleteTag(ctx context.Context, env *cli.Env, r *kist.Repository, name string) error {
	var id object.ID
	err := gc.WithReserve(ctx, r, func() (err error) {
		id, err = commits.DeleteTag(ctx, r, name)
		return err
	})
	if errors.Is(err, refs.ErrNotFound) {
		return cli.HintSimilar(cli.Failf(cli.ExitFailed, "unknown-ref", "tag %s not found", cli.QuoteArg(name)), name, cli.RefNames(r, refs.Tags))
	}
	if err == nil {
		env.PrintOrJSON(branchJSON{Name: name, Ref: refs.Tags + name, ID: id}, "Deleted tag '%s' (was %s)\n", cli.Printable(name), id.Short())
	}
	return err
}

// namedJSON is a tag as tag prints it with --json.
type namedJSON struct {
	Name    string           `json:"name" doc:"the tag"`
	Ref     string           `json:"ref" doc:"its full name"`
	ID      object.ID        `json:"id" doc:"the commit, or the object of a tag with a message"`
	Target  *object.ID       `json:"target" doc:"the commit; null: it cannot be read"`
	Tagger  *jsonform.Person `json:"tagger,omitempty" doc:"who made a tag with a message"`
	Message string           `json:"message,omitempty" doc:"its message"`

	Signature *jsonform.Signature `json:"signature,omitempty" doc:"the check of its signature, with --verify"`
}

func newNamedJSON(ctx context.Context, r *kist.Repository, ref refs.Ref) namedJSON {
	out := namedJSON{Name: cli.ShortRef(ref.Name), Ref: ref.Name, ID: ref.ID}
	if commit, err := refs.Peel(ctx, r.Objects(), ref.ID); err == nil {
		out.Target = &commit
		if commit != ref.ID {
			if tag, err := object.ReadTag(ctx, r.Objects(), ref.ID); err == nil {
				tagger := jsonform.NewPerson(tag.Tagger)
				out.Tagger, out.Message = &tagger, tag.Message
			}
		}
	}
	return out
}

func listTags(env *cli.Env, cmd *cobra.Command, r *kist.Repository, o tagOptions, args []string) error {
	ctx := cmd.Context()
	keep, args, err := o.newTest(cmd, r, args)
	if err != nil {
		return err
	}
	list, err := listRefs(ctx, r, refs.Tags, args, keep)
	if err == nil {
		err = log.SortRefs(ctx, r, list, o.sort)
	}
	if err != nil {
		return err
	}
	if o.lines < 0 {
		o.lines = 1
	}
	width := 0
	for _, ref := range list {
		width = max(width, len([]rune(cli.ShortRef(ref.Name))))
	}

	for _, ref := range list {
		name := cli.ShortRef(ref.Name)
		switch {
		case env.Global.JSON:
			env.JSON(newNamedJSON(ctx, r, ref))
		case o.lines > 0:
			env.Printf("%-15s %s\n", cli.Printable(name), cli.Printable(tagLines(ctx, r, ref.ID, o.lines)))
		case env.Global.Verbose:
			env.Printf("%-*s %s\n", width, cli.Printable(name), describeTag(ctx, env, r, ref.ID))
		default:
			env.Printf("%s\n", cli.Printable(name))
		}
	}
	return nil
}

// tagLines returns the first lines of a tag's message, or else of its commit's.
func tagLines(ctx context.Context, r *kist.Repository, id object.ID, n int) string {
	message := ""
	if tag, err := object.ReadTag(ctx, r.Objects(), id); err == nil {
		message = tag.Message
	} else if c, err := object.ReadCommit(ctx, r.Objects(), id); err == nil {
		message = c.Message
	}
	lines := strings.Split(strings.Trim(message, "\n"), "\n")
	return strings.Join(lines[:min(n, len(lines))], "\n    ")
}

// describeTag returns the short ID of a tag's commit, and the first line of
// the tag's message, or else of the commit's.
func describeTag(ctx context.Context, env *cli.Env, r *kist.Repository, id object.ID) string {
	tag, err := object.ReadTag(ctx, r.Objects(), id)
	if err != nil {
		return input.Describe(ctx, r, id)
	}
	return tag.Target.Short() + " " + cli.Printable(cli.Subject(tag.Message))
}
