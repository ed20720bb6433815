package main

import (
	"strings"
	"testing"
)

// TestRemoteByURL names a store by its URL in place of a remote's name: pushes, fetches,
// pulls and lists. The repository has no remote then.
func TestRemoteByURL(t *testing.T) {
	onEachStore(t, func(p *place) {
		edit := func(s *shell, text string) {
			s.write(map[string]string{"first": text})
			s.commit(text)
		}
		wantFirst := func(s *shell, text string) {
			if got := s.kist("cat", "HEAD:first"); got != text {
				p.Errorf("first has %q, want %q", got, text)
			}
		}
		owner := p.begin() // a store needs a name for its first push
		other := p.clone()
		other.kist("remote", "remove", "origin")
		edit(other, "second")
		other.kist("push", "-q", p.url, "HEAD:refs/heads/theirs")
		if list := other.kist("ls-remote", p.url); !strings.Contains(list, "\trefs/heads/theirs\n") {
			p.Errorf("the store has\n%s", list)
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
				p.Errorf("there are remotes:\n%s", list)
			}
			s.kist("verify")
		}
		p.wantWhole()
	})
}
