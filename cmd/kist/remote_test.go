package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/dir"
	"github.com/kist-vcs/kist/remote/gridfs"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/rootlog"
	"github.com/kist-vcs/kist/remote/s3"
)

// place is the location of a remote. It is empty at first, and only one test
// uses it.
type place struct {
	testing.TB
	url     string
	env     []string // the keys of the store
	backend remote.Backend
	clones  int
	root    string // folder of the clones
}

// onEachStore runs a test with a place in a folder, in the same by SSH, in an S3 bucket and in a MongoDB
// database.
func onEachStore(t *testing.T, test func(p *place)) {
	t.Helper()
	t.Parallel()

	for _, kind := range []struct {
		name, variable string
		open           remote.Opener
		url            func(server string) string
	}{
		{"dir", "", dir.Open, nil},
		{"ssh", "", nil, nil},
		{"s3", "KIST_TEST_S3", s3.Open, func(server string) string {
			bucket, query, _ := strings.Cut(server, "?")
			return fmt.Sprintf("%s/%016x?%s", strings.TrimSuffix(bucket, "/"), rand.Uint64(), query)
		}},
		{"gridfs", "KIST_TEST_MONGODB", gridfs.Open, func(server string) string {
			join := "?"
			if strings.Contains(server, "?") {
				join = "&"
			}
			return fmt.Sprintf("%s%sbucket=test%016x", server, join, rand.Uint64())
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			switch kind.name {
			case "dir":
				test(newPlaceInFolder(t))
				return
			case "ssh":
				test(newPlaceBySSH(t, remotetest.PlainSSH(t, "exec %s")))
				return
			}
			server := objecttest.NeedServer(t, kind.variable)
			test(newPlace(t, kind.open, kind.url(server), os.Getenv))
		})
	}
}

// newPlaceInFolder returns a place in a new folder.
func newPlaceInFolder(t testing.TB) *place {
	t.Helper()
	folder := filepath.Join(tempDir(t), "remote")
	if err := os.Mkdir(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	return newPlace(t, dir.Open, folder, os.Getenv)
}

// newPlaceBySSH returns a place in a new folder, which commands use over an ssh command. The test itself opens the folder.
func newPlaceBySSH(t testing.TB, ssh string) *place {
	t.Helper()
	p := newPlaceInFolder(t)
	p.url = "ssh://" + remotetest.SSHHost + p.url
	p.env = append(p.env, "KIST_SSH_COMMAND="+ssh)
	return p
}

// newPlace returns the place at a URL. The end of the test removes its content.
func newPlace(t testing.TB, open remote.Opener, url string, getenv func(string) string) *place {
	t.Helper()
	p := &place{TB: t, url: url, root: tempDir(t)}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"} {
		if value := getenv(name); value != "" {
			p.env = append(p.env, name+"="+value)
		}
	}
	var err error
	p.backend, err = open(t.Context(), url, remote.Env{Getenv: getenv, Home: p.root, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.remove)
	return p
}

// remove deletes all files of the place and closes the backend.
func (p *place) remove() {
	ctx := context.Background()
	names := slices.Collect(maps.Keys(p.list()))
	if b, ok := p.backend.(interface {
		InterruptedUploads(context.Context) iter.Seq2[remote.Info, error]
	}); ok { // remains of killed uploads
		for info, err := range b.InterruptedUploads(ctx) {
			if err != nil {
				p.Error(err)
			}
			names = append(names, info.Name)
		}
	}
	for _, name := range names {
		if err := p.backend.Delete(ctx, name); err != nil {
			p.Error(err)
		}
	}
	p.backend.Close()
}

// folder returns a shell in a new folder, for a repository. If the test passes,
// it verifies the repository at its end.
func (p *place) folder() *shell {
	p.Helper()
	p.clones++
	s := &shell{TB: p.TB, dir: filepath.Join(p.root, strconv.Itoa(p.clones)), program: "kist", env: p.env}
	if err := os.Mkdir(s.dir, 0o777); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		if _, err := os.Stat(s.path(".kist")); err == nil && !p.Failed() {
			s.verify()
		}
	})
	return s
}

