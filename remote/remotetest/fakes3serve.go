package remotetest

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
)

// serve answers a request.
func (f *FakeS3) serve(w http.ResponseWriter, r *http.Request) {
	req := fakeRequest(r)
	f.mu.Lock()
	_, req.Exists = f.objects[req.Key]
	f.requests = append(f.requests, S3Request{})
	req.N = len(f.requests)
	f.requests[req.N-1] = req
	answer := &S3Answer{}
	for _, ask := range f.answers {
		if a := ask(req); a != nil {
			answer = a
			break
		}
	}
	f.replayOne()
	f.mu.Unlock()

	body, err := io.ReadAll(r.Body) // as a server would, before it answers
	if err != nil {
		return // the client is gone
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	if answer.Effect {
		f.take(req, body)
	}
	switch {
	case answer.Stuck:
		select {
		case <-r.Context().Done():
		case <-f.stop:
		}
		panic(http.ErrAbortHandler)
	case answer.Reset:
		reset(w)
	case answer.Status != 0:
		writeS3Error(w, answer.Status, answer.Code, answer.Message)
	default:
		f.dispatch(w, r, req, body, answer)
	}
}

// fakeRequest returns the kind, key and size of a request.
func fakeRequest(r *http.Request) S3Request {
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	req := S3Request{Kind: "other", Bucket: bucket, Key: key, Size: r.ContentLength, Header: r.Header.Clone()}
	query := r.URL.Query()
	switch {
	case key != "":
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodDelete:
			req.Kind = strings.ToLower(r.Method)
		case http.MethodPost:
			if query.Has("restore") {
				req.Kind = "restore"
			}
		}
	case r.Method == http.MethodHead, query.Has("location"):
		req.Kind = "bucket"
	case r.Method == http.MethodGet && query.Get("list-type") == "2":
		req.Kind, req.Key = "list", query.Get("prefix")
	}
	return req
}

func (f *FakeS3) dispatch(w http.ResponseWriter, r *http.Request, req S3Request, body []byte, answer *S3Answer) {
	_, credential, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	accessKey, _, _ := strings.Cut(credential, "/")
	switch {
	case accessKey == "":
		writeS3Error(w, 403, "AccessDenied", "Access Denied")
	case accessKey != FakeS3AccessKey:
		writeS3Error(w, 403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
	case req.Bucket != FakeS3Bucket:
		writeS3Error(w, 404, "NoSuchBucket", "The specified bucket does not exist")
	case req.Kind == "bucket":
		fmt.Fprint(w, xml.Header+`<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/">us-east-1</LocationConstraint>`)
	case req.Kind == "list":
		f.list(w, r.URL.Query())
	case req.Kind == "get", req.Kind == "head":
		f.get(w, r, req.Key, answer)
	case req.Kind == "put":
		f.put(w, r, req.Key, body)
	case req.Kind == "restore":
		f.restore(w, req.Key, body)
	case req.Kind == "delete":
		f.take(req, nil)
		w.WriteHeader(http.StatusNoContent)
	default:
		writeS3Error(w, 501, "NotImplemented", "A header you provided implies functionality that is not implemented")
	}
}

// writeS3Error answers with an error of S3. Without a code it answers like a
// proxy that does not know S3: with the message or a page of HTML.
func writeS3Error(w http.ResponseWriter, status int, code, message string) {
	if code == "" {
		if message == "" {
			w.Header().Set("Content-Type", "text/html")
			message = fmt.Sprintf("<html><body><h1>%d %s</h1></body></html>", status, http.StatusText(status))
		}
		w.WriteHeader(status)
		io.WriteString(w, message)
		return
	}
	var out bytes.Buffer
	out.WriteString(xml.Header + "<Error><Code>")
	xml.EscapeText(&out, []byte(code))
	out.WriteString("</Code><Message>")
	xml.EscapeText(&out, []byte(message))
	out.WriteString("</Message><RequestId>0123456789ABCDEF</RequestId></Error>")
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	w.Write(out.Bytes())
}

// reset ends the connection so that the client gets ECONNRESET.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(interface{ SetLinger(seconds int) error }); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// countingListener counts the bytes that go over its connections.
type countingListener struct {
	net.Listener
	count *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if tcp, ok := conn.(*net.TCPConn); ok {
		conn = countingConn{tcp, l.count}
	}
	return conn, err
}

type countingConn struct {
	*net.TCPConn
	count *atomic.Int64
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	c.count.Add(int64(n))
	return n, err
}

func (c countingConn) Write(p []byte) (int, error) {
	n, err := c.TCPConn.Write(p)
	c.count.Add(int64(n))
	return n, err
}
