package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// sentPacks returns the number of packs in a remote's folder.
func (p *place) sentPacks() int {
	p.Helper()
	packs, err := filepath.Glob(filepath.Join(p.url, "packs", "*", "*"))
	if err != nil {
		p.Fatal(err)
	}
	return len(packs)
}

// streamed is a backup of standard input.
type streamed struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out bytes.Buffer
}

// startStreamed starts a backup of standard input, and writes the first part of the input.
func (s *shell) startStreamed(begin string) *streamed {
	s.Helper()
	b := &streamed{cmd: s.command(s.Context(), "backup", "--json", "--stdin", "file", "--jobs", "1")}
	var err error
	if b.in, err = b.cmd.StdinPipe(); err != nil {
		s.Fatal(err)
	}
	b.cmd.Stdout = &b.out
	if err := b.cmd.Start(); err != nil {
		s.Fatal(err)
	}
	if _, err := io.WriteString(b.in, begin); err != nil {
		s.Fatal(err)
	}
	return b
}

// finish writes the rest of the input, and waits for the backup to end.
func (b *streamed) finish(rest string) error {
	_, err := io.WriteString(b.in, rest)
	return errors.Join(err, b.in.Close(), b.cmd.Wait())
}

// TestBackupAhead checks that a backup does not resend the packs of an unfinished backup. That
// backup sends two packs. Then it is killed or interrupted, or its remote fails.
func TestBackupAhead(t *testing.T) {
	t.Parallel()
	const packSize = 16 << 20 // of packs that a backup sends before its input ends
	content := noise(rand.New(rand.NewPCG(5, 6)), 4*packSize)
	for name, trouble := range map[string]func(t *testing.T, s *shell, p *place, backup *streamed){
		"kill": func(t *testing.T, s *shell, _ *place, backup *streamed) {
			backup.cmd.Process.Kill()
			backup.cmd.Wait()
			if o := s.run("log"); o.status == 0 {
				t.Fatalf("the killed backup made a commit: %v", o)
			}
		},
		"interrupt": func(t *testing.T, s *shell, _ *place, backup *streamed) {
			backup.cmd.Process.Signal(syscall.SIGTERM)
			backup.cmd.Wait()
			var b backedUp
			out := backup.out.Bytes()
			if err := json.Unmarshal(out, &b); err != nil || b.Exit != 130 || b.Exit != backup.cmd.ProcessState.ExitCode() || b.Commit != "" || b.Sent < packSize {
				t.Fatalf("interrupted backup: error %v, summary %s", err, out)
			}
		},
		"disk": func(t *testing.T, s *shell, p *place, backup *streamed) {
			if err := errors.Join(os.Rename(p.url, p.url+"-away"), os.Mkdir(p.url, 0o777)); err != nil { // as if it were unmounted
				t.Fatal(err)
			}
			backup.finish(content[3*packSize:])
			if err := errors.Join(os.Remove(p.url), os.Rename(p.url+"-away", p.url)); err != nil { // it is empty
				t.Fatal(err)
			}
			var b backedUp
			out := backup.out.Bytes()
			if err := json.Unmarshal(out, &b); err != nil || b.Exit != 15 || b.Commit == "" || b.RemoteHead != "" || b.Steps[2].Outcome != "failed" {
				t.Fatalf("backup whose disk goes away: error %v, summary %s", err, out)
			}
		},
		"disk of the repository": func(t *testing.T, s *shell, _ *place, backup *streamed) {
			if err := errors.Join(os.Rename(s.dir, s.dir+"-away"), os.Mkdir(s.dir, 0o777)); err != nil {
				t.Fatal(err)
			}
			backup.finish(content[3*packSize:])
			if err := errors.Join(os.Remove(s.dir), os.Rename(s.dir+"-away", s.dir)); err != nil { // it is empty
				t.Fatal(err)
			}
			var b backedUp
			out := backup.out.Bytes()
			if err := json.Unmarshal(out, &b); err != nil || b.Exit != 1 || b.Commit != "" || b.Steps[0].Outcome != "failed" {
				t.Fatalf("backup whose repository goes away: error %v, summary %s", err, out)
			}
		},
		"remote": func(t *testing.T, s *shell, p *place, backup *streamed) {
			packs := filepath.Join(p.url, "packs")
			if err := errors.Join(os.Rename(packs, packs+"-away"), os.WriteFile(packs, nil, 0o666)); err != nil {
				t.Fatal(err)
			}
			backup.finish(content[3*packSize:])
			if err := errors.Join(os.Remove(packs), os.Rename(packs+"-away", packs)); err != nil {
				t.Fatal(err)
			}
			var b backedUp
			out := backup.out.Bytes()
			if err := json.Unmarshal(out, &b); err != nil || b.Exit == 0 || b.Exit != backup.cmd.ProcessState.ExitCode() || b.Commit == "" || b.RemoteHead != "" ||
				len(b.Steps) < 3 || b.Steps[1].Outcome != "done" || b.Steps[2].Outcome != "failed" {
				t.Fatalf("backup whose push fails: error %v, summary %s", err, out)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlaceInFolder(t)
			s := p.folder()
			s.kist("init", "--bare", ".")
			s.kist("remote", "add", "origin", p.url)
			backup := s.startStreamed(content[:3*packSize])
			for began := time.Now(); p.sentPacks() < 2; time.Sleep(time.Millisecond) {
				if time.Since(began) > commandTime {
					t.Fatal("the backup did not send two packs before its input ended")
				}
			}
			trouble(t, s, p, backup)
			s.verify()

			before := p.sentPacks()
			again := s.startStreamed(content)
			err := again.finish("")
			var b backedUp
			out := again.out.Bytes()
			if err != nil || json.Unmarshal(out, &b) != nil || b.Commit == "" || b.Commit != b.RemoteHead {
				t.Fatalf("second backup: error %v, summary %s", err, out)
			}
			// The first backup may have ended after it stored a pack and before it recorded the pack.
			if most := int64(len(content)) + 1<<20 - int64(before-1)*packSize; b.Sent > most {
				t.Errorf("second backup: sent %d bytes, want at most %d, with %d packs on the remote", b.Sent, most, before)
			}
			if got := s.kist("cat", "HEAD:file"); got != content {
				t.Error("HEAD:file differs from the input")
			}
			s.kist("verify", "--remote", "origin", "--read-data")
		})
	}
}
