package transfer

import (
	"context"
	"errors"

	"github.com/kist-vcs/kist/object"
)

// isLost reports whether an object is neither here nor there, and its loss was
// accepted here or, unless that is refused, there. It notes the latter.
func (f *fetch) isLost(key object.Key) bool {
	who, listed := f.at.Lost[key]
	listed = listed && !f.o.RefuseLost
	accepted := f.session.IsLost(key)
	if !listed && !accepted {
		return false
	}
	if _, there, err := f.snap.find(key); there || err != nil {
		return false
	}
	if absent, err := f.absent(context.Background(), []object.Key{key}); err != nil || len(absent) == 0 {
		return false
	}
	if !accepted {
		f.lost[key] = who
	}
	return true
}

// found returns the objects that are lost here, and that the remote has with all
// below them. Of the others nothing is stored: more would seem to be missing here.
func (f *fetch) found(ctx context.Context) (list []object.Key, err error) {
	for _, key := range f.o.Lost {
		_, there, err := f.snap.find(key)
		if err != nil {
			return nil, err
		}
		if there {
			list = append(list, key)
		}
	}
	if len(list) == 0 || walk(ctx, probe{f}, "remote", list, f.o.Have, f.news.views) == nil {
		return list, nil
	}
	var each []object.Key
	for _, key := range list {
		err := walk(ctx, probe{f}, "remote", []object.Key{key}, f.o.Have, f.news.views)
		switch {
		case err == nil:
			each = append(each, key)
		case !isAbsent(err):
			return nil, err
		}
	}
	return each, nil
}

// probe is the [ends] of a fetch that stores nothing.
type probe struct{ *fetch }

func (p probe) node(ctx context.Context, key object.Key) ([]byte, error) {
	data, err := p.session.Get(ctx, key)
	if isAbsent(err) {
		return p.snap.get(ctx, key)
	}
	return data, err
}

func (p probe) links(ctx context.Context, nodes []object.Key) ([][]object.Key, error) {
	lists := make([][]object.Key, len(nodes))
	return lists, parallel(ctx, p.jobs, len(nodes), func(ctx context.Context, i int) error {
		data, err := p.node(ctx, nodes[i])
		if err == nil {
			lists[i], err = object.Links(nodes[i].Kind, data)
		}
		return err
	})
}

func (p probe) chunks(ctx context.Context, keys []object.Key) error {
	absent, err := p.absent(ctx, keys)
	for i := 0; i < len(absent) && err == nil; i++ {
		_, err = p.entry(absent[i])
	}
	return err
}

// isAbsent reports whether an error says that an object is missing or damaged.
func isAbsent(err error) bool {
	return errors.Is(err, object.ErrNotFound) || errors.Is(err, object.ErrCorrupt)
}
