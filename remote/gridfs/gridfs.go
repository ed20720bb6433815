// Package gridfs is a remote in a MongoDB database: [Open] opens
// mongodb://…/database and mongodb+srv://…/database.
//
// Blobs are stored files of a GridFS bucket, whose _id and filename are the
// blob's name, so that any client of GridFS can read them. Records are
// documents of their own in the collection <bucket>.roots, because a stored
// file is made in two steps and cannot be created at most once. Everything is
// written with the write concern {w: "majority", j: true} and read from the
// primary. docs/howto/gridfs.md shows how to set up a database.
package gridfs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/kist-vcs/kist/remote"
)

const (
	selectTime = 10 * time.Second // default time to find the server and connect to it
	answerTime = 30 * time.Second // for a short answer; also sent to the server as maxTimeMS
	endTime    = 2 * time.Second  // for cleaning up after a context ended, and for Close
)

// Backend is a GridFS bucket as a remote. It is safe for concurrent use.
type Backend struct {
	location
	client  *mongo.Client
	now     func() time.Time
	endTime time.Duration // see there

	opened atomic.Pointer[collections] // set once the server has described itself

	mu    sync.Mutex
	known map[string]file // files documents of some blobs, perhaps deleted ones
}

// Open opens the bucket of a MongoDB URL with a database:
//
//	mongodb://user@host:port,host:port/database?bucket=kist&chunksize=261120&…
//
// kist reads the bucket's name, by default kist, and the size of the chunks of
// new files, in bytes. Everything else goes to MongoDB's driver. A missing
// password comes from KIST_MONGODB_PASSWORD, a missing user from
// KIST_MONGODB_USERNAME. Both are only sent to hosts that KIST_MONGODB_HOST
// names. Open returns [remote.ErrCredentials] if that is empty.
//
// Open makes no request to the server, but looks up the hosts behind a
// mongodb+srv URL.
func Open(ctx context.Context, rawURL string, env remote.Env) (remote.Backend, error) {
	b, err := open(ctx, rawURL, env, nil)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func open(ctx context.Context, rawURL string, env remote.Env, monitor *event.CommandMonitor) (*Backend, error) {
	l, err := parseLocation(rawURL, env.Getenv)
	if err != nil {
		return nil, openError(rawURL, err)
	}

	b := &Backend{location: *l, now: env.Now, endTime: endTime, known: map[string]file{}}
	o := options.Client().ApplyURI(l.uri)
	if err := o.Validate(); err != nil {
		kind := remote.ErrURL
		var lookup *net.DNSError
		if errors.As(err, &lookup) && !lookup.IsNotFound {
			kind = remote.ErrTemporary
		}
		return nil, &remote.Error{Op: "open", Kind: kind, Err: fmt.Errorf("%s: %s", remote.Redact(rawURL), b.clean(err.Error()))}
	}
	if err := l.checkAuth(o); err != nil {
		return nil, openError(rawURL, err)
	}
	if o.ServerSelectionTimeout == nil {
		o.SetServerSelectionTimeout(selectTime)
	}
	if o.ConnectTimeout == nil {
		o.SetConnectTimeout(selectTime)
	}
	if o.AppName == nil {
		o.SetAppName("kist")
	}

	o.SetMonitor(monitor)
	if b.client, err = mongo.Connect(o); err != nil {
		return nil, b.failure(ctx, "open", "", err)
	}

	return b, nil
}

// openError returns the error for a URL that cannot be used.
func openError(rawURL string, err error) error {
	if errors.Is(err, remote.ErrCredentials) {
		return err
	}
	return &remote.Error{Op: "open", Kind: remote.ErrURL, Err: fmt.Errorf("%s: %w", remote.Redact(rawURL), err)}
}

// Close closes the connections.
func (b *Backend) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	if err := b.client.Disconnect(ctx); err != nil && !errors.Is(err, mongo.ErrClientDisconnected) {
		return b.failure(ctx, "close", "", err)
	}
	return nil
}

// collections are the collections of the bucket, each with its read and write concerns.
type collections struct {
	files, chunks *mongo.Collection // reads data that a majority has
	roots         *mongo.Collection // reads the last write of a single document
	manyRoots     *mongo.Collection // reads data that a majority has, for lists

	indexed atomic.Bool // the indexes exist
}

// begin prepares a call. Every method calls it first. Check is the problem
// with the name, or nil.
func (b *Backend) begin(ctx context.Context, op, name string, check error) (*collections, error) {
	if check != nil {
		return nil, check
	}
	if err := ctx.Err(); err != nil {
		return nil, &remote.Error{Op: op, Name: name, Err: err}
	}
	if c := b.opened.Load(); c != nil {
		return c, nil
	}

	// The kind of server decides which concerns it supports, so request that first.
	short, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	hello, err := b.client.Database(b.database).RunCommand(short, bson.D{{Key: "hello", Value: 1}}).Raw()
	if err != nil {
		return nil, b.failure(ctx, op, name, err)
	}

	b.opened.CompareAndSwap(nil, b.collections(isAlone(hello)))
	return b.opened.Load(), nil
}

// isAlone reports whether an answer to the hello command comes from a
// standalone server: neither a member of a replica set nor mongos.
func isAlone(hello bson.Raw) bool {
	set, _ := hello.Lookup("setName").StringValueOK()
	msg, _ := hello.Lookup("msg").StringValueOK()
	return set == "" && msg != "isdbgrid"
}

func (b *Backend) collections(alone bool) *collections {
	journal := true
	written := &writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: &journal}
	last, many := readconcern.Linearizable(), readconcern.Majority()
	if alone { // a standalone server supports no other concern
		last, many = readconcern.Local(), readconcern.Local()
	}

	db := b.client.Database(b.database, options.Database().SetWriteConcern(written).SetReadConcern(many).SetReadPreference(readpref.Primary()))
	return &collections{
		files:     db.Collection(b.bucket + ".files"),
		chunks:    db.Collection(b.bucket + ".chunks"),
		roots:     db.Collection(b.bucket+".roots", options.Collection().SetReadConcern(last)),
		manyRoots: db.Collection(b.bucket + ".roots"),
	}
}
