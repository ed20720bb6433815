package commands_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/cmd/kist/commands"
	"github.com/kist-vcs/kist/object/canonical"
	"github.com/kist-vcs/kist/object/objecttest"
)

// TestMain makes the test binary act as kist if it is called by that name, so that scripts can run
// "exec kist".
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kist" {
		kistMain()
	}
	time.Local = time.UTC   // for kist in the process of the test
	debug.SetGCPercent(400) // saves time, because commands leave little in memory
	testscript.Main(m, map[string]func(){"kist-as-nobody": nobodyMain, "kist-that-hangs": hangMain})
}

// kistMain is main in scriptEnv.
func kistMain() {
	ctx, stop := cli.WithSignals(context.Background())
	status := cli.Run(ctx, scriptEnv(), os.Args[1:])
	stop()
	os.Exit(status)
}

// scriptEnv returns the Env of this process, with a fixed host name and user name.
func scriptEnv() *cli.Env {
	env := cli.OSEnv()
	env.Commands = commands.All
	env.Strict = true
	env.Hostname = "chest.example"
	env.Username = func() string { return "anna" }
	return env
}

// scriptDir has the scripts.
var scriptDir = filepath.FromSlash("../../../testdata/script")

// TestScripts runs testdata/script/*.txtar, which check kist from the outside. docs/testing.md
// lists their commands.
func TestScripts(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	if err := os.Symlink(self, filepath.Join(programs, "kist")); err != nil {
		t.Fatal(err)
	}

	testscript.Run(t, testscript.Params{
		Dir:                 scriptDir,
		RequireExplicitExec: false,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, ".home"))
			env.Setenv("PATH", programs+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("TZ", "UTC")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // the default adds a second to each command
			env.Setenv("KIST_GC_AUTO", "0")           // no background processes
			env.Setenv("KIST_DATE", "2026-01-31T12:00:00Z")
			env.Setenv("KIST_AUTHOR_NAME", "Anna Chest")
			env.Setenv("KIST_AUTHOR_EMAIL", "anna@chest.example")
			// Bare backups record this folder, so give must not change it later.
			if err := os.Chmod(filepath.Dir(env.WorkDir), 0o711); err != nil {
				return err
			}
			env.Values[scriptKey{}] = &script{vars: env.Vars}
			return os.Mkdir(env.Getenv("HOME"), 0o700)
		},
		Condition: func(name string) (bool, error) {
			if name == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"agent":    cmdAgent,
			"exits":    cmdExits,
			"damage":   cmdDamage,
			"fifo":     cmdFIFO,
			"forge":    cmdForge,
			"give":     cmdGive,
			"input":    cmdInput,
			"json":     cmdJSON,
			"kist":     cmdKist,
			"mkfile":   cmdMkfile,
			"rawname":  cmdRawname,
			"sametree": cmdSametree,
			"touch":    cmdTouch,
			"typed":    cmdTyped,
			"xattr":    cmdXattr,
			"xattrs":   cmdXattrs,
		},
	})
}

// check fails the script if err is not nil.
func check(ts *testscript.TestScript, err error) {
	if err != nil {
		ts.Fatalf("%v", err)
	}
}

// scriptProcess is the part of the process of the test that all scripts share.
var scriptProcess = sync.OnceValue(scriptEnv)

// cmdKist runs kist in the process of the test, which is much faster than a process for each
// command. Scripts about the process itself use "exec kist": signals, limits, terminals, the search
// path of programs.
func cmdKist(ts *testscript.TestScript, neg bool, args []string) {
	if status := runKist(ts, args); (status != 0) != neg {
		ts.Fatalf("exit status %d", status)
	}
}

// runKist runs kist in the process of the test, and returns its exit status.
func runKist(ts *testscript.TestScript, args []string) int {
	env := *scriptProcess()
	env.Dir = ts.MkAbs(".")
	env.Getenv = ts.Getenv
	env.Programs = cli.Programs{Environ: scriptOf(ts).environ(ts)}
	env.Stdout, env.Stderr = ts.Stdout(), ts.Stderr()
	env.Terminal = cli.Terminal{Width: env.Terminal.Width}

	input := &scriptOf(ts).input
	env.Stdin = strings.NewReader(*input)
	*input = ""
	return cli.Run(context.Background(), &env, args)
}

// script is the state of a script for the commands of this file.
type script struct {
	vars  []string // the variables at the beginning, as NAME=VALUE
	input string   // the standard input of the next kist command
}

type scriptKey struct{}

func scriptOf(ts *testscript.TestScript) *script { return ts.Value(scriptKey{}).(*script) }

