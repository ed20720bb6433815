package commands_test

import (
	"bytes"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// cmdXattr sets extended attributes: xattr PATH NAME=VALUE...
func cmdXattr(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: xattr PATH NAME=VALUE...")
	}
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		check(ts, unix.Setxattr(ts.MkAbs(args[0]), name, []byte(value), 0))
	}
}

// cmdXattrs wants exactly these extended attributes user.* of a path: xattrs PATH [NAME...]
func cmdXattrs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: xattrs PATH [NAME...]")
	}
	buf := make([]byte, 4096)
	n, err := unix.Listxattr(ts.MkAbs(args[0]), buf)
	check(ts, err)
	var have []string
	for name := range bytes.SplitSeq(buf[:n], []byte{0}) {
		if strings.HasPrefix(string(name), "user.") {
			have = append(have, string(name))
		}
	}
	slices.Sort(have)
	if !slices.Equal(have, args[1:]) {
		ts.Fatalf("%s has the attributes %q, want %q", args[0], have, args[1:])
	}
}
