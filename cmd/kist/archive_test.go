package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// withFakeS3 returns a shell with the credentials of a new server.
func withFakeS3(t *testing.T) (*shell, *remotetest.FakeS3) {
	t.Helper()
	s, fake := newShell(t), remotetest.NewFakeS3(t, 1)
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"} {
		s.env = append(s.env, name+"="+fake.Getenv(name))
	}
	return s, fake
}

// archived pushes a repository r to a fake S3 whose URL names an archive for large packs, and makes a lazy clone. It returns the number
// of packs in the archive.
func archived(t *testing.T) (s *shell, fake *remotetest.FakeS3, url string, packs int) {
	t.Helper()
	s, fake = withFakeS3(t)
	url = fake.URL("p") + "&class=DEEP_ARCHIVE"
	s.kist("init", "r")
	r := s.in("r")
	r.write(map[string]string{"small": "a small file that is a chunk of its own", "large": noise(objecttest.Rand(3), 10<<20)})
	r.kist("add", ".")
	r.kist("commit", "-m", "first")
	r.kist("remote", "add", "--no-check", "origin", url)
	r.kist("push")
	for _, key := range fake.Keys("") {
		switch data, _ := fake.Object(key); {
		case fake.Class(key) == "DEEP_ARCHIVE" && strings.HasPrefix(key, "p/packs/") && len(data) >= 8<<20:
			packs++
		case fake.Class(key) != "":
			t.Errorf("%s with %d bytes is in class %s", key, len(data), fake.Class(key))
		}
	}
	if packs == 0 {
		t.Fatalf("no pack is in the archive: %q", fake.Keys(""))
	}
	s.kist("clone", "--lazy", "-n", url, "lazy")
	return s, fake, url, packs
}

// Commands that need archived content say so, change nothing, and do not try again and again. All others work.
func TestArchivedContent(t *testing.T) {
	s, fake, url, _ := archived(t)
	for _, args := range [][]string{
		{"clone", url, "full"},
		{"-C", "lazy", "cat", "origin/main:large"},
		{"-C", "lazy", "checkout", "main"},
		{"-C", "lazy", "restore", "--source", "origin/main", "large"},
		{"-C", "lazy", "fetch", "--data", "origin/main:large"},
		{"-C", "lazy", "fetch", "--full"},
		{"-C", "r", "remote", "copy", "origin", s.path("copy")},
	} {
		if args[2] == "remote" {
			s.kist("-C", "r", "remote", "add", "copy", s.path("copy"))
			args[5] = "copy"
		}
		fake.Reset()
		o := s.run(args...)
		if o.status != 15 || !strings.Contains(o.stderr, "lies in an archive") || !strings.Contains(o.stderr, "--thaw") || fake.Count("get") > 60 {
			t.Errorf("%d requests: %v", fake.Count("get"), o)
		}
	}
	if _, err := os.Lstat(s.path("lazy/large")); err == nil {
		t.Error("an incomplete file is there")
	}
	if branches := s.kist("-C", "lazy", "branch"); strings.Contains(branches, "main") {
		t.Errorf("the failed checkout made a branch: %q", branches)
	}

	r := s.in("r")
	r.write(map[string]string{"later": "in a small pack"})
	r.commit("second")
	r.kist("push")
	s.kist("-C", "lazy", "fetch")
	fake.Reset()
	o := s.run("-C", "lazy", "restore", "--source", "origin/main", "--to", s.path("out"))
	if o.status != 3 || strings.Count(o.stderr, ": the content lies in an archive") != 2 || !strings.Contains(o.stderr, "--thaw") || fake.Count("get") > 20 {
		t.Errorf("%d requests: %v", fake.Count("get"), o)
	}
	if got := s.readFiles("out"); len(got) != 1 || got["later"] == "" {
		t.Errorf("%v was restored, want only the file that is not in the archive", got)
	}

	s.kist("-C", "lazy", "log", "origin/main")
	s.kist("-C", "lazy", "ls", "-r", "origin/main")
	s.kist("-C", "lazy", "fetch")
	s.kist("-C", "r", "remote", "gc", "origin")
	s.kist("-C", "r", "verify", "--remote", "origin")
}

// A check of a remote reads everything but archived packs. It counts them, in one line and in JSON, and its status shows that it is not
// complete. Damage of other packs is found and repaired.
func TestVerifyArchived(t *testing.T) {
	s, fake, _, packs := archived(t)
	r := s.in("r")
	verify := func(status int, more ...string) outcome {
		t.Helper()
		fake.Reset()
		o := r.run(append([]string{"verify", "--read-data", "--remote", "origin"}, more...)...)
		if o.status != status || fake.Count("restore") > 0 || fake.Count("get") > 120 {
			t.Errorf("want status %d: %d requests, %v", status, fake.Count("get"), o)
		}
		return o
	}
	notChecked := fmt.Sprintf("not checked: %d pack", packs)
	if o := verify(3); !strings.Contains(o.stderr, notChecked) || !strings.Contains(o.stdout, "no errors found in the other ") {
		t.Errorf("%v", o)
	}
	if o := verify(3, "--json"); !strings.Contains(o.stdout, fmt.Sprintf(`"archived":%d,"bytes_archived":`, packs)) || !strings.Contains(o.stdout, `"errors":[]`) {
		t.Errorf("%v", o)
	}
	if o := verify(3, "--repair"); !strings.Contains(o.stderr, notChecked) || !strings.Contains(o.stdout, "nothing to repair") {
		t.Errorf("%v", o)
	}

	for _, key := range fake.Keys("p/packs/") {
		if fake.Class(key) == "" {
			data, _ := fake.Object(key)
			data[len(data)/2] ^= 1
			fake.SetObject(key, data)
		}
	}
	if o := verify(11); !strings.Contains(o.stderr, notChecked) || !strings.Contains(o.stderr, "damaged or missing") {
		t.Errorf("%v", o)
	}
	verify(3, "--repair")
	if o := verify(3); !strings.Contains(o.stdout, "no errors found") {
		t.Errorf("%v", o)
	}
	r.kist("verify", "--remote", "origin")
}

