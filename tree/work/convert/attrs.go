package convert

import (
	"archive/tar"
	"context"
	"fmt"
	"strings"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
	"github.com/kist-vcs/kist/tree/work/stage"
)

// attrs has the attributes of files and folders, by path.
type attrs map[string]map[string]string

// readAttrs returns the attributes in a commit: none if its content has expired, or if id is
// zero.
func readAttrs(ctx context.Context, r *kist.Repository, id object.ID) (attrs, error) {
	found := attrs{}
	if id.IsZero() {
		return found, nil
	}
	c, err := object.ReadCommit(ctx, r.Objects(), id)
	if err == nil {
		err = tree.Walk(ctx, r.Objects(), c.Tree, func(path string, e object.Entry) error {
			if len(e.Attrs) > 0 {
				found[path] = e.Attrs
			}
			return nil
		})
	}
	if object.IsUnreadable(err) {
		err = nil
	}
	return found, err
}

// setInIndex sets the attributes of the paths in idx. A path with attributes of its own keeps them.
// put removes paths that idx does not have from a.
func (a attrs) setInIndex(idx *index.Index) error {
	for path, list := range a {
		e := stage.Indexed(idx, path)
		if e == nil {
			delete(a, path)
			continue
		}
		if len(e.Attrs) == 0 {
			if err := idx.SetAttrs(path, list); err != nil {
				return err
			}
		}
	}
	return nil
}

// addAttrs gives a member that is in the index the attributes in its header, which
// 'kist archive' writes.
func (u *unpacker) addAttrs(path string, h *tar.Header) error {
	found := map[string]string{}
	for key, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(key, "KIST.attr."); ok {
			name = tarKey.Replace(name)
			if err := tree.CheckAttr(name, value); err != nil {
				return fmt.Errorf("%q: %w", path, err)
			}
			found[name] = value
		}
	}
	if len(found) == 0 {
		return nil
	}
	if err := tree.CheckAttrs(found); err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	u.attrs[path] = found
	return u.idx.SetAttrs(path, found)
}
