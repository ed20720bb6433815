package main

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/object/objecttest"
)

// TestBackupMetadata checks that backups restore all content and metadata of a folder that
// changes at random. It restores ten commits, each to a new folder and over the previous one.
// With restic, both programs must restore the same state.
func TestBackupMetadata(t *testing.T) {
	t.Parallel()
	p := newPlaceInFolder(t)
	s := p.folder()
	s.kist("init", "--metadata", "full", "--chunk-size", "64KiB")
	s.kist("remote", "add", "origin", p.url)
	m := &mutator{t: t, rng: objecttest.Rand(9), dir: s.path("live")}
	if err := os.Mkdir(m.dir, 0o755); err != nil {
		t.Fatal(err)
	}

	states := map[string][]string{} // by commit
	var commits []string
	for range objecttest.Rounds(t, 5) {
		for range 1 + m.rng.IntN(30) {
			m.mutate()
		}
		before := m.describe(m.dir)
		b := s.backup(0)
		if after := m.describe(m.dir); !slices.Equal(before, after) {
			t.Fatalf("the backup changed files: %q", difference(before, after))
		}
		if text := s.kist("status", "-s"); text != "" {
			t.Fatalf("status after a backup, want nothing:\n%s", text)
		}
		if _, known := states[b.Commit]; !known {
			commits = append(commits, b.Commit)
			m.restic("backup", "--quiet", "--tag", b.Commit, m.dir)
		}
		states[b.Commit] = before
	}

	s.kist("verify", "--remote", "origin", "--read-data")
	m.rng.Shuffle(len(commits), func(i, j int) { commits[i], commits[j] = commits[j], commits[i] })
	for _, id := range commits[:min(10, len(commits))] {
		for to, how := range map[string]string{"../new": "never", "../over": "always"} {
			s.kist("restore", "--source", id, "--to", to, "--metadata", "full", "--overwrite", how, "--delete", "--verify", "live")
			if got := m.describe(s.path(to + "/live")); !slices.Equal(got, states[id]) {
				t.Errorf("commit %s, restored to %s: %q", id, to, difference(got, states[id]))
			}
		}
		if m.restic("restore", "--quiet", "--tag", id, "latest:"+m.dir, "--target", s.path("../restic")) {
			if got, want := resticKeeps(m.describe(s.path("../restic"))), resticKeeps(m.describe(s.path("../new/live"))); !slices.Equal(got, want) {
				t.Errorf("commit %s: restic (got) and kist (want) restore different states: %q", id, difference(got, want))
			}
			if err := os.RemoveAll(s.path("../restic")); err != nil {
				t.Fatal(err)
			}
		}
		if o := s.exits(0, "restore", "--source", id, "--to", "../over", "--metadata", "full", "live"); !strings.HasPrefix(o.stderr, "0 files") {
			t.Errorf("commit %s: a second restore wrote unchanged files: %v", id, o)
		}
		if err := os.RemoveAll(s.path("../new")); err != nil {
			t.Fatal(err)
		}
	}
}

// restic runs the program that KIST_TEST_RESTIC names. It returns false if none is named.
func (m *mutator) restic(args ...string) bool {
	program := os.Getenv("KIST_TEST_RESTIC")
	if program == "" {
		return false
	}
	env := append(os.Environ(), "RESTIC_REPOSITORY="+m.dir+".restic", "RESTIC_PASSWORD=x", "RESTIC_CACHE_DIR="+m.dir+".cache")
	if _, err := os.Stat(m.dir + ".restic"); err != nil && args[0] != "init" {
		m.restic("init", "--quiet")
	}
	cmd := exec.Command(program, args...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("restic %q: %v\n%s", args, err, out)
	}
	return true
}

var lineMode = regexp.MustCompile(`^("(?:\\.|[^"\\])*") (\d+)\d{4} (.*)link=".*?" (.*)$`)

