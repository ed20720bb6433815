package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/kist-vcs/kist/object/trace"
	"github.com/kist-vcs/kist/remote"
)

// startLog opens the log that KIST_DEBUG names, and puts it into env and into the returned context.
// The returned function ends the log with the outcome of the command. If the file cannot be written,
// the command runs without a log, after a warning.
func startLog(ctx context.Context, env *Env, args []string) (context.Context, func(status int)) {
	name := env.Getenv("KIST_DEBUG")
	if name == "" {
		return ctx, func(int) {}
	}
	file, err := openPrivate(env, name)
	if err != nil {
		env.Warn("no log of KIST_DEBUG: %v", err)
		return ctx, func(int) {}
	}

	env.log = trace.New(env.Secrets.hidingWriter(withoutSecrets{file}), env.Now, "pid", os.Getpid())
	env.log.Note("kist "+VersionString(), "dir", env.Dir)
	end := env.log.Begin("command", "args", args)
	return trace.With(ctx, env.log), func(status int) {
		end(nil, "status", status)
		_ = file.Close() // the command does not fail because of its log
	}
}

// openPrivate opens a file to append to, and makes it for this user alone if it is absent. Its folder
// may be one in which others plant files, as /tmp: a file that is no plain file of this user, or has
// other names, is an error.
func openPrivate(env *Env, name string) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE | unix.O_NOFOLLOW | unix.O_NONBLOCK
	file, err := os.OpenFile(env.Path(name), flags, 0o600)
	if errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s is a symlink", QuotePath(name))
	}
	if err != nil {
		return nil, err
	}

	info, err := file.Stat()
	if err == nil {
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || !info.Mode().IsRegular() || int(st.Uid) != os.Geteuid() || st.Nlink != 1 {
			err = fmt.Errorf("%s is no plain file of yours", QuotePath(name))
		}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// withoutSecrets writes lines of the log without the parts of URLs that may be secret: users and
// passwords, and queries.
type withoutSecrets struct{ w io.Writer }

var loggedURL = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*:/[^\s"]*[^\s"\\]`) })

func (w withoutSecrets) Write(p []byte) (int, error) {
	if _, err := w.w.Write(loggedURL().ReplaceAllFunc(p, func(u []byte) []byte { return []byte(plainURL(string(u))) })); err != nil {
		return 0, err
	}
	return len(p), nil
}

// plainURL returns a URL without user, password and query.
func plainURL(text string) string {
	text, _, _ = strings.Cut(remote.Redact(text), "?")
	scheme, rest, _ := strings.Cut(text, ":/")
	rest = strings.TrimLeft(rest, "/")
	host, file, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		text = scheme + "://" + host[at+1:] + "/" + file
	}
	return text
}

// startProfile begins to write the profile that KIST_PROFILE names. The returned function completes
// it: the file has the processor time of the process, and a second one, with .heap behind its name,
// the memory in use at the end. 'go tool pprof' shows both.
func startProfile(env *Env) (stop func()) {
	name := env.Getenv("KIST_PROFILE")
	if name == "" {
		return func() {}
	}
	fail := func(err error) { env.Warn("no profile of KIST_PROFILE: %v", err) }
	file, err := createProfile(env, name)
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	if err != nil {
		fail(err)
		return func() {}
	}

	return func() {
		pprof.StopCPUProfile()
		err := file.Close()
		if heap, herr := createProfile(env, name+".heap"); herr == nil {
			err = errors.Join(err, pprof.WriteHeapProfile(heap), heap.Close())
		} else {
			err = errors.Join(err, herr)
		}
		if err != nil {
			fail(err)
		}
	}
}

// createProfile opens a file that only this user may read, and empties it.
func createProfile(env *Env, name string) (*os.File, error) {
	file, err := openPrivate(env, name)
	if err != nil {
		return nil, err
	}
	if err := file.Truncate(0); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// withoutProfile returns the variables for a process that must not replace the profile of this one.
func withoutProfile(environ []string) []string {
	var kept []string
	for _, variable := range environ {
		if !strings.HasPrefix(variable, "KIST_PROFILE=") {
			kept = append(kept, variable)
		}
	}
	return kept
}
