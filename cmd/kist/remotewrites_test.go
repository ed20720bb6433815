package main

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/s3"
)

// TestRemoteNothingNew pushes and fetches when there is nothing new, which
// leaves everything at the place alone.
func TestRemoteNothingNew(t *testing.T) {
	onEachStore(t, func(p *place) {
		s := p.begin()
		clone := p.clone()
		before := p.blobs()
		var times map[string]time.Time
		if strings.HasPrefix(p.url, "/") {
			times = changeTimes(p, p.url)
		}
		nothingNew(p, s, clone)
		p.wantBlobs(before)
		for name, at := range times {
			if now := changeTimes(p, p.url); len(now) != len(times) || !now[name].Equal(at) {
				p.Errorf("%q was changed: %v", name, now)
			}
		}
	})
}

// nothingNew runs commands that have nothing to write.
func nothingNew(p *place, s, clone *shell) {
	p.Helper()
	for _, s := range []*shell{s, clone} {
		for _, args := range [][]string{{"push"}, {"push", "--all", "--tags"}, {"push", "--force"}, {"fetch"}, {"pull"}, {"ls-remote"}, {"remote", "log"}} {
			s.kist(args...)
		}
		if sent := s.push(); sent.Sent != 0 || sent.Refs[0].Status != "up to date" {
			p.Errorf("%+v", sent)
		}
	}
}

// changeTimes returns when what is in a folder was last written to.
func changeTimes(t testing.TB, dir string) map[string]time.Time {
	t.Helper()
	times := map[string]time.Time{}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		info, serr := os.Lstat(path)
		if err == nil && serr == nil {
			times[path] = info.ModTime()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return times
}

// TestRemoteNothingNewRequests looks at the requests that are made then.
func TestRemoteNothingNewRequests(t *testing.T) {
	t.Parallel()
	fake := remotetest.NewFakeS3(t, 1)
	p := newPlace(t, s3.Open, fake.URL("remote"), fake.Getenv)
	s := p.begin()
	clone := p.clone()
	fake.Reset()
	nothingNew(p, s, clone)
	if all := fake.Count(); all == 0 || fake.Count("get", "head") != all {
		t.Errorf("of %d requests %d read", all, fake.Count("get", "head"))
	}
	fake.Reset()
	s.kist("push")
	if n := fake.Count(); n != 2 {
		t.Errorf("a push of nothing made %d requests, want 2: %v", n, fake.Requests())
	}
}

// TestRemoteLarge pushes a folder of 200 MiB, being killed time and again:
// what was sent is not sent again, but for what was under way. Then a push of
// one changed file sends what changed in it.
func TestRemoteLarge(t *testing.T) {
	t.Parallel()
	const files, size = 25, 8 << 20
	p := newPlaceInFolder(t)
	rng := rand.New(rand.NewPCG(8, 8))
	s := p.begin()
	for i := range files {
		s.write(map[string]string{fmt.Sprintf("media/%d", i): noise(rng, size)})
	}
	s.commit("large")

	const jobs, most = 2, 64 << 20 // bytes of a pack
	killed := 0
	for len(s.noted()) < 4 {
		n := len(s.noted())
		push := s.start("push", "--jobs", fmt.Sprint(jobs), "--limit-upload", "64MiB") // or it may be done before it can be killed
		for len(s.noted()) == n {
			if push.hasEnded() {
				t.Fatalf("the push was done before it could be killed: %v", push.outcome())
			}
			time.Sleep(time.Millisecond)
		}
		push.signal(syscall.SIGKILL)
		push.outcome()
		killed++
		if seq := p.head().Seq; seq != 1 {
			t.Fatalf("a push that was killed has moved the branch: root %d", seq)
		}
	}
	var kept int64 // bytes of the packs that were noted
	noted, there := s.noted(), p.list()
	for _, name := range noted {
		size, ok := there["packs/"+name[:2]+"/"+name]
		if !ok {
			t.Fatalf("pack %s was noted, and is not there", name)
		}
		kept += size
	}
	sent := s.push("--jobs", fmt.Sprint(jobs))
	var stored int64
	for name, size := range p.list() {
		if strings.HasPrefix(name, "packs/") {
			stored += size
		}
	}
	const all = files * size * 101 / 100
	if stored > all+int64(killed)*jobs*most || sent.Sent > all-kept {
		t.Errorf("%d bytes of packs were noted in %d kills, the last push sent %d, %d are stored", kept, killed, sent.Sent, stored)
	}
	t.Logf("killed %d times, %d MiB noted, %d MiB sent by the last push, %d MiB stored", killed, kept>>20, sent.Sent>>20, stored>>20)

	file, err := os.OpenFile(s.path("media/7"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte("changed"), size/2); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	s.commit("changed")
	if sent := s.push(); sent.Sent == 0 || sent.Sent >= 4<<20 {
		t.Errorf("%d bytes were sent for one changed file", sent.Sent)
	} else {
		t.Logf("%d KiB sent for one changed file", sent.Sent>>10)
	}
	clone := p.wantWhole()
	clone.wantFiles(clone.readFiles("."), s.readFiles("."))
}
