package convert_test

import (
	"archive/tar"
	"strings"
	"testing"

	"github.com/kist-vcs/kist"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/tree"
	"github.com/kist-vcs/kist/tree/work/convert"
)

// An import keeps ACLs. Nobody gets more rights, with them or without.
func TestImportACLs(t *testing.T) {
	const text = "user::rw-\nuser:7:rw-\ngroup::---\nmask::rw-\nother::---\n"
	acl, _, err := tree.ParseACL(text, tree.ACLIDs{})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		kind    byte
		mode    int64
		records map[string]string

		full, basic uint16 // the modes
		xattrs      string // the names
		special     string
	}{
		"text": {tar.TypeReg, 0o660, map[string]string{"SCHILY.acl.access": text}, 0o660, 0o600, tree.AccessACL, ""},
		"attribute": {
			tar.TypeReg, 0o4660, map[string]string{"SCHILY.xattr." + tree.AccessACL: string(acl.Encode())},
			0o4660, 0o4600, tree.AccessACL, "",
		},
		"as star writes it": {
			tar.TypeReg, 0o664, map[string]string{"SCHILY.acl.access": "user::rw-,user:nobody-here:rw-:7,group::r--,mask::rw-,other::r--"},
			0o664, 0o644, tree.AccessACL, "",
		},
		"unknown user": {
			tar.TypeReg, 0o660, map[string]string{"SCHILY.acl.access": "user::rw-,user:nobody-here:rw-,user:7:r--,group::---,mask::rw-,other::---"},
			0o660, 0o600, tree.AccessACL, "no such users",
		},
		"folder": {
			tar.TypeDir, 0o770, map[string]string{"SCHILY.acl.access": strings.ReplaceAll(text, "rw-", "rwx"), "SCHILY.acl.default": text},
			0o770, 0o700, tree.AccessACL + " " + tree.DefaultACL, "",
		},
		"default on a file":   {tar.TypeReg, 0o640, map[string]string{"SCHILY.acl.default": text}, 0o640, 0o640, "", ""},
		"only bits":           {tar.TypeReg, 0o660, map[string]string{"SCHILY.acl.access": "user::rw-,group::---,other::---"}, 0o600, 0o600, "", ""},
		"more than the bits":  {tar.TypeReg, 0o600, map[string]string{"SCHILY.acl.access": "user::rwx,group::rwx,other::rwx"}, 0o600, 0o600, "", ""},
		"bad text":            {tar.TypeReg, 0o660, map[string]string{"SCHILY.acl.access": "user::rw-,everyone@:rwx"}, 0o600, 0o600, "", "bad entry"},
		"bad attribute":       {tar.TypeReg, 0o660, map[string]string{"SCHILY.xattr." + tree.AccessACL: "x"}, 0o600, 0o600, "", "unknown form"},
		"bad, and a text too": {tar.TypeReg, 0o660, map[string]string{"SCHILY.xattr." + tree.AccessACL: "x", "SCHILY.acl.access": text}, 0o660, 0o600, tree.AccessACL, ""},
	} {
		for _, full := range []bool{true, false} {
			x := newImporting(t, kist.InitOptions{Full: full})
			m := member{Header: tar.Header{Name: "a", Typeflag: test.kind, Mode: test.mode, PAXRecords: test.records}}
			x.Check(x.run(convert.ImportOptions{}, x.tarball("a.tar", "", m)))
			c, err := object.ReadCommit(t.Context(), x.Repo.Objects(), x.results[0].ID)
			x.Check(err)
			e, err := tree.Find(t.Context(), x.Repo.Objects(), c.Tree, "a")
			x.Check(err)

			mode := test.basic
			if full {
				mode = test.full
			}
			if e.Mode != mode {
				t.Errorf("%s, full %v: mode %o, want %o", name, full, e.Mode, mode)
			}
			checkXattrs(t, name, e, full, strings.Fields(test.xattrs))
			if got := x.results[0].Special; full && (len(got) > 0) != (test.special != "") || len(got) > 0 && !strings.Contains(got[0].Reason, test.special) {
				t.Errorf("%s: not stored %v, want %q", name, got, test.special)
			}
		}
	}
}

func checkXattrs(t *testing.T, name string, e object.Entry, full bool, want []string) {
	t.Helper()
	if !full {
		if e.Meta != nil {
			t.Errorf("%s: metadata %+v in a repository without", name, e.Meta)
		}
		return
	}
	if len(e.Meta.Xattrs) != len(want) {
		t.Errorf("%s: attributes %q, want %q", name, e.Meta.Xattrs, want)
	}
	for _, xattr := range want {
		if _, err := tree.DecodeACL(e.Meta.Xattrs[xattr]); err != nil {
			t.Errorf("%s: %s: %v", name, xattr, err)
		}
	}
}
