package sftp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pkg/sftp"

	"github.com/kist-vcs/kist/object/objecttest"
	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/check"
	"github.com/kist-vcs/kist/remote/dir"
	"github.com/kist-vcs/kist/remote/remotetest"
	"github.com/kist-vcs/kist/remote/retry"
)

// quick has retries without waits.
var quick = retry.Options{Now: time.Now, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}

// serverWith returns a dialer that runs OpenSSH's sftp-server with more arguments.
func serverWith(t testing.TB, args ...string) dialer {
	path := remotetest.SFTPServer(t)
	return func(ctx context.Context) (link, error) { return start(ctx, append([]string{path}, args...)) }
}

// open returns the store in a new folder, and the folder.
func open(t testing.TB, dial dialer, jobs int) (*Backend, string) {
	root := memoryFolder(t)
	b := newBackend(dial, root, jobs)
	t.Cleanup(func() { b.Close() })
	return b, root
}

func put(b remote.Backend, name, text string) error {
	return b.Put(context.Background(), name, strings.NewReader(text), int64(len(text)))
}

// A server without the extensions passes the suite if its renames refuse names that are taken, as OpenSSH's do.
func TestWithoutExtensions(t *testing.T) {
	remotetest.Run(t, in(serverWith(t, "-P", "hardlink,fsync,statvfs"), same))
}

// The check accepts OpenSSH's server, with its extensions or without. It refuses a server whose renames replace
// files, except for a single writer, and a file system without links.
func TestCheck(t *testing.T) {
	replacing := func(t testing.TB) dialer {
		if err := sftp.SetSFTPExtensions("posix-rename@openssh.com"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			sftp.SetSFTPExtensions("posix-rename@openssh.com", "hardlink@openssh.com", "statvfs@openssh.com")
		})
		return goServer(t)
	}
	for name, test := range map[string]struct {
		dial   func(t testing.TB) dialer
		change func(*Backend)
		failed string
	}{
		"openssh":     {func(t testing.TB) dialer { return serverWith(t) }, same, ""},
		"no links":    {func(t testing.TB) dialer { return serverWith(t, "-P", "hardlink") }, same, ""},
		"replaces":    {replacing, same, "its renames replace files"},
		"file system": {func(t testing.TB) dialer { return serverWith(t) }, func(b *Backend) { b.mover.noLinks.Store(true) }, "has no hard links"},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := open(t, test.dial(t), 3)
			test.change(b)
			r, err := check.Run(t.Context(), b, check.Options{Now: time.Now, ExclusivePut: true, Retry: quick})
			if err != nil || !r.Usable() || r.Shared() != (test.failed == "") || !strings.Contains(r.String(), test.failed) {
				t.Errorf("error %v\n%v", err, r)
			}
		})
	}
}

// The same folder can be used by SSH and as a folder at the same time: of all creates of a record, one wins.
func TestBesideFolder(t *testing.T) {
	b, root := open(t, serverWith(t), 3)
	local, err := dir.Open(t.Context(), root, remote.Env{})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	both := []remote.Backend{b, local}

	rng := objecttest.Rand(30)
	wins := [2]int{}
	for round := range objecttest.Rounds(t, 8) {
		name := fmt.Sprintf("root/%020d", round)
		var wg sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			late := rng.IntN(600)
			wg.Go(func() {
				for n := range i % 2 * late { // a folder is quicker than a server
					_ = local.Create(t.Context(), fmt.Sprintf("probe/%d-%d/root/%d", round, i, n), nil)
				}
				errs[i] = both[i%2].Create(t.Context(), name, []byte{byte(i)})
			})
		}
		wg.Wait()
		winner := slices.Index(errs, nil)
		for i, err := range errs {
			if i != winner && !errors.Is(err, remote.ErrExists) {
				t.Fatalf("round %d: caller %d: %v; caller %d won", round, i, err, winner)
			}
		}
		wins[winner%2]++
		for i, store := range both {
			p := make([]byte, 2)
			if n, err := store.Get(t.Context(), name, p, 0); n != 1 || err != nil || p[0] != byte(winner) {
				t.Errorf("round %d: store %d has %x, %v; want %d", round, i, p[:n], err, winner)
			}
		}
	}
	for i, store := range both {
		if err := put(store, fmt.Sprintf("packs/ab/%d", i), "a blob"); err != nil {
			t.Error(err)
		}
	}
	var lists [2][]string
	for i, store := range both {
		for info, err := range store.List(t.Context(), "") {
			if err != nil {
				t.Error(err)
			}
			lists[i] = append(lists[i], fmt.Sprintf("%s %d", info.Name, info.Size))
		}
	}
	if !slices.Equal(lists[0], lists[1]) || len(lists[0]) < 3 {
		t.Errorf("the stores list %q and %q", lists[0], lists[1])
	}
	t.Logf("%d wins by SSH, %d in the folder", wins[0], wins[1])
}

