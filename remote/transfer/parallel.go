package transfer

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/remote/pack"
)

// parallel calls each for 0 to n-1, as many as jobs at once. The first error ends it.
func parallel(ctx context.Context, jobs, n int, each func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(jobs)
	for i := range n {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return each(ctx, i)
		})
	}
	return group.Wait()
}

// checkSize returns an error if a file of the remote is missing, or damaged because its
// size is not want.
func (r *Remote) checkSize(ctx context.Context, name string, want int64) error {
	info, err := r.b.Stat(ctx, name)
	if err == nil && info.Size != want {
		err = damaged(name, fmt.Errorf("%d bytes, want %d", info.Size, want))
	}
	return err
}

// node returns a checked node, from nodes, which has its pack. If that copy is damaged,
// node reads the pack once more.
func (s *snapshot) node(ctx context.Context, nodes *nodePacks, e pack.Entry) ([]byte, error) {
	value, err := nodes.value(e)
	if err == nil {
		var data []byte
		if data, err = nodes.values.Decode(ctx, e, value, pack.Part{}); err == nil {
			return data, object.Check(e.Key.Kind, data)
		}
	}
	if !isBad(err) {
		return nil, err
	}
	return s.readChecked(ctx, e)
}

// readChecked is read that also checks the format of the object.
func (s *snapshot) readChecked(ctx context.Context, e pack.Entry) ([]byte, error) {
	data, err := s.read(ctx, e)
	if err == nil {
		err = object.Check(e.Key.Kind, data)
	}
	return data, err
}
