package remotetest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/remote"
)

// checkNames stores blobs under all sorts of names and finds each again.
func checkNames(t testing.TB, b remote.Backend) {
	names := []string{
		"0", "a", "b.c", "a-b", "-", "_", "--", "a..b", "c.", "con", "nul.txt", "x/y", "y/-/_/0", "z-1/q", "z/q", "z.1/q", "a.tmp",
		"kist.json", "probe/n/kist.json", "root/00000000000000000001", "probe/n/root/1", "x.kist.json", "roots/1",
		strings.Repeat("n", remote.MaxNameSize), strings.Repeat("d/", remote.MaxNameSize/2-1) + "dd",
		strings.Repeat("r/", remote.MaxNameSize/2-3) + "root/r",
		"packs/" + strings.Repeat("0", 32), "packs/" + strings.Repeat("0", 31) + "1",
	}
	for i, name := range names {
		put(t, b, name, sample(i, 50))
	}
	for i, name := range names {
		want(t, b, name, sample(i, 50))
	}
}

func checkNamesRefused(t testing.TB, b remote.Backend) {
	ctx := context.Background()
	put(t, b, "packs/a", []byte("there"))
	put(t, b, "root/1", []byte("there"))
	for _, name := range []string{
		"", "/", "/a", "a/", "packs//a", ".", "..", "../a", "a/../b", "packs/./a", "./packs/a", ".hidden", "packs/.a",
		"Packs/a", "packs/A", "ä", "a b", "a\\b", "a\x00b", "a\nb", "a:b", "a%2fb", "a?b", "a*", "$a", "root/../root/1", "root/A", "root/1/",
		strings.Repeat("a", remote.MaxNameSize+1), "root/" + strings.Repeat("1", remote.MaxNameSize),
	} {
		n, err := b.Get(ctx, name, make([]byte, 10), 0)
		wantKind(t, fmt.Sprintf("get %.40q", name), err, remote.ErrName)
		if n != 0 {
			t.Errorf("get %.40q: %d bytes", name, n)
		}
		_, err = b.Stat(ctx, name)
		wantKind(t, fmt.Sprintf("stat %.40q", name), err, remote.ErrName)
		wantKind(t, fmt.Sprintf("put %.40q", name), b.Put(ctx, name, bytes.NewReader([]byte("x")), 1), remote.ErrName)
		wantKind(t, fmt.Sprintf("create %.40q", name), b.Create(ctx, name, []byte("x")), remote.ErrName)
		wantKind(t, fmt.Sprintf("delete %.40q", name), b.Delete(ctx, name), remote.ErrName)
	}
	for _, prefix := range []string{"packs", "packs/a", "/", "/packs/", "packs//", "../", "./", "Packs/", ".a/", strings.Repeat("a", remote.MaxNameSize+1) + "/"} {
		infos, err := list(t, b, prefix)
		wantKind(t, fmt.Sprintf("list %.40q", prefix), err, remote.ErrName)
		if len(infos) > 0 {
			t.Errorf("list %.40q: %d entries", prefix, len(infos))
		}
	}
	want(t, b, "packs/a", []byte("there"))
	want(t, b, "root/1", []byte("there"))
	wantList(t, b, "", []string{"packs/a", "root/1"})
}

// checkKindsApart stores blobs under names for records, and the other way
// round: neither is done.
func checkKindsApart(t testing.TB, b remote.Backend) {
	ctx := context.Background()
	for _, name := range []string{"kist.json", "root/1", "probe/n/kist.json", "probe/n/root/1"} {
		wantKind(t, fmt.Sprintf("put %q", name), b.Put(ctx, name, bytes.NewReader([]byte("x")), 1), remote.ErrName)
		wantNone(t, b, name)
	}
	for _, name := range []string{"packs/a", "kist.jsonx", "root", "root/1/2", "kist.json/1", "aroot/1"} {
		wantKind(t, fmt.Sprintf("create %q", name), b.Create(ctx, name, []byte("x")), remote.ErrName)
		wantNone(t, b, name)
	}
	wantList(t, b, "", nil)
}