// cutLink ends a link after a number of bytes in one direction.
type cutLink struct {
	link
	left  atomic.Int64
	write bool // the direction
}

func (l *cutLink) Read(p []byte) (int, error) {
	n, err := l.link.Read(p)
	if !l.write && l.left.Add(-int64(n)) < 0 {
		l.End()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func (l *cutLink) Write(p []byte) (int, error) {
	if l.write && l.left.Add(-int64(len(p))) < 0 {
		l.End()
		return 0, io.ErrClosedPipe
	}
	return l.link.Write(p)
}

// Over connections that are cut at random moments, a blob is there complete or not at all. A record that a caller
// created, or may have created, has its bytes. Retries get everything done.
func TestCuts(t *testing.T) {
	rng := objecttest.Rand(31)
	var mu sync.Mutex
	inner := goServer(t)
	dial := func(ctx context.Context) (link, error) {
		l, err := inner(ctx)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		if rng.IntN(3) == 0 {
			return l, nil
		}
		c := &cutLink{link: l, write: rng.IntN(2) == 0}
		c.left.Store(rng.Int64N(1 << (7 + rng.IntN(14))))
		return c, nil
	}

	b, root := open(t, dial, 2)
	tried := retry.New(b, quick)
	stored := map[string]string{}
	for round := range objecttest.Rounds(t, 60) {
		data := strings.Repeat(string(rune('a'+round%26)), rng.IntN(300_000))
		var name string
		attempt := 0
		err := retry.Do(t.Context(), quick, "put", func(ctx context.Context) error {
			attempt++
			name = fmt.Sprintf("packs/%02x/%d-%d", round%5, round, attempt)
			return tried.Put(ctx, name, strings.NewReader(data), int64(len(data)))
		})
		if err != nil {
			t.Fatal(err)
		}
		stored[name] = data

		for i := range attempt - 1 { // unclear ones
			half := fmt.Sprintf("packs/%02x/%d-%d", round%5, round, i+1)
			if got, err := os.ReadFile(filepath.Join(root, half)); err == nil && string(got) != data {
				t.Fatalf("%s has %d bytes, want %d", half, len(got), len(data))
			}
		}

		record := fmt.Sprintf("root/%d", round)
		switch err := tried.Create(t.Context(), record, []byte(data)); {
		case err == nil, errors.Is(err, remote.ErrExists):
			stored[record] = data
		case !errors.Is(err, remote.ErrTemporary):
			t.Fatal(err)
		}
	}

	for name, data := range stored {
		p := make([]byte, len(data)+1)
		if n, err := tried.Get(t.Context(), name, p, 0); err != nil || string(p[:n]) != data {
			t.Errorf("%s: %d bytes, %v; want %d", name, n, err, len(data))
		}
	}
	if _, err := b.RemoveTemps(t.Context(), time.Now().Add(time.Hour)); err != nil && !errors.Is(err, remote.ErrTemporary) {
		t.Error(err)
	}
}

// deafLink is a link to a server that never answers after the first packets.
type deafLink struct {
	link
	packets atomic.Int32
	ended   chan struct{}
	once    sync.Once
}

func (l *deafLink) Write(p []byte) (int, error) {
	if l.packets.Add(1) > 1 { // the first one begins the protocol
		return len(p), nil
	}
	return l.link.Write(p)
}

func (l *deafLink) End() {
	l.once.Do(func() { close(l.ended) })
	l.link.End()
}

// The end of a context ends a call to a server that does not answer, and its connection.
func TestStuck(t *testing.T) {
	inner := goServer(t)
	var links []*deafLink
	b, _ := open(t, func(ctx context.Context) (link, error) {
		l, err := inner(ctx)
		links = append(links, &deafLink{link: l, ended: make(chan struct{})})
		return links[len(links)-1], err
	}, 1)
	b.patience = time.Millisecond
	for name, call := range map[string]func(ctx context.Context) error{
		"get":    func(ctx context.Context) error { _, err := b.Get(ctx, "packs/a", make([]byte, 9), 0); return err },
		"put":    func(ctx context.Context) error { return b.Put(ctx, "packs/a", strings.NewReader("x"), 1) },
		"create": func(ctx context.Context) error { return b.Create(ctx, "root/1", []byte("x")) },
		"stat":   func(ctx context.Context) error { _, err := b.Stat(ctx, "packs/a"); return err },
		"delete": func(ctx context.Context) error { return b.Delete(ctx, "packs/a") },
		"list": func(ctx context.Context) (last error) {
			for _, err := range b.List(ctx, "") {
				last = err
			}
			return last
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, want the error of the context", name, err)
		}
		cancel()
		<-links[len(links)-1].ended
	}
}

// begin begins calls that move 1 MiB each. They end with the connections.
func begin(t *testing.T, b *Backend, calls int) {
	t.Helper()
	for range calls {
		if _, err := b.pool.takeConn(t.Context(), 1<<20); err != nil {
			t.Error(err)
		}
	}
}

// opening returns the attempt to open a connection that is under way, or nil.
func opening(b *Backend) *attempt {
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	return b.pool.opening
}

// countDials returns a dialer that counts its calls. Each call but the first does also what later says, before it connects.
func countDials(inner dialer, later func(ctx context.Context) error) (dialer, *atomic.Int32) {
	var dials atomic.Int32
	return func(ctx context.Context) (link, error) {
		if dials.Add(1) > 1 {
			if err := later(ctx); err != nil {
				return nil, err
			}
		}
		return inner(ctx)
	}, &dials
}

// Calls share one connection until much data moves. Then others are opened, at most as many as the user wants, and
// no call waits for them.
func TestConnections(t *testing.T) {
	release := make(chan struct{})
	dial, dials := countDials(goServer(t), func(context.Context) error { <-release; return nil })
	b, _ := open(t, dial, 3)
	begin(t, b, worth>>20-1)
	if n := dials.Load(); n != 1 || opening(b) != nil {
		t.Fatalf("%d connections, %v being opened; want 1", n, opening(b))
	}
	begin(t, b, 20) // none of them waits for the second connection
	second := opening(b)
	if second == nil {
		t.Fatal("much data moves over one connection, and no other is being opened")
	}
	close(release)
	<-second.done

	for range 3 {
		begin(t, b, worth>>20)
		if a := opening(b); a != nil {
			<-a.done
		}
	}
	if n := dials.Load(); n != 3 || len(b.pool.conns) != 3 {
		t.Errorf("%d connections, want the 3 of the user", n)
	}
}

// If the server permits only one connection, all calls use it.
func TestOneConnection(t *testing.T) {
	dial, dials := countDials(goServer(t), func(context.Context) error { return errors.New("no more") })
	b, _ := open(t, dial, 4)
	b.pool.worth = 1
	begin(t, b, 2)
	if a := opening(b); a != nil {
		<-a.done
	}
	begin(t, b, 10)
	if err := put(b, "packs/a", "x"); err != nil || dials.Load() != 2 {
		t.Errorf("put: %v, after %d attempts to connect; want 2", err, dials.Load())
	}
}

// An ssh that does not connect gives an error of a kind, with its own words, cleaned.
func TestStartErrors(t *testing.T) {
	for _, test := range []struct {
		script string
		kind   error
		text   string
	}{
		{"echo 'anna@nas: Permission denied (publickey).' >&2; exit 255", remote.ErrCredentials, "anna@nas: Permission denied (publickey)."},
		{"echo 'Host key verification failed.' >&2; exit 255", remote.ErrHostKey, "Host key verification failed."},
		{"(echo '@@@@@@@@@@@@'; yes 'WARNING: the key has changed!' | head -n 50; echo 'Host key verification failed.'; exit 255) >&2", remote.ErrHostKey, "WARNING: the key has changed!"},
		{"echo 'ssh: connect to host nas port 22: Connection refused' >&2; exit 255", remote.ErrTemporary, "Connection refused"},
		{"echo 'subsystem request failed on channel 0' >&2; exit 1", remote.ErrUnsupported, "subsystem"},
		{"printf 'debug1: noise\\n\\033[31mred\\a\\n' >&2; exit 255", remote.ErrTemporary, ": [31mred"},
		{"echo 'Welcome to the server, user'; cat >/dev/null", remote.ErrUnsupported, "no SFTP"},
		{"exit 3", remote.ErrTemporary, "exit status 3"},
		{"cat >/dev/null & exec >&-; wait", remote.ErrTemporary, "closed before"},
	} {
		b, _ := open(t, startSSH([]string{"sh", "-c", test.script, "sh"}, location{host: "nas"}), 1)
		_, err := b.Stat(t.Context(), "packs/a")
		if !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.text) || strings.ContainsAny(err.Error(), "\a\x1b\n") {
			t.Errorf("%s: error %v, want %v with %q", test.script, err, test.kind, test.text)
		}
	}
	b, _ := open(t, startSSH([]string{"/no/such/ssh"}, location{host: "nas"}), 1)
	if _, err := b.Stat(t.Context(), "packs/a"); err == nil || errors.Is(err, remote.ErrTemporary) {
		t.Errorf("an ssh that does not exist: %v", err)
	}
}

// A server that only reads gives an error of its own, and so does a full disk.
func TestRefusals(t *testing.T) {
	b, _ := open(t, serverWith(t, "-R"), 1)
	if err := put(b, "packs/a", "x"); !errors.Is(err, remote.ErrPermission) {
		t.Errorf("put to a server that only reads: %v", err)
	}
	b, root := open(t, serverWith(t), 1)
	if err := os.WriteFile(filepath.Join(root, "letter.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, foreign := errors.AsType[*remote.ForeignError](put(b, "packs/a", "x")); !foreign {
		t.Error("a folder with other files was accepted")
	}
}

// A server that may neither remove nor rename stores blobs, but a client can still cut them. So it is not append-only.
func TestNotAppendOnly(t *testing.T) {
	b, root := open(t, serverWith(t, "-P", "remove,rename,posix-rename,rmdir"), 1)
	if err := put(b, "packs/a", "a blob"); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), "packs/a"); !errors.Is(err, remote.ErrPermission) {
		t.Errorf("delete: %v, want ErrPermission", err)
	}
	err := b.call(t.Context(), "put", "", 0, func(_ context.Context, c *conn) error {
		f, err := c.OpenFile(b.at("packs/a"), os.O_WRONLY|os.O_TRUNC)
		if err == nil {
			err = f.Close()
		}
		return err
	})
	data, readErr := os.ReadFile(filepath.Join(root, "packs", "a"))
	if err != nil || readErr != nil || len(data) > 0 {
		t.Errorf("the blob was not cut (%v, %v): howto/ssh.md has to say so", err, readErr)
	}
}

