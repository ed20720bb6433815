package rootlog

import (
	"fmt"
	"testing"

	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/refs/record"
	"github.com/kist-vcs/kist/remote/remotetest"
)

func purge(n int) record.Record {
	return record.Record{
		Kind: record.Purge, Key: object.Key{Kind: object.KindChunk, ID: object.Sum(fmt.Append(nil, n))},
		Generation: 1, On: true, Time: noon, Who: "Ann",
	}
}

func records(list ...record.Record) *record.Set {
	set := &record.Set{}
	for _, r := range list {
		set.Merge(r)
	}
	return set
}

// Thousands of records lie in a state file, and a root has what was added since.
func TestManyRecords(t *testing.T) {
	m := remotetest.NewMemory()
	l := newLog(t, m)
	s := mustHead(t, l, nil)
	var c Change
	for i := range 5000 {
		c.Records = append(c.Records, purge(i))
	}
	c.Time = noon
	s = mustAppend(t, l, s, c)
	s = mustAppend(t, l, s, Change{Time: noon, Records: []record.Record{purge(5000)}})
	if size := len(m.Data(RootName(s.Seq))); size > 1000 {
		t.Errorf("a root of %d bytes for one record", size)
	}
	read := mustHead(t, newLog(t, m), nil)
	if read.Records.Len() != 5001 || !read.Records.Equal(s.Records) {
		t.Errorf("%d records", read.Records.Len())
	}
	if problems, err := newLog(t, m).Stored(ctx, read); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}
