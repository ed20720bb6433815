package exchange

import (
	"context"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/transfer"
)

// FindKept returns the chunks that a remote keeps, as an eviction finds them.
func FindKept(ctx context.Context, reader *transfer.Reader, reach *gc.Reach, verify bool, chunks []object.Key) ([]object.Key, error) {
	p := &proof{reader: reader, reach: reach, verify: verify}
	return p.findKept(ctx, chunks)
}
