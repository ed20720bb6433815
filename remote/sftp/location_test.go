package sftp

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/remote"
)

func TestLocation(t *testing.T) {
	tests := []struct {
		url    string
		want   location
		reason string
	}{
		{"ssh://anna@nas:2222/srv/kist/", location{"anna", "nas", "2222", "/srv/kist"}, ""},
		{"SFTP://nas/srv", location{host: "nas", path: "/srv"}, ""},
		{"ssh://[fe80::1%25eth0]:22/srv", location{"", "fe80::1%eth0", "22", "/srv"}, ""},
		{"ssh://nas/~/photos", location{host: "nas", path: "photos"}, ""},
		{"ssh://nas/~/", location{host: "nas", path: "."}, ""},
		{"ssh://nas/~", location{host: "nas", path: "."}, ""},
		{"ssh://nas/", location{host: "nas", path: "/"}, ""},
		{"ssh://nas//srv", location{host: "nas", path: "//srv"}, ""},
		{"ssh://DOMAIN%5Canna@nas/a%20b%3F%23%40", location{`DOMAIN\anna`, "nas", "", "/a b?#@"}, ""},
		{"ssh://anna:canary@nas/srv", location{}, "password"},
		{"ssh:///srv", location{}, "no host"},
		{"ssh://-oProxyCommand=x/srv", location{}, "host"},
		{"ssh://%2doProxyCommand=x/srv", location{}, ""},
		{"ssh://-x@nas/srv", location{}, "user"},
		{"ssh://a;b@nas/srv", location{}, "user"},
		{"ssh://$(id)@nas/srv", location{}, "user"},
		{"ssh://`id`@nas/srv", location{}, ""},
		{"ssh://a%0ab@nas/srv", location{}, "user"},
		{`ssh://a%5C@nas/srv`, location{}, "user"},
		{"ssh://na$s/srv", location{}, "host"},
		{"ssh://nas,b/srv", location{}, "host"},
		{"ssh://nas:0/srv", location{}, "port"},
		{"ssh://nas:65536/srv", location{}, "port"},
		{"ssh://nas:-1/srv", location{}, ""},
		{"ssh://nas", location{}, "no path"},
		{"ssh://nas/a%0ab", location{}, "control"},
		{"ssh://nas/a%00b", location{}, "control"},
		{"ssh://nas/a%7fb", location{}, "control"},
		{"ssh://nas/~bob/x", location{}, "another user"},
		{"ssh://nas/x?y", location{}, "%3F"},
		{"ssh://nas/x#y", location{}, "%23"},
		{"ssh:nas", location{}, ""},
		{"http://nas/x", location{}, "begin"},
	}
	for _, test := range tests {
		got, err := parseLocation(test.url)
		if test.want != (location{}) {
			if err != nil || got != test.want {
				t.Errorf("%s: %+v, %v; want %+v", test.url, got, err, test.want)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.reason) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: error %v, want %q", test.url, err, test.reason)
		}
		if _, err := Open(t.Context(), test.url, remote.Env{}); !errors.Is(err, remote.ErrURL) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: error %v, want ErrURL", test.url, err)
		}
	}
}

func TestArguments(t *testing.T) {
	l := location{user: "anna", host: "nas", port: "2222", path: "/x"}
	got := l.arguments()
	if tail := got[len(got)-8:]; !slices.Equal(tail, []string{"-p", "2222", "-l", "anna", "-s", "--", "nas", "sftp"}) {
		t.Errorf("arguments %q", got)
	}
}