// TestScriptInput checks that no script gives standard input to kist by testscript's own stdin, which
// only reaches processes.
func TestScriptInput(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(scriptDir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	wrong := regexp.MustCompile(`(?m)^stdin .*\n(! |exits [0-9]+ )?kist\b`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if line := wrong.Find(text); line != nil {
			t.Errorf("%s: %q: use input for kist", file, line)
		}
	}
}

// assignment is the name of a variable that a line of a script sets.
var assignment = regexp.MustCompile(`[ ']([A-Za-z_0-9]+)=`)

// environ returns the present variables of a script. testscript only has the value of a name, so
// environ takes the names from the text of the script.
func (s *script) environ(ts *testscript.TestScript) []string {
	names := map[string]bool{}
	for _, v := range s.vars {
		name, _, _ := strings.Cut(v, "=")
		names[name] = true
	}
	text, err := os.ReadFile(filepath.Join(scriptDir, ts.Name()+".txtar"))
	check(ts, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "env ") {
			for _, match := range assignment.FindAllStringSubmatch(line, -1) {
				names[match[1]] = true
			}
		}
	}

	vars := []string{"PWD=" + ts.MkAbs(".")}
	for name := range names {
		vars = append(vars, name+"="+ts.Getenv(name))
	}
	return vars
}

// cmdInput gives the content of a file to the next kist command as standard input:
//
//	input ../answers
//	kist add -p
func cmdInput(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: input FILE")
	}
	scriptOf(ts).input = ts.ReadFile(args[0])
}

// cmdExits runs kist in the process of the test, or a program, and checks its exit status:
//
//	exits 2 kist frob
//	exits 1 exec kist schedule remove
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	check(ts, err)
	if got := exitStatus(ts, args[1], args[2:]); got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// exitStatus runs a program and returns its exit status. As in a script, kist is the only one
// that is not a process.
func exitStatus(ts *testscript.TestScript, program string, args []string) int {
	switch program {
	case "kist":
		return runKist(ts, args)
	case "exec":
		program, args = args[0], args[1:]
	}
	err := ts.Exec(program, args...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	check(ts, err)
	return 0
}

// cmdMkfile makes a file of SIZE incompressible bytes (k means KiB, m means MiB). The same SEED, by
// default the path, gives the same bytes:
//
//	mkfile 3m media/a.raw [SEED]
func cmdMkfile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: mkfile SIZE PATH [SEED]")
	}
	digits := strings.TrimRight(args[0], "km")
	size, err := strconv.Atoi(digits)
	check(ts, err)
	size <<= map[string]int{"": 0, "k": 10, "m": 20}[args[0][len(digits):]]
	var seed [32]byte
	copy(seed[:], args[len(args)-1])
	data := make([]byte, size)
	_, err = mathrand.NewChaCha8(seed).Read(data)
	check(ts, err)
	file := ts.MkAbs(args[1])
	check(ts, os.MkdirAll(filepath.Dir(file), 0o755))
	check(ts, os.WriteFile(file, data, 0o644))
}

// cmdRawname makes a file with its own name as content. NAME is a Go string literal without its
// quotes:
//
//	rawname 'bad\xffname\n'
func cmdRawname(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: rawname NAME")
	}
	name, err := strconv.Unquote(`"` + args[0] + `"`)
	check(ts, err)
	check(ts, os.WriteFile(ts.MkAbs(name), []byte(name), 0o644))
}

// cmdDamage changes one byte of the largest file that matches a pattern. A negative offset counts
// from the end:
//
//	damage .kist/volumes/*/KEYS -10
func cmdDamage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: damage FILE OFFSET")
	}
	files, err := filepath.Glob(ts.MkAbs(args[0]))
	check(ts, err)
	var file string
	var data []byte
	for _, name := range files {
		more, err := os.ReadFile(name)
		check(ts, err)
		if len(more) > len(data) {
			file, data = name, more
		}
	}
	at, err := strconv.Atoi(args[1])
	check(ts, err)
	if at < 0 {
		at += len(data)
	}
	if at < 0 || at >= len(data) {
		ts.Fatalf("%s has %d bytes, and no offset %s", args[0], len(data), args[1])
	}
	data[at] ^= 0x20
	check(ts, os.Chmod(file, 0o644)) // files of volumes are read-only
	check(ts, os.WriteFile(file, data, 0o644))
}

// cmdForge gives the records in the head of a folder remote a generation that no honest repository
// reaches, and updates the checksum:
//
//	forge REMOTE
func cmdForge(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: forge REMOTE")
	}
	roots, err := filepath.Glob(ts.MkAbs(filepath.Join(args[0], "root", "*")))
	check(ts, err)
	name := slices.Max(roots)
	data, err := os.ReadFile(name)
	check(ts, err)

	encoding, _ := canonical.Modes()
	encode := func(value any) []byte {
		data, err := encoding.Marshal(value)
		check(ts, err)
		return data
	}

	const header = 32
	var body, table map[string]cbor.RawMessage
	var set map[string]cbor.ByteString
	check(ts, cbor.Unmarshal(data[header:len(data)-sha256.Size], &body))
	check(ts, cbor.Unmarshal(body["records"], &table))
	check(ts, cbor.Unmarshal(table["set"], &set))

	for name, value := range set {
		var r map[string]cbor.RawMessage
		check(ts, cbor.Unmarshal([]byte(value), &r))
		r["gen"] = encode(uint64(1 << 62))
		set[name] = cbor.ByteString(encode(r))
	}

	table["set"] = encode(set)
	body["records"] = encode(table)
	data = append(data[:header], encode(body)...)
	sum := sha256.Sum256(data)
	check(ts, os.Chmod(name, 0o644))
	check(ts, os.WriteFile(name, append(data, sum[:]...), 0o644))
}

