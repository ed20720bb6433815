package volume

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
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
	"github.com/kist-vcs/kist/object/volume/ingest"
)

// ackedFile lists the series that a writing child has published. The child adds them
// inside Publish, so these series must never be lost.
const ackedFile = "acked"

const seriesObjects = 40

func init() {
	children["write"] = func(args []string) error {
		first, _ := strconv.Atoi(args[1])
		count, _ := strconv.Atoi(args[2])
		batch, _ := strconv.Atoi(args[3])
		return writeForKill(args[0], first, count, batch)
	}
	children["die"] = func(args []string) error { return storeAndDie(args[0]) }
	children["salvage"] = func(args []string) error {
		s, err := Open(args[0], Options{Now: time.Now})
		if err == nil && (deadWriters{s}).salvageAll(context.Background()) != 1 {
			err = errors.New("not salvaged")
		}
		return err
	}
}

// writeForKill publishes count series, one after the other. Two goroutines put the objects
// of each. Transactions have batch objects.
func writeForKill(dir string, first, count, batch int) error {
	o := Options{Now: time.Now, MaxObjects: seriesObjects + seriesObjects/2, ingest: ingest.Options{BatchEntries: batch}}
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

// storeAndDie publishes series 0, puts series 1 and kills this process.
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

// putAndDie calls put and kills this process before the session seals a volume.
func putAndDie(dir string, put func(*Session) error) error {
	s, err := Open(dir, Options{Now: time.Now})
	if err != nil {
		return err
	}
	ss := s.Begin(SessionOptions{})
	if err := put(ss); err != nil {
		return err
	}
	if err := ss.cur.commitRest(); err != nil {
		return err
	}
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// acked returns the series in ackedFile.
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

// wantAfterKill checks a repository whose writer was killed. No published object is lost
// or damaged. The next session salvages all intact objects and leaves only volumes.
// wantAfterKill returns the number of salvaged objects.
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
	left := leftBehind(t, dir)
	ss := s.Begin(SessionOptions{})
	putSeries(t, ss, 1<<20, 0, 1)
	for _, key := range left {
		if ok, err := s.Has(context.Background(), key); !ok || err != nil {
			t.Errorf("%s was not salvaged: %v", key, err)
		}
	}
	if err := ss.Close(); err != nil {
		t.Error(err)
	}
	wantNames(t, s)
	wantSound(t, s)
	return len(left)
}

// leftBehind returns the keys of all intact objects in unsealed volumes.
func leftBehind(t testing.TB, dir string) (left []object.Key) {
	t.Helper()
	for _, path := range logsLeft(t, dir) {
		keys, _, _ := intactEntries(t, path)
		left = append(left, keys...)
	}
	return left
}

// tear clears the second half of the last intact entry of each unsealed value log. A kill
// rarely comes in the middle of an entry.
func tear(t testing.TB, dir string) (torn int) {
	t.Helper()
	for _, path := range logsLeft(t, dir) {
		keys, last, end := intactEntries(t, path)
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

// logsLeft returns the paths of the value logs of unsealed volumes.
func logsLeft(t testing.TB, dir string) []string {
	t.Helper()
	var paths []string
	for _, prefix := range []string{ingest.DirPrefix, salvagePrefix} {
		found, err := filepath.Glob(filepath.Join(dir, volumesDir, prefix+"*", "*.vlog"))
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// intactEntries returns the keys of a value log's entries up to the first damage, and the
// start and end of the last intact entry. It does not use the parser under test.
// A log has a header of 20 bytes. Each entry has two bytes, the lengths of key and value, a
// byte, key, value and checksum.
func intactEntries(t testing.TB, path string) (keys []object.Key, last, end int) {
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
		if len(data) < sum+4 || crc32.Checksum(data[at:sum], crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(data[sum:]) {
			break
		}
		keys = append(keys, object.Key{Kind: object.Kind(data[key]), ID: object.ID(data[key+1 : key+33])})
		last, end = at, sum+4
		at = end
	}
	return keys, last, end
}

// TestKill kills a writer at random moments, and tears its last entry after every third
// kill. See wantAfterKill.
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
			t.Fatalf("the child was not killed: %v\n%s", err, &out)
		}

		if i%3 == 2 {
			torn += tear(t, dir)
		}
		salvaged += wantAfterKill(t, dir)
		if t.Failed() {
			t.Fatalf("failed after kill %d", i)
		}

		if i%10 == 9 {
			os.RemoveAll(dir) // otherwise, each round takes longer
			os.Mkdir(dir, 0o777)
		}
	}

	t.Logf("%d objects salvaged, %d entries torn", salvaged, torn)
}

// strace returns a command that runs a writing child under strace, which injects a fault
// into a system call. Transactions have batch objects.
func strace(t *testing.T, log, dir, call, inject string, batch int) *exec.Cmd {
	return straced(t, log, call, inject, "write", dir, "0", "2", strconv.Itoa(batch))
}

// straced is strace for any child.
func straced(t *testing.T, log, call, inject, name string, args ...string) *exec.Cmd {
	path := objecttest.NeedProgram(t, "strace")
	c := child(t, name, args...)
	cmd := exec.Command(path, append([]string{"-f", "-qq", "-o", log, "-e", "trace=" + call, "-e", "inject=" + call + ":" + inject}, c.Args...)...)
	cmd.Env = append(c.Env, "GOMAXPROCS=1")
	return cmd
}

// TestKillAtCalls kills a writer at system calls that change the disk. See wantAfterKill.
func TestKillAtCalls(t *testing.T) {
	calls := []string{"fsync", "msync", "renameat2", "unlinkat", "ftruncate", "fallocate", "fchmod", "mkdirat", "flock"}
	for _, call := range calls {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			if killAtCalls(t, call, smallBatch) == 0 {
				t.Error("the writer was never killed")
			}
			killAtCalls(t, call, 0) // without a database
		})
	}
}

