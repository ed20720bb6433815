package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/transfer"
)

// remoteVerifyJSON is what verify prints with --json and --remote.
type remoteVerifyJSON struct {
	Roots   int                 `json:"roots"`
	Indexes int                 `json:"indexes"`
	Packs   int                 `json:"packs"`
	Objects int64               `json:"objects"`
	Bytes   int64               `json:"bytes"`
	Errors  []remoteProblemJSON `json:"errors"`
}

// remoteProblemJSON is something that verify found to be wrong on a remote.
type remoteProblemJSON struct {
	Kind    string     `json:"kind"` // of object, or: blob
	ID      *object.ID `json:"id"`
	Blob    string     `json:"blob,omitempty"`
	Problem string     `json:"problem"`
}

func newRemoteProblemJSON(p transfer.Problem) remoteProblemJSON {
	out := remoteProblemJSON{Kind: "blob", Blob: p.Blob, Problem: remoteProblemText(p)}
	if !p.Key.IsZero() {
		out.Kind, out.ID = p.Key.Kind.String(), &p.Key.ID
	}
	return out
}

// remoteProblemText says what is wrong, without what is told beside it.
func remoteProblemText(p transfer.Problem) string {
	var corrupt *object.CorruptError
	if errors.As(p.Err, &corrupt) && corrupt.Key == p.Key {
		return corrupt.Where + ": " + corrupt.Err.Error()
	}
	return p.Err.Error()
}

// runVerifyRemote checks a remote.
func runVerifyRemote(ctx context.Context, env *Env, o verifyOptions) error {
	if o.readData != "" && o.readData != "100%" {
		return usagef("--read-data of a remote reads everything: it takes no share")
	}
	env.transfer = o.transferOptions
	r, err := env.open()
	if err != nil {
		return err
	}
	defer r.Close()
	name, err := env.remoteArg(r, o.remote)
	if err != nil {
		return err
	}
	opened, err := r.OpenRemote(ctx, name)
	if err != nil {
		return err
	}
	defer opened.Close()
	out := remoteVerifyJSON{Errors: []remoteProblemJSON{}}
	p := env.progress("verifying " + name)
	defer p.Stop()
	done, err := opened.Check(ctx, o.readData != "", func(problem transfer.Problem) {
		out.Errors = append(out.Errors, newRemoteProblemJSON(problem))
	})
	p.Stop()
	if err != nil {
		return err
	}
	out.Roots, out.Indexes, out.Packs, out.Objects, out.Bytes = done.Roots, done.Indexes, done.Packs, done.Objects, done.Bytes
	n := uint64(len(out.Errors))
	if env.global.json {
		if err := env.json(out); err != nil || n == 0 {
			return err
		}
		return quiet(exitDamaged)
	}
	for i, problem := range out.Errors {
		if i == shownProblems {
			env.printf("and %s more; --json tells all\n", formatCount(n-uint64(i)))
			break
		}
		what := problem.Blob
		if problem.ID != nil {
			what = problem.Kind + " " + problem.ID.String()
		}
		env.printf("%s: %s\n", env.paint(red, printable(what)), printable(problem.Problem))
	}
	if n == 0 {
		env.tell("whole: %s in %s, %s read; %s\n", plural(uint64(done.Objects), "object", "objects"),
			plural(uint64(done.Packs), "pack", "packs"), formatSize(uint64(done.Bytes)), plural(uint64(done.Roots), "root", "roots"))
		return nil
	}
	return &failure{
		err:   fmt.Errorf("%s damaged or missing on %s", plural(n, "thing is", "things are"), quoteArg(name)),
		exit:  exitDamaged,
		hints: []string{"whoever has the commits whole can push them to another, new remote; do not remove anything there"},
	}
}
