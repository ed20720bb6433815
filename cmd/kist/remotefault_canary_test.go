package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/remote/remotetest"
)

// canary is part of every secret in TestRemoteSecrets.
const canary = "cAnArY4711"

// wantNoCanary checks that the output of a command and the files below the folder
// have no secret. It skips the file except, which the test made.
func (s *shell) wantNoCanary(o outcome, except string) {
	s.Helper()
	if strings.Contains(strings.ToLower(o.stdout+o.stderr), strings.ToLower(canary)) {
		s.Errorf("the output has a secret: %v", o)
	}
	err := filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path == except {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), canary) || strings.Contains(e.Name(), canary) {
			s.Errorf("%q wrote a secret to %s", o.args, path)
		}
		return err
	})
	if err != nil {
		s.Error(err)
	}
}

// TestRemoteSecrets checks that no command prints or stores a secret, whether it
// succeeds or fails. Secrets are in the environment, in AWS's files and in URLs.
func TestRemoteSecrets(t *testing.T) {
	t.Parallel()
	settings := [][]string{
		{"AWS_ACCESS_KEY_ID=" + remotetest.FakeS3AccessKey, "AWS_SECRET_ACCESS_KEY=" + canary + "/secret", "AWS_SESSION_TOKEN=" + canary + "=token"},
		{"AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY="}, // the keys are in the file
	}

	reasons := []string{"not " + canary + "/secret, or " + canary + "=token", "not " + canary + "file, or " + canary + "session"}
	for i, env := range settings {
		fake, s := newFake(t, uint64(i))
		s = s.with("KIST_MONGODB_USERNAME=user"+canary, "KIST_MONGODB_PASSWORD="+canary+"@:/%", "KIST_MONGODB_HOST="+closed).with(env...)
		s = s.with("HOME=" + s.dir)
		file := s.path(".aws/credentials")
		s.write(map[string]string{".aws/credentials": "[default]\naws_access_key_id = " + remotetest.FakeS3AccessKey + "\naws_secret_access_key = " + canary + "file\naws_session_token = " + canary + "session\n"})
		home := s
		s = s.withTwoCommits(fake.URL("old"))
		secret := []string{
			"s3://bucket/x?endpoint=http://user:" + canary + "@" + closed,
			"s3://user:" + canary + "@bucket/x?endpoint=http://" + closed,
			"s3://bucket/x?endpoint=http://" + closed + "&secret_access_key=" + canary,
			"mongodb://user:" + canary + "@" + closed + "/db?serverSelectionTimeoutMS=50",
			"mongodb://user:" + canary + "@" + closed + ":x/%zz",
			"http://user:" + canary + "@host/path",
		}

		var commands [][]string
		for _, url := range secret {
			commands = append(commands, []string{"ls-remote", url}, []string{"clone", url, "clone"}, []string{"remote", "add", "new", url},
				[]string{"remote", "add", "--no-check", "new", url})
		}

		withSecret := len(commands)
		commands = append(commands,
			[]string{"ls-remote", "mongodb://" + closed + "/db?serverSelectionTimeoutMS=50"},
			[]string{"fetch"}, []string{"pull"}, []string{"ls-remote"}, []string{"push"}, []string{"remote", "list"}, []string{"remote", "log"},
			[]string{"verify", "--remote", "origin"}, []string{"clone", fake.URL("old"), "clone"}, []string{"status"})
		answers := [][]func(remotetest.S3Request) *remotetest.S3Answer{
			{remotetest.S3Error(403, "SignatureDoesNotMatch", reasons[i])},
			{remotetest.S3Once(2, remotetest.S3Answer{Status: 500, Code: "InternalError", Message: "again"}), remotetest.S3Once(1, remotetest.S3Answer{Reset: true})},
			nil,
		}

		for k, answer := range answers {
			if k > 0 {
				commands = commands[withSecret:] // the URLs with secrets never reach the fake store
				withSecret = 0
			}

			for _, args := range commands {
				for _, more := range [][]string{{"-v"}, {"--json"}} {
					fake.SetAnswers(answer...)
					o := s.here(append(slices.Clone(args), more...)...)
					home.wantNoCanary(o, file)
					fake.SetAnswers()
					os.RemoveAll(s.path("clone"))
				}
			}
		}

		if o := s.here("push"); o.status != 0 || fake.Count("put") == 0 {
			t.Errorf("push with the right keys fails, or sends nothing: %v", o)
		}
		if list := s.succeeds("remote", "list"); list != "origin\n" {
			t.Errorf("remotes with secrets were added: %s", s.succeeds("remote", "list", "-v"))
		}
	}
}
