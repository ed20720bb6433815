package look

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/stats"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs"
)

// sizeText returns a number of bytes as the options say.
func (o *statsOptions) sizeText(n int64) string { return cli.SizeOrBytes(uint64(n), o.bytes) }

// ratio returns a divided by b, as in "1.5x", and "-" if one of them is 0.
func ratio(a, b int64) string {
	if a == 0 || b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1fx", float64(a)/float64(b))
}

// printTable prints rows below the first, which has the headings; without them it prints
// nothing. The last column is aligned to the left, all others to the right.
func printTable(env *cli.Env, rows [][]string) {
	if len(rows) == 1 {
		return
	}
	widths := make([]int, len(rows[0])-1)
	for _, row := range rows {
		for i := range widths {
			widths[i] = max(widths[i], len(row[i]))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, width := range widths {
			fmt.Fprintf(&line, "%*s  ", width, row[i])
		}
		line.WriteString(row[len(widths)])
		env.Printf("%s\n", strings.TrimRight(line.String(), " "))
	}
}

// printSpaces prints the table of spaces.
func (o *statsOptions) printSpaces(ctx context.Context, env *cli.Env, r *kist.Repository, s *stats.Stats) error {
	rows := [][]string{{"files", "size", "stored", "unique", "dedup", "compr", ""}}
	named := 0
	for _, space := range s.Spaces {
		name, err := spaceName(ctx, env, r, space)
		switch {
		case err != nil:
			return err
		case !isRest(space):
			named++
			rows = append(rows, []string{
				readable.FormatCount(space.Files), o.sizeText(int64(space.Bytes)), o.sizeText(space.All.Stored), o.sizeText(space.Own.Stored),
				ratio(int64(space.History), space.All.Raw), ratio(space.All.Raw, space.All.Stored), name})
		case space.Own.Objects > 0:
			rows = append(rows, []string{"", "", "", o.sizeText(space.Own.Stored), "", "", name})
		}
	}
	if together := s.Account.Together; named > 1 && !isRest(s.Spaces[len(s.Spaces)-1]) {
		rows = append(rows, []string{"", "", "", o.sizeText(together.Stored), "", "", "together"})
	}
	printTable(env, rows)
	return nil
}

// spaceName returns the printed name of a space.
func spaceName(ctx context.Context, env *cli.Env, r *kist.Repository, s stats.Space) (string, error) {
	commits := "  (" + readable.Plural(uint64(s.Commits), "commit", "commits") + ")"
	switch s.Kind {
	case stats.SpaceBranch:
		return cli.Printable(strings.TrimPrefix(s.Name, refs.Heads)) + commits, nil
	case stats.SpaceTag:
		return "tag " + cli.Printable(strings.TrimPrefix(s.Name, refs.Tags)) + commits, nil
	case stats.SpaceRef:
		return cli.Printable(strings.TrimPrefix(s.Name, refs.Remotes)) + commits, nil
	case stats.SpaceHold:
		return "held" + commits, nil
	case stats.SpacePath:
		return cli.QuotePath(cmp.Or(s.Name, ".")) + commits, nil
	case stats.SpaceIndex:
		return "staged, and in no commit", nil
	case stats.SpaceLogs:
		return "reachable only from the reflog", nil
	}

	c, err := object.ReadCommit(ctx, r.Objects(), s.ID)
	if err != nil {
		return "", err
	}
	return env.Paint(cli.Yellow, s.ID.Short()) + " " + c.Committer.When().Format("2006-01-02") + " " + cli.Printable(cli.Subject(c.Message)), nil
}

// printTotal prints the totals of the repository.
func (o *statsOptions) printTotal(env *cli.Env, s *stats.Stats, freed *int64) {
	a := s.Account
	if len(s.Spaces) > 2 {
		env.Printf("\n")
	}
	env.Printf("in all   %s, %s\n", readable.Plural(uint64(s.Commits), "commit", "commits"), readable.Plural(uint64(s.Named.Objects), "object", "objects"))
	env.Printf("content  %s in all commits, %s if each object counts once (%s), %s compressed (%s)\n", o.sizeText(int64(s.History)),
		o.sizeText(s.Named.Raw), ratio(int64(s.History), s.Named.Raw), o.sizeText(s.Named.Stored), ratio(s.Named.Raw, s.Named.Stored))
	var bytes, waste int64
	for i := range a.Volumes {
		bytes += a.Volumes[i].Bytes
		waste += a.Volumes[i].Waste()
	}
	env.Printf("on disk  %s in %s, %s of it wasted\n", o.sizeText(bytes), readable.Plural(uint64(len(a.Volumes)), "volume", "volumes"), o.sizeText(waste))
	if a.Left > 0 {
		env.Printf("left     %s from interrupted writes; gc or the next write removes it\n", o.sizeText(a.Left))
	}
	if freed == nil {
		env.Printf("gc       would free an unknown amount: another process collects garbage, or records are damaged\n")
	} else {
		env.Printf("gc       would free %s now\n", o.sizeText(*freed))
	}
}

// printVolumes prints the needed share of each volume.
func (o *statsOptions) printVolumes(env *cli.Env, a *gc.Account) {
	rows := [][]string{{"objects", "needed", "stored", "needed", "on disk", "waste", ""}}
	for i := range a.Volumes {
		v := &a.Volumes[i]
		if env.Global.JSON {
			env.JSON(volumeJSON{v.Name, v.Created.UTC().Format("2006-01-02T15:04:05Z"), v.Objects, v.Held.Objects, v.Bytes, v.Stored, v.Held.Stored, v.Waste()})
			continue
		}
		rows = append(rows, []string{readable.FormatCount(uint64(v.Objects)), readable.FormatCount(uint64(v.Held.Objects)),
			o.sizeText(v.Stored), o.sizeText(v.Held.Stored), o.sizeText(v.Bytes), o.sizeText(v.Waste()),
			v.Name + "  " + v.Created.Local().Format("2006-01-02 15:04")})
	}
	printTable(env, rows)
}
