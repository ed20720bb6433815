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
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
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
		if lookup, ok := errors.AsType[*net.DNSError](err); ok && !lookup.IsNotFound {
			kind = remote.ErrTemporary
		}
		return nil, &remote.Error{Op: "open", Kind: kind, Err: fmt.Errorf("%s: %s", remote.Redact(rawURL), b.cleanText(err.Error()))}
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
		return nil, b.convertError(ctx, "open", "", err)
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
		return b.convertError(ctx, "close", "", err)
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

// beginCall prepares a call. Every method calls it first. Check is the problem
// with the name, or nil.
func (b *Backend) beginCall(ctx context.Context, op, name string, check error) (*collections, error) {
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
		return nil, b.convertError(ctx, op, name, err)
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

const (
	defaultBucket    = "kist"
	defaultChunkSize = 255 << 10 // bytes; GridFS's default

	// A chunk is a document, and a document has at most 16 MiB.
	minChunkSize, maxChunkSize = 1 << 10, 15 << 20
)

// location is a parsed URL.
type location struct {
	uri       string // for the driver, with the password
	database  string
	bucket    string
	chunkSize int32    // bytes
	secrets   []string // texts that must not be shown

	unnamed string // the first host that is not in KIST_MONGODB_HOST; "": all are
}

// parseLocation parses a URL of MongoDB. net/url cannot, because it may have
// several hosts. The error contains no part of the URL.
func parseLocation(rawURL string, getenv func(string) string) (*location, error) {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	l := &location{bucket: defaultBucket, chunkSize: defaultChunkSize}
	var err error
	if l.database, err = databaseOf(path); err != nil {
		return nil, err
	}

	var others []string
	for part := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(part, "=")
		switch strings.ToLower(name) {
		case "":
		case "bucket":
			l.bucket, err = bucketOf(value)
		case "chunksize":
			l.chunkSize, err = chunkSizeOf(value)
		case "class":
			err = errors.New("has a class of storage, which only S3 has")
		case "authmechanismproperties", "tlscertificatekeyfilepassword", "sslclientcertificatekeypassword":
			l.hideSecret(value)
			fallthrough
		default:
			others = append(others, part)
		}
		if err != nil {
			return nil, err
		}
	}

	if authority, err = l.signIn(authority, getenv); err != nil {
		return nil, err
	}

	l.uri = scheme + "://" + authority + "/" + path
	if len(others) > 0 {
		l.uri += "?" + strings.Join(others, "&")
	}

	return l, nil
}

func databaseOf(path string) (string, error) {
	name, err := url.PathUnescape(path)
	switch {
	case path == "":
		return "", errors.New("it names no database: write mongodb://host/database")
	case err != nil || len(name) > 63 || strings.ContainsAny(name, "/\\. \"$*<>:|?@\x00"):
		return "", errors.New("what follows the hosts is not the name of a database ('/', '?' and '@' in a password are written %2F, %3F and %40)")
	}
	return name, nil
}

func bucketOf(value string) (string, error) {
	for _, c := range []byte(value) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.') {
			return "", fmt.Errorf("bucket has characters other than letters, digits, '.', '_' and '-'")
		}
	}
	if value == "" || len(value) > 64 || value[0] == '.' || strings.HasPrefix(value, "system.") {
		return "", errors.New("bucket must have 1 to 64 characters, and not begin with '.' or \"system.\"")
	}
	return value, nil
}

func chunkSizeOf(value string) (int32, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < minChunkSize || n > maxChunkSize {
		return 0, fmt.Errorf("chunksize must be a number of bytes from %d to %d", minChunkSize, maxChunkSize)
	}
	return int32(n), nil
}

// hideSecret adds a secret, escaped as in a URL, to the texts that must not be shown.
func (l *location) hideSecret(escaped string) {
	l.secrets = append(l.secrets, escaped)
	plain, err := url.PathUnescape(escaped)
	if err != nil {
		return
	}
	l.secrets = append(l.secrets, plain)
	for property := range strings.SplitSeq(plain, ",") { // AWS_SESSION_TOKEN:…
		if _, value, ok := strings.Cut(property, ":"); ok {
			l.secrets = append(l.secrets, value)
		}
	}
}

