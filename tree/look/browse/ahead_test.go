package browse_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/kisttest"
	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote/exchange"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/tree/look/browse"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// pushed returns the folder of a commit on a remote, read without a clone, and the remote.
func pushed(t *testing.T, files map[string]string, o browse.Options) (*browse.Node, *remotetest.Memory) {
	t.Helper()
	s := kisttest.New(t)
	for path, data := range files {
		s.Write(path, data)
	}
	s.Add(stage.AddOptions{})
	s.Commit("first")
	b := remotetest.NewMemory()
	s.Push(s.WithRemote(b), "main")
	opened, err := registry.OpenURL(t.Context(), kisttest.Opens(b).WithDefaults(), registry.Remote{URL: "/memory"})
	s.Check(err)
	t.Cleanup(func() { opened.Close() })
	o.Now = time.Now
	h, err := exchange.BrowseHistory(t.Context(), opened, o)
	s.Check(err)
	return find(t, h, "latest"), b
}

// readInOrder reads a file from the start to the end, as a mount does.
func readInOrder(t *testing.T, n *browse.Node) []byte {
	t.Helper()
	f, err := n.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 128<<10)
	var data []byte
	for off := int64(0); ; {
		n, err := readAt(t.Context(), f, buf, off)
		data = append(data, buf[:n]...)
		if off += int64(n); err == io.EOF || err == nil && n == 0 || off == f.Size() {
			return data
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The small files of a folder are read with few requests, and the second time with none.
func TestFolderRequests(t *testing.T) {
	files := map[string]string{}
	for i := range 1_000 {
		files[fmt.Sprintf("small/%04d", i)] = objecttest.Noise(i, 2_000)
	}
	top, b := pushed(t, files, browse.Options{})
	small, err := top.Lookup(t.Context(), "small")
	if err != nil {
		t.Fatal(err)
	}
	for _, most := range []int{24, 0} {
		b.ResetCounts()
		for i := range 1_000 {
			n, err := small.Lookup(t.Context(), fmt.Sprintf("%04d", i))
			if err != nil {
				t.Fatal(err)
			}
			if data := readInOrder(t, n); string(data) != files["small/"+n.Name] {
				t.Fatalf("%s: %d bytes", n.Name, len(data))
			}
		}
		if n := b.Calls(remotetest.Get); n > most {
			t.Errorf("%d requests, want at most %d", n, most)
		}
	}
}

// A file that is read in order takes few requests, not one for each of its 256 chunks.
func TestFileRequests(t *testing.T) {
	data := kisttest.Noise(7, 64<<20)
	for cache, most := range map[int64]int{browse.DefaultCache: 48, 16 << 20: 160} {
		top, b := pushed(t, map[string]string{"film": string(data)}, browse.Options{Cache: cache})
		film, err := top.Lookup(t.Context(), "film")
		if err != nil {
			t.Fatal(err)
		}
		b.ResetCounts()
		if got := readInOrder(t, film); string(got) != string(data) {
			t.Errorf("%d bytes differ from the film", len(got))
		}
		if n := b.Calls(remotetest.Get); n > most {
			t.Errorf("a cache of %d bytes: %d requests, want at most %d", cache, n, most)
		}
		if read := b.Bytes(remotetest.Get); read > 80<<20 {
			t.Errorf("a cache of %d bytes: %d bytes read", cache, read)
		}
	}
}