// begin returns a repository with one commit, which is pushed to the place.
func (p *place) begin() *shell {
	p.Helper()
	s := p.folder()
	s.kist("init", "--chunk-size", "64KiB")
	s.kist("remote", "add", "--no-check", "origin", p.url)
	s.write(map[string]string{"first": "the first file of the repository"})
	s.commit("first")
	s.kist("push")
	return s
}

// clone returns a new clone of the remote.
func (p *place) clone() *shell {
	p.Helper()
	s := p.folder()
	s.kist("clone", p.url, ".")
	return s
}

// copies returns n copies of a repository.
func (p *place) copies(of *shell, n int) []*shell {
	p.Helper()
	all := make([]*shell, n)
	for i := range all {
		all[i] = p.folder()
		if err := copyTree(of.dir, all[i].dir); err != nil {
			p.Fatal(err)
		}
	}
	return all
}

// commit commits all files, and returns the commit's ID.
func (s *shell) commit(message string) string {
	s.Helper()
	s.kist("add", "-A", ".")
	return idOf(s, s.kist("commit", "--json", "--allow-empty", "-m", message))
}

// pushed is the output of push --json.
type pushed struct {
	Refs []struct{ Name, Old, New, Status string }
	Sent int64 `json:"bytes_sent"`
}

// push runs kist push, which must succeed.
func (s *shell) push(args ...string) (p pushed) {
	s.Helper()
	if err := json.Unmarshal([]byte(s.kist(append([]string{"push", "--json"}, args...)...)), &p); err != nil {
		s.Fatal(err)
	}
	return p
}

// failed returns the error that a command printed with --json.
func (o outcome) failed() (kind, message string) {
	var last struct {
		Error struct{ Kind, Message string }
	}
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	_ = json.Unmarshal([]byte(lines[len(lines)-1]), &last) // without JSON, the kind is empty
	return last.Error.Kind, last.Error.Message
}

// head returns the state in the head of the root log.
func (p *place) head() *rootlog.State {
	p.Helper()
	head, err := p.log().Head(context.Background(), nil)
	if err != nil {
		p.Fatal(err)
	}
	return head
}

// at returns the commit of a branch of the remote, or an empty string.
func (p *place) at(branch string) string {
	p.Helper()
	return branchAt(p.head(), branch)
}

func branchAt(head *rootlog.State, branch string) string {
	if key, ok := head.Refs["refs/heads/"+branch]; ok {
		return key.ID.String()
	}
	return ""
}

func (p *place) log() *rootlog.Log {
	p.Helper()
	id, err := rootlog.ReadIdentity(context.Background(), p.backend)
	if err != nil {
		p.Fatal(err)
	}
	return rootlog.Open(p.backend, id, rootlog.Options{Rand: rand.NewChaCha8([32]byte{byte(rand.Uint32()), byte(rand.Uint32())})})
}

// list returns the names and sizes of the files of the place.
func (p *place) list() map[string]int64 {
	p.Helper()
	all := map[string]int64{}
	for info, err := range p.backend.List(context.Background(), "") {
		if err != nil {
			p.Fatal(err)
		}
		all[info.Name] = info.Size
	}
	return all
}

// blobs returns the names and contents of the files of the place.
func (p *place) blobs() map[string]string {
	p.Helper()
	all := map[string]string{}
	for name, size := range p.list() {
		data := make([]byte, size)
		n, err := p.backend.Get(context.Background(), name, data, 0)
		if err != nil && !errors.Is(err, remote.ErrNotFound) {
			p.Fatal(err)
		}
		all[name] = string(data[:n])
	}
	return all
}

// wantIntact checks that verify finds no error on the remote and in a fresh
// clone. It returns the clone.
func (p *place) wantIntact() *shell {
	p.Helper()
	s := p.clone()
	s.kist("verify", "--remote", "origin", "--read-data")
	s.verify()
	return s
}

// drop removes the folder.
func (s *shell) drop() {
	s.Helper()
	if err := os.RemoveAll(s.dir); err != nil {
		s.Fatal(err)
	}
}

// tracking returns the commit of a remote-tracking branch, or an empty string.
func (s *shell) tracking(branch string) (id string) {
	s.Helper()
	s.open(func(_ context.Context, r *kist.Repository) error {
		at, err := r.Refs().Get("refs/remotes/origin/" + branch)
		if err == nil {
			id = at.String()
		}
		if errors.Is(err, refs.ErrNotFound) {
			return nil
		}
		return err
	})
	return id
}