// hostVariable names the hosts that may receive credentials of the
// environment: a user and password, or an identity of the machine. The URL of
// a remote may come from another user's configuration, so the URL alone must
// not decide this.
const hostVariable = "KIST_MONGODB_HOST"

// signIn returns the authority of a URL. If the URL has no password, signIn
// adds the user and password from the environment. The error matches
// [remote.ErrCredentials] if the environment has credentials but no hosts for
// them.
func (l *location) signIn(authority string, getenv func(string) string) (string, error) {
	at := strings.LastIndexByte(authority, '@')
	hosts := authority[at+1:]
	named := getenv(hostVariable)
	l.unnamed = firstUnnamed(hosts, named)

	name, password := getenv("KIST_MONGODB_USERNAME"), getenv("KIST_MONGODB_PASSWORD")
	user, own, hasPassword := strings.Cut(authority[:max(at, 0)], ":")
	if hasPassword {
		l.hideSecret(own)
		return authority, nil
	}

	plain, _ := url.PathUnescape(user)
	switch {
	case name == "" && password == "":
		return authority, nil
	case user != "" && name != "" && name != plain:
		return authority, nil // the password is another user's
	case named == "":
		return "", l.notSent("KIST_MONGODB_USERNAME and KIST_MONGODB_PASSWORD are")
	case l.unnamed != "":
		return authority, nil // the user keeps them for other hosts
	}

	if user == "" {
		user = escapeURL(name)
	}
	if user == "" {
		return hosts, nil
	}
	if password == "" {
		return user + "@" + hosts, nil
	}

	password = escapeURL(password)
	l.hideSecret(password)
	return user + ":" + password + "@" + hosts, nil
}

// checkAuth returns an error if the options send a password in clear, or an
// identity of this machine to a host that the user has not named.
func (l *location) checkAuth(o *options.ClientOptions) error {
	if o.Auth == nil {
		return nil
	}

	mechanism := strings.ToUpper(o.Auth.AuthMechanism)
	secure := o.TLSConfig != nil && !o.TLSConfig.InsecureSkipVerify
	if (mechanism == "PLAIN" || mechanism == "MONGODB-OIDC") && !secure {
		return fmt.Errorf("authMechanism=%s without TLS sends the password in clear: add tls=true, and keep the check of the certificate", mechanism)
	}

	own := mechanism == "MONGODB-OIDC" || mechanism == "MONGODB-AWS" && o.Auth.Password == ""
	if own && l.unnamed != "" {
		return l.notSent("credentials of this machine (authMechanism=" + mechanism + ") are")
	}

	return nil
}

func (l *location) notSent(what string) error {
	return &remote.Error{Op: "open", Kind: remote.ErrCredentials, Err: &remote.EnvError{
		Variable: hostVariable, Value: l.unnamed, Reason: fmt.Sprintf("%s not sent to %q: %s does not name this host", what, l.unnamed, hostVariable),
	}}
}

// firstUnnamed returns the first host of a list that is not in another list.
func firstUnnamed(hosts, named string) string {
	trusted := map[string]bool{}
	for host := range strings.SplitSeq(named, ",") {
		trusted[withPort(strings.TrimSpace(host))] = true
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if host == "" || !trusted[withPort(host)] {
			return cmp.Or(strings.ToLower(host), "(no host)")
		}
	}
	return ""
}

// withPort returns a host in lower case with its port, 27017 if it has none.
func withPort(host string) string {
	host = strings.ToLower(host)
	if host == "" || strings.LastIndexByte(host, ':') > strings.LastIndexByte(host, ']') {
		return host
	}
	return host + ":27017"
}

// escapeURL escapes all special characters of a URL.
func escapeURL(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
