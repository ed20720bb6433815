// Package web is a remote behind a web server or a CDN that publishes the folder of a remote: [Open] opens
// https://host/path and http://host/path. Such a remote can only be read.
//
// Each Get is one request for a range of bytes. The package uses no list of files: a plain web server has
// none. It believes nothing that its callers do not check: they hash every object, so it ignores ETags and dates.
// docs/howto/publish.md says what a server has to do.
package web

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/httpclient"
)

// Backend is a folder of a web server as a remote. It is safe for concurrent use.
type Backend struct {
	url    string // of the folder, with a slash at the end, and without a user
	host   string // of the URL, with its port
	client *http.Client
	close  func()
	now    func() time.Time

	login *login // nil: none
	fresh fresh
}

// Open opens the remote at a URL:
//
//	https://user@host:port/path
//
// Only scheme and host are required. The password comes from KIST_HTTP_PASSWORD, with KIST_HTTP_USERNAME or
// the user of the URL, if KIST_HTTP_HOST names the host. Otherwise it comes from the file NETRC, or ~/.netrc.
// It is only sent over TLS, and to no other host. KIST_HTTP_CA names a file with certificates to trust
// instead of the system's. Open refuses a URL with a password.
//
// Open makes no request.
func Open(_ context.Context, rawURL string, env remote.Env) (remote.Backend, error) {
	b, err := open(rawURL, env, httpclient.StallTimeout)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func open(rawURL string, env remote.Env, stall time.Duration) (*Backend, error) {
	failed := func(kind, err error) error {
		return &remote.Error{Op: "open", Kind: kind, Err: fmt.Errorf("%s: %w", remote.Redact(rawURL), err)}
	}

	u, err := parseURL(rawURL)
	if err != nil {
		return nil, failed(remote.ErrURL, err)
	}
	b := &Backend{url: u.Scheme + "://" + u.Host + strings.TrimRight(u.EscapedPath(), "/") + "/", host: u.Host, now: env.Now}
	if err := b.findLogin(u, env); err != nil {
		return nil, failed(remote.ErrCredentials, err)
	}
	var random [8]byte
	if _, err := io.ReadFull(env.Rand, random[:]); err != nil {
		return nil, failed(nil, err)
	}
	b.fresh.prefix = hex.EncodeToString(random[:])

	t, err := httpclient.NewTransport(httpclient.Options{Getenv: env.Getenv, CABundle: env.Getenv("KIST_HTTP_CA"), Stall: stall, HTTP2: true})
	if err != nil {
		return nil, failed(nil, err)
	}
	b.close = t.CloseIdleConnections
	b.client = &http.Client{Transport: &transport{t, u, b.login}, CheckRedirect: checkRedirect}
	return b, nil
}

// parseURL parses the URL of a remote. Its errors contain no part of the URL.
func parseURL(rawURL string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, errors.New("cannot be parsed; write https://host/path")
	}
	_, hasPassword := u.User.Password()
	u.Scheme = strings.ToLower(u.Scheme)
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("does not begin with https://")
	case u.Hostname() == "":
		return nil, errors.New("names no host")
	case hasPassword:
		return nil, errors.New("has a password in it; kist takes it from ~/.netrc or KIST_HTTP_PASSWORD")
	case u.RawQuery != "" || u.ForceQuery:
		return nil, errors.New("has a '?' in it; it has to be the URL of a folder")
	case u.Fragment != "" || strings.Contains(rawURL, "#"):
		return nil, errors.New("has a '#' in it; it has to be the URL of a folder")
	}
	for part := range strings.SplitSeq(u.Path, "/") {
		if part == "." || part == ".." {
			return nil, fmt.Errorf("its path has a part %q", part)
		}
	}
	u.Host = strings.ToLower(u.Host)
	return u, nil
}

// Close implements [remote.Backend].
func (b *Backend) Close() error {
	b.close()
	return nil
}

// Get implements [remote.Blobs].
func (b *Backend) Get(ctx context.Context, name string, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, &remote.Error{Op: "get", Name: name, Err: fmt.Errorf("offset %d", off)}
	}
	if len(p) == 0 {
		_, err := b.Stat(ctx, name)
		return 0, err
	}
	return b.call(ctx, "get", name, func(r *http.Request) (int, error) {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", off, off+int64(len(p))-1))
		resp, err := b.client.Do(r)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		return b.readPart(resp, p, off)
	})
}

