package refs

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// commits is a store of refs and of the commits they name.
type commits struct {
	*Store
	objects *objecttest.Memory
	t       testing.TB
	name    map[object.ID]string
	id      map[string]object.ID
}

func newHistory(t testing.TB) *commits {
	return &commits{newStore(t), objecttest.NewMemory(), t, map[object.ID]string{}, map[string]object.ID{}}
}

func (h *commits) put(name string, kind object.Kind, encode func() ([]byte, error)) object.ID {
	h.t.Helper()
	data, err := encode()
	if err != nil {
		h.t.Fatal(err)
	}
	id, err := h.objects.Put(ctx, kind, data)
	if err != nil {
		h.t.Fatal(err)
	}
	h.name[id], h.id[name] = name, id
	return id
}

func (h *commits) commit(name string, parents ...string) object.ID {
	h.t.Helper()
	return h.commitAt(time.Time{}, name, parents...)
}

// commitAt makes a commit with this time.
func (h *commits) commitAt(when time.Time, name string, parents ...string) object.ID {
	h.t.Helper()
	tree, _ := object.EmptyTree()
	who := object.Stamp{Name: "a", Email: "a@b", Time: object.TimeOf(when)}
	c := &object.Commit{Tree: tree, Author: who, Committer: who, Message: name}
	for _, p := range parents {
		c.Parents = append(c.Parents, h.id[p])
	}
	return h.put(name, object.KindCommit, c.Encode)
}

func (h *commits) tag(name, target string) object.ID {
	h.t.Helper()
	tag := &object.Tag{Target: h.id[target], Name: name, Tagger: object.Stamp{Name: "a", Email: "a@b"}, Message: name}
	return h.put(name, object.KindTag, tag.Encode)
}

