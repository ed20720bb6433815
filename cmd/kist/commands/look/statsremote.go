package look

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands/share"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/remote/collect"
)

// packJSON is a pack as stats prints it with --json.
type packJSON struct {
	Name    string `json:"name" doc:"the pack"`
	Objects int    `json:"objects" doc:"the number of its objects"`
	Needed  int    `json:"objects_needed" doc:"the number of them that something needs"`
	Size    int64  `json:"bytes" doc:"its size"`
	Bytes   int64  `json:"bytes_needed" doc:"the bytes of the needed objects"`
	Wasted  int64  `json:"bytes_wasted" doc:"the other bytes"`
}

// remoteStatsJSON has the totals of a remote.
type remoteStatsJSON struct {
	Kind        string `json:"kind" doc:"the sort of line" values:"total"`
	Packs       int    `json:"packs" doc:"the number of packs"`
	Bytes       int64  `json:"bytes" doc:"their size"`
	Needed      int64  `json:"bytes_needed" doc:"the bytes of the needed objects"`
	Objects     int    `json:"objects_needed" doc:"the number of these objects"`
	Wasted      int64  `json:"bytes_wasted" doc:"the other bytes"`
	Indexes     int    `json:"indexes" doc:"the number of index files"`
	IndexBytes  int64  `json:"bytes_indexes" doc:"their size"`
	Marked      int    `json:"marked" doc:"the number of files marked for deletion"`
	MarkedBytes int64  `json:"bytes_marked" doc:"their size"`
}

// statsRemote prints the needed share of each pack of a remote.
func statsRemote(ctx context.Context, env *cli.Env, r *kist.Repository, o *statsOptions) error {
	opened, err := share.OpenRemote(ctx, env, r, o.remote)
	if err != nil {
		return err
	}
	defer opened.Close()
	p := env.Progress("counting " + o.remote)
	defer p.Stop()
	u, err := collect.ReadUsage(ctx, opened, r.Objects())
	p.Stop()
	if err != nil {
		return err
	}

	total := remoteStatsJSON{
		Kind: "total", Packs: len(u.Packs), Indexes: u.Indexes, IndexBytes: u.IndexBytes,
		Marked: u.Condemned, MarkedBytes: u.CondemnedBytes,
	}
	for i := range u.Packs {
		x := &u.Packs[i]
		total.Bytes += int64(x.Size)
		total.Needed += x.Stored
		total.Objects += x.Needed
		total.Wasted += x.Waste
	}
	if env.Global.JSON {
		for _, x := range u.Packs {
			env.JSON(packJSON{x.Name.String(), x.Objects, x.Needed, int64(x.Size), x.Stored, x.Waste})
		}
		env.JSON(total)
		return nil
	}
	o.printPacks(env, u, total)
	return nil
}

func (o *statsOptions) printPacks(env *cli.Env, u *collect.Usage, total remoteStatsJSON) {
	rows := [][]string{{"objects", "needed", "size", "needed", "waste", ""}}
	for i := range u.Packs {
		x := &u.Packs[i]
		rows = append(rows, []string{readable.FormatCount(uint64(x.Objects)), readable.FormatCount(uint64(x.Needed)), o.sizeText(int64(x.Size)), o.sizeText(x.Stored), o.sizeText(x.Waste), x.Name.String()})
	}
	if len(rows) > 1 {
		printTable(env, rows)
		env.Printf("\n")
	}
	env.Printf("packs      %s in %s; %s in %s needed, %s wasted\n", o.sizeText(total.Bytes), readable.Plural(uint64(total.Packs), "pack", "packs"),
		o.sizeText(total.Needed), readable.Plural(uint64(total.Objects), "object", "objects"), o.sizeText(total.Wasted))
	env.Printf("indexes    %s in %s\n", o.sizeText(total.IndexBytes), readable.Plural(uint64(total.Indexes), "file", "files"))
	env.Printf("marked     %s in %s, for deletion\n", o.sizeText(total.MarkedBytes), readable.Plural(uint64(total.Marked), "file", "files"))
}