// resticKeeps reduces the lines of describe to the state that restic restores. It drops the
// folder itself, sockets, and the hard links of all but regular files.
func resticKeeps(lines []string) (kept []string) {
	for _, line := range lines {
		part := lineMode.FindStringSubmatch(line)
		switch {
		case part == nil || part[2] == "10":
			kept = append(kept, line)
		case part[1] != `"."` && part[2] != "14":
			kept = append(kept, strings.Join(part[1:], " "))
		}
	}
	return kept
}

// difference returns the lines that only one of the lists has.
func difference(got, want []string) (diff []string) {
	for _, line := range got {
		if !slices.Contains(want, line) {
			diff = append(diff, "got "+line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			diff = append(diff, "want "+line)
		}
	}
	return diff
}

// mutator changes a folder at random.
type mutator struct {
	t   *testing.T
	rng *rand.Rand
	dir string
}

// oddNames has names that programs often mishandle.
var oddNames = []string{"a", "b", "ü", "x y", "-d", ".h", "#c", "n\nl", "[g]", "*", "\xff"}

// paths returns all folders, or everything else.
func (m *mutator) paths(folders bool) (list []string) {
	err := filepath.WalkDir(m.dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() == folders {
			list = append(list, name)
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return list
}

// mutate makes one random change. It skips a change that the system refuses.
func (m *mutator) mutate() {
	r := m.rng
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	name := path.Join(pick(m.paths(true)), fmt.Sprint(pick(oddNames), r.IntN(30)))
	files := m.paths(false)
	if len(files) == 0 || r.IntN(3) == 0 {
		m.write(name)
		return
	}
	file := pick(files)
	any := pick(append(files, m.paths(true)...))
	at := unix.NsecToTimespec(r.Int64N(2e18))
	var err error
	switch r.IntN(18) {
	case 0:
		err = os.Remove(file)
	case 1:
		err = os.Mkdir(name, 0o755)
	case 2:
		if dir := pick(m.paths(true)); dir != m.dir {
			err = os.RemoveAll(dir)
		}
	case 3:
		err = os.Rename(file, name)
	case 4:
		err = os.Symlink(pick([]string{"a1", "b/b2", "/nonexistent/x"}), name)
	case 5:
		err = os.Link(file, name)
	case 6:
		if info, serr := os.Lstat(any); serr == nil && info.Mode().Type() != fs.ModeSymlink {
			err = unix.Chmod(any, []uint32{0o644, 0o600, 0o755, 0o4755, 0o2750, 0o1777}[r.IntN(6)])
		}
	case 7:
		err = os.Lchown(any, r.IntN(3)*1000, r.IntN(3)*1000)
	case 8:
		err = unix.Lsetxattr(any, "user."+pick([]string{"a", "b"}), []byte(noise(r, r.IntN(100))), 0)
	case 9:
		err = unix.Lremovexattr(any, "user.a")
	case 10:
		err = unix.Mkfifo(name, 0o640)
	case 11:
		err = unix.Mknod(name, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
	case 12:
		err = unix.UtimesNanoAt(unix.AT_FDCWD, any, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
	case 13:
		m.write(file)
	case 14:
		fd, serr := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if serr != nil {
			m.t.Fatal(serr)
		}
		defer unix.Close(fd)
		err = m.at(name, func(short string) error { return unix.Bind(fd, &unix.SockaddrUnix{Name: short}) })
	case 15:
		err = unix.Lsetxattr(any, "system.posix_acl_access", randomACL(r), 0)
	case 16:
		err = unix.Lsetxattr(file, "security.capability", append([]byte{1, 0, 0, 2, byte(1 << r.IntN(8))}, make([]byte, 15)...), 0)
	case 17:
		if f, serr := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644); serr == nil {
			defer f.Close()
			if _, err = f.WriteAt([]byte("end"), r.Int64N(3<<20)); err == nil {
				_, err = f.WriteAt([]byte("middle"), r.Int64N(1<<20))
			}
		}
	}

	var errno unix.Errno
	if err != nil && !errors.As(err, &errno) {
		m.t.Fatal(err)
	}
}

// randomACL returns an ACL with a user and a group.
func randomACL(r *rand.Rand) []byte {
	acl := binary.LittleEndian.AppendUint32(nil, 2)
	for _, tag := range []uint16{0x01, 0x02, 0x04, 0x08, 0x10, 0x20} {
		id := ^uint32(0)
		if tag == 0x02 || tag == 0x08 {
			id = r.Uint32N(5000)
		}
		acl = binary.LittleEndian.AppendUint16(acl, tag)
		acl = binary.LittleEndian.AppendUint16(acl, uint16(r.UintN(8)))
		acl = binary.LittleEndian.AppendUint32(acl, id)
	}
	return acl
}

// at calls f with a path of the file that is short enough for a socket address.
func (m *mutator) at(name string, f func(short string) error) error {
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(name)))
}

// write writes a file, unless a symlink, a FIFO, a device or a folder has the name.
func (m *mutator) write(name string) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return
	}
	if _, err := f.WriteString(noise(m.rng, []int{0, 20, 100, 5000, 300_000}[m.rng.IntN(5)])); err != nil {
		m.t.Fatal(err)
	}
}