// A fetch with --thaw asks for all packs once, says how many are not ready, and fetches when all are.
func TestThaw(t *testing.T) {
	s, fake, url, packs := archived(t)
	lazy := s.in("lazy")
	thaw := func(status int, want string, more ...string) {
		t.Helper()
		o := lazy.run(append([]string{"fetch", "--data", "origin/main:large", "--thaw"}, more...)...)
		if o.status != status || !strings.Contains(o.stdout+o.stderr, want) {
			t.Errorf("want status %d with %q: %v", status, want, o)
		}
	}
	thaw(2, "no terminal to confirm on")
	if fake.Count("restore") > 0 {
		t.Error("a thaw without a confirmation")
	}
	thaw(3, "asked for", "--yes")
	thaw(3, "still thawing", "--yes")
	if n := fake.Count("restore"); n != packs {
		t.Errorf("%d requests for %d packs", n, packs)
	}
	if o := lazy.run("cat", "origin/main:large"); o.status != 15 || !strings.Contains(o.stderr, "thaws until about") {
		t.Errorf("cat of a file that thaws: %v", o)
	}
	fake.PassTime(12 * time.Hour)
	thaw(0, "received", "--yes")
	thaw(0, "all of it is here already")
	if lazy.kist("cat", "origin/main:large") != s.in("r").kist("cat", "HEAD:large") {
		t.Error("the content differs")
	}
	lazy.kist("restore", "--source", "origin/main", "large")
	lazy.verify()

	s.kist("clone", "--lazy", "-n", url, "again")
	again := s.in("again")
	again.kist("fetch", "--full", "--thaw") // the copies can still be read
	again.kist("checkout", "main")
	again.verify()
	r := s.in("r")
	r.kist("remote", "add", "--no-check", "other", fake.URL("q")+"&class=GLACIER")
	r.kist("remote", "copy", "origin", "other")
	if !slices.ContainsFunc(fake.Keys("q/packs/"), func(key string) bool { return fake.Class(key) == "GLACIER" }) {
		t.Error("a copy has no pack in the class of its remote")
	}

	fake.PassTime(15 * 24 * time.Hour)
	s.kist("clone", "--lazy", "-n", url, "late")
	if o := s.run("-C", "late", "fetch", "--full", "--thaw", "--yes"); o.status != 3 || fake.Count("restore") != 2*packs {
		t.Errorf("a thaw after the copies have ended: %d requests, %v", fake.Count("restore"), o)
	}
}

// TestThawHowto runs the commands of docs/howto/thaw.md. Its sleep is a request to the store, which moves the clock of the archive.
func TestThawHowto(t *testing.T) {
	t.Parallel()
	s, fake := withFakeS3(t)
	fake.Watch(func(r *http.Request, _ []byte) {
		if _, after, ok := strings.Cut(r.URL.Path+"?"+r.URL.RawQuery, "wait-"); ok {
			days, _, _ := strings.Cut(after, "-")
			n, err := strconv.Atoi(days)
			if err != nil {
				t.Error(err)
			}
			fake.PassTime(time.Duration(n) * 24 * time.Hour)
		}
	})
	s.kist("init")
	s.write(map[string]string{"take-1.mov": noise(objecttest.Rand(4), 10<<20), "notes": "one"})
	s.commit("first")

	s.page("thaw.md", `pass() { command kist ls-remote "`+fake.URL("wait-$1-days")+`" || true; }
sleep() { pass 1; }
kist() {
	case "$*" in
	clone*) cd `+s.path("..")+`; rm -rf film ;;
	verify*) pass 30 ;;
	*--thaw)
		command kist "$@" --yes || [ $? = 3 ]
		[ "$2" = --data ] || pass 1
		return ;;
	esac
	command kist "$@"
}`, "s3://my-bucket/film?class=DEEP_ARCHIVE", fake.URL("p")+"&class=DEEP_ARCHIVE", "s3://my-bucket/film", fake.URL("p"),
		"kist verify --remote origin --read-data", "kist verify --remote origin --read-data && exit 9 || [ $? = 3 ]")

	s.wantFiles(s.readFiles("../film"), s.readFiles("."))
	if fake.Count("restore") == 0 {
		t.Error("nothing was thawed")
	}
}
