package care

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/gc/purge"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
)

// purgedJSON is a content that was purged as purge --list prints it with --json.
type purgedJSON struct {
	ID     object.ID `json:"id" doc:"the content"`
	Kind   string    `json:"kind" doc:"the kind of the object"`
	Time   time.Time `json:"time" doc:"when it was purged"`
	Who    string    `json:"who" doc:"who purged it"`
	Host   string    `json:"host" doc:"the machine where it was purged"`
	Reason string    `json:"reason" doc:"why"`
	Here   bool      `json:"here" doc:"true if the object is still here"`
}

func newPurgedJSON(rec record.Record, here bool) purgedJSON {
	return purgedJSON{rec.Key.ID, rec.Key.Kind.String(), rec.Time, rec.Who, rec.Host, rec.Reason, here}
}

// listPurged lists the purged contents.
func listPurged(ctx context.Context, env *cli.Env, r *kist.Repository) error {
	list, err := purge.All(r)
	if err != nil {
		return err
	}

	for _, rec := range list {
		here, err := r.Objects().Has(ctx, rec.Key)
		if err != nil {
			return err
		}
		if env.Global.JSON {
			env.JSON(newPurgedJSON(rec, here))
			continue
		}
		note := ""
		if here {
			note = ", still here"
		}
		env.Printf("%s %s purged on %s by %s%s\n", rec.Key.Kind, env.Paint(cli.Yellow, rec.Key.ID.Short()),
			rec.Time.In(env.Now().Location()).Format("2006-01-02 15:04"), cli.Printable(rec.Who), note)
		for line := range strings.SplitSeq(rec.Reason, "\n") {
			if line != "" {
				env.Printf("  %s\n", cli.Printable(line))
			}
		}
	}
	return nil
}

// undoPurge undoes the purge of contents.
func undoPurge(ctx context.Context, env *cli.Env, r *kist.Repository, ids []string) error {
	for _, id := range ids {
		rec, err := purge.Undo(ctx, r, id)
		switch {
		case errors.Is(err, object.ErrNotFound):
			return cli.Hintf(cli.Failf(cli.ExitFailed, "gone", "%s is gone, or a part of it: %w", cli.QuoteArg(id), err), "whoever still has the content can undo it there, and push")
		case errors.Is(err, purge.ErrNotPurged):
			return cli.Hintf(cli.Failf(cli.ExitFailed, "not-found", "%w", err), "'kist purge --list' lists the purged content")
		case err != nil:
			return err
		}
		env.PrintOrJSON(newPurgedJSON(rec, true), "%s %s is no longer purged\n", rec.Key.Kind, rec.Key.ID.Short())
	}
	return nil
}