// A full disk is ErrFull. Stored blobs stay intact, no temporary file is left, and a deletion makes room.
func TestFull(t *testing.T) {
	if os.Getuid() != 0 {
		objecttest.Skip(t, "only root can mount a disk")
	}
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		objecttest.Skip(t, "cannot unshare: "+err.Error())
	}
	root := t.TempDir()
	server := remotetest.SFTPServer(t)
	b := newBackend(func(ctx context.Context) (link, error) {
		return start(ctx, []string{"unshare", "-m", "sh", "-c", `mount -t tmpfs -o size=4m,nr_inodes=200 none "$0" && exec "$1"`, root, server})
	}, root, 1)
	defer b.Close()

	for _, size := range []int{300_000, 10} {
		data := bytes.Repeat([]byte("x"), size)
		name := func(i int) string { return fmt.Sprintf("packs/%d-%d", size, i) }
		n := 0
		var err error
		for ; err == nil && n < 1000; n++ {
			err = b.Put(t.Context(), name(n), bytes.NewReader(data), int64(size))
		}
		n--
		if !errors.Is(err, remote.ErrFull) || n < 5 {
			t.Fatalf("after %d blobs of %d bytes: %v", n, size, err)
		}
		temps := 0
		err = b.call(t.Context(), "list", "", 0, func(_ context.Context, c *conn) error {
			left, err := b.temps(c)
			temps = len(left)
			return err
		})
		if err != nil || temps > 0 {
			t.Errorf("%d temporary files left, %v", temps, err)
		}
		for i := range n {
			if info, err := b.Stat(t.Context(), name(i)); err != nil || info.Size != int64(size) {
				t.Errorf("stat of blob %d: %+v, %v", i, info, err)
			}
		}
		if err := b.Delete(t.Context(), name(0)); err != nil {
			t.Error(err)
		}
		if err := b.Put(t.Context(), name(n), bytes.NewReader(data), int64(size)); err != nil {
			t.Errorf("put after a deletion: %v", err)
		}
		for i := range n + 1 {
			if err := b.Delete(t.Context(), name(i)); err != nil {
				t.Error(err)
			}
		}
	}
}

