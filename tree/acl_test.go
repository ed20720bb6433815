package tree

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// testIDs knows one user and one group.
var testIDs = ACLIDs{
	User:  func(name string) (uint32, error) { return 1000, errorUnless(name == "ada" || name == `DOM\eve`) },
	Group: func(name string) (uint32, error) { return 50, errorUnless(name == "staff") },
}

func errorUnless(ok bool) error {
	if ok {
		return nil
	}
	return errors.New("unknown")
}

func TestParseACL(t *testing.T) {
	const base = "user::rw-,group::---,other::---"
	for text, want := range map[string]string{
		base: "user::rw- group::--- other::---",
		"user::rw-\nuser:ada:rw-\t#effective:r--\ngroup::---\nmask::r--\nother::---\n": "user::rw- user:1000:rw- group::--- mask::r-- other::---",
		base + ",user:7:r--,mask::rwx,group:staff:r-x":                                 "user::rw- user:7:r-- group::--- group:50:r-x mask::rwx other::---",
		base + ",user:ada:r--:9,mask:rwx":                                              "user::rw- user:9:r-- group::--- mask::rwx other::---",
		base + ",user:DOM\\134eve:r--,mask::rwx,user:bob:rwx":                          "user::rw- user:1000:r-- group::--- mask::rwx other::--- without bob",
		"u::rwx,g::r-x,o:r--,m::rwx":                                                   "user::rwx group::r-x mask::rwx other::r--",

		"":                                       "an entry that each needs",
		"user::rw-":                              "an entry that each needs",
		base + ",user:7:r--":                     "an entry that each needs",
		base + ",user:7:r--,user:ada:r--,x::rwx": "an unknown kind",
		base + ",user:7:r--,user:7:rwx,mask::rwx": "two entries",
		base + ",user:7:rx,mask::rwx":             "as in rwx",
		base + ",user:7:xwr,mask::rwx":            "as in rwx",
		base + ",user:7:r--:4294967295":           "a number that is none",
		base + ",user:7:r--:-1":                   "a number that is none",
		base + ",user:7:r--:1:2":                  "three fields",
		base + ",user:a\\9:r--,mask::rwx":         "a bad escape",
		base + ",user:a\\000b:r--,mask::rwx":      "a bad escape",
		base + ",mask:ada:rwx":                    "a name where none can be",
		base + ",other::rwx":                      "two entries",
		base + ",default:user::rwx":               "an unknown kind",
		"\x00" + base:                             "an unknown kind",
	} {
		a, unknown, err := ParseACL(text, testIDs)
		got := strings.Join(strings.Fields(a.String()), " ")
		if len(unknown) > 0 {
			got += " without " + strings.Join(unknown, " ")
		}
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if _, _, err := ParseACL(strings.Repeat("user:1:rwx\n", maxACLEntries+1), testIDs); err == nil || !strings.Contains(err.Error(), "more than 8191") {
		t.Errorf("too many entries: error %v", err)
	}
}

// Without its ACL, a file gives nobody more rights than with it.
func TestACLPerm(t *testing.T) {
	for text, want := range map[string][2]uint16{
		"u::rw-,u:7:rw-,g::---,m::rw-,o::---": {0o660, 0o600},
		"u::rw-,u:7:rw-,g::rwx,m::r--,o::r--": {0o644, 0o644},
		"u::rwx,g::r-x,o::---":                {0o750, 0o750},
	} {
		a, _, err := ParseACL(text, testIDs)
		if got := [2]uint16{a.Perm(), a.PermAlone()}; got != want || err != nil {
			t.Errorf("%s: permission bits %o, error %v, want %o", text, got, err, want)
		}
	}
}

func FuzzParseACL(f *testing.F) {
	f.Add("user::rw-\nuser:ada:rw-\t#effective:r--\ngroup::---\nmask::r--\nother::---\n")
	f.Add("user::rw-,group:staff:r-x:9,user:a\\134b:rwx,group::---,mask:rwx,other::---")
	f.Fuzz(func(t *testing.T, text string) {
		a, _, err := ParseACL(text, testIDs)
		if err != nil {
			return
		}
		again, unknown, err := ParseACL(a.String(), ACLIDs{})
		if err != nil || len(unknown) > 0 || again.String() != a.String() {
			t.Errorf("%q became %q, %v", a, again, err)
		}
		decoded, err := DecodeACL(a.Encode())
		if err != nil || decoded.String() != a.String() {
			t.Errorf("%q became %q, %v", a, decoded, err)
		}
		if alone := a.PermAlone(); alone&^a.Perm() != 0 {
			t.Errorf("%q: %o without it has more rights", a, alone)
		}
	})
}

func FuzzDecodeACL(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00"))
	a, _, _ := ParseACL("u::rw-,u:7:rw-,g::---,m::rw-,o::---", testIDs)
	f.Add(a.Encode())
	f.Fuzz(func(t *testing.T, value []byte) {
		a, err := DecodeACL(value)
		if err == nil && !bytes.Equal(a.Encode(), value) {
			t.Errorf("%q became %q", value, a.Encode())
		}
	})
}
