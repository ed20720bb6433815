package volume

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/objecttest"
)

// ackedFile is where a writing child notes the series it published, inside
// Publish: what stands there must never be lost.
const ackedFile = "acked"

const seriesObjects = 40

func init() {
	children["write"] = func(args []string) int {
		first, _ := strconv.Atoi(args[1])
		count, _ := strconv.Atoi(args[2])
		batch, _ := strconv.Atoi(args[3])
		if err := writeForKill(args[0], first, count, batch); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	}
	children["die"] = func(args []string) int {
		fmt.Println(storeAndDie(args[0]))
		return 1
	}
	children["salvage"] = func(args []string) int {
		s, err := Open(args[0], Options{Now: time.Now})
		if err != nil || (deadWriters{s}).salvage(context.Background()) != 1 {
			return 1
		}
		return 0
	}
}

// writeForKill publishes series after series, two of them at a time. Transactions have
// batch objects.
func writeForKill(dir string, first, count, batch int) error {
	o := Options{Now: time.Now, MaxObjects: seriesObjects + seriesObjects/2, batchEntries: batch}
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

// storeAndDie publishes a series, puts another one and ends like a killed process.
func storeAndDie(dir string) error {
	if err := writeForKill(dir, 0, 1, smallBatch); err != nil {
		return err
	}
	return putAndDie(dir, func(ss *Session) error {
		for i := range seriesObjects {
			key, data := sample(1, i)
			if _, err := ss.Put(context.Background(), key.Kind, data); err != nil {
				return err
			}
		}
		return nil
	})
}

// putAndDie ends this process, as a kill does, after put and before anything is
// sealed.
func putAndDie(dir string, put func(*Session) error) error {
	s, err := Open(dir, Options{Now: time.Now})
	if err != nil {
		return err
	}
	ss := s.Begin(SessionOptions{})
	if err := put(ss); err != nil {
		return err
	}
	if err := ss.cur.flush(); err != nil {
		return err
	}
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
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
// written.
func leftBehind(t testing.TB, dir string) (whole []object.Key) {
	t.Helper()
	for _, path := range logsLeft(t, dir) {
		keys, _, _ := wholeEntries(t, path)
		whole = append(whole, keys...)
	}
	return whole
}

// tear makes the last whole entry of each value log that was being written one
// that was written in part: a kill comes in the middle of one but seldom.
func tear(t testing.TB, dir string) (torn int) {
	t.Helper()
	for _, path := range logsLeft(t, dir) {
		keys, last, end := wholeEntries(t, path)
		if len(keys) == 0 {
			continue
		}
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		from := (last + end) / 2
		if _, err := f.WriteAt(make([]byte, end-from), int64(from)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		torn++
	}
	return torn
}

// logsLeft returns the value logs of volumes that were being written.
func logsLeft(t testing.TB, dir string) []string {
	t.Helper()
	var paths []string
	for _, prefix := range []string{tmpPrefix, salvagePrefix} {
		found, err := filepath.Glob(filepath.Join(dir, volumesDir, prefix+"*", "*.vlog"))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// wholeEntries returns the keys of a value log's entries up to the first that
// is not whole, and where the last whole one begins and ends. It knows the
// format by itself: a header of 20 bytes; then for each entry two bytes, the
// lengths of key and value, a byte, key, value and checksum.
func wholeEntries(t testing.TB, path string) (keys []object.Key, last, end int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 64<<20))
	if err != nil {
		t.Fatal(err)
	}
	for at := 20; len(data) > at+50 && data[at] == 0 && data[at+2] == 41; {
		size, width := binary.Uvarint(data[at+3:])
		key := at + 3 + width + 1
		sum := key + 41 + int(size)
		if len(data) < sum+4 || crc32.Checksum(data[at:sum], castagnoli) != binary.BigEndian.Uint32(data[sum:]) {
			break
		}
		keys = append(keys, object.Key{Kind: object.Kind(data[key]), ID: object.ID(data[key+1 : key+33])})
		last, end = at, sum+4
		at = end
	}
	return keys, last, end
}

// TestKill kills a writing process at random moments, every third time as if
// in the middle of an entry.
func TestKill(t *testing.T) {
	kills := objecttest.Rounds(t, 6)
	dir := t.TempDir()
	rng := objecttest.Rand(3)
	salvaged, torn := 0, 0
	for i := range kills {
		cmd := child(t, "write", dir, strconv.Itoa(i*1000), "1000", strconv.Itoa(i%2*smallBatch))
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
		if i%3 == 2 {
			torn += tear(t, dir)
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
	t.Logf("%d objects recovered, %d torn", salvaged, torn)
}

// strace returns a command that runs a writing child under strace, which
// traces one call and tampers with it. Transactions have batch objects.
func strace(t *testing.T, log, dir, call, inject string, batch int) *exec.Cmd {
	return straced(t, log, call, inject, "write", dir, "0", "2", strconv.Itoa(batch))
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
	calls := []string{"fsync", "msync", "renameat2", "unlinkat", "ftruncate", "fallocate", "fchmod", "mkdirat", "flock"}
	for _, call := range calls {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			if killAtCalls(t, call, smallBatch) == 0 {
				t.Error("was never killed")
			}
			killAtCalls(t, call, 0) // without a database
		})
	}
}

// killAtCalls kills a writer at each call, and returns how often.
func killAtCalls(t *testing.T, call string, batch int) (killed int) {
	for when := 1; when < 200; when += 1 + when/3 {
		dir := t.TempDir()
		err := strace(t, filepath.Join(dir, "log"), dir, call, fmt.Sprintf("signal=KILL:when=%d", when), batch).Run()
		if err == nil {
			break
		}
		killed++
		wantAfterKill(t, dir)
		if t.Failed() {
			t.Fatalf("after call %d, transactions of %d", when, batch)
		}
	}
	return killed
}

// TestKillSalvage kills a process at each of its calls that change the disk,
// while it takes over what another one left.
func TestKillSalvage(t *testing.T) {
	for _, call := range []string{"fsync", "ftruncate", "renameat2", "renameat", "unlinkat", "fchmod"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			killed := 0
			for when := 1; when < 100; when++ {
				dir := t.TempDir()
				if out, err := child(t, "die", dir).CombinedOutput(); err == nil || len(out) > 0 {
					t.Fatalf("%v\n%s", err, out)
				}
				if whole := leftBehind(t, dir); len(whole) != seriesObjects {
					t.Fatalf("%d objects were left, want %d", len(whole), seriesObjects)
				}
				err := straced(t, filepath.Join(dir, "log"), call, fmt.Sprintf("signal=KILL:when=%d", when), "salvage", dir).Run()
				wantAfterKill(t, dir)
				s := openStore(t, dir, testOptions(t))
				wantSeries(t, s, 1, 0, seriesObjects)
				s.Close()
				if t.Failed() {
					t.Fatalf("after call %d", when)
				}
				if err == nil {
					break
				}
				killed++
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
			failSyncs(t, call, smallBatch)
			if call == "fsync" {
				failSyncs(t, call, 0) // without a database
			}
		})
	}
}

// failSyncs has each sync of a writer fail.
func failSyncs(t *testing.T, call string, batch int) {
	for when := 1; ; when++ {
		dir := t.TempDir()
		log := filepath.Join(dir, "log")
		cmd := strace(t, log, dir, call, fmt.Sprintf("error=EIO:when=%d", when), batch)
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
}
