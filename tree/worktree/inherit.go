package worktree

import "github.com/kist-vcs/kist/tree"

// inheritance is what a folder gives to the names that are made in it. A file that was made
// in a folder with an equal one, and moved, is as if it was made in this one.
type inheritance struct {
	gid uint32 // the group of new names; keepOwner: that of the process
	acl string // the default ACL, as the extended attribute has it; empty: none
}

// inheritanceOf returns what d gives to new names. What cannot be read does not count.
func inheritanceOf(d folder) inheritance {
	in := inheritance{gid: keepOwner}
	if st, err := d.lstat(""); err == nil && passesGroup(st.mode) {
		in.gid = st.gid
	}
	all, err := d.xattrs("", func(name string) bool { return name == tree.DefaultACL })
	if err == nil {
		in.acl = string(all[tree.DefaultACL])
	}
	return in
}

// newMode returns the permission bits that a new name with an entry's mode gets. A default ACL
// replaces the umask, and new folders keep the set-group-ID bit of their folder.
func (in inheritance) newMode(o *Options, mode uint16, isDir bool) uint16 {
	written := o.writtenMode(mode)
	if acl, err := tree.DecodeACL([]byte(in.acl)); err == nil {
		written = mode&acl.Perm() | written&^0o777
	}
	if isDir && setsGroup && in.gid != keepOwner {
		written |= setGroup
	}
	return written
}

// setGroup is the set-group-ID bit.
const setGroup = 0o2000
