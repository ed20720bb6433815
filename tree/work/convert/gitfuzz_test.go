package convert

import (
	"bytes"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/graph"
	"github.com/kist-vcs/kist/object/objecttest"
)

// FuzzGitStream reads a stream. All commits of an accepted stream are complete.
func FuzzGitStream(f *testing.F) {
	const commit = "commit refs/heads/x\nmark :1\ncommitter C <c@x> 1 +0000\ndata 1\nm\n"
	f.Add([]byte("feature done\nblob\nmark :2\ndata 3\nabc\n" + commit + "M 100644 :2 d/a\nM 120000 :2 l\nD x\n\nreset refs/tags/v\nfrom :1\n\ntag t\nfrom :1\ntagger C <c> 1 -0130\ndata 1\nm\ndone\n"))
	f.Add([]byte(commit + "M 100755 inline \"a\\303\\251\"\ndata 2\nab\ndeleteall\nM 100644 inline a\ndata 0\n\ncommit refs/heads/x\nmark :3\nauthor A <a> 1 +0000\ncommitter C <c> 1 +0000\ndata 0\nmerge :1\nD a\ndone\n"))
	f.Add([]byte(commit + "M 160000 0123456789012345678901234567890123456789 sub\nM 100644 inline d\ndata 1\nx\nM 100644 inline d/e\ndata 1\nx\ndone\n"))
	r, err := kist.Init(f.Context(), f.TempDir(), kist.Options{}, kist.InitOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { r.Close() })
	records, err := r.Purges().View()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		objects := objecttest.NewMemory()
		g := newGitReader(r, objects, records, bytes.NewReader(stream), GitOptions{})
		if err := g.readCommands(t.Context()); err != nil {
			return
		}
		for _, c := range g.commits {
			if err := graph.CheckPresent(t.Context(), objects, object.Key{Kind: object.KindCommit, ID: c.id}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
