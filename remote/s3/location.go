package s3

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/kist-vcs/kist/remote"
)

// maxPrefix is the most bytes of a prefix: S3 has keys of up to 1024 bytes.
const maxPrefix = 1024 - 1 - remote.MaxNameSize

// location is the parsed URL of a remote.
type location struct {
	bucket string
	prefix string // "" or ends with a slash

	// From the query; "" if absent.
	endpoint, region, profile string
	lookup                    minio.BucketLookupType
	anonymous, unconditional  bool
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
		return location{}, errors.New("has credentials in it; kist takes them from where AWS's tools do, see docs/howto/s3.md")
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
		default: // perhaps a secret: do not show the value
			return fmt.Errorf("has %q; known are endpoint, region, profile, path-style, anonymous and conditional", name)
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
