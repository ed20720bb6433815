package care

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/history"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/transfer"
)

func newRemoteShow(env *cli.Env) *cobra.Command {
	noQuery := false
	cmd := &cobra.Command{
		Use:   "show [OPTIONS] [NAME...]",
		Short: "show what a remote has, and what follows it",
		Long: `Shows the URL of each remote NAME, its default branch, and its branches. These
are tracked; or new, so that the next fetch brings them; or stale, so that 'kist
remote prune' removes them here. Then it shows which
local branch 'kist pull' merges with which of them, and which local branches
have the name of one of them. Without a NAME, it lists the remotes.`,
		Example: `  kist remote show origin
  kist remote show -n origin       without asking the remote`,
		ValidArgsFunction: env.Complete(share.Remotes),
	}
	env.Prints(cmd, "for each NAME", remoteShownJSON{})
	env.Prints(cmd, "without NAME, for each remote", registry.Remote{})
	env.InRepository(cmd, func(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
		if len(args) == 0 {
			return runRemoteList(ctx, env, r, nil)
		}
		for _, name := range args {
			shown, err := newRemoteShown(ctx, r, name, noQuery)
			if err != nil {
				return err
			}
			if env.JSON(shown); !env.Global.JSON {
				shown.printForGit(env)
			}
		}
		return nil
	})
	cmd.Flags().BoolVarP(&noQuery, "no-query", "n", false, "do not contact the remote")
	env.Transfer.Register(cmd)
	return cmd
}

// remoteShownJSON is a remote as remote show prints it with --json.
type remoteShownJSON struct {
	Name     string       `json:"name" doc:"the remote"`
	URL      string       `json:"url" doc:"its URL, without secrets"`
	Head     string       `json:"head,omitempty" doc:"its default branch"`
	Branches []shownJSON  `json:"branches" doc:"its branches"`
	Merges   []mergesJSON `json:"merges" doc:"the branches here that 'kist pull' merges with a branch there"`
	Pushes   []pushesJSON `json:"pushes" doc:"the branches here that 'kist push' pushes"`
	Keeps    []keepJSON   `json:"keeps,omitempty" doc:"the keep refs of repositories that have given content away"`

	queried bool
}

type shownJSON struct {
	Name   string `json:"name" doc:"the branch"`
	Status string `json:"status,omitempty" doc:"how it compares with the remote-tracking branch" values:"tracked|new|stale"`
}

type mergesJSON struct {
	Branch string `json:"branch" doc:"the branch here"`
	With   string `json:"with" doc:"the branch there"`
}

type pushesJSON struct {
	Branch string `json:"branch" doc:"the branch"`
	Status string `json:"status,omitempty" doc:"how it compares with the branch there" values:"up to date|fast-forwardable|local out of date"`
}

type keepJSON struct {
	Name  string    `json:"name" doc:"the ref"`
	Own   bool      `json:"own" doc:"true if it is the ref of this repository"`
	Host  string    `json:"host,omitempty" doc:"the machine of the repository"`
	Time  time.Time `json:"time" doc:"when it was renewed"`
	Bytes uint64    `json:"bytes" doc:"the size of the content that only this ref lists"`
}

// newRemoteShown returns what there is to show of a remote.
func newRemoteShown(ctx context.Context, r *kist.Repository, name string, noQuery bool) (*remoteShownJSON, error) {
	m, err := registry.Find(r, name)
	if err != nil {
		return nil, err
	}
	s := &remoteShownJSON{Name: name, URL: redacted(m).URL, Branches: []shownJSON{}, Merges: []mergesJSON{}, Pushes: []pushesJSON{}, queried: !noQuery}
	there := map[string]object.Key{}
	if s.queried {
		head, keeps, err := headNow(ctx, r, m)
		if err != nil {
			return nil, err
		}
		own := transfer.ReadKeep(registry.Dir(r, m.Name)).Ref()
		for _, k := range keeps {
			s.Keeps = append(s.Keeps, keepJSON{k.Name, k.Name == own, k.Host, object.Writable(k.Time), k.Bytes})
		}
		there, s.Head = head.Refs, strings.TrimPrefix(head.DefaultBranch, refs.Heads)
	}
	if err := s.addBranches(r, there); err != nil {
		return nil, err
	}

	local, err := r.Refs().List(refs.Heads)
	for _, ref := range local {
		branch := strings.TrimPrefix(ref.Name, refs.Heads)
		if u, err := kist.UpstreamOf(r, branch); err == nil && u.Remote == name {
			s.Merges = append(s.Merges, mergesJSON{branch, strings.TrimPrefix(u.Ref, refs.Heads)})
		}
		if at, ok := there[ref.Name]; ok {
			s.Pushes = append(s.Pushes, pushesJSON{branch, pushStatus(ctx, r, at.ID, ref.ID)})
		}
	}
	return s, err
}

