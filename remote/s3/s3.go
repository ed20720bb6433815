// Package s3 is a remote in a bucket of S3 or of a compatible store: [Open]
// opens s3://bucket/prefix.
//
// Blobs and records are objects of the bucket. Each is stored by one
// conditional PUT. docs/howto/s3.md lists the permissions that kist needs.
// minio-go makes the requests, without retries: package retry does that.
package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/kist-vcs/kist/remote"
)

// Backend is a bucket, or a part of one, as a remote. It is safe for
// concurrent use.
type Backend struct {
	bucket string
	prefix string // prefix of all keys; "" or ends with a slash
	lookup minio.BucketLookupType

	endpoint  *url.URL
	source    *source
	creds     *credentials.Credentials // from source
	transport *transport
	dualstack bool

	// The store refuses conditional requests. kist then checks first whether a
	// name is free. This protects a single writer from overwriting, but not
	// two at the same time.
	unconditional bool

	// Bodies are sent with their MD5, because the store requires it or because
	// requests are not signed and so have no SHA-256.
	md5 atomic.Bool

	now func() time.Time

	class string                      // of large packs of chunks; "": the bucket's usual one
	lock  atomic.Pointer[remote.Lock] // nil: objects are not locked

	client atomic.Pointer[regional] // replaced when the store names another region
}

// regional is a client for a region.
type regional struct {
	*minio.Core
	region string
}

