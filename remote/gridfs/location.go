package gridfs

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

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
		case "authmechanismproperties", "tlscertificatekeyfilepassword", "sslclientcertificatekeypassword":
			l.hide(value)
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

// hide adds a secret, escaped as in a URL, to the texts that must not be shown.
func (l *location) hide(escaped string) {
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
