package main

import (
	"strings"
	"testing"
)

// TestRemoteByURL checks push, fetch, pull and ls-remote with a URL instead of a remote's
// name, in repositories without remotes.
func TestRemoteByURL(t *testing.T) {
	onEachStore(t, func(p *place) {
		edit := func(s *shell, text string) {
			s.write(map[string]string{"first": text})
			s.commit(text)
		}
		wantFirst := func(s *shell, text string) {
			if got := s.kist("cat", "HEAD:first"); got != text {
				p.Errorf("HEAD:first is %q, want %q", got, text)
			}
		}
		owner := p.begin() // a store needs a name for its first push
		other := p.clone()
		other.kist("remote", "remove", "origin")
		edit(other, "second")
		other.kist("push", "-q", p.url, "HEAD:refs/heads/theirs")
		if list := other.kist("ls-remote", p.url); !strings.Contains(list, "\trefs/heads/theirs\n") {
			p.Errorf("ls-remote prints\n%s\nwant the branch theirs", list)
		}

		owner.kist("remote", "remove", "origin")
		owner.kist("fetch", "-q", p.url, "theirs")
		owner.kist("merge", "-q", "FETCH_HEAD")
		wantFirst(owner, "second")
		edit(owner, "third")
		owner.kist("push", "-q", p.url, "main")
		other.kist("pull", "-q", p.url)
		wantFirst(other, "third")

		for _, s := range []*shell{owner, other} {
			if list := s.kist("branch", "-r") + s.kist("remote"); list != "" {
				p.Errorf("remotes or remote-tracking branches exist:\n%s", list)
			}
			s.kist("verify")
		}
		p.wantIntact()
	})
}
