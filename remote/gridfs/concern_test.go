package gridfs

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/kist-vcs/kist/remote"
)

func TestIsAlone(t *testing.T) {
	for _, test := range []struct {
		name  string
		hello bson.D
		want  bool
	}{
		{"a server on its own", bson.D{{Key: "isWritablePrimary", Value: true}}, true},
		{"nothing", bson.D{}, true},
		{"primary", bson.D{{Key: "isWritablePrimary", Value: true}, {Key: "setName", Value: "rs0"}}, false},
		{"secondary", bson.D{{Key: "secondary", Value: true}, {Key: "setName", Value: "rs0"}}, false},
		{"mongos", bson.D{{Key: "isWritablePrimary", Value: true}, {Key: "msg", Value: "isdbgrid"}}, false},
		{"another message", bson.D{{Key: "msg", Value: "hello"}}, true},
		{"a name of another type", bson.D{{Key: "setName", Value: 7}}, true},
	} {
		data, err := bson.Marshal(test.hello)
		if err != nil {
			t.Fatal(err)
		}
		if got := isAlone(data); got != test.want {
			t.Errorf("%s: isAlone = %t, want %t", test.name, got, test.want)
		}
	}
}

// TestConcerns checks the read and write concerns of all commands. It uses a fake
// server, because FerretDB does not reveal whether a write concern was sent.
func TestConcerns(t *testing.T) {
	for _, test := range []struct {
		name       string
		hello      []bson.E
		last, many string // the read concerns of a single record and of other reads
	}{
		{"replica set", replicaSet(), "linearizable", "majority"},
		{"mongos", []bson.E{{Key: "msg", Value: "isdbgrid"}}, "linearizable", "majority"},
		{"alone", nil, "local", "local"},
	} {
		// Concerns and a read preference in the URL are ignored.
		for _, options := range []string{"", "&w=1&journal=false&readConcernLevel=available&readPreference=secondary"} {
			t.Run(test.name+options, func(t *testing.T) {
				t.Parallel()
				f := startFake(t, test.hello...)
				f.countAll(1000)
				checkConcerns(t, f.url(options), test.last, test.many)
			})
		}
	}
}

// Delete deletes the files document first. If it fails then, it leaves an orphan
// and not a damaged blob.
func TestDeleteOrder(t *testing.T) {
	f := startFake(t, replicaSet()...)
	var sent recorder
	b, err := open(context.Background(), f.url(""), testEnv(), sent.monitor())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Delete(context.Background(), "packs/a"); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, command := range sent.take() {
		if from, ok := command.Lookup("delete").StringValueOK(); ok {
			order = append(order, from)
		}
	}
	if !slices.Equal(order, []string{"kist.files", "kist.chunks"}) {
		t.Errorf("deleted from %q, want kist.files first, then kist.chunks", order)
	}
}

func checkConcerns(t *testing.T, url, last, many string) {
	var sent recorder
	b, err := open(context.Background(), url, testEnv(), sent.monitor())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx := context.Background()
	calls := []struct {
		name string
		call func() error
	}{
		{"put", func() error { return b.Put(ctx, "packs/a", bytes.NewReader(make([]byte, 20<<20)), 20<<20) }},
		{"create", func() error { return b.Create(ctx, "root/00000000000000000001", []byte("x")) }},
		{"get root", func() error { _, err := b.Get(ctx, "root/00000000000000000001", make([]byte, 1), 0); return err }},
		{"get kist.json", func() error { _, err := b.Get(ctx, "kist.json", make([]byte, 1), 0); return err }},
		{"stat root", func() error { _, err := b.Stat(ctx, "root/00000000000000000001"); return err }},
		{"get blob", func() error { _, err := b.Get(ctx, "packs/a", make([]byte, 1), 0); return err }},
		{"stat blob", func() error { _, err := b.Stat(ctx, "packs/a"); return err }},
		{"delete blob", func() error { return b.Delete(ctx, "packs/a") }},
		{"delete root", func() error { return b.Delete(ctx, "root/00000000000000000001") }},
		{"list", func() error {
			for _, err := range b.List(ctx, "") {
				return err
			}
			return nil
		}},
		{"orphans", func() error {
			for _, err := range b.InterruptedUploads(ctx) {
				return err
			}
			return nil
		}},
	}

	counts := map[string]int{}
	for _, c := range calls {
		sent.take()
		err := c.call()
		if err != nil && !errors.Is(err, remote.ErrNotFound) && !errors.Is(err, remote.ErrTemporary) { // the fake server stores nothing
			t.Errorf("%s: %v", c.name, err)
		}

		commands := sent.take()
		for _, command := range commands {
			target, _ := command.Index(0).Value().StringValueOK()
			name := command.Index(0).Key()
			_, collection, _ := strings.Cut(target, ".")
			counts[name+" "+collection]++
			switch name {
			case "insert", "delete", "createIndexes":
				w, _ := command.Lookup("writeConcern", "w").StringValueOK()
				j, _ := command.Lookup("writeConcern", "j").BooleanOK()
				if w != "majority" || !j {
					t.Errorf("%s sends %s on %s with write concern %s, want majority and j", c.name, name, target, command.Lookup("writeConcern"))
				}
			case "find", "aggregate":
				want := many
				record := c.name == "get root" || c.name == "get kist.json" || c.name == "stat root"
				if record {
					want = last
				}
				if level, _ := command.Lookup("readConcern", "level").StringValueOK(); level != want {
					t.Errorf("%s sends %s on %s with read concern %q, want %q", c.name, name, target, level, want)
				}
				if ms, ok := command.Lookup("maxTimeMS").AsInt64OK(); record && (!ok || ms <= 0 || ms > answerTime.Milliseconds()) {
					t.Errorf("%s sends %s with maxTimeMS %d, want 1 to %d", c.name, name, ms, answerTime.Milliseconds())
				}
				if mode, ok := command.Lookup("$readPreference", "mode").StringValueOK(); ok && mode == "secondary" {
					t.Errorf("%s sends %s on %s with read preference %q", c.name, name, target, mode)
				}
			case "hello", "listIndexes", "endSessions":
			default:
				t.Errorf("%s sends the unexpected command %s", c.name, name)
			}
		}
	}

	for _, want := range []string{
		"insert files", "insert chunks", "insert roots", "delete files", "delete chunks", "delete roots",
		"find files", "find roots", "aggregate chunks", "createIndexes files", "createIndexes chunks",
	} {
		if counts[want] == 0 {
			t.Errorf("%s was not sent, only %v", want, counts)
		}
	}
}