// sample makes this history, with times 12:01, 12:02, … on 2026-01-31:
//
//	a - b - d - e    main: a, b, d, e; side: c; HEAD: main, side, main
//	  \- c -/
func sample(t testing.TB) *commits {
	h := newHistory(t)
	h.commit("a")
	h.commit("b", "a")
	h.commit("c", "a")
	h.commit("d", "b", "c")
	h.commit("e", "d")
	h.set(t, Heads+"main", h.id["a"])
	h.set(t, Heads+"main", h.id["b"])
	h.set(t, Heads+"side", h.id["c"])
	h.checkout(t, Head{Branch: "side"})
	h.checkout(t, Head{ID: h.id["d"]})
	h.checkout(t, Head{Branch: "main"})
	h.set(t, Heads+"main", h.id["d"])
	h.set(t, Heads+"main", h.id["e"])
	h.set(t, Tags+"v1", h.tag("tag", "b"))
	h.set(t, Tags+"light", h.id["c"])
	h.set(t, Remotes+"origin/main", h.id["d"])
	h.set(t, Remotes+"origin/dev", h.id["c"])
	if err := h.SetRemoteHead(ctx, Remotes+"origin/HEAD", Remotes+"origin/dev"); err != nil {
		t.Fatal(err)
	}
	if err := h.SetSpecial(ctx, MergeHead, h.id["a"]); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *commits) checkout(t testing.TB, to Head) {
	t.Helper()
	from, err := h.Head()
	if err == nil {
		err = h.SetHead(ctx, to, ann, CheckoutReason(from, to))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestResolve(t *testing.T) {
	h := sample(t)
	h.Upstream = func(branch string) (string, error) {
		return Remotes + "origin/" + map[string]string{"main": "main", "side": "dev"}[branch], nil
	}

	h.set(t, Tags+"both", h.id["a"])
	h.set(t, Heads+"both", h.id["b"])
	h.set(t, Remotes+"both/HEAD", h.id["c"])
	h.set(t, "refs/main/main", h.id["c"])
	h.set(t, Heads+"MERGE_HEAD", h.id["c"])
	h.set(t, Heads+"HEAD", h.id["c"])
	hex := h.id["b"].String()
	short := hex[:8]
	h.set(t, Heads+hex[:6], h.id["c"])
	h.set(t, Heads+hex, h.id["c"])

	for rev, want := range map[string]string{
		"HEAD": "e", "@": "e", "main": "e", "heads/main": "e", "refs/heads/main": "e", "side": "c",
		"main/main": "c", "MERGE_HEAD": "a", "heads/MERGE_HEAD": "c", "heads/HEAD": "c",
		"v1": "b", "tags/v1": "b", "v1^{}": "b", "v1^{commit}": "b", "v1~1": "a", "light": "c",
		"origin/main": "d", "origin": "c", "origin/HEAD": "c", "remotes/origin/main": "d",
		"both": "a", "heads/both": "b", "remotes/both/HEAD": "c", "both/HEAD": "c",
		short: "b", strings.ToUpper(short): "b", hex: "b", strings.ToUpper(hex): "b", hex[:63]: "b", hex[:6]: "c",
		h.id["tag"].String(): "b", h.id["tag"].String()[:8]: "b",
		"HEAD~": "d", "HEAD^": "d", "HEAD~1": "d", "HEAD~0": "e", "HEAD^0": "e", "HEAD~2": "b", "HEAD~3": "a",
		"HEAD^^": "b", "HEAD^^1": "b", "HEAD^^2": "c", "HEAD~1^2": "c", "HEAD~^2~": "a", "HEAD^^{commit}^2^{}": "c",
		"@~3": "a", "@^": "d", hex + "~": "a", "main~03": "a",
		"main@{0}": "e", "main@{1}": "d", "main@{2}": "b", "main@{3}": "a", "@{1}": "d", "@{0}": "e", "@{3}": "a", "main@{1}^2": "c",
		"HEAD@{0}": "e", "HEAD@{1}": "d", "HEAD@{2}": "b", "HEAD@{3}": "d", "HEAD@{4}": "c", "@{0}~1": "d", "side@{0}": "c",
		"origin/main@{0}": "d", "heads/main@{1}": "d",
		"main@{2026-01-31 12:01:30}": "a", "main@{2026-01-31 12:02}": "b", "main@{2026-01-31T12:05:30+01:00}": "b",
		"main@{now}": "e", "main@{1 second ago}": "e", "@{2026-01-31 12:07:30}": "d", "HEAD@{2026-01-31 12:05:00}": "d",
		"main@{1769857290}": "a", "main@{2026-01-31 12:07}~1": "b",
		"main@{u}": "d", "@{u}": "d", "@{Upstream}": "d", "@{push}": "d", "HEAD@{u}": "d", "@@{u}": "d", "side@{u}": "c", "heads/main@{u}^2": "c", "main@{u}~1": "b",
		":/e": "e", ":/^c$": "c", "HEAD^{/b}": "b", "v1^{/a}": "a", "HEAD^{/d}^2": "c", "main^{/b|nothing}~1": "a", "@{u}^{/a}": "a",
		"@{-1}": "d", "@{-2}": "c", "@{-3}": "e", "@{-2}~1": "a", "@{-3}@{1}": "d", "@{-3}@{u}": "d", "@{-3}@{1}^2": "c",
		"main...side": "c", "side...": "c", "...main~1": "d", "HEAD^^...side": "a",
	} {
		got, err := h.Resolve(ctx, h.objects, rev)
		if err != nil || h.name[got] != want {
			t.Errorf("%q: %q, %v, want %q", rev, h.name[got], err, want)
		}
	}

	h.checkout(t, Head{ID: h.id["b"]})
	for rev, want := range map[string]string{"HEAD": "b", "@{0}": "b", "@{1}": "e", "@{-1}": "e"} {
		got, err := h.Resolve(ctx, h.objects, rev)
		if err != nil || h.name[got] != want {
			t.Errorf("detached, %q: %q, %v, want %q", rev, h.name[got], err, want)
		}
	}
}

func TestResolveUnknown(t *testing.T) {
	h := sample(t)
	tree, data := object.EmptyTree()
	h.objects.Put(ctx, object.KindTree, data)

	for rev, reason := range map[string]string{
		"": "without a name", "~1": "without a name", "^": "without a name", "none": "", "heads": "", "abc": "", "refs/heads/none": "",
		"Main": "", "main/x": "", "..": "", "main..side": "", "HEAD:x": "", "dead": "", "../HEAD": "", "config": "", "index": "", "\x00": "",
		strings.Repeat("0", 64): "no commit of this ID", tree.String(): "no commit of this ID", tree.String()[:10]: "",
		"HEAD~4": "goes past the first commit", "HEAD^2": "only 1 of 2 parents", "HEAD~1^3": "only 2 of 3 parents", "a^": "",
		"HEAD~99999999999999999999": "out of range", "HEAD^2147483648": "out of range",
		"HEAD^{tree}": "a tree is no commit", "HEAD^{tree}^": "not understood", "HEAD^{": "not understood", "HEAD^{/x}": "no commit has such a message", "HEAD^{/}": "no text", "HEAD^{/!-x}": "no text", "HEAD^{/(}": "missing closing", ":/": "no text", ":/nowhere": "no commit has such a message", "HEAD~{1}": "not understood",
		"HEAD~-1": "not understood", "HEAD^x": "not understood", "HEAD@{1}x": "not understood", "HEAD~1@{1}": "not understood", "@{1}@{1}": "not understood",
		"@{": "no }", "main@{1": "no }", "main@{}": "nothing in", "main@{5}": "only 4", "main@{4}": "did not exist", "side@{1}": "did not exist",
		"HEAD@{99}": "only", "main@{soon}": "not a time", "v1@{u}": "needs a branch", "none@{u}": "needs a branch", "main@{u}": "needs a branch", "@{u}@{1}": "not understood", "main@{-1}": "before @{-n}", "@{-3}@{99}": "only 4", "@{-3}@{-1}": "not understood",
		"main...none": "", "main...side...main": "a range of ranges", "main^{tree}...side": "a tree is no commit",
		"none@{1}": "", "v1@{1}": "has only 0", "@{-9}": "not so many", "@{-0}": "out of range", "@{99999999}": "only 4",
		"MERGE_HEAD@{1}": "has only 0",
		"ORIG_HEAD":      "", "main@{-x}": "not a time", strings.Repeat("^", 5000): "longer than",
		h.id["a"].String() + "@{1}": "",
	} {
		got, err := h.Resolve(ctx, h.objects, rev)
		var unknown *UnknownRevisionError
		if !errors.As(err, &unknown) || !errors.Is(err, ErrNotFound) || !got.IsZero() || !strings.Contains(unknown.Reason, reason) || (reason == "") != (unknown.Reason == "") {
			t.Errorf("%.80q: %q, %v, want %q", rev, h.name[got], err, reason)
		}
	}

	h.checkout(t, Head{Branch: "unborn"})
	for _, rev := range []string{"HEAD", "@", "@~1", "@{0}"} {
		var unknown *UnknownRevisionError
		if got, err := h.Resolve(ctx, h.objects, rev); !errors.As(err, &unknown) || unknown.Reason == "" {
			t.Errorf("unborn, %q: %v, %v", rev, got, err)
		}
	}

	if err := h.Update(ctx, []Change{{Name: Heads + "side", Old: h.id["c"]}}, ann); err != nil {
		t.Fatal(err)
	}
	h.set(t, Tags+"side", h.id["a"])
	if got, err := h.Resolve(ctx, h.objects, "@{-3}"); !errors.Is(err, ErrNotFound) {
		t.Errorf("checkout of a deleted branch: %v, %v, want ErrNotFound", got, err)
	}
}

func TestResolveAmbiguous(t *testing.T) {
	h := newHistory(t)
	first := map[string]string{}
	for i := 0; ; i++ {
		id := h.commit(fmt.Sprint(i)).String()
		if i%2 == 1 {
			id = h.tag(fmt.Sprint("t", i), fmt.Sprint(i)).String()
		}
		other, ok := first[id[:4]]
		if !ok {
			first[id[:4]] = id
			continue
		}

		common := 4
		for other[common] == id[common] {
			common++
		}
		_, err := h.Resolve(ctx, h.objects, id[:4]+"~1")
		var ambiguous *AmbiguousError
		if !errors.As(err, &ambiguous) || ambiguous.Rev != id[:4] || len(ambiguous.Candidates) < 2 {
			t.Fatalf("%s: %v", id[:4], err)
		}

		for _, want := range []string{id, other} {
			if !slices.ContainsFunc(ambiguous.Candidates, func(k object.Key) bool { return k.ID.String() == want }) {
				t.Errorf("error %q does not list %s", err, want)
			}
			got, err := h.Resolve(ctx, h.objects, want[:max(common+1, 12)])
			if err != nil || got.String() != want && h.name[got] != h.name[h.id[strings.TrimPrefix(h.name[mustID(t, want)], "t")]] {
				t.Errorf("%s: %v, %v", want, got, err)
			}
		}
		return
	}
}

func mustID(t *testing.T, text string) object.ID {
	t.Helper()
	id, err := object.ParseID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Resolve reports a damaged or missing object as such, not as an unknown revision.
func TestResolveDamage(t *testing.T) {
	h := sample(t)
	h.objects.Delete(object.Key{Kind: object.KindCommit, ID: h.id["d"]})
	h.objects.Damage(object.Key{Kind: object.KindCommit, ID: h.id["b"]})
	h.spoil(t, "refs/heads/bad", "x\n")
	for rev, want := range map[string]error{
		"HEAD~1": object.ErrNotFound, "HEAD~2": object.ErrNotFound, "origin/main": object.ErrNotFound,
		"v1": object.ErrCorrupt, h.id["b"].String(): object.ErrCorrupt, "bad": object.ErrCorrupt, "bad@{1}": object.ErrCorrupt,
	} {
		got, err := h.Resolve(ctx, h.objects, rev)
		var unknown *UnknownRevisionError
		if !errors.Is(err, want) || errors.As(err, &unknown) || !got.IsZero() {
			t.Errorf("%s: %v, %v, want %v", rev, got, err, want)
		}
	}
	h.spoil(t, "logs/refs/heads/main", "x\n"+h.mustRead(t, "logs/refs/heads/main"))
	h.spoil(t, "logs/HEAD", "x\n"+h.mustRead(t, "logs/HEAD"))
	for _, rev := range []string{"main@{1}", "main@{now}", "@{-1}"} {
		if got, err := h.Resolve(ctx, h.objects, rev); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%s: %v, %v", rev, got, err)
		}
	}
	h.spoil(t, "HEAD", "x\n")
	for _, rev := range []string{"HEAD", "@{0}", "@{yesterday}"} {
		if got, err := h.Resolve(ctx, h.objects, rev); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("%s: %v, %v", rev, got, err)
		}
	}
}

func TestExpand(t *testing.T) {
	h := sample(t)
	h.Upstream = func(branch string) (string, error) { return Remotes + "origin/" + branch, nil }
	h.set(t, Tags+"main", h.id["a"])
	for rev, want := range map[string]string{
		"main": "refs/tags/main", "heads/main": "refs/heads/main", "side": "refs/heads/side", "origin": "refs/remotes/origin/HEAD",
		"origin/main": "refs/remotes/origin/main", "HEAD": "HEAD", "@": "HEAD", "MERGE_HEAD": "MERGE_HEAD", "@{-2}": "refs/heads/side",
		"@{u}": "refs/remotes/origin/main", "main@{push}": "refs/remotes/origin/main", "@{u}~1": "",
		"@{-1}": "", "main~1": "", "main@{1}": "", "@{0}": "", "none": "", "": "", h.id["a"].String(): "", "main^{}": "", "main^0": "",
	} {
		got, err := h.Expand(ctx, rev)
		if got != want || (want == "") != errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %q, %v, want %q", rev, got, err, want)
		}
	}
	got, err := h.Candidates("main")
	if err != nil || strings.Join(got, " ") != "refs/tags/main refs/heads/main" {
		t.Error(got, err)
	}
	if branch, ok := BranchOf("refs/heads/a/b"); branch != "a/b" || !ok {
		t.Error(branch, ok)
	}
	if _, ok := BranchOf("refs/tags/a"); ok {
		t.Error("BranchOf takes a tag for a branch")
	}
}