// cmdFIFO makes a named pipe: fifo PATH.
func cmdFIFO(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: fifo PATH")
	}
	check(ts, syscall.Mkfifo(ts.MkAbs(args[0]), 0o644))
}

// cmdAgent starts an ssh agent with keys, and sets SSH_AUTH_SOCK: agent KEY...
func cmdAgent(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: agent KEY...")
	}
	socket, stop, err := objecttest.LaunchSSHAgent()
	check(ts, err)
	ts.Defer(stop)
	ts.Setenv("SSH_AUTH_SOCK", socket)
	for _, key := range args {
		check(ts, ts.Exec("ssh-add", "-q", ts.MkAbs(key)))
	}
}

// cmdTouch sets a file's mtime: touch 2020-01-01T00:00:00Z PATH.
func cmdTouch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: touch TIME PATH")
	}
	to, err := time.Parse(time.RFC3339Nano, args[0])
	check(ts, err)
	check(ts, os.Chtimes(ts.MkAbs(args[1]), to, to))
}

// cmdTyped types the lines of FILE into an interactive bash. <TAB> completes a word, <^U> deletes
// the line. Bash reads from a pipe in a session of its own, so it cannot use the terminal of the
// test.
//
//	typed FILE
func cmdTyped(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: typed FILE")
	}
	cmd := exec.Command("bash", "--norc", "-i")
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"), "TERM=dumb", "LC_ALL=C", "INPUTRC=/dev/null", "HISTFILE="}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdin = strings.NewReader(strings.NewReplacer("<TAB>", "\t", "<^U>", "\x15").Replace(ts.ReadFile(args[0])))
	cmd.Stdout, cmd.Stderr = ts.Stdout(), ts.Stderr()
	check(ts, cmd.Run())
}

// cmdJSON checks a value in the JSON output of the last command, in line 1 or in line -n. PATH has
// the names and positions that lead to the value. VALUE is JSON, or a string without quotes:
//
//	json error.kind usage
//	json -n 2 parents.0 null
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	line := 1
	if len(args) > 2 && args[0] == "-n" {
		n, err := strconv.Atoi(args[1])
		check(ts, err)
		line, args = n, args[2:]
	}
	if len(args) != 2 {
		ts.Fatalf("usage: json [-n LINE] PATH VALUE")
	}

	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	if line > len(lines) {
		ts.Fatalf("the output has only %d lines, no line %d", len(lines), line)
	}

	dec := json.NewDecoder(strings.NewReader(lines[line-1]))
	dec.UseNumber()
	var value any
	check(ts, dec.Decode(&value))

	for name := range strings.SplitSeq(args[0], ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				ts.Fatalf("no position %q in %s: %s", name, args[0], lines[line-1])
			}
			value = v[i]
		default:
			ts.Fatalf("no %q in %s: %s", name, args[0], lines[line-1])
		}
	}

	got, ok := value.(string)
	if !ok {
		text, err := json.Marshal(value)
		check(ts, err)
		got = string(text)
	}
	if (got == args[1]) == neg {
		ts.Fatalf("%s is %s: %s", args[0], got, lines[line-1])
	}
}

// cmdSametree checks that two folders have the same names, types, permissions, contents and link
// targets. It ignores .kist:
//
//	sametree A B
func cmdSametree(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: sametree A B")
	}
	a, err := listTree(ts.MkAbs(args[0]))
	check(ts, err)
	b, err := listTree(ts.MkAbs(args[1]))
	check(ts, err)
	var differences []string
	for path, entry := range a {
		if b[path] != entry {
			differences = append(differences, fmt.Sprintf("%q: %s, and %s", path, brief(entry), brief(b[path])))
		}
	}
	for path, entry := range b {
		if _, ok := a[path]; !ok {
			differences = append(differences, fmt.Sprintf("%q: nothing, and %s", path, brief(entry)))
		}
	}
	switch {
	case neg && len(differences) == 0:
		ts.Fatalf("%s and %s are the same", args[0], args[1])
	case !neg && len(differences) > 0:
		ts.Fatalf("%s and %s differ:\n%s", args[0], args[1], strings.Join(differences, "\n"))
	}
}

// listTree describes everything below dir by type, permissions and content.
func listTree(dir string) (map[string]string, error) {
	entries := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil || name == "." {
			return err
		}
		if name == ".kist" {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var content []byte
		switch {
		case info.Mode().IsRegular():
			content, err = os.ReadFile(path)
		case info.Mode()&fs.ModeSymlink != 0:
			var target string
			target, err = os.Readlink(path)
			content = []byte(target)
		}

		entries[name] = info.Mode().String() + " " + string(content)
		return err
	})
	return entries, err
}

// brief shortens a description from listTree.
func brief(entry string) string {
	mode, content, _ := strings.Cut(entry, " ")
	if mode == "" {
		return "nothing"
	}
	if i := bytes.IndexByte([]byte(content), '\n'); i >= 0 {
		content = content[:i]
	}
	return fmt.Sprintf("%s %.40q", mode, content)
}
