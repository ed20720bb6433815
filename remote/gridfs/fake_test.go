package gridfs

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A fakeServer speaks MongoDB's protocol but stores no data. Tests choose its
// replies.
type fakeServer struct {
	addr  string
	hello bson.D // added to the reply to hello

	mu     sync.Mutex
	answer map[string]bson.D // by command, or command and collection; nil: no reply
	ended  chan struct{}
}

// startFake starts a server with these fields in its reply to hello.
func startFake(t testing.TB, hello ...bson.E) *fakeServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeServer{addr: l.Addr().String(), hello: hello, answer: map[string]bson.D{}, ended: make(chan struct{})}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				stop := make(chan struct{})
				conns.Go(func() {
					select {
					case <-f.ended:
					case <-stop:
					}
					conn.Close()
				})
				defer close(stop)
				f.serve(conn)
			})
		}
	})

	t.Cleanup(func() {
		close(f.ended)
		l.Close()
		conns.Wait()
	})
	return f
}

// replicaSet returns the fields of hello that mark a member of a replica set.
func replicaSet() []bson.E { return []bson.E{{Key: "setName", Value: "rs0"}} }

// url returns the URL of the server. The options begin with "&", or are empty.
func (f *fakeServer) url(options string) string {
	return "mongodb://" + f.addr + "/db?directConnection=true" + options
}

// on sets the reply to a command, such as "insert" or "insert files". With nil,
// the server never replies.
func (f *fakeServer) on(command string, reply bson.D) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer[command] = reply
}

// countAll makes each count of documents return n.
func (f *fakeServer) countAll(n int) {
	f.on("aggregate", bson.D{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{{Key: "id", Value: int64(0)}, {Key: "ns", Value: "db.kist.chunks"},
		{Key: "firstBatch", Value: bson.A{bson.D{{Key: "_id", Value: 1}, {Key: "n", Value: n}}}}}}})
}

const (
	opReply = 1
	opQuery = 2004 // only of the first message of a connection
	opMsg   = 2013
)

func (f *fakeServer) serve(conn net.Conn) {
	for {
		var head [16]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		size, id, op := binary.LittleEndian.Uint32(head[0:]), binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint32(head[12:])
		if size < 16 || size > 64<<20 {
			return
		}
		body := make([]byte, min(size-16, 64<<10)) // the rest is documents
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, conn, int64(size)-16-int64(len(body))); err != nil {
			return
		}
		var reply []byte
		switch op {
		case opQuery:
			end := bytes.IndexByte(body[4:], 0) // of the collection's name
			answer := f.reply(bson.Raw(body[4+end+1+8:]))
			reply = message(id, opReply, append([]byte{16: 1, 19: 0}, answer...)) // one document
		case opMsg:
			answer := f.reply(bson.Raw(body[5:])) // the first section is the command
			if answer == nil {
				return
			}
			reply = message(id, opMsg, append([]byte{0, 0, 0, 0, 0}, answer...))
		default:
			return
		}

		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}

func message(to, op uint32, body []byte) []byte {
	m := binary.LittleEndian.AppendUint32(nil, uint32(16+len(body)))
	m = binary.LittleEndian.AppendUint32(m, 0)
	m = binary.LittleEndian.AppendUint32(m, to)
	m = binary.LittleEndian.AppendUint32(m, op)
	return append(m, body...)
}

// reply returns the reply to a command. If the server must not reply, it waits
// for the end of the test and returns nil.
func (f *fakeServer) reply(command bson.Raw) []byte {
	size := binary.LittleEndian.Uint32(command)
	first, err := command[:size].IndexErr(0)
	if err != nil {
		return nil
	}
	name := first.Key()
	collection, _ := first.Value().StringValueOK()
	f.mu.Lock()
	doc, known := f.answer[name+" "+collection[strings.LastIndexByte(collection, '.')+1:]]
	if !known {
		doc, known = f.answer[name]
	}
	f.mu.Unlock()
	switch {
	case known && doc == nil:
		<-f.ended
		return nil
	case known:
	case name == "hello" || name == "isMaster" || name == "ismaster":
		doc = bson.D{
			{Key: "ok", Value: 1}, {Key: "helloOk", Value: true}, {Key: "ismaster", Value: true}, {Key: "isWritablePrimary", Value: true},
			{Key: "maxBsonObjectSize", Value: 16 << 20}, {Key: "maxMessageSizeBytes", Value: 48000000}, {Key: "maxWriteBatchSize", Value: 100000},
			{Key: "minWireVersion", Value: 0}, {Key: "maxWireVersion", Value: 21},
			{Key: "me", Value: f.addr}, {Key: "hosts", Value: bson.A{f.addr}}, {Key: "primary", Value: f.addr},
		}
		doc = append(doc, f.hello...)
	case name == "find" || name == "aggregate" || name == "listIndexes":
		doc = bson.D{{Key: "ok", Value: 1}, {Key: "cursor", Value: bson.D{{Key: "id", Value: int64(0)}, {Key: "ns", Value: "db.x"}, {Key: "firstBatch", Value: bson.A{}}}}}
	default:
		doc = bson.D{{Key: "ok", Value: 1}, {Key: "n", Value: 1}}
	}

	data, err := bson.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return data
}
