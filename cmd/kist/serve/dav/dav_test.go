package dav

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/cmd/kist/serve/access"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree/work/commits"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// site is a server with a repository. Its branch team is not checked out.
type site struct {
	*kisttest.Repository
	h   *Handler
	url string
}

// newSite starts a server that accepts changes. The header User names the user of a request; "-" is
// a visitor without a name. Without the header, the user is the owner.
func newSite(t *testing.T, o Options) *site {
	return newSiteOf(t, kisttest.New(t), o)
}

// newSiteOf is newSite for a new repository.
func newSiteOf(t *testing.T, r *kisttest.Repository, o Options) *site {
	s := &site{Repository: r}
	r.Check(os.WriteFile(filepath.Join(r.Dir, "a.txt"), []byte("one\ntwo\n"), 0o644))
	r.Add(stage.AddOptions{})
	r.Commit("first")
	_, err := commits.CreateBranch(t.Context(), r.Repo, "team", "HEAD", false)
	r.Check(err)

	if o.Quiet == 0 {
		o.Quiet = time.Hour
	}
	o.Write = true
	o.Log = func(text string) { t.Log(text) }
	s.h, err = New(t.Context(), r.Repo, o)
	r.Check(err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		user := access.User{Owner: true}
		switch name := q.Header.Get("User"); name {
		case "":
		case "-":
			user = access.User{}
		default:
			user = access.User{Name: name, Email: name + "@example.org"}
		}
		s.h.ServeHTTP(w, q.WithContext(access.WithUser(q.Context(), user)))
	}))
	s.url = server.URL
	t.Cleanup(func() {
		server.Close()
		r.Check(s.h.Close(context.WithoutCancel(t.Context())))
	})
	return s
}

func TestLitmus(t *testing.T) {
	litmus := objecttest.NeedProgram(t, "litmus")
	s := newSite(t, Options{})
	cmd := exec.CommandContext(t.Context(), litmus, "-k", s.url+Prefix+"/branches/team/")
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || strings.Contains(string(out), "FAIL") || strings.Contains(string(out), "WARNING") || strings.Contains(string(out), "SKIPPED") {
		t.Errorf("%v\n%s", err, out)
	}
}

// With full metadata, the start of 1970 is a time like any other.
func TestEpoch(t *testing.T) {
	r := kisttest.NewWith(t, kist.InitOptions{Full: true})
	r.Write("epoch", "old\n")
	r.Check(os.Chtimes(filepath.Join(r.Dir, "epoch"), time.Unix(0, 0), time.Unix(0, 0)))
	s := newSiteOf(t, r, Options{})
	const epoch = "Thu, 01 Jan 1970 00:00:00 GMT"
	at := Prefix + "/branches/team/epoch"
	if got := s.want(200, "", "GET", at, "").Header.Get("Last-Modified"); got != epoch {
		t.Errorf("Last-Modified is %q", got)
	}
	if body := s.want(207, "", "PROPFIND", at, "", "Depth: 0").body; !strings.Contains(body, epoch) {
		t.Errorf("PROPFIND lacks the time: %s", body)
	}
}
