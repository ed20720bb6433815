package convert

import (
	"archive/tar"
	"strings"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/worktree"
)

// aclIDs finds users and groups of this machine.
var aclIDs = tree.ACLIDs{User: worktree.UserID, Group: worktree.GroupID}

// addACLs gives e the ACLs in the header of a member. With an ACL, the permission bits of the group
// are those of everybody whom the ACL names. So they are narrowed if e does not get the ACL.
func (u *unpacker) addACLs(path string, h *tar.Header, e *object.Entry) {
	if h.Typeflag == tar.TypeSymlink || h.Typeflag == tar.TypeLink {
		return
	}
	access, recorded, found := u.readACL(path, h, e.Meta, tree.AccessACL)
	switch {
	case access != nil && recorded:
		e.Mode &= 0o7000 | access.Perm()
	case access != nil:
		e.Mode &= 0o7000 | access.PermAlone()
	case found:
		e.Mode &^= 0o070
	}
	if h.Typeflag == tar.TypeDir || h.Typeflag == 'D' {
		u.readACL(path, h, e.Meta, tree.DefaultACL)
	}
}

// readACL returns the ACL of a member that is kept in an extended attribute, and adds it to m if m is
// not nil. The attribute itself may be in the header; if not, a text is. Recorded reports whether m
// has the ACL, and found whether the header has one, which may be bad.
func (u *unpacker) readACL(path string, h *tar.Header, m *object.Metadata, xattr string) (a tree.ACL, recorded, found bool) {
	if value, ok := h.PAXRecords["SCHILY.xattr."+xattr]; ok {
		a, err := tree.DecodeACL([]byte(value))
		if err == nil {
			return a, m != nil, true
		}
		if found = true; m != nil {
			delete(m.Xattrs, xattr)
		}
	}
	text, ok := h.PAXRecords["SCHILY.acl."+strings.TrimPrefix(xattr, "system.posix_acl_")]
	if !ok {
		if found {
			u.notStored(path, "an ACL in an unknown form")
		}
		return nil, false, found
	}
	a, unknown, err := tree.ParseACL(text, aclIDs)
	if err != nil {
		u.notStored(path, err.Error())
		return nil, false, true
	}
	if m == nil || !a.IsExtended() && xattr == tree.AccessACL {
		return a, m != nil, true
	}
	if len(unknown) > 0 {
		names := object.CutText(strings.ToValidUTF8(strings.Join(unknown, ", "), "\uFFFD"), maxQuoted)
		u.notStored(path, "the rights in its ACL of "+names+": this machine has no such users or groups")
	}
	if m.Xattrs == nil {
		m.Xattrs = map[string][]byte{}
	}
	m.Xattrs[xattr] = a.Encode()
	return a, true, true
}

// notStored notes a part of a member that is left out.
func (u *unpacker) notStored(path, reason string) {
	u.result.Special = append(u.result.Special, object.Skipped{Path: path, Reason: reason})
}
