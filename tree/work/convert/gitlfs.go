package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"regexp"
	"sync"

	"github.com/kist-vcs/kist/object"
)

// maxPointer is the size of the largest pointer, in bytes. git-lfs writes about 130.
const maxPointer = 1024

// annexObjects is in the target of each link by which git-annex stands for a file. A file that is
// unlocked there is a pointer in git, which begins with annexPointer.
const (
	annexObjects = ".git/annex/objects/"
	annexPointer = "/annex/objects/"
)

// lfsPointer is a small file by which git-lfs stands for a large one.
type lfsPointer struct {
	sum string // SHA-256 of the content, in hexadecimal digits

	looked bool // whether the content was looked for
	found  object.Entry
	reason string // why there is none
}

var pointerForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\Aversion https://(?:git-lfs\.github\.com|hawser\.github\.com)/spec/v1\n(?:ext-.*\n)*oid sha256:([0-9a-f]{64})\nsize [0-9]+\n?\z`)
})

// parsePointer returns the pointer that a file consists of, or nil.
func parsePointer(content []byte) *lfsPointer {
	m := pointerForm().FindSubmatch(content)
	if m == nil {
		return nil
	}
	return &lfsPointer{sum: string(m[1])}
}

// resolveLFSPointer returns the entry with the content that a pointer stands for. If it is missing or
// damaged, it returns the pointer itself, and the reason.
func (g *gitReader) resolveLFSPointer(ctx context.Context, blob gitBlob) (object.Entry, string, error) {
	p := blob.lfs
	if !p.looked {
		var err error
		if p.found, p.reason, err = g.readLarge(ctx, p.sum); err != nil {
			return blob.Entry, "", err
		}
		p.looked = true
	}
	if p.reason != "" {
		return blob.Entry, p.reason, nil
	}
	return p.found, "", nil
}

// readLarge stores a content of git-lfs.
func (g *gitReader) readLarge(ctx context.Context, sum string) (e object.Entry, reason string, err error) {
	const missing = "only a pointer of git-lfs; its content is missing"
	if g.LFS == nil {
		return e, missing, nil
	}
	content, err := g.LFS(sum)
	if errors.Is(err, fs.ErrNotExist) {
		return e, missing, nil
	}
	if err != nil {
		return e, "", err
	}
	defer content.Close()

	hash := sha256.New()
	stored, err := g.repo.Worktree().StoreStream(ctx, g.dst, io.TeeReader(content, hash), nil)
	if err != nil {
		return e, "", err
	}
	if hex.EncodeToString(hash.Sum(nil)) != sum {
		return e, "only a pointer of git-lfs; its content is damaged", nil
	}
	g.done.Bytes += int64(stored.Entry.Size)
	return object.Entry{Type: object.TypeFile, Size: stored.Entry.Size, Inline: stored.Entry.Inline, Content: stored.Entry.Content}, "", nil
}
