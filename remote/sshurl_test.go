package remote_test

import (
	"testing"

	"github.com/kist-vcs/kist/remote"
)

func TestSSHURL(t *testing.T) {
	tests := []struct{ text, want string }{
		{"nas:photos", "ssh://nas/~/photos"},
		{"anna@nas:photos/2026", "ssh://anna@nas/~/photos/2026"},
		{"anna@nas:/srv/photos", "ssh://anna@nas/srv/photos"},
		{"anna@nas:~/photos", "ssh://anna@nas/~/photos"},
		{"anna@nas:~bob/photos", "ssh://anna@nas/~bob/photos"}, // refused when it is opened
		{"nas:", "ssh://nas/~/"},
		{"nas:a b?c#d%", "ssh://nas/~/a%20b%3Fc%23d%25"},
		{"nas:photos/me@home", "ssh://nas/~/photos/me%40home"},
		{"anna@[fe80::1]:photos", "ssh://anna@[fe80::1]/~/photos"},
		{"[::1]:/srv", "ssh://[::1]/srv"},
		{"nas:22", "ssh://nas/~/22"},
		{"-oProxyCommand=x:y", "ssh://-oProxyCommand=x/~/y"}, // refused when it is opened
		{"c:photos", "ssh://c/~/photos"},
		{`C:\photos`, ""},
		{"C:/photos", ""},
		{"C:", ""},
		{"/data/a:b", ""},
		{"./a:b", ""},
		{"a/b:c", ""},
		{"photos", ""},
		{"", ""},
		{":x", ""},
		{"a b:c", ""},
		{"gs://bucket", ""},
		{"ssh://nas/x", ""},
		{"ssh:nas", ""},
		{"S3:bucket", ""},
		{"mongodb:user:canary@h/db", ""},
		{"user:canary@h:path", ""},
		{"main@{1}:x", "ssh://main@%7B1%7D/~/x"},
	}
	for _, test := range tests {
		got, ok := remote.SSHURL(test.text)
		if got != test.want || ok != (test.want != "") {
			t.Errorf("SSHURL(%q) = %q, %v; want %q", test.text, got, ok, test.want)
		}
		if ok && remote.HasSecret(got) {
			t.Errorf("SSHURL(%q) seems to have a password", test.text)
		}
		if again, ok := remote.SSHURL(got); ok {
			t.Errorf("SSHURL(%q) = %q", got, again)
		}
	}
}
