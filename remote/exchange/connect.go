package exchange

import (
	"context"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/remote/exchange/registry"
	"github.com/kist-vcs/kist/tree/views"
)

// Connect joins an open repository to its remotes and its views, until ctx or the repository
// ends. Evicted content is read from the remotes, and views follow their branches. Without
// Connect, such content cannot be read, and views stay as they are. A program calls it once,
// after [kist.Open].
func Connect(ctx context.Context, r *kist.Repository) {
	registry.ReadEvicted(ctx, r)
	views.Follow(ctx, r)
}
