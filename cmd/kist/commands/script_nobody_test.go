package commands_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// nobody is a user ID that owns only the files from cmdGive.
const nobody = 65534

// nobodyMain is kistMain as an ordinary user, whom permission bits restrict. If root runs the
// tests, it switches to nobody.
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

// cmdGive changes the owner of a folder and its content to the user of kist-as-nobody:
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
	// The user must be able to pass through the parent folders.
	for at := filepath.Dir(dir); at != filepath.Dir(at); at = filepath.Dir(at) {
		info, err := os.Stat(at)
		check(ts, err)
		if info.Mode()&0o001 == 0 {
			check(ts, os.Chmod(at, info.Mode()|0o001))
		}
	}
}