// Open opens the bucket of a URL:
//
//	s3://bucket/prefix?endpoint=…&region=…&profile=…&path-style=…&anonymous=…&conditional=…&class=…
//
// Only the bucket is required. With conditional=false no request is
// conditional, for stores that refuse such requests and have a single writer.
// Credentials, region and endpoint come from the places that AWS's tools use:
// the variables AWS_ACCESS_KEY_ID and so on, the profile that AWS_PROFILE or
// the URL names, ~/.aws/config and ~/.aws/credentials, and last the role of
// the machine. Open refuses a URL with credentials.
//
// Open makes no request to the store, so it does not notice a missing bucket.
func Open(ctx context.Context, rawURL string, env remote.Env) (remote.Backend, error) {
	b, err := open(ctx, rawURL, env, stallTimeout)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func open(ctx context.Context, rawURL string, env remote.Env, stall time.Duration) (*Backend, error) {
	failed := func(kind, err error) error {
		return &remote.Error{Op: "open", Kind: kind, Err: fmt.Errorf("%s: %w", remote.Redact(rawURL), err)}
	}

	l, err := parseLocation(rawURL)
	if err != nil {
		return nil, failed(remote.ErrURL, err)
	}

	p, err := readProfile(l.profile, env)
	if err != nil {
		return nil, failed(remote.ErrCredentials, err)
	}

	b := &Backend{bucket: l.bucket, prefix: l.prefix, lookup: l.lookup, unconditional: l.unconditional, class: l.class, now: env.Now}
	b.md5.Store(l.anonymous)
	if b.endpoint, err = l.findEndpoint(p, env); err != nil {
		return nil, failed(remote.ErrURL, err)
	}

	region, err := l.findRegion(b.endpoint, p, env)
	if err != nil {
		return nil, failed(remote.ErrURL, err)
	}

	b.dualstack = isTrue(cmp.Or(env.Getenv("AWS_USE_DUALSTACK_ENDPOINT"), p.values["use_dualstack_endpoint"]))
	if b.transport, err = newTransport(cmp.Or(env.Getenv("AWS_CA_BUNDLE"), p.values["ca_bundle"]), stall, env); err != nil {
		return nil, failed(nil, err)
	}
	if b.source, err = findSource(l, p, region, env); err != nil {
		return nil, failed(remote.ErrCredentials, err)
	}

	b.creds = credentials.New(b.source)
	if _, err := b.creds.GetWithContext(&credentials.CredContext{Context: ctx}); err != nil {
		if ctx.Err() != nil {
			return nil, failed(nil, ctx.Err())
		}
		return nil, failed(remote.ErrCredentials, errors.New(b.cleanText(err.Error())))
	}

	return b, b.useRegion(region)
}

// useRegion makes a client for a region.
func (b *Backend) useRegion(region string) error {
	core, err := minio.NewCore(b.endpoint.Host, &minio.Options{
		Creds:        b.creds,
		Secure:       b.endpoint.Scheme == "https",
		Transport:    b.transport,
		Region:       region, // otherwise minio-go requests it, once per process
		BucketLookup: b.lookup,
		MaxRetries:   1,
	})
	if err != nil {
		return &remote.Error{Op: "open", Err: err}
	}

	core.SetAppInfo("kist", "1")
	core.SetS3EnableDualstack(b.dualstack)
	b.client.Store(&regional{core, region})
	return nil
}

// Close implements [remote.Backend].
func (b *Backend) Close() error {
	b.transport.CloseIdleConnections()
	return nil
}

// callStore makes a request, or the requests of a list, and converts the error to
// one of package remote. If the bucket is in another region, or the credentials
// were renewed since, it repeats the request.
func (b *Backend) callStore(ctx context.Context, op, name string, f func(context.Context, *minio.Core, *answer) error) error {
	if err := ctx.Err(); err != nil {
		return &remote.Error{Op: op, Name: name, Err: err}
	}

	moved, renewed := false, false
	for {
		client := b.client.Load()
		var a answer
		used, err := b.creds.GetWithContext(&credentials.CredContext{Context: ctx})
		if err != nil {
			return b.convertError(ctx, op, name, &a, err)
		}

		err = f(context.WithValue(ctx, answerKey{}, &a), client.Core, &a)
		if err == nil {
			return nil
		}
		if region := otherRegion(err, client.region); region != "" && !moved {
			if err := b.useRegion(region); err != nil {
				return err
			}
			moved = true
			continue
		}
		if !renewed && b.renewCredentials(ctx, used, err) {
			renewed = true
			continue
		}
		return b.convertError(ctx, op, name, &a, err)
	}
}

// otherRegion returns the bucket's region if the store refused a request
// because of a wrong region.
func otherRegion(err error, region string) string {
	resp := minio.ToErrorResponse(err)
	switch resp.StatusCode {
	case 301, 307, 400:
		if resp.Region != region && isRegion(resp.Region) {
			return resp.Region
		}
	}
	return ""
}

// maxPrefix is the most bytes of a prefix: S3 has keys of up to 1024 bytes.
const maxPrefix = 1024 - 1 - remote.MaxNameSize

// location is the parsed URL of a remote.
type location struct {
	bucket string
	prefix string // "" or ends with a slash

	// From the query; "" if absent.
	endpoint, region, profile, class string
	lookup                           minio.BucketLookupType
	anonymous, unconditional         bool
}

// parseLocation parses the URL of a remote. Its errors contain no part of the URL.
func parseLocation(rawURL string) (location, error) {
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return location{}, errors.New("cannot be parsed; write s3://bucket/prefix")
	case !strings.EqualFold(u.Scheme, "s3"):
		return location{}, errors.New("does not begin with s3://")
	case u.User != nil:
		return location{}, errors.New("has credentials in it; kist takes them from where AWS's tools do, see 'kist help s3'")
	case u.Fragment != "" || strings.Contains(rawURL, "#"):
		return location{}, errors.New("has a '#' in it")
	}

	l := location{bucket: u.Host}
	if strings.Contains(l.bucket, ":") {
		return location{}, fmt.Errorf("bucket %q has a ':' in it; a server is named by endpoint=", l.bucket)
	}
	if err := s3utils.CheckValidBucketName(l.bucket); err != nil {
		return location{}, fmt.Errorf("bucket %q: %w", l.bucket, err)
	}
	if l.prefix, err = parsePrefix(u.Path); err != nil {
		return location{}, err
	}

	return l, l.parseQuery(u.RawQuery)
}

