package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/volume"
	"github.com/kist-vcs/kist/refs"
)

// crossings is the number of times that left and right of storeBombs were merged into each other.
const crossings = 1100

// storeBombs makes branches on which a naive command would not end. The trees of
// bomb and twin stand for 2^60 paths, and differ only in times. The branches left
// and right were merged into each other many times.
func (s *shell) storeBombs() {
	s.Helper()
	s.storeBranches(func(_ context.Context, b *builder, main object.ID) map[string]object.ID {
		bomb, twin := b.bomb(0), b.bomb(5)
		left, right := b.crissCross(main, crossings)
		return map[string]object.ID{
			"bomb": b.commit(bomb.content, "bomb", bomb.files, bomb.size, main),
			"twin": b.commit(twin.content, "twin", twin.files, twin.size, main),
			"left": left, "right": right,
		}
	})
}

// bomb returns a folder of 2^60 files with one mtime. Its totals are right.
func (b *builder) bomb(seconds int64) rawEntry {
	a := rawFile("0", "")
	a.seconds = seconds
	for range 60 {
		c := a
		c.name = "1"
		a = b.dir("0", a, c)
	}
	return a
}

// crissCross returns the tips of two branches that were merged into each other many times.
func (b *builder) crissCross(main object.ID, times int) (left, right object.ID) {
	left, right = main, main
	for i := range times {
		parents := [2][]object.ID{{left, right}, {right, left}}
		if i == 0 {
			parents = [2][]object.ID{{main}, {main}}
		}
		l := b.tree(rawFile("left", fmt.Sprint(i+1)), rawFile("right", fmt.Sprint(i)))
		r := b.tree(rawFile("left", fmt.Sprint(i)), rawFile("right", fmt.Sprint(i+1)))
		size := uint64(len(fmt.Sprint(i, i+1)) - 1)
		left, right = b.commit(l, "left", 2, size, parents[0]...), b.commit(r, "right", 2, size, parents[1]...)
	}
	return left, right
}

// hostileBranches adds a commit to main and to topic. Its tree stands for 2^60 paths.
func hostileBranches(v *victim, _ securityCommand) *shell {
	v.open(func(ctx context.Context, r *kist.Repository) error {
		b := &builder{v.TB, r.Objects().Begin(volume.SessionOptions{})}
		defer b.session.Close()
		bomb := b.bomb(0)
		var changes []refs.Change
		for _, name := range []string{"main", "topic"} {
			old, _, err := r.ReadCommit(ctx, name)
			if err != nil {
				return err
			}
			id := b.commit(bomb.content, "bomb", bomb.files, bomb.size, old)
			changes = append(changes, refs.Change{Name: refs.Heads + name, Old: old, New: id, Reason: "hostile"})
		}
		return b.session.Publish(ctx, func(ctx context.Context) error {
			return r.Refs().Update(ctx, changes, refs.Who{Name: "Mallory"})
		})
	})
	return nil
}

