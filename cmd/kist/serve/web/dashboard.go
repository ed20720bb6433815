package web

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/gc/stats"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/disk"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/tree/look/compare"
)

// The limits of the dashboard.
const (
	maxAge       = 15 * time.Minute // of numbers, while the refs stay
	minAge       = 10 * time.Second // of numbers, while the refs change
	maxObjects   = 2_000_000        // whose growth is computed
	maxFolders   = 12               // that are shown
	maxBranches  = 12
	countingWait = 300 * time.Millisecond // a page waits for quick numbers
)

var maxCounting = 2 * time.Minute // for all numbers

// dashboard keeps the numbers about a repository. They are computed in the background, one
// after the other, when a page asks for them and the refs changed since.
type dashboard struct {
	start background
	repo  *kist.Repository
	now   func() time.Time

	mu      sync.Mutex
	numbers numbers       // the last ones that are complete, or the present ones
	state   object.ID     // the refs that they are about
	done    chan struct{} // closed at the end of the present computation; nil: there was none
}

// numbers are the results of a computation. A nil part is not known yet.
type numbers struct {
	When    time.Time
	Totals  *stats.Stats
	Growth  []stats.HistorySize
	Folders []stats.Space
	Freed   *int64
	Failed  map[string]string // why a part is not known: "totals", "growth", "folders" or "freed"
}

