package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
)

// page runs all commands of a page of docs/howto as one sh script, which starts with begin.
// Places are pairs of a name in the page and its replacement.
func (s *shell) page(page, begin string, places ...string) {
	s.Helper()
	text, err := os.ReadFile("../../docs/howto/" + page)
	if err != nil {
		s.Fatal(err)
	}
	var commands []string
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(line, "    $ "); ok {
			commands = append(commands, strings.NewReplacer(places...).Replace(command))
		}
	}
	if len(commands) < 5 {
		s.Fatalf("%s has %d commands, want at least 5", page, len(commands))
	}
	s.script(page, begin, commands)
}

// script runs commands of a page as one sh script, which starts with begin.
func (s *shell) script(page, begin string, commands []string) {
	s.Helper()
	script := "set -eux\n" + begin + "\n" + strings.Join(commands, "\n")
	ctx, cancel := context.WithTimeout(s.Context(), commandTime)
	defer cancel()
	cmd := s.command(ctx)
	bin := s.TempDir()
	if err := os.Symlink(cmd.Path, filepath.Join(bin, "kist")); err != nil {
		s.Fatal(err)
	}
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", script}
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		s.Fatalf("%s: %v\n%s\n%s", page, err, &stdout, &stderr)
	}
}

// TestAttributesHowto runs the commands of docs/howto/attributes.md.
func TestAttributesHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"film/scene1.mov": "one", "film/scene2.mov": "two", "notes.txt": "notes"})
	s.commit("first")
	s.page("attributes.md", "")
	if got := s.kist("attr", "list", "--inherited", "film/scene1.mov"); !strings.Contains(got, "acl.write=editors  (from film)") {
		t.Errorf("attr list = %q, want the inherited acl.write", got)
	}
}

// TestConfigurationHowto runs the commands of docs/howto/configuration.md.
func TestConfigurationHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"notes.txt": "notes", "src/main.c": "main"})
	s.commit("first")
	for range 3 {
		s.kist("commit", "--allow-empty", "-m", "more")
	}
	s.page("configuration.md", "export HOME="+s.path("../home")+"; unset KIST_AUTHOR_NAME")
	if got := s.kist("config", "--local", "--list"); strings.Contains(got, "user") || strings.Contains(got, "alias") {
		t.Errorf("configuration of the repository = %q, want no user and no alias", got)
	}
}

// TestViewsHowto runs the commands of docs/howto/views.md.
func TestViewsHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"notes/list.txt": "one", "other/list.txt": "two", "cat.jpg": "cat"})
	s.commit("first")
	s.page("views.md", "", "/srv", s.path("../srv"), "kist view add names", "! kist view add names")
	if got := s.kist("view", "list"); !strings.HasPrefix(got, "site  ") || strings.Count(got, "\n") != 1 {
		t.Errorf("view list = %q, want only site", got)
	}
}

