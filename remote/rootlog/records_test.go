package rootlog

import (
	"fmt"
	"testing"

	"github.com/fxamacker/cbor/v2"

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

// Many records are in a state file. A root has only the records added since.
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
		t.Errorf("the root with one new record has %d bytes, want at most 1000", size)
	}
	read := mustHead(t, newLog(t, m), nil)
	if read.Records.Len() != 5001 || !read.Records.Equal(s.Records) {
		t.Errorf("%d records, want 5001", read.Records.Len())
	}
	if problems, err := newLog(t, m).Stored(ctx, read); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

// A record of an implausible generation has no effect and is not appended. A new record
// of the same object replaces it.
func TestImplausibleRecord(t *testing.T) {
	m := remotetest.NewMemory()
	l := newLog(t, m)
	s := mustHead(t, l, nil)
	forged := purge(1)
	forged.Generation = record.MaxPlausible + 1

	s = mustAppend(t, l, s, Change{Time: noon, Records: []record.Record{forged, purge(2)}})
	if s.Records.Len() != 1 || len(s.records.entries) != 1 {
		t.Errorf("%d records, %d stored, want 1", s.Records.Len(), len(s.records.entries))
	}

	name, value, err := record.Encode(forged)
	if err != nil {
		t.Fatal(err)
	}
	s.records.entries[name] = cbor.ByteString(value) // as another program may do
	mustAppend(t, l, s, Change{Time: noon, Records: []record.Record{purge(3)}})

	s = mustHead(t, newLog(t, m), nil)
	if s.Records.Len() != 2 || len(s.Implausible) != 1 || s.Implausible[0] != forged {
		t.Errorf("%d records, implausible: %v", s.Records.Len(), s.Implausible)
	}
	if _, purged := s.Records.View().Purged(forged.Key); purged {
		t.Error("the implausible record has an effect")
	}

	undone := purge(1)
	undone.On = false
	mustAppend(t, l, s, Change{Time: noon, Records: []record.Record{undone}})
	s = mustHead(t, newLog(t, m), nil)
	if got, ok := s.Records.Get(record.Purge, undone.Key); !ok || got != undone || len(s.Implausible) > 0 {
		t.Errorf("undone: record %+v, implausible: %v", got, s.Implausible)
	}
}
