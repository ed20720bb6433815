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

// startStreamed begins a backup of standard input, which begins with some text.
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

// finish gives the backup the rest of its input, and waits for its end.
func (b *streamed) finish(rest string) error {
	_, err := io.WriteString(b.in, rest)
	return errors.Join(err, b.in.Close(), b.cmd.Wait())
}

// TestBackupAhead makes a backup that sends two packs, and then is killed or interrupted, or its
// remote fails. The next backup sends none of them again.
func TestBackupAhead(t *testing.T) {
	t.Parallel()
	const packSize = 16 << 20 // of packs that are sent ahead
	content := noise(rand.New(rand.NewPCG(5, 6)), 4*packSize)
	for name, trouble := range map[string]func(t *testing.T, s *shell, p *place, backup *streamed){
		"kill": func(t *testing.T, s *shell, _ *place, backup *streamed) {
			backup.cmd.Process.Kill()
			backup.cmd.Wait()
			if o := s.run("log"); o.status == 0 {
				t.Fatalf("there is a commit: %v", o)
			}
		},
		"interrupt": func(t *testing.T, s *shell, _ *place, backup *streamed) {
			backup.cmd.Process.Signal(syscall.SIGTERM)
			backup.cmd.Wait()
			var b struct {
				backedUp
				Sent int64 `json:"bytes_sent"`
			}
			out := backup.out.Bytes()
			if err := json.Unmarshal(out, &b); err != nil || b.Exit != 130 || b.Exit != backup.cmd.ProcessState.ExitCode() || b.Commit != "" || b.Sent < packSize {
				t.Fatalf("%v: %s", err, out)
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
				t.Fatalf("%v: %s", err, out)
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
					t.Fatal("nothing is sent before the end of the input")
				}
			}
			trouble(t, s, p, backup)
			s.verify()

			before := p.sentPacks()
			again := s.startStreamed(content)
			err := again.finish("")
			var b struct {
				backedUp
				Sent int64 `json:"bytes_sent"`
			}
			out := again.out.Bytes()
			if err != nil || json.Unmarshal(out, &b) != nil || b.Commit == "" || b.Commit != b.RemoteHead {
				t.Fatalf("%v: %s", err, out)
			}
			// The kill may have come between the end of the last pack and the note of it.
			if most := int64(len(content)) + 1<<20 - int64(before-1)*packSize; b.Sent > most {
				t.Errorf("%d packs were there, and %d bytes were sent, more than %d", before, b.Sent, most)
			}
			if got := s.kist("cat", "HEAD:file"); got != content {
				t.Error("another content")
			}
			s.kist("verify", "--remote", "origin", "--read-data")
		})
	}
}