// killAtCalls kills a writer at some of its calls, and returns the number of kills.
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
			t.Fatalf("failed after a kill at call %d, transactions of %d objects", when, batch)
		}
	}
	return killed
}

// TestKillSalvage kills a salvage at each of its calls that change the disk. A later
// session salvages all objects.
func TestKillSalvage(t *testing.T) {
	for _, call := range []string{"fsync", "ftruncate", "renameat2", "renameat", "unlinkat", "fchmod"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			killed := 0
			for when := 1; when < 100; when++ {
				dir := t.TempDir()
				if out, err := child(t, "die", dir).CombinedOutput(); err == nil || len(out) > 0 {
					t.Fatalf("the child was not killed: %v\n%s", err, out)
				}
				if left := leftBehind(t, dir); len(left) != seriesObjects {
					t.Fatalf("the child left %d objects, want %d", len(left), seriesObjects)
				}

				err := straced(t, filepath.Join(dir, "log"), call, fmt.Sprintf("signal=KILL:when=%d", when), "salvage", dir).Run()
				wantAfterKill(t, dir)
				s := openStore(t, dir, testOptions(t))
				wantSeries(t, s, 1, 0, seriesObjects)
				s.Close()
				if t.Failed() {
					t.Fatalf("failed after a kill at call %d", when)
				}

				if err == nil {
					break
				}
				killed++
			}
			if killed == 0 {
				t.Error("the salvage was never killed")
			}
		})
	}
}

// TestSyncFails checks that a writer reports each failed fsync and msync.
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

// failSyncs runs a writer for each of its calls, and lets that call fail.
func failSyncs(t *testing.T, call string, batch int) {
	for when := 1; ; when++ {
		dir := t.TempDir()
		log := filepath.Join(dir, "log")
		cmd := strace(t, log, dir, call, fmt.Sprintf("error=EIO:when=%d", when), batch)
		out, err := cmd.CombinedOutput()
		data, _ := os.ReadFile(log)
		if !bytes.Contains(data, []byte("INJECTED")) {
			if when == 1 {
				t.Fatalf("strace injected no fault: %v\n%s", err, out)
			}
			break
		}
		if err == nil {
			t.Fatalf("call %d failed, but the writer reported success", when)
		}
		if bytes.Contains(out, []byte("panic: ")) {
			t.Fatalf("the writer panicked after the failure of call %d:\n%s", when, out)
		}
		wantAfterKill(t, dir)
		if t.Failed() {
			t.Fatalf("failed after the failure of call %d", when)
		}
	}
}
