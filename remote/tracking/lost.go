package tracking

import (
	"context"
	"maps"
	"slices"

	"github.com/kist-vcs/kist/gc"
	"github.com/kist-vcs/kist/object"
)

// LostObject is an object whose loss was accepted, with the commits and paths that
// it affects.
type LostObject struct {
	*gc.Problem
	Who string // who accepted it on the remote; may be empty
}

// affectedByLoss returns the lost objects with the commits and paths that they
// affect, among those reachable from tips.
func affectedByLoss(ctx context.Context, objects object.Reader, tips []object.Key, lost map[object.Key]string) ([]LostObject, error) {
	var problems []*gc.Problem
	var list []LostObject
	for _, key := range slices.SortedFunc(maps.Keys(lost), object.Key.Compare) {
		p := &gc.Problem{Key: key, Err: &object.NotFoundError{Key: key}}
		problems, list = append(problems, p), append(list, LostObject{p, lost[key]})
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list, gc.Affected(ctx, objects, nil, tips, problems)
}