// TestUpgradeHowto runs the commands of docs/howto/upgrade.md on a HEAD in the old format.
func TestUpgradeHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"notes.txt": "notes"})
	s.commit("first")
	head, err := os.ReadFile(s.path(".kist/HEAD"))
	if err != nil {
		t.Fatal(err)
	}
	old, _, _ := strings.Cut(string(head), "\n")
	if err := os.WriteFile(s.path(".kist/HEAD"), []byte(old+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	s.page("upgrade.md", "")
	if now, err := os.ReadFile(s.path(".kist/HEAD")); err != nil || string(now) != string(head) {
		t.Errorf("HEAD = %q, %v, want %q", now, err, head)
	}
}

// TestRestoreHowto runs the commands of docs/howto/restore.md.
func TestRestoreHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.in("..").write(map[string]string{"etc/hostname": "alpha", "home/anna/letter": "dear"})
	for _, dir := range []string{"srv", "mnt", "tmp", "remote"} {
		if err := os.Mkdir(s.path("../"+dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	s.kist("init")
	s.write(map[string]string{"notes/plan.md": "one", "photos/a.jpg": "one", "photos/a.raw": "one", "photos/2025/c.jpg": "one"})
	s.env = append(s.env, "KIST_DATE=2026-01-30T12:00:00Z")
	s.commit("one")
	s.env = s.env[:len(s.env)-1]
	s.write(map[string]string{"notes/plan.md": "two", "photos/a.jpg": "two", "cache/b.raw": "two"})
	s.commit("two")

	s.page("restore.md", `ssh() { sh -c "$2"; }`,
		"/tmp/", s.path("../tmp")+"/", "/srv", s.path("../srv"), "/mnt", s.path("../mnt"), "/etc", s.path("../etc"), "/home", s.path("../home"),
		"/var/lib/backup", s.path("../backup"), "s3://my-bucket/machines", s.path("../remote"))

	s.wantFiles(s.readFiles("../tmp/restored"), s.in("../want").tree(map[string]string{"notes/plan.md": "two", "photos/a.jpg": "two", "photos/a.raw": "one", "photos/2025/c.jpg": "one", "cache/b.raw": "two"}))
	s.wantFiles(s.readFiles("notes"), s.in("../plan").tree(map[string]string{"plan.md": "one"}))
	s.wantFiles(s.readFiles("../srv"), s.in("../photos").tree(map[string]string{"photos/a.jpg": "two", "photos/a.raw": "one", "photos/2025/c.jpg": "one"}))
	machine := filepath.Join("../mnt", filepath.Dir(s.dir))
	s.wantFiles(s.readFiles(machine+"/etc"), s.readFiles("../etc"))
	s.wantFiles(s.readFiles(machine+"/home"), s.readFiles("../home"))
}

// TestMachinesHowto runs the commands of docs/howto/machines.md, after another machine has
// pushed its branch.
func TestMachinesHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.in("..").write(map[string]string{"etc/hosts": "alpha", "home/anna/letter": "dear", "srv/data": "beta"})
	for _, dir := range []string{"mnt", "tmp", "remote"} {
		if err := os.Mkdir(s.path("../"+dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	beta := s.in("../beta")
	s.kist("init", "--bare", "--initial-branch", "beta", "../beta")
	beta.kist("config", "--add", "backup.paths", s.path("../srv"))
	beta.kist("remote", "add", "origin", s.path("../remote"))
	beta.kist("backup", "--host", "beta")

	etc := s.path("../etc")
	s.page("machines.md", "cd "+s.path(".."),
		"/tmp/", s.path("../tmp")+"/", "/mnt etc", s.path("../mnt")+" "+strings.TrimPrefix(etc, "/"), "/etc", etc, "/home", s.path("../home"),
		"/var/lib/backup", s.path("../backup"), "s3://my-bucket/machines", s.path("../remote"))

	for _, to := range []string{"../tmp/restored", "../mnt"} {
		s.wantFiles(s.readFiles(to+etc), s.readFiles("../etc"))
	}
	s.wantFiles(s.readFiles("../tmp/beta"+s.path("../srv")), s.readFiles("../srv"))
}

// TestNightlyHowto runs the commands of docs/howto/nightly.md, except the ones that change
// the timers of this machine.
func TestNightlyHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.in("..").write(map[string]string{"etc/hosts": "alpha", "etc/x.tmp": "", "home/anna/letter": "dear"})
	s.page("nightly.md", "mkdir -p "+s.path("../node"), "/var/lib/backup", s.path("../backup"), "/var/lib/node_exporter", s.path("../node"),
		"/etc", s.path("../etc"), "/home", s.path("../home"), "s3://my-bucket/alpha", s.path("../remote"))
	for _, file := range []string{"../node/kist.prom", "../etc/backup-began"} {
		if _, err := os.Stat(s.path(file)); err != nil {
			t.Error(err)
		}
	}
	list := s.in("../backup").kist("ls", "-r", "HEAD")
	if !strings.Contains(list, "etc/hosts") || !strings.Contains(list, "home/anna/letter") || strings.Contains(list, "x.tmp") {
		t.Errorf("the backup has\n%s", list)
	}
}

// TestLimitHowto runs the commands of docs/howto/limit.md, with a smaller limit.
func TestLimitHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"film/take-1.mov": noise(objecttest.Rand(9), 3<<20)})
	s.commit("film")
	s.kist("remote", "add", "origin", s.path("../backup"))
	s.kist("push")
	s.kist("remote", "add", "second", s.path("../second"))
	s.page("limit.md", "", "200MB", "500KB")
	if size := folderSize(t, s.path(".kist/volumes")); size > 500_000 {
		t.Errorf("the local volumes have %d bytes, want at most 500000", size)
	}
	s.kist("verify", "--remote", "origin", "--read-data")
}

// TestOneCopyHowto runs the commands of docs/howto/one-copy.md, with a smaller limit.
func TestOneCopyHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init")
	rnd := objecttest.Rand(10)
	s.write(map[string]string{"film/take-1.mov": noise(rnd, 3<<20), "notes/day-1": noise(rnd, 20_000)})
	s.commit("first cut")
	s.write(map[string]string{"film/take-2.mov": noise(rnd, 2<<20)})
	s.commit("second cut")
	s.kist("remote", "add", "origin", s.path("../backup"))
	s.kist("remote", "add", "second", s.path("../second"))
	want := s.readFiles(".")
	s.page("one-copy.md", "", "20GB", "100KB")
	s.wantFiles(s.readFiles("."), want)
	if size := folderSize(t, s.path(".kist/volumes")); size > 100_000 {
		t.Errorf("the local volumes have %d bytes, want at most 100000", size)
	}
}

