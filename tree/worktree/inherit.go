package worktree

import (
	"encoding/binary"
)

// inheritance is what a folder gives to the names that are made in it. A file that was made
// in a folder with an equal one, and moved, is as if it was made in this one.
type inheritance struct {
	gid uint32 // the group of new names; keepOwner: that of the process
	acl string // the default ACL, as the extended attribute has it; empty: none
}

// defaultACL is the extended attribute with the ACL of new names in a folder.
const defaultACL = "system.posix_acl_default"

// inheritanceOf returns what d gives to new names. What cannot be read does not count.
func inheritanceOf(d folder) inheritance {
	in := inheritance{gid: keepOwner}
	if st, err := d.lstat(""); err == nil && passesGroup(st.mode) {
		in.gid = st.gid
	}
	all, err := d.xattrs("", func(name string) bool { return name == defaultACL })
	if err == nil {
		in.acl = string(all[defaultACL])
	}
	return in
}

// newMode returns the permission bits that a new name with an entry's mode gets. A default ACL
// replaces the umask, and new folders keep the set-group-ID bit of their folder.
func (in inheritance) newMode(o *Options, mode uint16, isDir bool) uint16 {
	written := o.written(mode)
	if limit, ok := aclLimit(in.acl); ok {
		written = mode&limit&0o777 | written&^0o777
	}
	if isDir && setsGroup && in.gid != keepOwner {
		written |= setGroup
	}
	return written
}

// setGroup is the set-group-ID bit.
const setGroup = 0o2000

// aclLimit returns the permission bits that an ACL allows new names at most, as in acl(5):
// those of the owner, the mask or else the group, and others. It reports false if there is no ACL.
func aclLimit(acl string) (limit uint16, ok bool) {
	const header, size = 4, 8 // bytes of the version, and of an entry: tag, permissions, ID
	const userObj, groupObj, mask, other = 0x01, 0x04, 0x10, 0x20
	perms := map[uint16]uint16{}
	for at := header; at+size <= len(acl); at += size {
		entry := []byte(acl[at : at+size])
		perms[binary.LittleEndian.Uint16(entry)] = binary.LittleEndian.Uint16(entry[2:]) & 7
	}

	group, masked := perms[mask]
	if !masked {
		group = perms[groupObj]
	}
	return perms[userObj]<<6 | group<<3 | perms[other], len(perms) > 0
}
