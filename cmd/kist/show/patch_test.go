package show

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object"
)

func TestMetadataLines(t *testing.T) {
	c := &Comparison{Env: &cli.Env{Clock: cli.Clock{Now: func() time.Time { return time.Unix(0, 0).UTC() }}}}
	entry := func(typ object.EntryType, sec int64, m object.Metadata) *object.Entry {
		return &object.Entry{Type: typ, MTime: object.Time{Sec: sec, Nsec: 5}, Meta: &m}
	}
	file := entry(object.TypeFile, 0, object.Metadata{UID: 1, GID: 2, Owner: "anna", Xattrs: map[string][]byte{"user.a": {1}, "user.b": {1}, "user.c": nil}})
	for _, test := range []struct {
		old, new *object.Entry
		want     []string
	}{
		{file, file, nil},
		{nil, file, nil},
		{file, &object.Entry{Type: object.TypeFile}, nil},
		{file, entry(object.TypeFile, 0, object.Metadata{UID: 1, GID: 2, Owner: "anna", Xattrs: map[string][]byte{"user.a": {1}, "user.b": {2}, "user.d\n": nil}}), []string{
			"changed extended attribute user.b", "removed extended attribute user.c", `new extended attribute "user.d\n"`,
		}},
		{file, entry(object.TypeFile, 86400, object.Metadata{UID: 7, GID: 2, Owner: "anna", Xattrs: file.Meta.Xattrs, HardLink: 9}), []string{
			"owner number 1:2 → 7:2", "now has hard links", "time 1970-01-01 00:00:00.000000005 +0000 → 1970-01-02 00:00:00.000000005 +0000",
		}},
		{entry(object.TypeBlockDevice, 0, object.Metadata{HardLink: 1}), entry(object.TypeBlockDevice, 0, object.Metadata{Device: 0x801, HardLink: 2, Group: "bin"}), []string{
			"owner 0:0 → 0:bin", "device 0x0 → 0x801", "a hard link of other files",
		}},
		{entry(object.TypeDir, 0, object.Metadata{}), entry(object.TypeDir, 7, object.Metadata{}), nil},
	} {
		if diff := cmp.Diff(test.want, c.MetadataLines(test.old, test.new)); diff != "" {
			t.Error(diff)
		}
	}
}
