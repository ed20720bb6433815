package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/kist-vcs/kist"
)

// trustedUsers returns the users whose repositories are trusted: the user of this process,
// and for root under sudo also the user who called sudo.
func trustedUsers() []int {
	users := []int{os.Geteuid()}
	if uid, err := strconv.Atoi(os.Getenv("SUDO_UID")); err == nil && os.Geteuid() == 0 {
		users = append(users, uid)
	}
	return users
}

// CheckOwner returns an error if the worktree root or its .kist belongs to an untrusted
// user, whose files could make this process do anything. It returns nil if there is no
// repository.
func CheckOwner(env *Env, root string) error {
	owner, stranger := 0, ""
	paths := []string{filepath.Join(root, kist.Dir), root}
	if kist.IsBareDir(root) {
		paths = []string{RealPath(root)}
	}

	for _, path := range paths {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if ok && info.Mode()&fs.ModeSymlink == 0 && !slices.Contains(env.Owners, int(st.Uid)) && stranger == "" {
			owner, stranger = int(st.Uid), path
		}
	}
	if stranger == "" || len(env.Owners) == 0 {
		return nil
	}
	if env.UserErr != nil {
		return env.UserErr
	}
	if Trusts(env.User.Values(kist.KeySafeDirectory), root) {
		return nil
	}
	return Hintf(Failf(ExitFailed, "owner", "%s belongs to another user (ID %d)", QuotePath(stranger), owner),
		"if you trust the owner: kist config --global --add safe.directory %s", ShellWord(RealPath(root)))
}

// ShellWord quotes text as one word of a shell's command line. It escapes characters that
// control a terminal.
func ShellWord(text string) string {
	if strings.Trim(text, wordCharacters) == "" {
		return text
	}
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` || strings.Contains(text, "'") {
		return "$'" + strings.ReplaceAll(strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`), "'", `\'`) + "'"
	}
	return "'" + text + "'"
}

// wordCharacters have no meaning to a shell.
const wordCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%"

// Trusts reports whether a list of trusted folders has root, or is "*".
func Trusts(list []string, root string) bool {
	return slices.ContainsFunc(list, func(dir string) bool { return dir == "*" || RealPath(dir) == RealPath(root) })
}

// RealPath returns a path with all symlinks resolved, if the path exists.
func RealPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return filepath.Clean(path)
}

// WarnReadable warns if other users can read the stored content. Old versions of kist
// created such repositories.
func WarnReadable(env *Env, r *kist.Repository) {
	dir := r.Dir()
	info, err := os.Lstat(dir)
	if err != nil {
		return
	}
	mode := info.Mode()
	if mode&0o007 != 0 || mode&0o070 != 0 && mode&fs.ModeSetgid == 0 {
		env.Warn("other users can read the data in %s (%v): 'chmod 700 %s' ends that", QuotePath(dir), mode, ShellWord(dir))
	}
}