func parsePrefix(path string) (string, error) {
	prefix := strings.Trim(path, "/")
	switch {
	case prefix == "":
		return "", nil
	case len(prefix) > maxPrefix:
		return "", fmt.Errorf("prefix has %d bytes, the limit is %d", len(prefix), maxPrefix)
	case !utf8.ValidString(prefix) || strings.ContainsFunc(prefix, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", errors.New("prefix has bytes that are no text")
	}

	for part := range strings.SplitSeq(prefix, "/") {
		if part == "" || part == "." || part == ".." {
			return "", fmt.Errorf("prefix has a part %q", part)
		}
	}

	return prefix + "/", nil
}

func (l *location) parseQuery(rawQuery string) error {
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return errors.New("what follows the '?' cannot be parsed")
	}

	for _, name := range slices.Sorted(maps.Keys(query)) {
		value := query.Get(name)
		if len(query[name]) > 1 {
			return fmt.Errorf("has more than one %q", name)
		}
		switch name {
		case "endpoint":
			l.endpoint = value
		case "region":
			if !isRegion(value) {
				return errors.New("region is not the name of one")
			}
			l.region = value
		case "profile":
			l.profile = value
		case "path-style":
			path, err := strconv.ParseBool(value)
			if err != nil {
				return errors.New("path-style is neither true nor false")
			}
			l.lookup = minio.BucketLookupDNS
			if path {
				l.lookup = minio.BucketLookupPath
			}
		case "anonymous":
			if l.anonymous, err = strconv.ParseBool(value); err != nil {
				return errors.New("anonymous is neither true nor false")
			}
		case "conditional":
			conditional, err := strconv.ParseBool(value)
			if err != nil {
				return errors.New("conditional is neither true nor false")
			}
			l.unconditional = !conditional
		case "class":
			if l.class, err = parseClass(value); err != nil {
				return err
			}
		default: // perhaps a secret: do not show the value
			return fmt.Errorf("has %q; known are endpoint, region, profile, path-style, anonymous, conditional and class", name)
		}
	}

	return nil
}

// isRegion reports whether s can be the name of a region, and so a part of a
// host's name.
func isRegion(s string) bool {
	return s != "" && len(s) <= 63 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// parseEndpoint parses an endpoint: scheme://host or host, with or without a
// port. Without a scheme it uses https, or http on this machine.
func parseEndpoint(s string) (*url.URL, error) {
	spelled := strings.Contains(s, "://")
	if !spelled {
		s = "https://" + s
	}

	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, errors.New("endpoint cannot be parsed")
	case u.User != nil:
		return nil, errors.New("endpoint has credentials in it")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("endpoint begins with %q; https:// and http:// are known", u.Scheme+"://")
	case u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("endpoint is not just a host and a port")
	}

	ip := net.ParseIP(u.Hostname())
	if !spelled && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()) {
		u.Scheme = "http"
	}

	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// findEndpoint returns the first endpoint in the URL, the environment or the
// profile.
func (l *location) findEndpoint(p profile, env remote.Env) (*url.URL, error) {
	configured := []string{env.Getenv("AWS_ENDPOINT_URL_S3"), env.Getenv("AWS_ENDPOINT_URL"), p.s3, p.values["endpoint_url"]}
	if isTrue(env.Getenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")) || isTrue(p.values["ignore_configured_endpoint_urls"]) {
		configured = nil
	}
	return parseEndpoint(cmp.Or(append(append([]string{l.endpoint}, configured...), awsEndpoint)...))
}

// findRegion returns the first region. An endpoint with a region in its name
// comes before all others.
func (l *location) findRegion(endpoint *url.URL, p profile, env remote.Env) (string, error) {
	region := cmp.Or(l.region, s3utils.GetRegionFromURL(*endpoint),
		env.Getenv("AWS_REGION"), env.Getenv("AWS_DEFAULT_REGION"), p.values["region"], defaultRegion)
	if !isRegion(region) {
		return "", fmt.Errorf("%q is not the name of a region", region)
	}
	return region, nil
}