// TestLazyHowto runs the commands of docs/howto/lazy.md on a remote in a folder.
func TestLazyHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"stations/2026.csv": "day,rain\n1,3\n", "stations/2025.csv": noise(objecttest.Rand(3), 2<<20), "model/run": noise(objecttest.Rand(4), 3<<20)})
	s.commit("all stations")
	s.kist("remote", "add", "origin", s.path("../bucket"))
	s.kist("push")
	s.page("lazy.md", "", "s3://bucket/climate", s.path("../bucket"))
	lazy := s.in("climate")
	if got, err := os.ReadFile(lazy.path("stations/2026.csv")); err != nil || string(got) != "day,rain\n1,3\n" {
		t.Errorf("the table: %q, %v", got, err)
	}
	if size := folderSize(t, lazy.path(".kist/volumes")); size > 3<<20 {
		t.Errorf("the lazy clone has %d bytes, though the model of 3 MiB is not needed", size)
	}
}

// TestFindHowto runs the commands of docs/howto/find.md in a repository with two commits.
func TestFindHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init")
	rnd := objecttest.Rand(7)
	old := noise(rnd, 3<<20)
	s.write(map[string]string{"film/scene1.mov": noise(rnd, 200_000), "film/old.mov": old, "film/empty": ""})
	s.kist("add", ".")
	s.kist("commit", "-m", "first")
	s.kist("tag", "v1")
	s.kist("rm", "film/old.mov")
	s.write(map[string]string{"film/scene2.mov": noise(rnd, 2<<20)})
	s.kist("add", ".")
	s.kist("commit", "-m", "second")

	s.page("find.md", "")
	if found, err := os.ReadFile(s.path("old.mov")); err != nil || string(found) != old {
		t.Errorf("old.mov differs from its old version: %v", err)
	}
}

// tree writes files to the folder, and returns the entries of the folder.
func (s *shell) tree(content map[string]string) files {
	s.Helper()
	s.write(content)
	return s.readFiles(".")
}

// TestHistoryHowto runs the commands of docs/howto/history.md.
func TestHistoryHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"plan.md": strings.Repeat("the first plan\n", 9), "notes/gone.md": "a note to be deleted"})
	s.commit("one")
	s.write(map[string]string{"plan.md": strings.Repeat("the second plan\n", 9)})
	s.commit("two")
	s.kist("mv", "plan.md", "notes/plan.md")
	s.kist("rm", "notes/gone.md")
	s.kist("commit", "-m", "three")
	s.page("history.md", "")
	if text, err := os.ReadFile(s.path("notes/gone.md")); err != nil || string(text) != "a note to be deleted" {
		t.Errorf("the deleted file = %q, %v", text, err)
	}
	if text, err := os.ReadFile(s.path("notes/plan.md")); err != nil || !strings.HasPrefix(string(text), "the second") {
		t.Errorf("the restored file = %q, %v, want the second plan", text, err)
	}
}

// TestStashHowto runs the commands of docs/howto/stash.md.
func TestStashHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"plan.txt": "plan\n"})
	s.commit("first")
	s.write(map[string]string{"plan.txt": "plan\nstove\n", "new.txt": "new"})
	s.page("stash.md", "")
	if got := s.kist("status", "-s", "-b"); got != "## kitchen\n M plan.txt\n?? new.txt\n" {
		t.Errorf("status = %q", got)
	}
}

// TestBisectHowto runs the commands of docs/howto/bisect.md.
func TestBisectHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init")
	for i := range 8 {
		text := fmt.Sprintf("version %d\n", i)
		if i > 5 {
			text += "mistake\n"
		}
		s.write(map[string]string{"notes.txt": text})
		s.kist("add", ".")
		s.kist("commit", "-m", text[:9])
		if i == 1 {
			s.kist("tag", "v1.0")
		}
	}
	s.page("bisect.md", "")
	if out := s.kist("log", "--oneline", "-1"); !strings.Contains(out, "version 7") {
		t.Errorf("HEAD after the last reset = %s, want version 7", out)
	}
}

