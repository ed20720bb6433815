package s3

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/remotetest"
)

// program writes a shell script and returns its path.
func program(t *testing.T, dir, name, script string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	writeFile(t, path, "#!/bin/sh\n"+script)
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCredentialProcess(t *testing.T) {
	env := testEnv(t, nil)
	count := filepath.Join(env.Home, "count")
	script := `echo x >>'` + count + `'; echo "{\"Version\": 1, \"AccessKeyId\": \"` + remotetest.FakeS3AccessKey + `\", \"SecretAccessKey\": \"p$1$2\"` + "%s" + `}"`
	const far = `, \"Expiration\": \"2999-01-01T00:00:00Z\"`
	plain := program(t, env.Home, "plain", fmt.Sprintf(script, ""))
	spaces := program(t, env.Home, "with spaces", fmt.Sprintf(script, ""))
	ends := program(t, env.Home, "ends", fmt.Sprintf(script, far))
	f := remotetest.NewFakeS3(t, 1)

	for command, secret := range map[string]string{
		plain:                                 "p",
		plain + " a b":                        "pab",
		plain + ` "a b" 'c d'`:                "pa bc d",
		`"` + spaces + `" x`:                  "px",
		strings.ReplaceAll(spaces, " ", `\ `): "p",
		plain + " $HOME *":                    "p$HOME*",
		ends + " a":                           "pa",
	} {
		t.Run(command, func(t *testing.T) {
			os.Remove(count)
			writeFile(t, filepath.Join(env.Home, ".aws", "config"), "[profile tool]\ncredential_process = "+command+"\n")
			b, err := open(t.Context(), f.URL("p")+"&profile=tool", env, stallTimeout)
			if err != nil {
				t.Fatal(err)
			}
			if v, err := b.creds.GetWithContext(nil); err != nil || v.AccessKeyID != remotetest.FakeS3AccessKey || v.SecretAccessKey != secret {
				t.Errorf("the secret is %q, %v, want %q", v.SecretAccessKey, err, secret)
			}
			for range 3 {
				if _, err := names(t.Context(), b, "packs/"); err != nil {
					t.Error(err)
				}
			}
			if runs, err := os.ReadFile(count); err != nil || string(runs) != "x\n" {
				t.Errorf("the command ran %d times, want once", len(runs)/2)
			}
		})
	}
}

// Errors name what the command did, and nothing of its arguments and its output.
func TestCredentialProcessErrors(t *testing.T) {
	env := testEnv(t, nil)
	print := func(text string) string { return program(t, env.Home, "print", "echo '"+text+"'") }
	for _, test := range []struct{ command, want string }{
		{program(t, env.Home, "fails", "echo canary; echo canary >&2; exit 3"), "the command ended with exit status 3"},
		{program(t, env.Home, "killed", "kill -9 $$"), "signal: killed"},
		{"/none/program", "no such file"},
		{`"/none/program`, "a quote does not end"},
		{`""`, "credential_process"},
	} {
		writeFile(t, filepath.Join(env.Home, ".aws", "config"), "[default]\ncredential_process = "+test.command+" canary\n")
		_, err := open(t.Context(), "s3://bucket", env, stallTimeout)
		if !errors.Is(err, remote.ErrCredentials) || !strings.Contains(fmt.Sprint(err), test.want) || strings.Contains(fmt.Sprint(err), "canary") {
			t.Errorf("%s: error %v, want %q", test.command, err, test.want)
		}
	}

	for answer, want := range map[string]string{
		"canary":                               "not the JSON",
		`{"Version":2}`:                        "version 2",
		`{"Version":1,"AccessKeyId":"canary"}`: "lacks",
		`{"Version":1,"AccessKeyId":"canary","SecretAccessKey":"canary","Expiration":"2001-02-03T04:05:06Z"}`: "expired at 2001-02-03 04:05:06",
		`{"Version":1,"SecretAccessKey":"canary` + strings.Repeat("y", maxProcess) + `"}`:                     "too long",
	} {
		writeFile(t, filepath.Join(env.Home, ".aws", "config"), "[default]\ncredential_process = "+print(answer)+"\n")
		_, err := open(t.Context(), "s3://bucket", env, stallTimeout)
		if !errors.Is(err, remote.ErrCredentials) || !strings.Contains(fmt.Sprint(err), want) || strings.Contains(fmt.Sprint(err), "canary") {
			t.Errorf("%.40s: error %v, want %q", answer, err, want)
		}
	}
}

// Requests succeed with credentials that were renewed in the profile meanwhile.
func TestCredentialsRenewed(t *testing.T) {
	for refusal, answer := range map[string]remotetest.S3Answer{
		"expired": {Status: 403, Code: "ExpiredToken"}, "unknown": {Status: 403, Code: "InvalidAccessKeyId"}, "denied": {Status: 403, Code: "AccessDenied"},
	} {
		for kind, lines := range map[string]string{
			"keys":    "aws_access_key_id = %s\naws_secret_access_key = s\naws_session_token = %s\n",
			"process": "credential_process = echo '{\"Version\":1, \"AccessKeyId\":\"%s\", \"SecretAccessKey\":\"secret\", \"SessionToken\":\"%s\"}'\n",
		} {
			t.Run(refusal+" "+kind, func(t *testing.T) {
				var valid atomic.Pointer[string]
				f := remotetest.NewFakeS3(t, 1)
				f.SetAnswers(func(r remotetest.S3Request) *remotetest.S3Answer {
					if r.Header.Get("X-Amz-Security-Token") == *valid.Load() {
						return nil
					}
					return &answer
				})

				env := testEnv(t, nil)
				use := func(token string) {
					writeFile(t, filepath.Join(env.Home, ".aws", "config"), "[profile tool]\n"+fmt.Sprintf(lines, remotetest.FakeS3AccessKey, token))
					valid.Store(&token)
				}

				use("FIRST")
				b, err := open(t.Context(), f.URL("p")+"&profile=tool", env, stallTimeout)
				if err != nil {
					t.Fatal(err)
				}
				if err := b.Put(t.Context(), "packs/a", strings.NewReader(strings.Repeat("x", 100)), 100); err != nil {
					t.Fatal(err)
				}

				token := "RENEWED"
				for op, call := range calls(t.Context(), b) {
					token += "X" // another length is a change that no clock hides
					use(token)
					if err := call(); err != nil && !errors.Is(err, remote.ErrNotFound) {
						t.Errorf("%s: %v", op, err)
					}
				}
			})
		}
	}
}

// A store that refuses everything does not run the command for each request.
func TestCredentialProcessRefused(t *testing.T) {
	f := remotetest.NewFakeS3(t, 1)
	for code, want := range map[string]int{"ExpiredToken": 2, "AccessDenied": 1} {
		f.SetAnswers(func(remotetest.S3Request) *remotetest.S3Answer { return &remotetest.S3Answer{Status: 403, Code: code} })
		env := testEnv(t, nil)
		clock := time.Now()
		env.Now = func() time.Time { return clock }
		count := filepath.Join(env.Home, "count")
		tool := program(t, env.Home, "tool", "echo x >>'"+count+`'; echo '{"Version":1, "AccessKeyId":"a", "SecretAccessKey":"b"}'`)
		writeFile(t, filepath.Join(env.Home, ".aws", "config"), "[default]\ncredential_process = "+tool+"\n")
		b, err := open(t.Context(), f.URL("p"), env, stallTimeout)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for op, call := range calls(context.WithoutCancel(t.Context()), b) {
				if err := call(); err == nil {
					t.Errorf("%s: no error", op)
				}
			}
		}
		if runs, err := os.ReadFile(count); err != nil || len(runs)/2 != want {
			t.Errorf("%s: the command ran %d times, want %d", code, len(runs)/2, want)
		}
	}
}
