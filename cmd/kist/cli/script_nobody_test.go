package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// nobody is a user who owns nothing but what cmdGive gives it.
const nobody = 65534

// nobodyMain is kistMain as a user for whom permission bits mean something,
// even if root runs the tests.
func nobodyMain() {
	if os.Geteuid() == 0 {
		for _, err := range []error{syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)} {
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(125)
			}
		}
	}
	kistMain()
}

// cmdGive gives a folder, with all that is in it, to the user that
// kist-as-nobody runs as:
//
//	give .
//	kist-as-nobody status
func cmdGive(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: give DIR")
	}
	if os.Geteuid() != 0 {
		return
	}
	dir := ts.MkAbs(args[0])
	check(ts, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, nobody, nobody)
	}))
	// The folders that it is in may be passed through.
	for at := filepath.Dir(dir); at != filepath.Dir(at); at = filepath.Dir(at) {
		info, err := os.Stat(at)
		check(ts, err)
		if info.Mode()&0o001 == 0 {
			check(ts, os.Chmod(at, info.Mode()|0o001))
		}
	}
}
