package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/remote/remotetest"
)

// onRemote has commands that use a remote. URL stands for its URL, and NEW for the
// URL of a new store. The kinds are those of the command's requests to a fake S3.
var onRemote = []struct {
	args  []string
	kinds []string
}{
	{[]string{"push"}, []string{"get", "put"}},
	{[]string{"fetch"}, []string{"get"}},
	{[]string{"clone", "URL", "clone"}, []string{"get", "list"}},
	{[]string{"ls-remote"}, []string{"get"}},
	{[]string{"ls-remote", "URL"}, []string{"get", "list"}},
	{[]string{"remote", "add", "new", "NEW"}, []string{"get", "put", "list"}},
}

// remoteCommands returns the commands of onRemote that make requests of some
// kinds.
func remoteCommands(url, unused string, kinds ...string) (list [][]string) {
	for _, command := range onRemote {
		args := slices.Clone(command.args)
		for i, arg := range args {
			switch arg {
			case "URL":
				args[i] = url
			case "NEW":
				args[i] = unused
			}
		}
		if slices.ContainsFunc(command.kinds, func(kind string) bool { return slices.Contains(kinds, kind) }) {
			list = append(list, args)
		}
	}
	return list
}

// withTwoCommits makes a repository with two commits and a remote. It pushes only
// the first commit.
func (s *shell) withTwoCommits(url string) *shell {
	s.Helper()
	s.succeeds("init", "repository")
	s = s.in("repository")
	s.write(map[string]string{"file": "the first version"})
	s.succeeds("remote", "add", "origin", url)
	s.succeeds("add", ".")
	s.succeeds("commit", "-m", "first")
	s.succeeds("push")
	s.write(map[string]string{"file": "the second version"})
	s.succeeds("commit", "-a", "-m", "second")
	return s
}

// fails checks that a command fails with a status, a kind and a reason, and leaves
// no clone and no new remote.
func (s *shell) fails(status int, kind, reason string, args ...string) {
	s.Helper()
	o := s.here(append(slices.Clone(args), "--json")...)
	if o.status != status {
		s.Errorf("want exit status %d: %v", status, o)
	}
	got, message := o.failed()
	if got != kind || !strings.Contains(message, reason) || !strings.Contains(o.stderr, reason) {
		s.Errorf("error kind is %s, want %s with %q: %v", got, kind, reason, o)
	}
	if strings.Contains(o.stderr, "->") {
		s.Errorf("reports a moved branch: %v", o)
	}
	if _, err := os.Stat(s.path("clone")); err == nil {
		s.Errorf("left a clone: %v", o)
	}
	if list := s.succeeds("remote", "list"); list != "origin\n" {
		s.Errorf("the remotes are %q, want only origin, after %v", list, o)
	}
}

// TestRemoteErrors checks that commands report the error of a store that refuses
// requests, and do not retry.
func TestRemoteErrors(t *testing.T) {
	const reason = "so says the store 4711"
	for _, c := range []struct {
		name, code string
		http       int
		refused    []string // kinds of requests
		status     int
		kind       string
	}{
		{"wrong key", "InvalidAccessKeyId", 403, []string{"get", "put", "list", "bucket"}, 16, "credentials"},
		{"wrong secret", "SignatureDoesNotMatch", 403, []string{"get", "put", "list", "bucket"}, 16, "credentials"},
		{"expired", "ExpiredToken", 400, []string{"get", "put", "list", "bucket"}, 16, "credentials"},
		{"no bucket", "NoSuchBucket", 404, []string{"get", "put", "list", "bucket"}, 15, "no-store"},
		{"no put", "AccessDenied", 403, []string{"put"}, 16, "permission"},
		{"no get", "AccessDenied", 403, []string{"get"}, 16, "permission"},
		{"no list", "AccessDenied", 403, []string{"list"}, 16, "permission"},
		{"nothing", "AllAccessDisabled", 403, []string{"get", "put", "list", "bucket"}, 16, "permission"},
		{"full", "XMinioStorageFull", 507, []string{"put"}, 15, "full"},
		{"quota", "QuotaExceeded", 403, []string{"put"}, 15, "full"},
		{"no condition", "NotImplemented", 501, []string{"put"}, 15, "unsupported"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fake, s := newFake(t, 1)
			s = s.withTwoCommits(fake.URL("old"))
			before := s.readState()
			keys := fake.Keys("")

			for _, args := range remoteCommands(fake.URL("old"), fake.URL("new"), c.refused...) {
				kind := c.kind
				if args[0] == "remote" && kind == "unsupported" {
					kind = "unfit" // remote add checks the store
				}
				fake.SetAnswers(remotetest.S3Error(c.http, c.code, reason, c.refused...))
				fake.Reset()
				s.fails(c.status, kind, reason, args...)
				most := 6
				if args[0] == "remote" {
					most = 20
					if c.name == "no list" {
						most = 500 // the check tries everything else
					}
				}

				if n := fake.Count(); n > most {
					t.Errorf("%q makes %d requests, want at most %d", args, n, most)
				}
				fake.SetAnswers()
			}

			if got := fake.Keys(""); !slices.Equal(got, keys) {
				t.Errorf("the keys on the store are %q, want %q", got, keys)
			}
			if diff := s.readState().diff(before); len(diff) > 0 {
				t.Errorf("the repository changed:\n%s", strings.Join(diff, "\n"))
			}

			s.succeeds("push")
			s.succeeds("verify", "--read-data")
			s.succeeds("verify", "--remote", "origin", "--read-data")
		})
	}
}

