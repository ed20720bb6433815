package gridfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/kist-vcs/kist/remote"
)

const secret = "c4n4ry"

func openFake(t testing.TB, f *fakeServer, options string) *Backend {
	t.Helper()
	b, err := open(context.Background(), f.url(options), testEnv(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	b.hideSecret(secret)
	return b
}

// failed returns the reply to a command that the server did not execute.
func failed(code int, text string) bson.D {
	return bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: code}, {Key: "errmsg", Value: text}}
}

func writeFailed(code int, text string) bson.D {
	return bson.D{{Key: "ok", Value: 1}, {Key: "n", Value: 0}, {Key: "writeErrors", Value: bson.A{
		bson.D{{Key: "index", Value: 0}, {Key: "code", Value: code}, {Key: "errmsg", Value: text}},
	}}}
}

func concernFailed(code int, text string) bson.D {
	return bson.D{{Key: "ok", Value: 1}, {Key: "n", Value: 1}, {Key: "writeConcernError", Value: bson.D{{Key: "code", Value: code}, {Key: "errmsg", Value: text}}}}
}

func TestErrors(t *testing.T) {
	const text = "some \x1b[31mreason\r\nwith " + secret
	for _, test := range []struct {
		name  string
		reply bson.D
		kind  error
	}{
		{"unauthorized", failed(13, text), remote.ErrPermission},
		{"authentication failed", failed(18, text), remote.ErrCredentials},
		{"Atlas, authentication", failed(8000, "bad auth : "+text), remote.ErrCredentials},
		{"Atlas, full", failed(8000, "you are over your space quota, "+text), remote.ErrFull},
		{"Atlas, action", failed(8000, "user is not allowed to do action [find] "+text), remote.ErrPermission},
		{"too long", failed(50, text), remote.ErrTemporary},
		{"no such command", failed(59, text), remote.ErrUnsupported},
		{"no replica set", failed(123, text), remote.ErrUnsupported},
		{"out of space", failed(14031, text), remote.ErrFull},
		{"bad value", failed(2, text), nil},
		{"write: full", writeFailed(14031, text), remote.ErrFull},
		{"write: full, in words", writeFailed(1, "database or disk is full "+text), remote.ErrFull},
		{"write: unauthorized", writeFailed(13, text), remote.ErrPermission},
		{"write: taken", writeFailed(11000, "E11000 duplicate key error "+text), remote.ErrExists},
		{"write: validation", writeFailed(121, text), nil},
		{"write concern: timeout", concernFailed(64, text), remote.ErrTemporary},
		{"write concern: cannot be met", concernFailed(100, text), remote.ErrTemporary},
		{"write concern: whatever", concernFailed(13, text), remote.ErrTemporary},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel() // after some errors the driver waits for another primary
			f := startFake(t, replicaSet()...)
			b := openFake(t, f, "&retryReads=false&retryWrites=false")
			ctx := context.Background()

			check := func(what string, err error) {
				t.Helper()
				var re *remote.Error
				if !errors.As(err, &re) || re.Kind != test.kind {
					t.Errorf("%s: error %v, want kind %v", what, err, test.kind)
					return
				}
				if shown := err.Error(); strings.Contains(shown, secret) || strings.ContainsAny(shown, "\x1b\r\n") || !strings.Contains(shown, "reason with ***") {
					t.Errorf("%s: error %q, want one printable line with the secret hidden", what, shown)
				}
			}

			f.on("insert", test.reply)
			check("create", b.Create(ctx, "root/1", []byte("x")))
			check("put", b.Put(ctx, "packs/a", strings.NewReader("x"), 1))
			f.on("delete", test.reply)
			check("delete blob", b.Delete(ctx, "packs/a"))
			check("delete record", b.Delete(ctx, "root/1"))
			if test.reply[0].Value == 1 { // a reply that only writes get
				return
			}

			for _, command := range []string{"find", "aggregate"} {
				f.on(command, test.reply)
			}
			_, err := b.Get(ctx, "packs/a", make([]byte, 1), 0)
			check("get blob", err)
			_, err = b.Get(ctx, "root/1", make([]byte, 1), 0)
			check("get record", err)
			_, err = b.Stat(ctx, "packs/a")
			check("stat", err)

			for _, err := range b.List(ctx, "") {
				check("list", err)
			}
			for _, err := range b.InterruptedUploads(ctx) {
				check("orphans", err)
			}
		})
	}
}