// After Close, no program of the store runs.
func TestClose(t *testing.T) {
	inner := serverWith(t)
	var started []*process
	b, _ := open(t, func(ctx context.Context) (link, error) {
		l, err := inner(ctx)
		started = append(started, l.(*process))
		return l, err
	}, 2)
	if err := put(b, "packs/a", "x"); err != nil {
		t.Fatal(err)
	}
	b.Close()
	for _, p := range started {
		if p.cmd.ProcessState == nil {
			t.Error("a program still runs")
		}
	}
	if err := put(b, "packs/b", "x"); err == nil {
		t.Error("a closed store stored a blob")
	}
}

// Close ends the opening of another connection.
func TestCloseWhileOpening(t *testing.T) {
	dial, dials := countDials(goServer(t), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	b, _ := open(t, dial, 2)
	b.pool.worth = 1
	begin(t, b, 2)
	b.Close()
	if n, a := dials.Load(), opening(b); n != 2 || a != nil {
		t.Errorf("%d connections, %v being opened; want 2, and none being opened", n, a)
	}
}

// answering returns a store on a server that sends answers, whatever it is asked.
func answering(answers []byte) *Backend {
	return newBackend(func(context.Context) (link, error) {
		return serveInMemory(func(rw io.ReadWriteCloser) {
			go func() {
				io.Copy(io.Discard, rw)
				rw.Close()
			}()
			rw.Write(answers)
		}), nil
	}, "/x", 1)
}

// tryAll makes calls, whose errors are of no interest.
func tryAll(b *Backend) {
	defer b.Close()
	ctx := context.Background()
	_, _ = b.Get(ctx, "packs/a", make([]byte, 100_000), 0)
	_, _ = b.Stat(ctx, "packs/a")
	_ = put(b, "packs/a", "x")
	for range b.List(ctx, "") {
	}
}

var versionPacket = []byte{0, 0, 0, 5, 2, 0, 0, 0, 3}

// FuzzAnswers has a server that answers anything. No call panics, and all end.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte{})
	for kind := range 6 { // statuses, handles, data, names and attributes for the first requests
		answer := []byte{0, 0, 0, 13, byte(100 + kind), 0, 0, 0, 1, 0, 0, 0, 4, 'a', 'b', 'c', 'd'}
		f.Add(slices.Concat(versionPacket, answer, answer))
	}
	f.Fuzz(func(t *testing.T, answers []byte) { tryAll(answering(answers)) })
}

// A server that answers with random packets makes no call panic or hang.
func TestAnswers(t *testing.T) {
	rng := objecttest.Rand(32)
	for range objecttest.Rounds(t, 100) {
		answers := slices.Clone(versionPacket)
		for range rng.IntN(5) {
			packet := make([]byte, 9+rng.IntN(40))
			packet[3], packet[4], packet[8] = byte(len(packet)-4), byte(101+rng.IntN(5)), byte(1+rng.IntN(3))
			for i := 9; i < len(packet); i++ {
				packet[i] = byte(rng.IntN(4))
			}
			answers = append(answers, packet...)
		}
		tryAll(answering(answers))
	}
}
