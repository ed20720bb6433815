package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/readable"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/exchange"
)

// receivedJSON is a record as fetch prints it with --json.
type receivedJSON struct {
	Record string    `json:"record" doc:"the sort of record" values:"hold|expire|purge"`
	Kind   string    `json:"kind" doc:"the kind of the object"`
	ID     object.ID `json:"id" doc:"the object"`
	On     bool      `json:"on" doc:"false if it revokes an earlier record"`
	Time   time.Time `json:"time" doc:"when it was made"`
	Who    string    `json:"who" doc:"who made it"`
	Host   string    `json:"host" doc:"the machine where it was made"`
	Reason string    `json:"reason" doc:"why"`
	Needed []string  `json:"needed" doc:"the names here that need the object"`
	Waits  bool      `json:"waits" doc:"true if it waits until it is accepted here"`
}

func NewReceivedJSON(list []exchange.ReceivedRecord) []receivedJSON {
	out := []receivedJSON{}
	for _, r := range list {
		out = append(out, receivedJSON{
			string(r.Kind), r.Key.Kind.String(), r.Key.ID, r.On, r.Time, r.Who, r.Host, r.Reason, append([]string{}, r.Needed...), r.Waits,
		})
	}
	return out
}

// The most records of others that fetch shows; --json has all.
const (
	shownReceived    = 20 // groups of records
	shownReceivedIDs = 3  // objects of a group
)

// PrintReceived prints the records of others: the action, by whom, why, and the
// local names that need the objects. Records that are equal except for their object
// are one group.
func PrintReceived(env *cli.Env, o exchange.FetchOptions, result *exchange.FetchResult) {
	type group struct {
		what, by string
		ids      []string
	}
	var groups []*group
	places := map[[2]string]*group{}
	waits := 0
	for _, r := range result.Received {
		what, by := receivedWhat(&r), receivedBy(&r)
		if r.Waits {
			waits++
		}
		g := places[[2]string{what, by}]
		if g == nil {
			g = &group{what: what, by: by}
			places[[2]string{what, by}] = g
			groups = append(groups, g)
		}
		g.ids = append(g.ids, r.Key.ID.Short())
	}
	cli.TellLines(env, cli.FirstOf(groups, shownReceived, "; --json shows all", func(g *group) string {
		ids := strings.Join(g.ids[:min(len(g.ids), shownReceivedIDs)], ", ")
		if more := len(g.ids) - shownReceivedIDs; more > 0 {
			ids += " " + cli.AndMore(uint64(more))
		}
		return g.what + " " + ids + cli.Printable(g.by)
	}))
	WarnImplausible(env, o.Remote, result)
	if waits > 0 && o.Waiting != exchange.Refuse {
		env.Warn("%s for you: they would remove content that is needed here", readable.Plural(uint64(waits), "record waits", "records wait"))
		env.Info("'kist fetch --records accept %s' accepts them; '--records refuse' revokes them, for everybody after your next push", cli.Printable(o.Remote))
	}
}

// WarnImplausible warns about records of a remote that have no effect.
func WarnImplausible(e *cli.Env, name string, result *exchange.FetchResult) {
	if n := len(result.Implausible); n > 0 {
		e.Warn("%s of %s without effect: no honest repository reaches generation %d (by %s)", readable.Plural(uint64(n), "record", "records"),
			cli.QuoteArg(name), result.Implausible[0].Generation, result.Implausible[0].Who)
	}
}

// receivedWhat describes the effect of a record on its object.
func receivedWhat(r *exchange.ReceivedRecord) string {
	text := map[record.Kind]string{record.Purge: "purged: " + r.Key.Kind.String(), record.Expire: "expired:", record.Hold: "held:"}[r.Kind]
	if !r.On {
		text = "no longer " + text
	}
	return text
}

// receivedBy returns who made a record, where and why, and the local names that need the
// object.
func receivedBy(r *exchange.ReceivedRecord) string {
	text := ", by " + r.Who
	if r.Who == "" {
		text = ", by somebody"
	}
	if r.Host != "" {
		text += " on " + r.Host
	}
	if r.Kind == record.Hold && !r.On && r.Was.Who != "" && r.Was.Who != r.Who {
		text += "; the hold was that of " + r.Was.Who
	}
	if r.Reason != "" {
		text += " (" + cli.Subject(r.Reason) + ")"
	}
	if len(r.Needed) > 0 {
		const most = 5
		needed := slices.Clone(r.Needed[:min(len(r.Needed), most)])
		if more := len(r.Needed) - most; more > 0 {
			needed = append(needed, fmt.Sprintf("%d more", more))
		}
		text += "; needed here: " + strings.Join(needed, ", ")
	}
	if r.Waits {
		text += "; waits"
	}
	return text
}

// ParseDecision parses the decision on waiting records.
func ParseDecision(text string) (d exchange.Decision, err error) {
	switch text {
	case "accept":
		return exchange.Accept, nil
	case "refuse":
		return exchange.Refuse, nil
	}
	return d, fmt.Errorf("%s is neither accept nor refuse", cli.QuoteArg(text))
}
