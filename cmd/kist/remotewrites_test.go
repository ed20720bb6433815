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

// TestRemoteNothingNew checks that pushes and fetches write nothing to the remote if
// nothing is new.
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
				p.Errorf("%q was changed, the times are now %v", name, now)
			}
		}
	})
}

// nothingNew runs commands that have nothing to write to the remote.
func nothingNew(p *place, s, clone *shell) {
	p.Helper()
	for _, s := range []*shell{s, clone} {
		for _, args := range [][]string{{"push"}, {"push", "--all", "--tags"}, {"push", "--force"}, {"fetch"}, {"pull"}, {"ls-remote"}, {"remote", "log"}} {
			s.kist(args...)
		}
		if sent := s.push(); sent.Sent != 0 || sent.Refs[0].Status != "up to date" {
			p.Errorf("push without changes: %+v, want nothing sent", sent)
		}
	}
}

// changeTimes returns the modification times of a folder and the paths below it.
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

// TestRemoteNothingNewRequests checks that such commands only make requests that read.
func TestRemoteNothingNewRequests(t *testing.T) {
	t.Parallel()
	fake := remotetest.NewFakeS3(t, 1)
	p := newPlace(t, s3.Open, fake.URL("remote"), fake.Getenv)
	s := p.begin()
	clone := p.clone()
	fake.Reset()
	nothingNew(p, s, clone)
	if all := fake.Count(); all == 0 || fake.Count("get", "head") != all {
		t.Errorf("%d of %d requests read, want all", fake.Count("get", "head"), all)
	}
	fake.Reset()
	s.kist("push")
	if n := fake.Count(); n != 2 {
		t.Errorf("a push without changes made %d requests, want 2: %v", n, fake.Requests())
	}
}

// TestRemoteLarge kills pushes of 200 MiB repeatedly. Retries do not resend noted
// packs. A push of one changed file then sends only the changed part.
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
		push := s.start("push", "--jobs", fmt.Sprint(jobs), "--limit-upload", "64MiB") // slow enough to be killed in time
		for len(s.noted()) == n {
			if push.hasEnded() {
				t.Fatalf("the push ended before the kill: %v", push.outcome())
			}
			time.Sleep(time.Millisecond)
		}
		push.signal(syscall.SIGKILL)
		push.outcome()
		killed++
		if seq := p.head().Seq; seq != 1 {
			t.Fatalf("a killed push moved the branch: root %d, want 1", seq)
		}
	}
	var kept int64 // bytes of the packs that were noted
	noted, there := s.noted(), p.list()
	for _, name := range noted {
		size, ok := there["packs/"+name[:2]+"/"+name]
		if !ok {
			t.Fatalf("pack %s is noted, but missing", name)
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
	if limit := all + int64(killed)*jobs*most; stored > limit || sent.Sent > all-kept {
		t.Errorf("the last push sent %d bytes, want at most %d; %d bytes are stored, want at most %d", sent.Sent, all-kept, stored, limit)
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
		t.Errorf("%d bytes were sent for one changed file, want more than 0 and less than 4 MiB", sent.Sent)
	} else {
		t.Logf("%d KiB sent for one changed file", sent.Sent>>10)
	}
	clone := p.wantIntact()
	clone.wantFiles(clone.readFiles("."), s.readFiles("."))
}
