package look

import (
	"context"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/input"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
)

// whereJSON is what du prints with --where --json.
type whereJSON struct {
	Here     int64             `json:"bytes_here" doc:"the bytes of content that this repository has"`
	Away     int64             `json:"bytes_away" doc:"the bytes of content that was given away"`
	Lent     int64             `json:"bytes_lent" doc:"the part of bytes_away that unchanged files of the worktree have"`
	Unlisted uint64            `json:"bytes_unlisted,omitempty" doc:"in a lazy clone, the bytes of files whose chunks it does not know; a part may be here"`
	Remotes  []whereRemoteJSON `json:"remotes" doc:"the remotes, if content is away anywhere"`
}

// whereRemoteJSON is a remote in whereJSON.
type whereRemoteJSON struct {
	Name     string     `json:"name" doc:"the remote"`
	Promises bool       `json:"promises" doc:"true if the keep ref of this repository is there"`
	Kept     int64      `json:"bytes_kept" doc:"the bytes that are away, and that the remote has and keeps"`
	Checked  *time.Time `json:"checked,omitempty" doc:"when this was looked up; with error, when the keep ref was made"`
	SameDisk bool       `json:"same_disk" doc:"true if it is a folder on the disk of this repository"`
	Error    string     `json:"error,omitempty" doc:"why the remote could not be asked"`
}

// runWhere shows where the content of the paths is.
func (o *duOptions) runWhere(ctx context.Context, env *cli.Env, r *kist.Repository, args []string) error {
	all, _, err := input.LocateAll(ctx, env, r, args)
	if err != nil {
		return err
	}
	var below []object.Entry
	for _, at := range all {
		below = append(below, at.Entry)
	}
	where, err := exchange.FindWhere(ctx, r, below...)
	if err != nil {
		return err
	}
	if env.Global.JSON {
		env.JSON(newWhereJSON(env, r, where))
		return nil
	}
	o.printSize(env, uint64(where.Here), "here")
	o.printSize(env, uint64(where.Away), "away")
	if where.Lent > 0 {
		o.printSize(env, uint64(where.Lent), "away, and lent by files of the worktree")
	}
	if where.Unlisted > 0 {
		o.printSize(env, where.Unlisted, "in "+readable.Plural(where.UnlistedFiles, "file", "files")+" that this clone has never listed: mostly away")
	}
	for _, at := range where.Remotes {
		name := cli.Printable(at.Name)
		switch {
		case at.Err != nil && at.Promises && !at.Checked.IsZero():
			env.Printf("%s promised to keep it on %s, and is not checked now: %s\n", name,
				at.Checked.Local().Format("2006-01-02"), env.Secrets.Hide(at.Err.Error()))
		case at.Err != nil:
			env.Printf("%s is not checked: %s\n", name, env.Secrets.Hide(at.Err.Error()))
		case !at.Promises:
			env.Printf("%s promises nothing\n", name)
		default:
			o.printSize(env, uint64(at.Kept), "away, and kept by "+name+" (checked "+at.Checked.Local().Format("2006-01-02 15:04")+")")
		}
		if registry.IsOnSameDisk(r, at.Name) {
			env.Printf("%s is on the same disk as this repository\n", name)
		}
	}
	return nil
}

// newWhereJSON returns the form of where.
func newWhereJSON(env *cli.Env, r *kist.Repository, where *exchange.Where) whereJSON {
	v := whereJSON{Here: where.Here, Away: where.Away, Lent: where.Lent, Unlisted: where.Unlisted, Remotes: []whereRemoteJSON{}}
	for _, at := range where.Remotes {
		out := whereRemoteJSON{Name: at.Name, Promises: at.Promises, Kept: at.Kept, SameDisk: registry.IsOnSameDisk(r, at.Name)}
		if !at.Checked.IsZero() {
			out.Checked = &at.Checked
		}
		if at.Err != nil {
			out.Error = env.Secrets.Hide(at.Err.Error())
		}
		v.Remotes = append(v.Remotes, out)
	}
	return v
}
