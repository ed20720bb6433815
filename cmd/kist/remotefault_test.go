package main

import (
	"slices"
	"testing"

	"github.com/kist-vcs/kist/remote/remotetest"
)

// closed is an address without a server. A fixed port is safer than one that was
// free a moment ago: another process may take that one.
const closed = "127.0.0.1:1"

// fakeKeys returns the environment with the keys of a fake S3.
func fakeKeys(f *remotetest.FakeS3) []string {
	var env []string
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"} {
		env = append(env, name+"="+f.Getenv(name))
	}
	return env
}

// with returns a copy of the shell with more environment variables, which override
// the present ones.
func (s *shell) with(env ...string) *shell {
	other := *s
	other.env = slices.Concat(s.env, env)
	return &other
}

// newFake returns a fake S3 and a shell that finds its keys.
func newFake(t testing.TB, seed uint64) (*remotetest.FakeS3, *shell) {
	f := remotetest.NewFakeS3(t, seed)
	return f, newShell(t).with(fakeKeys(f)...)
}