// TestRemoteUnreachable checks that commands give up after a few tries if no server
// answers.
func TestRemoteUnreachable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, url, reason string
	}{
		{"refused", "s3://bucket/x?endpoint=http://" + closed, "connection refused"},
		{"no such host", "s3://bucket/x?endpoint=http://kist-test.invalid", "kist-test.invalid"},
		{"refused by MongoDB", "mongodb://" + closed + "/db?serverSelectionTimeoutMS=200", "connection refused"},
		{"no such MongoDB", "mongodb://kist-test.invalid/db?serverSelectionTimeoutMS=200", "kist-test.invalid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fake, s := newFake(t, 1)
			s = s.withTwoCommits(fake.URL("old"))
			config, err := os.ReadFile(s.path(".kist/config"))
			if err != nil {
				t.Fatal(err)
			}

			changed := strings.Replace(string(config), fake.URL("old"), c.url, 1)
			if changed == string(config) {
				t.Fatalf("the URL is not in the configuration:\n%s", config)
			}

			s.write(map[string]string{".kist/config": changed})
			// This process waits before it retries. The commands below do not.
			patient := s.start("fetch")
			for _, args := range remoteCommands(c.url, c.url, "get") {
				s.fails(15, "remote", c.reason, args...)
			}

			if o := patient.wait(); o.status != 15 || !strings.Contains(o.stderr, c.reason) {
				t.Errorf("want exit status 15, with %q: %v", c.reason, o)
			}
			s.write(map[string]string{".kist/config": string(config)})
			s.succeeds("push")
			s.succeeds("verify", "--read-data")
		})
	}
}

// TestRemoteErrorsOfServer checks the errors of a real server for wrong keys and a
// missing bucket. MinIO looks for an unknown key on its disk. If that fails on a loaded machine, it
// answers that it is not ready. So the commands wait before they retry.
func TestRemoteErrorsOfServer(t *testing.T) {
	t.Parallel()
	bucket, query := minioServer(t)
	region := "AWS_REGION=" + os.Getenv("AWS_REGION")
	id, secret := "AWS_ACCESS_KEY_ID="+os.Getenv("AWS_ACCESS_KEY_ID"), "AWS_SECRET_ACCESS_KEY="+os.Getenv("AWS_SECRET_ACCESS_KEY")

	for _, c := range []struct {
		name, bucket, id, secret string
		status                   int
		kind, reason             string
	}{
		{"wrong key", bucket, "AWS_ACCESS_KEY_ID=nobody", secret, 16, "credentials", "InvalidAccessKeyId"},
		{"wrong secret", bucket, id, secret + "x", 16, "credentials", "SignatureDoesNotMatch"},
		{"no bucket", bucket + "-of-nobody", id, secret, 15, "no-store", "NoSuchBucket"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShell(t).with(region, c.id, c.secret)
			s.patient = true
			url := c.bucket + "/nothing?" + query
			folder := t.TempDir()
			s = s.withTwoCommits(folder)
			config, err := os.ReadFile(s.path(".kist/config"))
			if err != nil {
				t.Fatal(err)
			}
			s.write(map[string]string{".kist/config": strings.Replace(string(config), folder, url, 1)})
			for _, args := range remoteCommands(url, url, "get") {
				s.fails(c.status, c.kind, c.reason, args...)
			}
		})
	}
}
