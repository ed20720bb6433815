package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/httpclient"
)

// maxReason limits the text of a reason that comes from elsewhere, in bytes.
const maxReason = 400

// Answers of servers that do not publish the files as they are.
var (
	errPage       = errors.New("sends a web page instead of the file; for a missing file, it has to answer with status 404")
	errCompressed = errors.New("compresses the file, although this was not asked for")
	errNoRanges   = errors.New("sends all of a file instead of the part that was asked for: it does not support ranges")
	errNoLength   = errors.New("does not say how long the file is")
	errOtherPart  = errors.New("sends another part of the file than was asked for")
	errLength     = errors.New("sends another number of bytes than it promises")
)

// answer is the error for the answer of a server.
type answer struct {
	kind error // that of the [remote.Error]; may be nil
	text string
	resp *http.Response
	err  error // one of the above, or nil
}

func (a *answer) Error() string { return a.text }
func (a *answer) Unwrap() error { return a.err }

// noBlob returns the error for an answer that does not have the bytes of a file.
func (b *Backend) noBlob(resp *http.Response, cause error) error {
	kind, unfit := remote.ErrUnsupported, remote.ErrServer
	if cause == errLength || cause == errOtherPart {
		kind, unfit = nil, nil
	}
	return &answer{kind: kind, text: b.host + " " + cause.Error(), resp: resp, err: errors.Join(cause, unfit)}
}

// refused returns the error for a status that is no success.
func (b *Backend) refused(resp *http.Response) error {
	a := &answer{resp: resp, text: fmt.Sprintf("%s answers %s", b.host, statusText(resp))}
	switch status := resp.StatusCode; {
	case status == http.StatusNotFound, status == http.StatusGone:
		a.kind = remote.ErrNotFound
	case status == http.StatusUnauthorized:
		a.kind = remote.ErrCredentials
		a.text += ": " + b.loginState()
	case status == http.StatusProxyAuthRequired:
		a.kind = remote.ErrCredentials
		a.text = "the proxy wants a password: " + statusText(resp)
	case status == http.StatusForbidden:
		a.kind = remote.ErrPermission
		a.text += "; for a missing file, it has to answer with status 404"
	case status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented, status == http.StatusHTTPVersionNotSupported:
		a.kind = remote.ErrUnsupported
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status >= 500:
		a.kind = remote.ErrTemporary
	}
	return a
}

func statusText(resp *http.Response) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
}

// encoding returns the compression of an answer, or "".
func encoding(resp *http.Response) string {
	e := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding")))
	if e == "identity" {
		return ""
	}
	return e
}

// readPart reads the bytes of a file from off on into p, and returns their number.
func (b *Backend) readPart(resp *http.Response, p []byte, off int64) (int, error) {
	switch {
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return 0, b.checkEnd(resp, off)
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent:
		return 0, b.refused(resp)
	case encoding(resp) != "":
		return 0, b.noBlob(resp, errCompressed)
	case resp.StatusCode == http.StatusOK:
		return b.readWhole(resp, p, off)
	}
	return b.readRange(resp, p, off)
}

// checkEnd returns an error if a server refuses a range although the file has bytes from off on.
func (b *Backend) checkEnd(resp *http.Response, off int64) error {
	var size int64
	if n, _ := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes */%d", &size); n == 1 && size > off {
		return b.noBlob(resp, errOtherPart)
	}
	return nil
}