// describe returns one line for each entry of a folder, with its content and all metadata.
func (m *mutator) describe(dir string) (lines []string) {
	first := map[uint64]string{} // the first name of each inode
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(name, &st); err != nil {
			return err
		}
		content := ""
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			content = fmt.Sprintf("%d %x", len(data), sha256.Sum256(data))
		case unix.S_IFLNK:
			content, err = os.Readlink(name)
		case unix.S_IFCHR:
			content = fmt.Sprint(st.Rdev)
		}

		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		link := ""
		if !d.IsDir() && st.Nlink > 1 {
			if link = first[st.Ino]; link == "" {
				first[st.Ino] = rel
				link = rel
			}
		}
		lines = append(lines, fmt.Sprintf("%q %o %d:%d %d.%09d %s link=%q %s", rel, st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec, content, link, xattrs(m.t, name)))
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return lines
}

// xattrs returns the extended attributes of a file as text.
func xattrs(t *testing.T, name string) (text string) {
	buf := make([]byte, 64<<10)
	n, err := unix.Llistxattr(name, buf)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range slices.Sorted(strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00")) {
		if key == "" {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Lgetxattr(name, key, value)
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("%s=%x ", key, value[:n])
	}
	return text
}

// TestUnrecorded checks that kist warns once of metadata that a portable repository does not record.
func TestUnrecorded(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"plain": "plain"})
	if out := s.exits(0, "add", "."); strings.Contains(out.stderr, "recorded") {
		t.Errorf("a warning, but all metadata is recorded: %v", out)
	}

	s.write(map[string]string{"noted": "noted", "one": "linked"})
	if err := errors.Join(unix.Setxattr(s.path("noted"), "user.note", []byte("x"), 0), os.Link(s.path("one"), s.path("two"))); err != nil {
		t.Fatal(err)
	}
	owner := ""
	if os.Geteuid() == 0 {
		owner = "1 owner, "
		if err := os.Chown(s.path("noted"), nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	want := "warning: not recorded: " + owner + "2 hard links, 1 file's extended attributes; only a repository made with 'kist init --metadata full' records them\n"
	for _, args := range []string{"add -n .", "-q add plain"} {
		if out := s.exits(0, strings.Fields(args)...); out.stderr != "" {
			t.Errorf("a warning, but nothing is staged or -q is given: %v", out)
		}
	}
	if out := s.exits(0, "backup"); !strings.Contains(out.stderr, want) {
		t.Errorf("no warning %q: %v", want, out)
	}
	s.write(map[string]string{"one": "changed"})
	if out := s.exits(0, "add", "."); strings.Contains(out.stderr, "recorded") {
		t.Errorf("a second warning: %v", out)
	}
	s.verify()
}
