package volume

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
)

// ackedFile is where a writing child notes the series it published, inside
// Publish: what stands there must never be lost.
const ackedFile = "acked"

const seriesObjects = 40

func init() {
	children["write"] = func(args []string) int {
		first, _ := strconv.Atoi(args[1])
		count, _ := strconv.Atoi(args[2])
		if err := writeForKill(args[0], first, count); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	}
}

// writeForKill publishes series after series, two of them at a time.
func writeForKill(dir string, first, count int) error {
	o := Options{Now: time.Now, MaxObjects: seriesObjects + seriesObjects/2}
	s, err := Open(dir, o)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx := context.Background()
	ss := s.Begin(SessionOptions{})
	defer func() { ss.Close() }()
	var once sync.Once
	var failed error
	for n := first; n < first+count; n++ {
		var wg sync.WaitGroup
		for half := range 2 {
			wg.Go(func() {
				for i := half * seriesObjects / 2; i < (half+1)*seriesObjects/2; i++ {
					key, data := sample(n, i)
					if _, err := ss.Put(ctx, key.Kind, data); err != nil {
						once.Do(func() { failed = err })
					}
				}
			})
		}
		wg.Wait()
		if failed != nil {
			return failed
		}
		err := ss.Publish(ctx, func(context.Context) error {
			f, err := os.OpenFile(filepath.Join(dir, ackedFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = fmt.Fprintf(f, "%d\n", n)
			return err
		})
		if err != nil {
			return err
		}
		if n%5 == 4 {
			if err := ss.Close(); err != nil {
				return err
			}
			ss = s.Begin(SessionOptions{})
		}
	}
	return ss.Close()
}

// acked returns the series that were published.
func acked(t testing.TB, dir string) (series []int) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, ackedFile))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if n, err := strconv.Atoi(strings.TrimSuffix(line, "\n")); err == nil && strings.HasSuffix(line, "\n") {
			series = append(series, n)
		}
	}
	return series
}

// wantAfterKill checks a repository whose writer was killed: nothing that was
// published is lost, nothing is damaged; then that what the writer left behind
// is taken over, all that is whole of it. It returns how much that was.
func wantAfterKill(t testing.TB, dir string) (salvaged int) {
	t.Helper()
	o := testOptions(t)
	o.Warn = func(w string) { t.Error("warning:", w) }
	s := openStore(t, dir, o)
	defer s.Close()
	for _, n := range acked(t, dir) {
		wantSeries(t, s, n, 0, seriesObjects)
	}
	wantSound(t, s)
	whole := leftBehind(t, dir)
	ss := s.Begin(SessionOptions{})
	putSeries(t, ss, 1<<20, 0, 1)
	for _, key := range whole {
		if ok, err := s.Has(context.Background(), key); !ok || err != nil {
			t.Errorf("%s was not recovered: %v", key, err)
		}
	}
	if err := ss.Close(); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(s.path)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		if !isName(e.Name()) {
			t.Errorf("%s was left behind", e.Name())
		}
	}
	wantSound(t, s)
	return len(whole)
}

// leftBehind returns the keys of all whole objects in volumes that were being
// written. It knows the format by itself.
func leftBehind(t testing.TB, dir string) (whole []object.Key) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, volumesDir, "tmp-*", "*.vlog"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(io.LimitReader(f, 64<<20))
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		// A header of 20 bytes; then for each entry two bytes, the lengths of
		// key and value, a byte, key, value and checksum.
		for data = data[min(20, len(data)):]; len(data) > 50 && data[0] == 0 && data[2] == 41; {
			size, width := 0, 0
			for shift := 0; ; shift += 7 {
				b := data[3+width]
				size |= int(b&0x7f) << shift
				if width++; b < 0x80 {
					break
				}
			}
			key := data[3+width+1:]
			if len(key) < 41+size+4 {
				break
			}
			whole = append(whole, object.Key{Kind: object.Kind(key[0]), ID: object.ID(key[1:33])})
			data = key[41+size+4:]
		}
	}
	return whole
}

// TestKill kills a writing process at random moments.
// KIST_TEST_KILLS is how often (default 25).
func TestKill(t *testing.T) {
	kills, err := strconv.Atoi(os.Getenv("KIST_TEST_KILLS"))
	if err != nil {
		kills = 25
	}
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(uint64(kills), 3))
	salvaged := 0
	for i := range kills {
		cmd := child(t, "write", dir, strconv.Itoa(i*1000), "1000")
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(5+rng.IntN(120)) * time.Millisecond)
		cmd.Process.Kill()
		if err := cmd.Wait(); err == nil || out.Len() > 0 {
			t.Fatalf("child: %v\n%s", err, &out)
		}
		salvaged += wantAfterKill(t, dir)
		if t.Failed() {
			t.Fatalf("after kill %d", i)
		}
		if i%10 == 9 {
			os.RemoveAll(dir) // or each round takes longer than the one before
			os.Mkdir(dir, 0o777)
		}
	}
	t.Logf("%d objects recovered", salvaged)
}

// strace returns a command that runs a writing child under strace, which
// traces one call and tampers with it.
func strace(t *testing.T, log, dir, call, inject string) *exec.Cmd {
	return straced(t, log, call, inject, "write", dir, "0", "2")
}

// straced is strace for any child.
func straced(t *testing.T, log, call, inject, name string, args ...string) *exec.Cmd {
	path, err := exec.LookPath("strace")
	if err != nil {
		skip(t, "no strace")
	}
	c := child(t, name, args...)
	cmd := exec.Command(path, append([]string{"-f", "-qq", "-o", log, "-e", "trace=" + call, "-e", "inject=" + call + ":" + inject}, c.Args...)...)
	cmd.Env = append(c.Env, "GOMAXPROCS=1")
	return cmd
}

// TestKillAtCalls kills a writer at each of the calls that change the disk.
func TestKillAtCalls(t *testing.T) {
	calls := []string{"fsync", "msync", "renameat2", "unlinkat", "ftruncate", "fallocate", "fchmodat", "mkdirat", "flock"}
	for _, call := range calls {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			killed := 0
			for when := 1; when < 200; when += 1 + when/3 {
				dir := t.TempDir()
				err := strace(t, filepath.Join(dir, "log"), dir, call, fmt.Sprintf("signal=KILL:when=%d", when)).Run()
				if err == nil {
					break
				}
				killed++
				wantAfterKill(t, dir)
				if t.Failed() {
					t.Fatalf("after call %d", when)
				}
			}
			if killed == 0 {
				t.Error("was never killed")
			}
		})
	}
}

// TestSyncFails checks that a failed fsync or msync is never taken for a good
// one.
func TestSyncFails(t *testing.T) {
	for _, call := range []string{"fsync", "msync"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			for when := 1; ; when++ {
				dir := t.TempDir()
				log := filepath.Join(dir, "log")
				cmd := strace(t, log, dir, call, fmt.Sprintf("error=EIO:when=%d", when))
				out, err := cmd.CombinedOutput()
				data, _ := os.ReadFile(log)
				if !bytes.Contains(data, []byte("INJECTED")) {
					if when == 1 {
						t.Fatalf("nothing injected: %v\n%s", err, out)
					}
					break
				}
				if err == nil {
					t.Fatalf("call %d failed, and all went well", when)
				}
				if bytes.Contains(out, []byte("panic: ")) {
					t.Fatalf("call %d failed:\n%s", when, out)
				}
				wantAfterKill(t, dir)
				if t.Failed() {
					t.Fatalf("after call %d", when)
				}
			}
		})
	}
}
