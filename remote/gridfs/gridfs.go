// Package gridfs is a remote in a MongoDB database: [Open] opens
// mongodb://…/database and mongodb+srv://…/database.
//
// Blobs are stored files of a GridFS bucket, whose _id and filename are the
// blob's name, so that any client of GridFS can read them. Records are
// documents of their own in the collection <bucket>.roots, because a stored
// file is made in two steps and cannot be created at most once. Everything is
// written with the write concern {w: "majority", j: true} and read from the
// primary. How to set up a database is said in docs/howto/gridfs.md.
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
	selectTime = 10 * time.Second // to find the server and connect to it, unless the URL says otherwise
	answerTime = 30 * time.Second // for an answer of a few bytes; the server is told of it as maxTimeMS
	endTime    = 2 * time.Second  // to tidy up when a context has ended, or everything
)

// Backend is a GridFS bucket as a remote. It is safe for concurrent use.
type Backend struct {
	location
	client  *mongo.Client
	now     func() time.Time
	endTime time.Duration // see there

	opened atomic.Pointer[collections] // once a server told what it is

	mu    sync.Mutex
	known map[string]file // some of the blobs there are, or were
}

// Open opens the bucket of a URL, which is MongoDB's own, with a database:
//
//	mongodb://user@host:port,host:port/database?bucket=kist&chunksize=261120&…
//
// The bucket's name, by default kist, and the size of the chunks of what is
// stored, in bytes, are kist's; everything else is handed to MongoDB's driver.
// A password that the URL lacks is taken from KIST_MONGODB_PASSWORD, and the
// user from KIST_MONGODB_USERNAME. Both are only sent to hosts that
// KIST_MONGODB_HOST names. Open returns [remote.ErrCredentials] if it is empty.
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

// collections are those of the bucket, each with how it is read and written.
type collections struct {
	files, chunks *mongo.Collection // read is what a majority has
	roots         *mongo.Collection // read is what was written last: of one document
	manyRoots     *mongo.Collection // read is what a majority has: of many

	indexed atomic.Bool // the indexes are known to be there
}

// begin is called first by each method: check is what is wrong with the name.
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
	// What a server can promise depends on what it is, so that is asked first.
	short, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	hello, err := b.client.Database(b.database).RunCommand(short, bson.D{{Key: "hello", Value: 1}}).Raw()
	if err != nil {
		return nil, b.failure(ctx, op, name, err)
	}
	b.opened.CompareAndSwap(nil, b.collections(isAlone(hello)))
	return b.opened.Load(), nil
}

// isAlone reports whether an answer to the hello command is that of a server
// that is no member of a replica set, and not mongos either.
func isAlone(hello bson.Raw) bool {
	set, _ := hello.Lookup("setName").StringValueOK()
	msg, _ := hello.Lookup("msg").StringValueOK()
	return set == "" && msg != "isdbgrid"
}

func (b *Backend) collections(alone bool) *collections {
	journal := true
	written := &writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: &journal}
	last, many := readconcern.Linearizable(), readconcern.Majority()
	if alone { // what it has written is what there is, and it knows no other concern
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