func TestSplit(t *testing.T) {
	for text, want := range map[string][3]string{
		"HEAD:a/b": {"HEAD", "a/b", "true"}, "HEAD": {"HEAD", "", "false"}, "HEAD:": {"HEAD", "", "true"}, ":a": {"", "a", "true"}, "": {"", "", "false"},
		"main@{2026-01-31 15:04}:a:b": {"main@{2026-01-31 15:04}", "a:b", "true"}, "main@{15:04": {"main@{15:04", "", "false"},
		"v1^{commit}:x@{y:z}": {"v1^{commit}", "x@{y:z}", "true"}, "a{b:c}": {"a{b", "c}", "true"},
	} {
		rev, path, has := SplitPath(text)
		if got := [3]string{rev, path, fmt.Sprint(has)}; got != want {
			t.Errorf("SplitPath(%q) = %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string][4]string{
		"a..b": {"a", "b", "false", "true"}, "a...b": {"a", "b", "true", "true"}, "..b": {"HEAD", "b", "false", "true"}, "a..": {"a", "HEAD", "false", "true"},
		"...": {"HEAD", "HEAD", "true", "true"}, "a": {"", "", "false", "false"}, "a@{x..y}": {"", "", "false", "false"}, "a@{1}~2..b^": {"a@{1}~2", "b^", "false", "true"},
	} {
		from, to, symmetric, ok := SplitRange(text)
		if got := [4]string{from, to, fmt.Sprint(symmetric), fmt.Sprint(ok)}; got != want {
			t.Errorf("SplitRange(%q) = %q, want %q", text, got, want)
		}
	}
}

func FuzzResolve(f *testing.F) {
	h := sample(f)
	for _, rev := range []string{"HEAD~1^2", "main@{1}", "@{-1}~2", "v1^{commit}", "origin", h.id["a"].String()[:6], "@{yesterday}", "main@{2026-01-31 12:02}~",
		"refs/heads/../../HEAD", "HEAD~1000000000", "a..b", "@{-1}@{1}", "MERGE_HEAD^0"} {
		f.Add(rev)
	}

	f.Fuzz(func(t *testing.T, rev string) {
		rev1, path, has := SplitPath(rev)
		if joined := rev1 + ":" + path; has && joined != rev || !has && rev1 != rev {
			t.Errorf("%q split into %q and %q", rev, rev1, path)
		}

		got, err := h.Resolve(ctx, h.objects, rev)
		var unknown *UnknownRevisionError
		var ambiguous *AmbiguousError
		switch {
		case err == nil:
			if _, err := object.ReadCommit(ctx, h.objects, got); err != nil {
				t.Errorf("%q resolves to %v, which is no commit: %v", rev, got, err)
			}
			if same, err := h.Resolve(ctx, h.objects, rev+"~0^0^{}"); same != got || err != nil {
				t.Errorf("%q resolves to %v, with ~0^0^{} to %v, %v", rev, got, same, err)
			}
		case !errors.As(err, &unknown) && !errors.As(err, &ambiguous):
			t.Errorf("%q: unexpected error %v", rev, err)
		}

		if full, err := h.Expand(ctx, rev); err == nil && full != "HEAD" && !isSpecial(full) && CheckName(full) != nil {
			t.Errorf("%q is expanded to %q", rev, full)
		}
	})
}

// "@{date}" is in the time zone of the clock.
func TestResolveZone(t *testing.T) {
	h := sample(t)
	h.now = func() time.Time { return time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC) }
	if got, err := h.Resolve(ctx, h.objects, "main@{2026-01-31 11:01:30}"); err != nil || h.name[got] != "a" {
		t.Error(h.name[got], err)
	}
}

// For a time before the log begins, Resolve uses the dates of commits along first parents: a
// clone has hardly any log.
func TestResolveByDate(t *testing.T) {
	h := newHistory(t)
	day := func(n int) time.Time { return time.Date(2026, 1, n, 12, 0, 0, 0, time.UTC) }
	h.commitAt(day(1), "a")
	h.commitAt(day(2), "b", "a")
	h.commitAt(day(2), "side", "a")
	h.commitAt(day(3), "c", "b", "side")
	h.commitAt(day(5), "d", "c")
	h.set(t, Heads+"main", h.id["d"]) // the log begins on the 31st
	h.set(t, Tags+"v1", h.tag("tag", "c"))
	var byDate []string
	h.ByDate = func(rev string) { byDate = append(byDate, rev) }

	for rev, want := range map[string]string{
		"main@{2026-01-04}": "c", "main@{2026-01-03}": "b", "main@{2026-01-01 13:00}": "a",
		"main@{2026-01-10}": "d", "v1@{2026-01-10}": "c", "v1@{2026-01-02 11:00}": "a", "main@{2026-01-04}~1": "b",
	} {
		byDate = nil
		if got, err := h.Resolve(ctx, h.objects, rev); err != nil || h.name[got] != want {
			t.Errorf("%s: %s, %v, want %s", rev, h.name[got], err, want)
		}
		if len(byDate) != 1 || byDate[0] != rev {
			t.Errorf("%s: reported %q", rev, byDate)
		}
	}

	byDate = nil
	var unknown *UnknownRevisionError
	if got, err := h.Resolve(ctx, h.objects, "main@{2025-12-31}"); !errors.As(err, &unknown) || !strings.Contains(unknown.Reason, "first commit is of 2026-01-01") {
		t.Errorf("before the first commit: %s, %v", h.name[got], err)
	}
	if got, err := h.Resolve(ctx, h.objects, "main@{now}"); err != nil || h.name[got] != "d" || byDate != nil {
		t.Errorf("within the log: %s, %v, reported %q", h.name[got], err, byDate)
	}
}

// Strangers name branches, tags and IDs. Everything that reads messages, logs, or other refs is
// unknown to them.
func TestResolveName(t *testing.T) {
	h := sample(t)
	h.Upstream = func(string) (string, error) { return Remotes + "origin/main", nil }
	h.set(t, "refs/main/main", h.id["c"])
	h.set(t, Stash, h.id["c"])
	id := h.id["b"].String()
	for _, rev := range []string{"HEAD", "@", "main", "heads/main", Heads + "main", "v1", "light", "origin/main", "origin", id, strings.ToUpper(id), id[:8], "v1-4-g" + id[:8]} {
		got, err := ResolveName(ctx, h.Store, h.objects, rev)
		want, wantErr := h.Resolve(ctx, h.objects, rev)
		if err != nil || wantErr != nil || got != want {
			t.Errorf("%q: %v, %v, want %v, %v", rev, got, err, want, wantErr)
		}
	}
	for _, rev := range []string{
		":/e", "HEAD^{/b}", "main~1", "main^", "v1^{}", "main@{1}", "main@{yesterday}", "@{-1}", "main@{u}", "HEAD^{tree}",
		"stash", Stash, "MERGE_HEAD", "main/main", "refs/main/main", "none", "", "a..b", "main...light", strings.Repeat("x", 5000),
	} {
		var unknown *UnknownRevisionError
		if got, err := ResolveName(ctx, h.Store, h.objects, rev); !errors.As(err, &unknown) || !got.IsZero() {
			t.Errorf("%.80q: %v, %v, want an unknown revision", rev, got, err)
		}
	}
}

// The search of a long message ends with its context.
func TestMatchUntil(t *testing.T) {
	message := strings.Repeat("a", 2*longMessage) + "b"
	search := regexp.MustCompile("a*b")
	if !matchUntil(ctx, search, message) || !matchUntil(ctx, search, "ab") || matchUntil(ctx, search, message[:longMessage]) {
		t.Error("a search in a message is wrong")
	}
	ended, stop := context.WithCancel(ctx)
	stop()
	if matchUntil(ended, search, message) {
		t.Error("a search goes on after the end of its context")
	}
}