// readWhole reads an answer that has the whole file, not a range. Only a file that fits into p counts: other servers
// have no ranges.
func (b *Backend) readWhole(resp *http.Response, p []byte, off int64) (int, error) {
	size, page := resp.ContentLength, httpclient.IsHTML(resp.Header)
	switch {
	case off > 0 && size == 0: // an empty file
		return 0, nil
	case off > 0 && page:
		return 0, b.noBlob(resp, errPage)
	case off > 0, size > int64(len(p)) && !page:
		return 0, b.noBlob(resp, errNoRanges)
	case size < 0 && resp.ProtoMajor < 2 && len(resp.TransferEncoding) == 0:
		return 0, b.noBlob(resp, errNoLength) // nothing would show that the connection broke
	case size >= 0:
		p = p[:min(size, int64(len(p)))]
	}

	n, err := io.ReadFull(resp.Body, p)
	if size < 0 && (err == io.EOF || err == io.ErrUnexpectedEOF && isComplete(resp.Body)) {
		err = nil // the end of the file
	}
	switch {
	case err != nil:
		return 0, err
	case isPage(resp, p[:n]):
		return 0, b.noBlob(resp, errPage)
	case !isComplete(resp.Body):
		return 0, b.noBlob(resp, errNoRanges)
	}
	return n, nil
}

// readRange reads an answer that has the requested range.
func (b *Backend) readRange(resp *http.Response, p []byte, off int64) (int, error) {
	n, err := promised(resp, int64(len(p)), off)
	if err != nil {
		return 0, b.noBlob(resp, err)
	}
	if n, err = io.ReadFull(resp.Body, p[:n]); err != nil {
		return 0, err
	}
	if off == 0 && isPage(resp, p[:n]) {
		return 0, b.noBlob(resp, errPage)
	}
	if !isComplete(resp.Body) {
		return 0, b.noBlob(resp, errLength)
	}
	return n, nil
}

// promised returns the number of bytes that an answer has of the requested size bytes from off on.
func promised(resp *http.Response, size, off int64) (int, error) {
	var first, last, all int64
	if _, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &all); err != nil {
		return 0, errOtherPart
	}
	if first != off || last < first || last >= all || last-first+1 != min(size, all-off) {
		return 0, errOtherPart
	}
	n := last - first + 1
	if resp.ContentLength >= 0 && resp.ContentLength != n {
		return 0, errLength
	}
	return int(n), nil
}

// isComplete reports whether a body has no more bytes.
func isComplete(body io.Reader) bool {
	n, err := io.ReadFull(body, make([]byte, 1))
	return n == 0 && err == io.EOF
}

// isPage reports whether the beginning of a file is that of a web page: it is none of kist's files, and
// the server takes it for a page, or it looks like one.
func isPage(resp *http.Response, data []byte) bool {
	if bytes.HasPrefix(data, []byte(remote.HeaderMagic)) || bytes.HasPrefix(data, []byte("{")) {
		return false
	}
	if httpclient.IsHTML(resp.Header) {
		return true
	}
	start := bytes.ToLower(bytes.TrimSpace(data[:min(len(data), 64)]))
	return bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html"))
}

// convertError turns the error of a request into one of package remote.
func (b *Backend) convertError(ctx context.Context, op, name string, err error) error {
	e := &remote.Error{Op: op, Name: name}
	if ctx.Err() != nil {
		e.Err = ctx.Err()
		return e
	}
	if a, ok := errors.AsType[*answer](err); ok {
		e.Kind, e.Err, e.Wait = a.kind, a, httpclient.WaitAsked(a.resp.Header, b.now())
		return e
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the URL
	}

	text := remote.OneLine(err.Error(), maxReason)
	redirect, isRedirect := errors.AsType[*redirectError](err)
	certificate, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	dial, _ := errors.AsType[*net.OpError](err)
	e.Kind = remote.ErrTemporary
	switch {
	case isRedirect:
		e.Kind, text = redirect.kind, b.host+" "+text
	case untrusted:
		e.Kind, text = remote.ErrCertificate, fmt.Sprintf("the certificate of %s is not trusted: %s", b.host, remote.OneLine(certificate.Err.Error(), maxReason))
	case httpclient.IsPlain(err):
		e.Kind, text = nil, b.host+" does not use TLS: write http:// to reach it without"
	case err == io.EOF, errors.Is(err, io.ErrUnexpectedEOF):
		text = "the connection was closed too early"
	case dial != nil && dial.Op == "dial":
		text = fmt.Sprintf("%s cannot be reached: %s", b.host, text)
	}
	e.Err = &answer{text: text, err: err}
	return e
}
