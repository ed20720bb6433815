package worktree

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/index"
)

// encodeACL returns the extended attribute of an ACL: for the owner, user 1234, the group, the
// mask and others.
func encodeACL(owner, user, group, mask, other uint16) []byte {
	acl := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range [][2]uint16{{1, owner}, {2, user}, {4, group}, {0x10, mask}, {0x20, other}} {
		acl = binary.LittleEndian.AppendUint16(acl, e[0])
		acl = binary.LittleEndian.AppendUint16(acl, e[1])
		id := ^uint32(0)
		if e[0] == 2 {
			id = 1234
		}
		acl = binary.LittleEndian.AppendUint32(acl, id)
	}
	return acl
}

// made is what a folder decides about a new name.
type made struct {
	GID         uint32
	Mode        uint32
	ACL, OfKids string
}

func madeAt(f *fixture, path string) made {
	f.t.Helper()
	at := filepath.Join(f.root, path)
	var st unix.Stat_t
	f.check(unix.Lstat(at, &st))
	attr := func(name string) string {
		buf := make([]byte, 1000)
		n, err := unix.Lgetxattr(at, name, buf)
		if err != nil {
			return ""
		}
		return string(buf[:n])
	}
	return made{st.Gid, st.Mode, attr(tree.AccessACL), attr(tree.DefaultACL)}
}

// Written files and folders have the group, the permission bits and the ACL that the system gives
// to any new name of the folder. A scan finds no change in them.
func TestApplyInherits(t *testing.T) {
	if os.Geteuid() != 0 {
		objecttest.Skip(t, "only root can give a folder to another group")
	}
	defer unix.Umask(unix.Umask(0o022))

	const group = 4321
	open, closed := encodeACL(7, 7, 7, 7, 5), encodeACL(7, 5, 5, 5, 0)
	for _, test := range []struct {
		name   string
		mode   uint32 // of the folder
		acl    []byte
		kistIn uint32 // the mode of .kist/tmp
	}{
		{"plain", 0o755, nil, 0o755},
		{"set-group-ID", 0o2775, nil, 0o755},
		{"set-group-ID in .kist, too", 0o2775, nil, 0o2775},
		{"set-group-ID only in .kist", 0o755, nil, 0o2775},
		{"ACL", 0o755, open, 0o755},
		{"ACL with fewer rights", 0o755, closed, 0o755},
		{"both", 0o2770, closed, 0o755},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newReal(t)
			f.w.opt.Umask = 0o022
			prepare := func(dir string, gid int, mode uint32) {
				t.Helper()
				at := filepath.Join(f.root, dir)
				f.check(os.MkdirAll(at, 0o755))
				f.check(os.Chown(at, 0, gid))
				f.check(unix.Chmod(at, mode))
				if test.acl != nil && dir != ".kist/tmp" {
					f.check(unix.Setxattr(at, tree.DefaultACL, test.acl, 0))
				}
			}
			prepare(".kist/tmp", group, test.kistIn)
			prepare("d", group, test.mode)
			prepare("system", group, test.mode)

			ops := []Op{
				{Path: "d/file", New: f.file("1")}, {Path: "d/run", New: f.file("2")}, {Path: "d/long", New: f.file(random(1, 300_000))},
				{Path: "d/private", New: f.file("3")}, {Path: "d/sub", New: dir(0o755)}, {Path: "d/sub/file", New: f.file("4")}, {Path: "d/link", New: link("x")},
			}
			ops[1].New.Mode, ops[3].New.Mode = 0o755, 0o600
			applied := f.apply(ops...)

			for _, op := range ops {
				at := filepath.Join(f.root, "system", op.Path[2:])
				switch {
				case op.New.Target != "":
					f.check(os.Symlink("x", at))
				case op.makesType(dir(0).Type):
					f.check(unix.Mkdir(at, uint32(op.New.Mode)))
				default:
					fd, err := unix.Open(at, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, uint32(op.New.Mode))
					f.check(err)
					f.check(unix.Close(fd))
				}
				same(t, op.Path, madeAt(f, op.Path), madeAt(f, "system"+op.Path[1:]))
			}

			f.check(f.idx.SetDir("d", *dir(uint16(test.mode))))
			for _, a := range applied {
				if a.New.Type == dir(0).Type {
					f.check(f.idx.SetDir(a.Path, *a.New))
				} else {
					f.check(f.idx.Set(a.Path, index.NewEntry(*a.New, index.Stat{}))) // each file is read
				}
			}
			found, err := f.w.Scan(ctx, f.idx, ScanOptions{NoUntracked: true})
			f.check(err)
			if len(found) != len(ops)-1 {
				t.Errorf("the scan found %v, want all but the folder", lines(found))
			}
			for _, x := range found {
				if want := f.idx.Entry(x.Path); x.Dir || want.Type == x.Type && x.Type != link("").Type && x.Mode != want.Mode {
					t.Errorf("the scan found %s with mode %o", x.Path, x.Mode)
				}
			}
		})
	}
}

// Without its metadata, a path with an ACL is recorded with the rights that its owning group has.
// The mode that the system reports would give the group all that the ACL gives to others.
func TestModeOfACL(t *testing.T) {
	defer unix.Umask(unix.Umask(0o022))
	for _, test := range []struct {
		name     string
		metadata bool
		acl      []byte
		want     uint16
	}{
		{"the group has no rights", false, encodeACL(7, 6, 0, 6, 0), 0o700},
		{"the group has some", false, encodeACL(7, 7, 5, 7, 0), 0o750},
		{"more than the mask", false, encodeACL(7, 7, 7, 1, 0), 0o710},
		{"the metadata has the ACL", true, encodeACL(7, 6, 0, 6, 0), 0o760},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newReal(t)
			f.w.opt.Umask, f.w.opt.Metadata = 0o022, test.metadata
			f.write("d/file", "x")
			f.check(os.Chmod(filepath.Join(f.root, "d/file"), 0o770))
			f.check(os.Chmod(filepath.Join(f.root, "d"), 0o770))
			f.stage()
			for _, path := range []string{"d", "d/file"} {
				f.check(unix.Setxattr(filepath.Join(f.root, path), tree.AccessACL, test.acl, 0))
			}
			f.stage()

			e := *f.idx.Entry("d/file")
			if e.Mode != test.want {
				t.Errorf("recorded mode %o, want %o", e.Mode, test.want)
			}
			e.Stat = index.Stat{} // the next scan looks at it again
			f.check(f.idx.Set("d/file", e))
			found, err := f.w.Scan(ctx, f.idx, ScanOptions{})
			f.check(err)
			for _, x := range found {
				if x.State == ModeChanged || x.Path == "d/file" && x.Mode != test.want {
					t.Errorf("the scan found %v %s with mode %o", x.State, x.Path, x.Mode)
				}
			}
			if d := f.idx.Dir("d"); d.Mode() != test.want {
				t.Errorf("recorded mode %o of the folder, want %o", d.Mode(), test.want)
			}
		})
	}
}