// TestForGitUsersHowto runs the commands of docs/howto/for-git-users.md, on a short history.
func TestForGitUsersHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	if err := os.Mkdir(s.path("seed"), 0o777); err != nil {
		t.Fatal(err)
	}
	seed := s.in("seed")
	seed.kist("init")
	seed.write(map[string]string{
		"README.md": "<div>\n" + strings.Repeat("a line\n", 30) + "the end\n", "command.go": "package cobra\n", "args.go": "func MinimumNArgs(n int)\n",
	})
	seed.commit("first")
	seed.kist("tag", "-a", "-m", "1.8.0", "v1.8.0")
	seed.write(map[string]string{"command.go": "package cobra\n\ntype Command struct {\n\tPersistentPreRun func()\n}\n"})
	seed.commit("a hook for children")
	seed.kist("tag", "-a", "-m", "1.9.0", "v1.9.0")
	seed.write(map[string]string{"args.go": "package cobra\n\nfunc MinimumNArgs(n int) {}\n"})
	seed.commit("a function that compiles")
	if err := os.Mkdir(s.path("store"), 0o777); err != nil {
		t.Fatal(err)
	}
	seed.kist("remote", "add", "origin", "../store")
	seed.kist("push", "origin", "--all", "--tags")

	s.page("for-git-users.md", "", "kist push origin main", "! kist push origin main")
	cobra := s.in("cobra")
	if got := cobra.kist("log", "--format=%s", "-3"); got != "README: a title, and where to read more\nAUTHORS: the first one\nNEWS: begin\n" {
		t.Errorf("log = %q", got)
	}
	cobra.verify()
}

// TestTutorial runs the commands of docs/tutorial.md. One push there is refused.
func TestTutorial(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	if err := os.Mkdir(s.path("../disk"), 0o777); err != nil {
		t.Fatal(err)
	}
	s.page("../tutorial.md", `kist() { command kist "$@" || test "$1 $?" = "push 13"; }`, "/media/disk", s.path("../disk"), "kist serve", "true")
	trip := s.in("trip")
	if text, err := os.ReadFile(trip.path("diary.txt")); err != nil || string(text) != "first day: the harbour\nsecond day: rain\nthird day: home\nand fog\n" {
		t.Errorf("the diary = %q, %v", text, err)
	}
	trip.verify()
}

// TestEncryptHowto runs the commands of docs/howto/encrypt.md. A terminal is missing, so the recovery key is in a file.
func TestEncryptHowto(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"film.txt": "film"})
	s.commit("first")
	s.kist("tag", "v1")
	home := s.path("../home")
	s.page("encrypt.md", "export HOME="+home+"; mkdir -p ../media/backup ../berta; echo secret >passphrase; chmod 600 passphrase",
		"add --encrypted origin", "add --encrypted --recovery-file recovery.key origin", "add --encrypted new", "add --encrypted --no-recovery new",
		"/media/", "../media/", "/srv/", "../")
	if got, err := os.ReadFile(s.path("../new/film/film.txt")); string(got) != "film" {
		t.Errorf("the clone with the recovery key has %q, error %v", got, err)
	}
}

// TestSignHowto runs the commands of docs/howto/sign.md.
func TestSignHowto(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("ssh-keygen is not there")
	}
	s := newShell(t)
	s.kist("init")
	s.write(map[string]string{"plan.txt": "plan"})
	s.commit("first")
	s.kist("remote", "add", "origin", "../photos")
	s.kist("push", "-u", "origin", "main")
	s.kist("checkout", "-b", "topic")
	s.kist("commit", "--allow-empty", "-m", "topic")
	s.kist("checkout", "main")
	home := s.path("../home")
	s.page("sign.md", "export HOME="+home+"; unset SSH_AUTH_SOCK; mkdir -p $HOME/.ssh; cd "+s.path(""),
		"ssh-keygen -t ed25519", "ssh-keygen -q -t ed25519 -N '' -f $HOME/.ssh/id_ed25519; cp $HOME/.ssh/id_ed25519.pub anna.pub",
		"commit -S", "commit --allow-empty -S", "cat anna.pub", "cat $HOME/.ssh/id_ed25519.pub",
		"--verify-signatures topic  merge", "--verify-signatures main  # merge",
		"  the tag, and its name", "", "  all commits and tags", "", "  who signed each commit", "",
		"sign.roots true", "sign.roots true; kist push -q",
		"clone s3://bucket/photos", "clone ../photos required", "--no-checkout s3://bucket/photos", "--no-checkout ../photos")
	for _, dir := range []string{"required", "photos"} {
		if got, err := os.ReadFile(s.path(dir + "/plan.txt")); string(got) != "plan" {
			t.Errorf("the clone %s has %q, error %v", dir, got, err)
		}
	}
}