// headNow returns the present head of a remote, and its keep refs. It has no refs if nothing was pushed yet.
func headNow(ctx context.Context, r *kist.Repository, m registry.Remote) (*rootlog.State, []transfer.KeepRef, error) {
	opened, err := registry.OpenSource(ctx, r, m)
	if errors.Is(err, rootlog.ErrEmpty) {
		return &rootlog.State{}, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer opened.Close()
	head, err := opened.Head(ctx)
	if err != nil || !transfer.HasKeeps(head) {
		return head, nil, err
	}
	objects, head, err := transfer.Objects(ctx, opened)
	if errors.Is(err, transfer.ErrRepository) {
		head, err := opened.Head(ctx)
		return head, nil, err
	}
	if err != nil {
		return nil, nil, err
	}
	keeps, err := transfer.KeepRefs(ctx, objects, head)
	return head, keeps, err
}

// addBranches adds the branches of the remote and their status.
func (s *remoteShownJSON) addBranches(r *kist.Repository, there map[string]object.Key) error {
	status := map[string]string{}
	for name := range there {
		if branch, ok := strings.CutPrefix(name, refs.Heads); ok && refs.CheckName(name) == nil {
			status[branch] = "new"
		}
	}
	prefix := refs.Remotes + s.Name + "/"
	list, err := r.Refs().List(prefix)
	for _, ref := range list {
		branch := strings.TrimPrefix(ref.Name, prefix)
		switch {
		case ref.Target != "":
		case !s.queried:
			status[branch] = ""
		case status[branch] == "":
			status[branch] = "stale"
		default:
			status[branch] = "tracked"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(status)) {
		s.Branches = append(s.Branches, shownJSON{name, status[name]})
	}
	return err
}

// pushStatus says what a push from one commit to another would be.
func pushStatus(ctx context.Context, r *kist.Repository, there, here object.ID) string {
	if there == here {
		return "up to date"
	}
	if forward, err := history.IsAncestor(ctx, r.Objects(), there, here); err == nil && forward {
		return "fast-forwardable"
	}
	return "local out of date"
}

// printForGit prints the remote in git's form.
func (s *remoteShownJSON) printForGit(env *cli.Env) {
	url := cli.Printable(s.URL)
	env.Printf("* remote %s\n  Fetch URL: %s\n  Push  URL: %s\n", cli.Printable(s.Name), url, url)
	head, note := s.Head, ""
	switch {
	case !s.queried:
		head, note = "(not queried)", " (status not queried)"
	case head == "":
		head = "(unknown)"
	}
	env.Printf("  HEAD branch: %s\n", cli.Printable(head))

	text := map[string]string{
		"tracked": "tracked",
		"new":     "new (next fetch will store in remotes/" + s.Name + ")",
		"stale":   "stale (use 'kist remote prune' to remove)",
	}
	var lines [][2]string
	for _, b := range s.Branches {
		lines = append(lines, [2]string{b.Name, text[b.Status]})
	}
	printShown(env, "Remote branch", "Remote branches", note, lines)
	lines = nil
	for _, b := range s.Merges {
		lines = append(lines, [2]string{b.Branch, "merges with remote " + b.With})
	}
	printShown(env, "Local branch configured for 'kist pull'", "Local branches configured for 'kist pull'", "", lines)
	lines = nil
	for _, b := range s.Pushes {
		lines = append(lines, [2]string{b.Branch, fmt.Sprintf("pushes to %s (%s)", b.Branch, b.Status)})
	}
	printShown(env, "Local ref configured for 'kist push'", "Local refs configured for 'kist push'", "", lines)
	lines = nil
	for _, k := range s.Keeps {
		text := fmt.Sprintf("renewed %s, %s listed", k.Time.Local().Format("2006-01-02"), readable.FormatSize(k.Bytes))
		if k.Host != "" {
			text += ", " + k.Host
		}
		if k.Own {
			text += " (this repository)"
		}
		lines = append(lines, [2]string{strings.TrimPrefix(k.Name, refs.Keep), text})
	}
	printShown(env, "Keep ref", "Keep refs", "", lines)
}

// printShown prints names under a title, with a text for each.
func printShown(env *cli.Env, one, several, note string, lines [][2]string) {
	if len(lines) == 0 {
		return
	}
	width := 0
	for _, l := range lines {
		width = max(width, len(l[0]))
	}
	title := several
	if len(lines) == 1 {
		title = one
	}
	env.Printf("  %s:%s\n", title, note)
	for _, l := range lines {
		env.Printf("%s\n", strings.TrimRight(fmt.Sprintf("    %-*s %s", width, cli.Printable(l[0]), cli.Printable(l[1])), " "))
	}
}