// TestHostileBombs checks that commands on endless trees and histories end with a
// result, or with an error that names the reason, and use little memory.
func TestHostileBombs(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"kept": "a file of the worktree"})
	s.kist("add", ".")
	s.kist("commit", "-m", "main")
	s.kist("remote", "add", "origin", "../remote")
	s.storeBombs()
	const paths, bases = "far more paths", "too often"
	for _, tt := range []struct {
		args   string
		reason string // a part of the error; empty: the command succeeds
	}{
		{"ls bomb", ""}, {"log -1 bomb", ""}, {"log bomb -- 0", ""}, {"stats bomb", ""}, {"stats -- kept", ""}, {"cat main:kept", ""},
		{"ls -r bomb", paths}, {"du bomb", paths}, {"log -1 --stat bomb", paths}, {"show bomb", paths}, {"diff bomb twin", paths},
		{"diff --stat main bomb", paths}, {"stats --json bomb main", ""}, {"gc -n", ""}, {"verify", ""}, {"push origin bomb twin left right", ""},
		{"checkout bomb", paths}, {"checkout --force bomb", paths}, {"restore --source bomb .", paths}, {"restore --staged --source bomb .", paths},
		{"restore --source bomb --to ../out .", paths}, {"merge bomb", paths}, {"merge --no-ff bomb", paths},
		{"reset bomb", paths}, {"reset --hard bomb", paths},
		{"clone --branch bomb ../remote ../cloned", paths},

		{"log --graph -n 3 left", ""}, {"log left..right", ""}, {"history left", ""}, {"history kept", ""}, {"refs-of main:kept", ""}, {"branch --contains main", ""}, {"branch -v", ""},
		{"shortlog left", ""}, {"describe --always left", ""}, {"merge-base --all left right", ""}, {"rev-parse left^@ right^{tree}", ""}, {"bisect start right main", ""}, {"bisect reset", ""},
		{"log -S x -1 bomb", paths}, {"grep -q x bomb", paths}, {"blame bomb -- " + strings.Repeat("0/", 59) + "0", paths}, {"cherry-pick bomb", paths}, {"stash", ""},
		{"checkout left", ""}, {"merge right", bases}, {"diff left...right", ""}, {"checkout main", ""},

		// HEAD has a bomb, as after a fetch into its branch.
		{"reset --soft bomb", ""}, {"history kept", ""}, {"history --deleted", ""}, {"status", paths}, {"diff --staged", paths}, {"diff", ""}, {"reset", paths}, {"restore --staged .", paths},
		{"revert --no-edit HEAD", paths}, {"merge twin", paths}, {"rewrite --yes --all-history 0/0/0", paths},
		{"checkout --force left", ""}, {"reset --hard twin", paths}, {"status", ""},
	} {
		o := s.runProcess(strings.Fields(tt.args)...)
		switch {
		case tt.reason == "" && o.status != 0:
			t.Errorf("want exit status 0: %v", o)
		case tt.reason != "" && (o.status != 1 || !strings.Contains(o.stderr, tt.reason)):
			t.Errorf("want exit status 1 and %q: %v", tt.reason, o)
		case o.memory > hostileMemory && !raceDetector:
			t.Errorf("used %d bytes of memory, want at most %d: %v", o.memory, hostileMemory, o)
		}
	}
	s.serveBombs()
	if names, err := os.ReadDir(s.dir); err != nil || len(names) != 3 {
		t.Errorf("the worktree has %v, %v, want .kist, left and right", names, err)
	}
}

// serveBombs checks that the server answers all requests for the bombs with little memory.
func (s *shell) serveBombs() {
	s.Helper()
	p := s.serve("--listen", "127.0.0.1:0")
	for path, want := range map[string]int{ // 0: the body breaks off
		"files/?rev=bomb": 200, "files/0/0/0/?rev=bomb": 200, "files/?rev=bomb&archive=tar": 0, "api/v1/tree/0?rev=bomb": 200, "api/v1/log?rev=left": 200,
		"api/v1/search?rev=bomb&q=x": 422, "api/v1/search?rev=bomb&q=x&in=text": 422, "api/v1/diff?from=left&to=bomb&limit=10000&skip=100000000": 422,
		"api/v1/stats": 200, "api/v1/history/kept?rev=main": 200, "metrics": 200, "dav/branches/bomb/0/0/": 200,
		"PROPFIND dav/branches/bomb/0/": 403, // all of 2^60 paths
	} {
		method, rest, ok := strings.Cut(path, " ")
		if !ok {
			method, rest = http.MethodGet, path
		}
		req, err := http.NewRequest(method, p.url+rest, nil)
		if err != nil {
			s.Fatal(err)
		}

		res, err := http.DefaultClient.Do(req)
		if err != nil {
			s.Errorf("%s: %v", path, err)
			continue
		}

		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode != want && want != 0 || (err == nil) != (want != 0) {
			s.Errorf("%s: status %s, error %v, want %d", path, res.Status, err, want)
		}
	}

	p.Process.Signal(os.Interrupt)
	if err := p.Wait(); err != nil {
		s.Errorf("serve ends with %v: %s", err, p.stderr)
	}
	if memory := readPeak(p.Cmd); memory > hostileMemory && !raceDetector {
		s.Errorf("serve used %d bytes of memory, want at most %d", memory, hostileMemory)
	}
}
