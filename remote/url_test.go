package remote_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/remote"
)

func TestRegistry(t *testing.T) {
	var opened string
	opener := func(kind string) remote.Opener {
		return func(_ context.Context, rawURL string, env remote.Env) (remote.Backend, error) {
			opened = kind + " " + rawURL + " in " + env.Dir
			return nil, nil
		}
	}

	r := remote.Registry{"": opener("path"), "file": opener("file"), "s3": opener("s3"), "mongodb+srv": opener("mongo")}
	tests := []struct{ url, opened, reason string }{
		{"/data/kist", "path /data/kist in here", ""},
		{"../kist", "path ../kist in here", ""},
		{"a:b", "path a:b in here", ""},
		{"./s3:b", "path ./s3:b in here", ""},
		{"://x", "path ://x in here", ""},
		{"1a://x", "path 1a://x in here", ""},
		{"file:///data/kist", "file file:///data/kist in here", ""},
		{"S3://Bucket/p", "s3 S3://Bucket/p in here", ""},
		{"mongodb+srv://h/db", "mongo mongodb+srv://h/db in here", ""},
		{"", "", "empty"},
		{"s3:bucket", "", "write s3://…"},
		{"FILE:/x", "", "write FILE://…"},
		{"gs://user:canary@bucket", "", "known are a path, file://, mongodb+srv://, s3://"},
	}

	for _, test := range tests {
		opened = ""
		_, err := r.Open(t.Context(), test.url, remote.Env{Dir: "here"})
		if opened != test.opened {
			t.Errorf("%q opened %q, want %q", test.url, opened, test.opened)
		}
		if test.reason == "" {
			if err != nil {
				t.Errorf("%q: %v", test.url, err)
			}
			continue
		}
		if !errors.Is(err, remote.ErrURL) || !strings.Contains(err.Error(), test.reason) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: error %v, want ErrURL with %q", test.url, err, test.reason)
		}
	}
}

func TestRedact(t *testing.T) {
	tests := []struct{ url, want string }{
		{"/data/me@home:1/x", ""},
		{"./a:b@c", ""},
		{"me@home/x", ""},
		{"", ""},
		{"@", ""},
		{"s3://bucket/prefix@x", ""},
		{"s3://bucket/p?endpoint=http://minio:9000&region=us-east-1", ""},
		{"mongodb://user@h/db", ""},
		{"mongodb://h1:1,h2:2/db?bucket=b&authSource=admin&authMechanism=PLAIN", ""},
		{"mongodb://h/db?authMechanismProperties=SERVICE_NAME:x", ""},
		{"s3://bucket?password=", ""},
		{"mongodb://user:canary@h1:1,h2:2/db?x=y", "mongodb://user:***@h1:1,h2:2/db?x=y"},
		{"mongodb://user:can@ary@h/db", "mongodb://user:***@h/db"},
		{"mongodb://:canary@h/db", "mongodb://:***@h/db"},
		{"MongoDB+srv://user:canary@h", "MongoDB+srv://user:***@h"},
		{"mongodb://user:can/ary@h/db", "mongodb://***@h/db"},
		{"mongodb://user:can?ary@h/db", "mongodb://***@h/db"},
		{"mongodb://user:can#ary@h/db?secret=canary", "mongodb://***@h/db?secret=***"},
		{"mongodb://us@can/ary@h", "mongodb://***@h"},
		{"mongodb:/user:canary@h/db", "***@h/db"},
		{"/x/mongodb:/user:canary@h/db", "/x/***@h/db"},
		{"/x/gs:/user:can/ary@h?pwd=canary", "/x/***@h?pwd=***"},
		{"mongodb:user:canary@h/db", "***@h/db"},
		{"/data/HEAD:a@b", ""},
		{"mongodb//user:canary@h/db?pwd=canary", "***@h/db?pwd=***"},
		{"user:canary@h:path", "***@h:path"},
		{"s3://b?secret_access_key=canary&region=x", "s3://b?secret_access_key=***&region=x"},
		{"s3://b?a&X-Amz-Security-Token=canary;sig=canary#c", "s3://b?a&X-Amz-Security-Token=***;sig=***#c"},
		{"s3://b?s%65cret=canary", "s3://b?s%65cret=***"},
		{"s3://b?%zzPassword=canary", "s3://b?%zzPassword=***"},
		{"s3://b?endpoint=http://k:canary@minio:9000", "s3://b?endpoint=***"},
		{"s3://b?endpoint=http%3A%2F%2Fk%3Acanary%40minio", "s3://b?endpoint=***"},
		{"mongodb://h/?tlsCertificateKeyFilePassword=canary", "mongodb://h/?tlsCertificateKeyFilePassword=***"},
		{"mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:canary", "mongodb://h/?authMechanismProperties=***"},
	}

	for _, test := range tests {
		want := test.want
		if want == "" {
			want = test.url
		}
		if got := remote.Redact(test.url); got != want {
			t.Errorf("Redact(%q) = %q, want %q", test.url, got, want)
		}
		if got := remote.HasSecret(test.url); got != (test.want != "") {
			t.Errorf("HasSecret(%q) = %v, want %v", test.url, got, !got)
		}
	}
}

// Secrets finds the passwords in the URLs of a text, also if the URLs are malformed.
func TestSecrets(t *testing.T) {
	tests := []struct {
		text string
		want string // one of the passwords, or "" for none
	}{
		{"mongodb://user:canary@h/db", "canary"},
		{"mongodb:/user:canary@h/db", "canary"},
		{"mongodb:user:canary@h/db", "canary"},
		{"--repo=mongodb://user:can/ary@h", "can/ary"},
		{"/x/mongodb:/user:can ary@h", "can ary"},
		{"s3://b?secret=can%20ary", "can ary"},
		{"s3:/b?endpoint=http://u:canary@h", "canary"},
		{"HEAD:a@b", ""},
		{"main@{1}:x/y@z", ""},
		{"/data/me@home:1/x", ""},
		{"mongodb://user@h/db", ""},
		{"mongodb://user:***@h/db", ""},
		{"", ""},
	}
	for _, test := range tests {
		got := remote.Secrets(test.text)
		if test.want == "" && len(got) > 0 || test.want != "" && !slices.Contains(got, test.want) {
			t.Errorf("Secrets(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}

// Redact changes nothing in a redacted URL, and always hides a password in its usual
// place.
func FuzzRedact(f *testing.F) {
	for _, s := range []string{"canary", "a/b", "a@b", "a?b=c", "a#b", "a:b", "a&b;c"} {
		f.Add("mongodb://user:", s, "host/db?x=y")
	}
	f.Add("s3://bucket?secret=", "canary", "&a=b")
	f.Fuzz(func(t *testing.T, before, middle, after string) {
		url := before + middle + "@" + after
		once := remote.Redact(url)
		if twice := remote.Redact(once); twice != once {
			t.Errorf("Redact(%q) = %q, and redacted again %q", url, once, twice)
		}
		password := "canary" + middle + "yranac"
		shown := remote.Redact("mongodb://user:" + password + "@host/db")
		if strings.Contains(shown, "canary") || strings.Contains(shown, "yranac") || !strings.HasSuffix(shown, "@host/db") {
			t.Errorf("Redact shows the password %q: %q", password, shown)
		}
	})
}
