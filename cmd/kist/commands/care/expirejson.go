package care

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/show"
	"github.com/kist-vcs/kist/gc/retain"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
)

// expireJSON is what expire prints with --json.
type expireJSON struct {
	DryRun  bool             `json:"dry_run" doc:"true with --dry-run"`
	Policy  string           `json:"policy" doc:"the policy; empty if commits were named"`
	Expired []consideredJSON `json:"expired" doc:"the commits that expired"`
	Kept    []consideredJSON `json:"kept" doc:"the commits that the policy keeps"`
	Already int              `json:"already" doc:"the number of commits that had expired before"`
}

// consideredJSON is a commit that a policy keeps or lets expire.
type consideredJSON struct {
	ID       object.ID `json:"id" doc:"the commit"`
	Time     time.Time `json:"time" doc:"when it was made"`
	Message  string    `json:"message" doc:"its message"`
	Branches []string  `json:"branches,omitempty" doc:"the branches that it is on"`
	Reasons  []string  `json:"reasons,omitempty" doc:"why it is kept"`
}

func newExpireJSON(result *retain.ExpireResult, o *expireOptions) expireJSON {
	list := func(commits []retain.Considered) []consideredJSON {
		out := []consideredJSON{}
		for _, c := range commits {
			out = append(out, consideredJSON{c.ID, c.Commit.Committer.When(), c.Commit.Message, c.Branches, c.Kept})
		}
		return out
	}
	return expireJSON{o.DryRun, o.Policy.String(), list(result.Expired), list(result.Kept), result.Already}
}

// unexpiredJSON is what expire --undo prints with --json.
type unexpiredJSON struct {
	Restored []object.ID `json:"restored" doc:"the commits whose content was brought back"`
}

// expirationJSON is a commit as expire --list prints it with --json.
type expirationJSON struct {
	ID      object.ID        `json:"id" doc:"the commit"`
	Time    *time.Time       `json:"time" doc:"when it was made; null: it is not here"`
	Message *string          `json:"message" doc:"its message; null: it is not here"`
	Expired show.ExpiredJSON `json:"expired" doc:"the record of the expiration"`
}

// expired is an expired commit.
type expired struct {
	record.Record
	commit *object.Commit // nil if it is missing
}

func (x *expired) timeText() object.Time {
	if x.commit == nil {
		return object.Time{Sec: math.MinInt64}
	}
	return x.commit.Committer.Time
}

// listExpired lists the expired commits, the newest first.
func listExpired(ctx context.Context, env *cli.Env, r *kist.Repository) error {
	records, err := retain.Expirations(r)
	if err != nil {
		return err
	}
	list := make([]expired, len(records))
	for i, rec := range records {
		c, err := object.ReadCommit(ctx, r.Objects(), rec.Key.ID)
		if err != nil && !errors.Is(err, object.ErrNotFound) {
			return err
		}
		list[i] = expired{rec, c}
	}
	slices.SortStableFunc(list, func(a, b expired) int {
		return b.timeText().Compare(a.timeText())
	})
	for _, x := range list {
		if env.Global.JSON {
			out := expirationJSON{ID: x.Key.ID, Expired: *show.NewExpiredJSON(x.Record)}
			if x.commit != nil {
				out.Time, out.Message = new(x.commit.Committer.When()), &x.commit.Message
			}
			env.JSON(out)
			continue
		}
		what := "                 (not here)"
		if x.commit != nil {
			what = x.commit.Committer.When().Format("2006-01-02 15:04") + " " + cli.Printable(cli.Subject(x.commit.Message))
		}
		env.Printf("%s %s (expired %s)\n", env.Paint(cli.Yellow, x.Key.ID.Short()), what, show.ExpiredText(x.Record))
	}
	return nil
}