// TestKindOf checks the kinds of errors after which the driver changes the
// server, and of errors that no server sent.
func TestKindOf(t *testing.T) {
	code := func(code int32) error { return mongo.CommandError{Code: code, Message: "some reason"} }
	b := &Backend{}
	for _, test := range []struct {
		err  error
		kind error
	}{
		{code(189), remote.ErrTemporary}, {code(91), remote.ErrTemporary}, {code(10107), remote.ErrTemporary}, {code(13435), remote.ErrTemporary},
		{code(7777), nil},
		{mongo.CommandError{Code: 7777, Labels: []string{"RetryableWriteError"}}, remote.ErrTemporary},
		{mongo.CommandError{Labels: []string{"NetworkError"}}, remote.ErrTemporary},
		{mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 91}}, remote.ErrTemporary},
		{mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64}, WriteErrors: mongo.WriteErrors{{Code: 11000}}}, remote.ErrExists},
		{mongo.BulkWriteException{WriteConcernError: &mongo.WriteConcernError{Code: 64}}, remote.ErrTemporary},
		{context.DeadlineExceeded, remote.ErrTemporary}, // answerTime is over; failure checks the caller's context first
		{io.EOF, remote.ErrTemporary}, {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, remote.ErrTemporary},
		{errors.New("server selection error: server selection timeout, current topology: {}"), remote.ErrTemporary},
		{errors.New("server selection error: … Last error: tls: failed to verify certificate: x509: certificate signed by unknown authority"), remote.ErrCertificate},
		{errors.New(`auth error: unable to authenticate using mechanism "SCRAM-SHA-256": server did not prove that it knows the password`), remote.ErrCredentials},
		{fmt.Errorf("auth error: unable to authenticate: %w", io.ErrUnexpectedEOF), remote.ErrTemporary},
		{errors.New(`connection pool for h:1 was cleared because another operation failed with: auth error: unable to authenticate using mechanism "SCRAM-SHA-1": Authentication failed.`), remote.ErrCredentials},
		{errors.New("connection pool for h:1 was cleared because another operation failed with: unexpected EOF"), remote.ErrTemporary},
		{errors.New("a surprise"), nil},
	} {
		if kind := b.kindOf(test.err); kind != test.kind {
			t.Errorf("%v: kind %v, want %v", test.err, kind, test.kind)
		}
	}
}

// A failed upload deletes its chunks, unless the files document may still take
// effect. The test fails the insert of the files document or of the chunks.
func TestUnclearUpload(t *testing.T) {
	for _, test := range []struct {
		name, fails string
		have        int // chunks, of three
		deleted     bool
	}{
		{"files document", "insert files", 3, false},
		{"files document, chunks gone", "insert files", 2, true},
		{"chunks", "insert chunks", 0, true},
		{"chunks, all there", "insert chunks", 3, true},
	} {
		f := startFake(t, replicaSet()...)
		f.on(test.fails, concernFailed(64, "timeout"))
		f.countAll(test.have)
		var sent recorder
		b, err := open(context.Background(), f.url("&chunksize=1024"), testEnv(), sent.monitor())
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()

		if err := b.Put(context.Background(), "packs/a", bytes.NewReader(make([]byte, 3000)), 3000); !errors.Is(err, remote.ErrTemporary) {
			t.Errorf("%s: error %v, want ErrTemporary", test.name, err)
		}

		deleted := false
		for _, command := range sent.take() {
			from, ok := command.Lookup("delete").StringValueOK()
			deleted = deleted || from == "kist.chunks"
			if ok && from != "kist.chunks" {
				t.Errorf("%s: deletes from %s", test.name, from)
			}
		}
		if deleted != test.deleted {
			t.Errorf("%s: chunks deleted %t, want %t", test.name, deleted, test.deleted)
		}
	}
}

// TestUnreachable checks the error if no server listens.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	b, err := open(context.Background(), "mongodb://somebody:"+secret+"@127.0.0.1:1/db?serverSelectionTimeoutMS=2000", testEnv(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	_, err = b.Get(context.Background(), "root/1", make([]byte, 1), 0)
	if !errors.Is(err, remote.ErrTemporary) || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), secret) {
		t.Errorf("get: error %v, want ErrTemporary with \"refused\", without the secret", err)
	}
}

// The default time to find a server is shorter than the driver's 30 seconds.
func TestSelectTime(t *testing.T) {
	if selectTime > 10*time.Second {
		t.Errorf("selectTime = %v, want at most 10s", selectTime)
	}
}

// TestWrongPassword checks the error if the server refuses the password.
func TestWrongPassword(t *testing.T) {
	f := startFake(t, replicaSet()...)
	f.on("saslStart", failed(18, "Authentication failed for "+secret))
	url := strings.Replace(f.url(""), "//", "//somebody:"+secret+"@", 1)
	b, err := open(context.Background(), url, testEnv(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for range 2 {
		_, err = b.Get(context.Background(), "root/1", make([]byte, 1), 0)
		if !errors.Is(err, remote.ErrCredentials) || strings.Contains(err.Error(), secret) {
			t.Errorf("get: error %v, want ErrCredentials without the secret", err)
		}
	}
}

// A call returns when its context is cancelled, although the server sends no
// reply.
func TestCancelledWhileWaiting(t *testing.T) {
	f := startFake(t, replicaSet()...)
	b := openFake(t, f, "")
	if _, err := b.Get(context.Background(), "root/1", make([]byte, 1), 0); !errors.Is(err, remote.ErrNotFound) {
		t.Fatal(err) // after the get, no call sends hello
	}

	for _, command := range []string{"find", "insert", "delete", "aggregate"} {
		f.on(command, nil)
	}

	body := bytes.NewReader(make([]byte, 20<<20))
	for name, call := range map[string]func(ctx context.Context) error{
		"get record": func(ctx context.Context) error { _, err := b.Get(ctx, "root/1", make([]byte, 1), 0); return err },
		"get blob":   func(ctx context.Context) error { _, err := b.Get(ctx, "packs/a", make([]byte, 1), 0); return err },
		"put":        func(ctx context.Context) error { return b.Put(ctx, "packs/a", body, body.Size()) },
		"create":     func(ctx context.Context) error { return b.Create(ctx, "root/1", []byte("x")) },
		"delete":     func(ctx context.Context) error { return b.Delete(ctx, "packs/a") },
		"list": func(ctx context.Context) error {
			for _, err := range b.List(ctx, "") {
				return err
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(30*time.Millisecond, cancel)
			if err := call(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v, want context.Canceled", err)
			}
		})
	}
}
