package worktree

import (
	"errors"
	"syscall"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
)

// aclPath is an open path on a file system that may refuse ACLs.
type aclPath struct {
	refuses error
	mode    uint32
}

func (p *aclPath) Close() error                                { return nil }
func (p *aclPath) chown(uid, gid uint32) error                 { return nil }
func (p *aclPath) chmod(perm uint32) error                     { p.mode = perm; return nil }
func (p *aclPath) xattrs(wantXattr) (map[string][]byte, error) { return nil, nil }
func (p *aclPath) removeXattr(string) error                    { return nil }
func (p *aclPath) setXattr(name string, _ []byte) error {
	if name == tree.AccessACL {
		return p.refuses
	}
	return nil
}

// A path that does not get its ACL gives the owning group no more rights than the ACL did.
func TestModeWithoutACL(t *testing.T) {
	acl, _, err := tree.ParseACL("user::rw-,user:7:rw-,group::r--,mask::rw-,other::---", tree.ACLIDs{})
	if err != nil {
		t.Fatal(err)
	}
	f := newReal(t)
	e := f.file("content")
	e.Mode, e.Meta = 0o4660, &object.Metadata{Xattrs: map[string][]byte{tree.AccessACL: acl.Encode(), "user.a": []byte("x")}}
	f.w.opt.SetID = true
	full := ApplyOptions{Metadata: &FullMetadata{NumericIDs: true}}
	for name, test := range map[string]struct {
		refuses error
		o       ApplyOptions
		want    uint32
	}{
		"full":                     {nil, full, 0o4660},
		"not supported":            {syscall.ENOTSUP, full, 0o4640},
		"no space":                 {syscall.ENOSPC, full, 0o4640},
		"a checkout writes no ACL": {errors.New("not called"), ApplyOptions{}, 0o4640},
		"not selected":             {errors.New("not called"), full, 0o4640},
	} {
		f.w.opt.Xattrs = nil
		if name == "not selected" {
			f.w.opt.Xattrs = SelectXattrs(nil, []string{"system.*"})
		}
		w := &applyWorker{applier: &applier{w: f.w, o: test.o}}
		w.inherits.gid = keepOwner
		path := &aclPath{refuses: test.refuses}
		if err := w.setProperties(path, e, 0); err != nil || path.mode != test.want {
			t.Errorf("%s: mode %o, error %v, want %o", name, path.mode, err, test.want)
		}
	}
}