// Stat implements [remote.Blobs]. It makes a request without a body. If the server calls the file a web page, Stat
// also reads its beginning.
func (b *Backend) Stat(ctx context.Context, name string) (remote.Info, error) {
	info, mayBePage := remote.Info{Name: name}, false
	_, err := b.call(ctx, "stat", name, func(r *http.Request) (int, error) {
		r.Method = http.MethodHead
		resp, err := b.client.Do(r)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		switch {
		case resp.StatusCode != http.StatusOK:
			return 0, b.refused(resp)
		case encoding(resp) != "":
			return 0, b.noBlob(resp, errCompressed)
		case resp.ContentLength < 0:
			return 0, b.noBlob(resp, errNoLength)
		}
		info.Size, mayBePage = resp.ContentLength, httpclient.IsHTML(resp.Header)
		if at, err := http.ParseTime(resp.Header.Get("Last-Modified")); err == nil {
			info.Modified = at
		}
		return 0, nil
	})
	if err == nil && mayBePage {
		_, err = b.Get(ctx, name, make([]byte, remote.HeaderSize), 0)
	}
	if err != nil {
		return remote.Info{}, err
	}
	return info, nil
}

// call makes a request for a blob, and converts the error to one of package remote.
func (b *Backend) call(ctx context.Context, op, name string, send func(*http.Request) (int, error)) (int, error) {
	if err := remote.CheckName(name); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, &remote.Error{Op: op, Name: name, Err: err}
	}
	query, isFresh := b.fresh.next(name)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+name+query, nil)
	if err != nil {
		return 0, &remote.Error{Op: op, Name: name, Kind: remote.ErrURL, Err: err}
	}
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Set("User-Agent", "kist")
	if isFresh || remote.IsRecord(name) {
		r.Header.Set("Cache-Control", "no-cache")
		r.Header.Set("Pragma", "no-cache")
	}

	n, err := send(r)
	if err == nil {
		return n, nil
	}
	failed := b.convertError(ctx, op, name, err)
	if errors.Is(failed, remote.ErrNotFound) {
		b.fresh.noteAbsent(name)
	}
	return 0, failed
}

// fresh makes addresses that no cache has. Caches keep the answer that a file is missing, and then an
// old answer looks like a remote that was set back. So a record that is requested once more, and
// a blob that was missing, get a query of their own. Web servers ignore it for files, and caches do not.
type fresh struct {
	prefix string // of the queries of this process

	mu     sync.Mutex
	count  int
	before map[string]bool // names of records that were requested, and of missing blobs
}

// mostNames is the most names that fresh remembers.
const mostNames = 1 << 16

// next returns the query of the next request for a blob, with its question mark, and whether it is needed.
func (f *fresh) next(name string) (query string, isFresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.before[name] {
		f.count++
		return "?fresh=" + f.prefix + "-" + strconv.Itoa(f.count), true
	}
	if remote.IsRecord(name) {
		f.note(name)
	}
	return "", false
}

// noteAbsent notes that a blob was missing.
func (f *fresh) noteAbsent(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.note(name)
}

func (f *fresh) note(name string) {
	if f.before == nil || len(f.before) >= mostNames {
		f.before = map[string]bool{}
	}
	f.before[name] = true
}

// List implements [remote.Blobs]. It yields nothing: a web server has no list, and a list may miss names.
func (b *Backend) List(ctx context.Context, prefix string) iter.Seq2[remote.Info, error] {
	return func(yield func(remote.Info, error) bool) {
		if err := remote.CheckPrefix(prefix); err != nil {
			yield(remote.Info{}, err)
		} else if err := ctx.Err(); err != nil {
			yield(remote.Info{}, &remote.Error{Op: "list", Name: prefix, Err: err})
		}
	}
}

// Put implements [remote.Blobs]. Its error matches [remote.ErrReadOnly].
func (b *Backend) Put(_ context.Context, name string, _ io.ReaderAt, _ int64) error {
	return b.readOnly("put", name)
}

// Create implements [remote.Creator]. Its error matches [remote.ErrReadOnly].
func (b *Backend) Create(_ context.Context, name string, _ []byte) error {
	return b.readOnly("create", name)
}

// Delete implements [remote.Blobs]. Its error matches [remote.ErrReadOnly].
func (b *Backend) Delete(_ context.Context, name string) error { return b.readOnly("delete", name) }

// Replace implements [remote.Replacer]. Its error matches [remote.ErrReadOnly].
func (b *Backend) Replace(_ context.Context, name string, _ []byte) error {
	return b.readOnly("replace", name)
}

// CheckWritable returns an error that matches [remote.ErrReadOnly].
func (b *Backend) CheckWritable() error { return b.readOnly("open", "") }

func (b *Backend) readOnly(op, name string) error {
	return &remote.Error{Op: op, Name: name, Kind: remote.ErrPermission, Err: fmt.Errorf("%w: %s is a web server", remote.ErrReadOnly, strings.TrimSuffix(b.url, "/"))}
}

var (
	_ remote.Backend  = (*Backend)(nil)
	_ remote.Replacer = (*Backend)(nil)
)