// presentNumbers returns the present numbers, and whether they are complete.
func (d *dashboard) presentNumbers(ctx context.Context) (numbers, bool, error) {
	state, err := refsState(d.repo)
	if err != nil {
		return numbers{}, false, err
	}
	d.mu.Lock()
	idle := d.done == nil || isClosed(d.done)
	age := d.now().Sub(d.numbers.When)
	if idle && (d.done == nil || age > maxAge || d.state != state && age > minAge) {
		done := make(chan struct{})
		d.done, d.state = done, state
		d.start(func(ctx context.Context) { d.computeNumbers(ctx, done) })
	}
	done := d.done
	d.mu.Unlock()

	select {
	case <-done:
	case <-time.After(countingWait):
	case <-ctx.Done():
		return numbers{}, false, ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.numbers, isClosed(done), nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// computeNumbers computes all numbers, and shows each when it is known, if there were none before.
func (d *dashboard) computeNumbers(ctx context.Context, done chan struct{}) {
	defer close(done)
	ctx, cancel := context.WithTimeout(ctx, maxCounting)
	defer cancel()
	n := numbers{When: d.now(), Failed: map[string]string{}}
	publish := func(last bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if last || d.numbers.Totals == nil {
			d.numbers = n
			d.numbers.Failed = cloned(n.Failed)
		}
	}

	var err error
	if n.Totals, err = stats.Totals(ctx, d.repo, stats.Options{}); err != nil {
		n.Totals, n.Failed["totals"] = nil, reason(err)
	}
	publish(false)
	if n.Folders, err = d.countFolders(ctx); err != nil {
		n.Failed["folders"] = reason(err)
	}
	publish(false)
	if n.Growth, err = stats.Growth(ctx, d.repo, maxObjects); err != nil {
		n.Failed["growth"] = reason(err)
	}
	publish(false)
	if n.Freed, err = d.freedByGC(ctx); err != nil {
		n.Failed["freed"] = reason(err)
	}
	publish(true)
}

func cloned(m map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// reason returns why a number is not known.
func reason(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "Counting took longer than two minutes. 'kist stats' has no limit."
	case errors.Is(err, stats.ErrTooLarge):
		return "The repository has too many objects for this plot."
	case errors.Is(err, kist.ErrUnborn):
		return "There is no commit yet."
	case errors.Is(err, disk.ErrBusy):
		return "Another process collects garbage now."
	case errors.Is(err, record.ErrDamaged):
		return "The records are damaged: 'kist verify' shows more."
	}
	return "The repository could not be read: 'kist verify' shows more."
}

// countFolders accounts for the folders at the top of HEAD's tree.
func (d *dashboard) countFolders(ctx context.Context) ([]stats.Space, error) {
	v, err := compare.OfHead(ctx, d.repo)
	if err != nil || v.Tree.IsZero() {
		return nil, err
	}
	var dirs []object.Entry
	for e, err := range object.Entries(ctx, v.Objects, v.Tree) {
		if err != nil {
			return nil, err
		}
		if e.Type == object.TypeDir {
			dirs = append(dirs, e)
		}
	}
	slices.SortStableFunc(dirs, func(a, b object.Entry) int { return cmp.Compare(b.Size, a.Size) })
	o := stats.Options{}
	for _, e := range dirs[:min(len(dirs), maxFolders)] {
		o.Paths = append(o.Paths, e.Name)
	}
	if len(o.Paths) == 0 {
		return []stats.Space{}, nil
	}
	s, err := stats.Totals(ctx, d.repo, o)
	if err != nil {
		return nil, err
	}
	return s.Spaces, nil
}

// freedByGC returns the number of bytes that gc would free now. Nothing is removed.
func (d *dashboard) freedByGC(ctx context.Context) (*int64, error) {
	plan, err := gc.PlanFor(ctx, d.repo, gc.PlanOptions{PruneOlder: gc.DefaultPruneOlder, MaxWaste: gc.DefaultMaxWaste, DryRun: true})
	if err != nil {
		return nil, err
	}
	defer plan.Close()
	st := plan.Stats()
	return new(max(0, st.Before-st.After)), nil
}

// remoteLine is a remote on the dashboard.
type remoteLine struct {
	registry.Remote
	Pushed time.Time // zero: not known
}

// listRemotes returns the remotes with their last pushes, which the logs of their branches have.
func (s *site) listRemotes() ([]remoteLine, error) {
	var list []remoteLine
	logs, err := s.Repo.Refs().Logs()
	if err != nil {
		return nil, err
	}
	for _, m := range registry.All(s.Repo) {
		line := remoteLine{Remote: m}
		for _, name := range logs {
			if !strings.HasPrefix(name, refs.Remotes+m.Name+"/") {
				continue
			}
			entries, _ := s.Repo.Refs().Log(name) // the readable ones
			for _, e := range entries {
				if e.Reason == pushReason && e.Time.After(line.Pushed) {
					line.Pushed = e.Time
				}
			}
		}
		list = append(list, line)
	}
	return list, nil
}

// pushReason is the reason of a push in the log of a remote's branch.
const pushReason = "update by push"

// dashboardPage is the content of the page with the numbers.
type dashboardPage struct {
	numbers
	Counting bool
	Saved    []bar
	Branches []bar
	Dirs     []bar
	Growth   *plot
	Remotes  []remoteLine
	OnDisk   int64
}

// hiddenNumbers stand for the numbers for a visitor who may not read everything. The numbers
// would reveal the sizes of hidden files.
var hiddenNumbers = func() numbers {
	n := numbers{Failed: map[string]string{}}
	for _, key := range []string{"totals", "growth", "folders", "freed"} {
		n.Failed[key] = "Only users who may read everything see this."
	}
	return n
}()

// showDashboard shows the numbers about the repository.
func (s *site) showDashboard(r *request) (page, error) {
	all, err := s.ReadsEverything(r.Context())
	if err != nil {
		return page{}, err
	}
	n, complete := hiddenNumbers, true
	if all {
		if n, complete, err = s.dashboard.presentNumbers(r.Context()); err != nil {
			return page{}, err
		}
	}
	out := dashboardPage{numbers: n, Counting: !complete}
	if out.Remotes, err = s.listRemotes(); err != nil {
		return page{}, err
	}
	if t := n.Totals; t != nil {
		for i := range t.Account.Volumes {
			out.OnDisk += t.Account.Volumes[i].Bytes
		}
		out.Saved = bars([]bar{
			{Label: "All versions, each stored on its own", Bytes: int64(t.History), Class: "c3"},
			{Label: "Each piece of data once", Bytes: t.Named.Raw, Class: "c1", Note: factor(int64(t.History), t.Named.Raw)},
			{Label: "Compressed", Bytes: t.Named.Stored, Class: "c0", Note: factor(t.Named.Raw, t.Named.Stored)},
		})
		out.Branches = spaceBars(t.Spaces)
	}
	out.Dirs = spaceBars(n.Folders)
	out.Growth = growthPlot(n.Growth)
	p := page{name: "dashboard", Title: "Dashboard", Nav: "dashboard", Data: out}
	if out.Counting {
		p.Refresh = 2
	}
	return p, nil
}

// spaceBars returns the bars for the stored and the own bytes of branches or folders, the
// largest first.
func spaceBars(spaces []stats.Space) []bar {
	var list []bar
	for _, s := range spaces {
		label, href := s.Name, ""
		switch s.Kind {
		case stats.SpaceBranch:
			label = strings.TrimPrefix(s.Name, refs.Heads)
			href = "/log?rev=" + queryEscape(s.Name)
		case stats.SpaceTag:
			label = "tag " + strings.TrimPrefix(s.Name, refs.Tags)
			href = "/log?rev=" + queryEscape(s.Name)
		case stats.SpaceRef:
			label = strings.TrimPrefix(s.Name, refs.Remotes)
			href = "/log?rev=" + queryEscape(s.Name)
		case stats.SpacePath:
			href = address("tree", s.Name, "")
		case stats.SpaceIndex:
			label, s.All = "staged, and in no commit", s.Own
		case stats.SpaceLogs:
			label, s.All = "only in the reflog", s.Own
		case stats.SpaceHold:
			label = "held commits"
		}
		if s.All.Stored > 0 {
			list = append(list, bar{Label: label, Href: href, Bytes: s.All.Stored, Own: s.Own.Stored, Shares: true, Class: "c0"})
		}
	}
	slices.SortStableFunc(list, func(a, b bar) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return bars(list[:min(len(list), maxBranches)])
}

// whyEmpty returns why a part of the dashboard is empty.
func (d *dashboardPage) whyEmpty(key, none string) string {
	switch reason := d.Failed[key]; {
	case reason != "":
		return reason
	case d.Counting:
		return "Counting…"
	}
	return none
}
