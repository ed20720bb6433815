// Package remote says what kist needs of a store that others share: an
// S3 bucket, a MongoDB database, a folder. A [Backend] keeps immutable blobs
// under names, and creates small records at most once; it knows nothing of
// packs, roots or refs. What lies on a remote, and the protocol by which any
// number of processes share it, is described in docs/format/remote.md.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
)

// Info describes a blob.
type Info struct {
	Name     string
	Size     int64     // bytes
	Modified time.Time // by the store's clock; nothing safe depends on it
}

// Blobs keeps immutable byte strings under names. A blob is complete or
// missing, and never changes. Once it is stored, everybody sees it with Get
// and Stat.
//
// Names must pass [CheckName]. Errors are [*Error]; a call whose context has
// ended returns an error that matches the context's. Implementations are safe
// for concurrent use.
type Blobs interface {
	// Get reads a blob from offset off on, until p is full or the blob ends,
	// and returns the number of bytes read. Fewer than len(p) without an error
	// means that the blob ends there. An off at or behind the end reads
	// nothing. A body that was cut short is an error. After an error, the
	// content of p has no meaning. A missing blob is ErrNotFound.
	Get(ctx context.Context, name string, p []byte, off int64) (int, error)

	// Put stores size bytes of body under a name that was never used before:
	// a new one for every attempt. ErrExists says that the name is taken,
	// where the store can tell. After any other error the blob may appear,
	// now or later, or never. body is read from any offset, more than once,
	// and by one goroutine at a time.
	Put(ctx context.Context, name string, body io.ReaderAt, size int64) error

	// Stat describes a blob. An absent one is ErrNotFound.
	Stat(ctx context.Context, name string) (Info, error)

	// List yields the blobs and records whose names begin with prefix, sorted
	// by name. The prefix is empty or ends with a slash. The list may miss
	// names stored a short while ago, and have deleted ones: absence from a
	// list proves nothing. An error is yielded once, with a zero Info, and
	// ends it.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]

	// Delete removes a blob or record. One that is not there is no error. A
	// nil error means that it is gone, or will be.
	Delete(ctx context.Context, name string) error
}

// Creator creates records.
type Creator interface {
	// Create stores a record, a blob of at most MaxRecord bytes, under a name
	// for which [IsRecord] is true, if and only if the name is free; of any
	// number of callers at most one succeeds. ErrExists says that the name is
	// taken: by somebody else, or by an earlier attempt of the caller's own.
	// After any other error the record may have been created, or may be later.
	// Get, Stat, List and Delete are for records too; they see one at once.
	Create(ctx context.Context, name string, data []byte) error
}

// Replacer replaces records. All stores of this module are Replacers.
type Replacer interface {
	// Replace stores data under the name of a record that exists, in place of
	// its bytes, in one step: at no moment is the name free. Only a repair calls
	// it, with the bytes that the record had before it was damaged.
	Replace(ctx context.Context, name string, data []byte) error
}

// Backend is a store that can be a remote.
type Backend interface {
	Blobs
	Creator

	// Close ends the use of the store. Calls under way may fail.
	io.Closer
}

// MaxRecord is the most bytes of a record.
const MaxRecord = 4 << 20

// As returns b, or the first of the backends that it wraps that is a T: for
// what only some stores have. A backend that wraps another has a method Unwrap
// that returns it.
func As[T any](b Backend) (T, bool) {
	for {
		if t, ok := b.(T); ok {
			return t, true
		}
		outer, ok := b.(interface{ Unwrap() Backend })
		if !ok {
			var none T
			return none, false
		}
		b = outer.Unwrap()
	}
}

// MaxNameSize is the most bytes of a name.
const MaxNameSize = 200

// CheckName says whether name can be that of a blob: components of the
// characters a to z, 0 to 9, '.', '_' and '-', which do not begin with a dot,
// separated by single slashes, of at most MaxNameSize bytes together. So every
// name is one on every store. The error matches ErrName.
func CheckName(name string) error {
	if len(name) > MaxNameSize {
		return &Error{Op: "check", Name: name[:MaxNameSize], Kind: ErrName, Err: fmt.Errorf("%d bytes, the limit is %d", len(name), MaxNameSize)}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' {
			return &Error{Op: "check", Name: name, Kind: ErrName}
		}
		for _, c := range []byte(part) {
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
				return &Error{Op: "check", Name: name, Kind: ErrName}
			}
		}
	}
	return nil
}

// IsRecord reports whether a name belongs to a record, made by [Creator], and
// not to a blob, stored by Put. Records are kist.json and the content of
// folders named root.
func IsRecord(name string) bool {
	folders, base := "", name
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		folders, base = name[:i], name[i+1:]
	}
	return base == "kist.json" || folders == "root" || strings.HasSuffix(folders, "/root")
}

// CheckBlob says whether name can be that of a blob to be [Blobs].Put: one
// that [CheckName] accepts and that is not a record's. The error matches
// ErrName.
func CheckBlob(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if IsRecord(name) {
		return &Error{Op: "check", Name: name, Kind: ErrName, Err: errors.New("it is the name of a record")}
	}
	return nil
}

// CheckRecord says whether name can be that of a record of size bytes to be
// created by a [Creator]. The error about the name matches ErrName.
func CheckRecord(name string, size int) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if !IsRecord(name) {
		return &Error{Op: "check", Name: name, Kind: ErrName, Err: errors.New("it is not the name of a record")}
	}
	if size > MaxRecord {
		return &Error{Op: "check", Name: name, Err: fmt.Errorf("%d bytes are too many for a record, the limit is %d", size, MaxRecord)}
	}
	return nil
}

// CheckPrefix says whether prefix can be that of [Blobs].List: empty, or a
// name and a slash. The error matches ErrName.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	folder, ok := strings.CutSuffix(prefix, "/")
	if !ok {
		return &Error{Op: "check", Name: prefix[:min(len(prefix), MaxNameSize)], Kind: ErrName, Err: errors.New("the prefix does not end with a slash")}
	}
	return CheckName(folder)
}

// HeaderSize is the number of bytes with which every blob and every root
// begins; see docs/format/remote.md.
const HeaderSize = 32

const (
	headerMagic = "kistblob"
	schemePlain = 0
)

// The versions of blobs. Their values are part of the format.
const (
	// Version1 is the version of all blobs except packs of version 2.
	Version1 = 1

	// Version2 is that of packs in which there may be patches.
	Version2 = 2
)

// Type is the type of a blob.
type Type uint8

// The types of blobs. Their values are part of the format.
const (
	TypePack  Type = 1
	TypeIndex Type = 2
	TypeRoot  Type = 3
	TypeState Type = 4
)

// String returns the type's name.
func (t Type) String() string {
	names := [...]string{TypePack: "pack", TypeIndex: "index file", TypeRoot: "root", TypeState: "state file"}
	if int(t) < len(names) && t != 0 {
		return names[t]
	}
	return fmt.Sprintf("blob of type %d", uint8(t))
}

// ErrNewerFormat is matched by the error for a blob of a version, or sealed by
// a scheme, that this program does not know.
var ErrNewerFormat = errors.New("newer format on the remote")

// newest returns the newest version of blobs of the type.
func (t Type) newest() byte {
	if t == TypePack {
		return Version2
	}
	return Version1
}

// AppendHeader appends the header of a blob of a type and version to dst.
func AppendHeader(dst []byte, t Type, version uint8) []byte {
	dst = append(dst, headerMagic...)
	dst = append(dst, byte(t), version, schemePlain)
	return append(dst, make([]byte, HeaderSize-len(headerMagic)-3)...)
}

// HeaderVersion returns the version of a blob whose header [CheckHeader] found
// to be right.
func HeaderVersion(data []byte) uint8 { return data[len(headerMagic)+1] }

// CheckHeader checks that data begins with the header of a blob of a type, of a
// version that this program knows.
func CheckHeader(data []byte, t Type) error {
	if len(data) < HeaderSize {
		return fmt.Errorf("%d bytes are too few for a %s", len(data), t)
	}
	if string(data[:len(headerMagic)]) != headerMagic {
		return fmt.Errorf("not a %s", t)
	}
	rest := data[len(headerMagic):HeaderSize]
	switch {
	case Type(rest[0]) != t:
		return fmt.Errorf("a %s, not a %s", Type(rest[0]), t)
	case rest[1] > t.newest():
		return fmt.Errorf("%w: %s of version %d", ErrNewerFormat, t, rest[1])
	case rest[1] < Version1:
		return fmt.Errorf("%s of unknown version %d", t, rest[1])
	case rest[2] != schemePlain:
		return fmt.Errorf("%w: %s sealed by scheme %d", ErrNewerFormat, t, rest[2])
	}
	for _, b := range rest[3:] {
		if b != 0 {
			return errors.New("reserved bytes of the header are not zero")
		}
	}
	return nil
}

// What an [Error] may match. The first three are answers; the others say why
// there is none.
var (
	ErrNotFound = errors.New("not found on the remote")
	ErrExists   = errors.New("exists on the remote already")
	ErrName     = errors.New("not a name for a blob")

	// ErrTemporary is for what may go well if it is tried again: the store is
	// busy or cannot be reached, the connection broke, the body was cut short.
	// It is unclear whether a write took effect.
	ErrTemporary = errors.New("temporary remote error")
	// ErrCredentials is for credentials that are missing, wrong or expired.
	ErrCredentials = errors.New("credentials not accepted by the remote")
	// ErrCertificate says that the server's certificate is not trusted.
	ErrCertificate = errors.New("certificate not trusted")
	// ErrPermission is for what the credentials do not allow.
	ErrPermission = errors.New("not permitted by the remote")
	// ErrNoStore says that the bucket, database or folder does not exist.
	ErrNoStore = errors.New("remote does not exist")
	// ErrFull says that the store has no room left.
	ErrFull = errors.New("remote is full")
	// ErrUnsupported means that the store does not support an operation.
	ErrUnsupported = errors.New("not supported by the remote")
	// ErrDamaged says that a store has a blob but cannot give its bytes back.
	ErrDamaged = errors.New("damaged on the remote")
)

// Error is the error of an operation on a remote.
type Error struct {
	Op   string // "get", "put", "create", "replace", "stat", "list", "delete", "open"
	Name string // of the blob, or the prefix of a list; may be empty
	Kind error  // one of the sentinels above; nil: anything else, and not worth another try

	// Wait is how long the store asked to wait before the next try; 0: it did
	// not say.
	Wait time.Duration

	// Err is the cause, with the store's own reason; may be nil. It has no
	// credentials in it.
	Err error
}

func (e *Error) Error() string {
	s := e.Op
	if e.Name != "" {
		s += fmt.Sprintf(" %q", e.Name)
	}
	switch {
	case e.Kind != nil && e.Err != nil:
		return fmt.Sprintf("%s: %v: %v", s, e.Kind, e.Err)
	case e.Kind != nil:
		return fmt.Sprintf("%s: %v", s, e.Kind)
	default:
		return fmt.Sprintf("%s: %v", s, e.Err)
	}
}

// EnvError says that the user has to set a variable of the environment.
type EnvError struct {
	Variable string
	Value    string // "": any
	Reason   string // why it is needed
}

func (e *EnvError) Error() string { return e.Reason }

// ForeignError says that a folder is no remote and has other files in it.
type ForeignError struct {
	Folder string
	File   string // one of the files
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%q has other files in it, such as %q, and is no kist remote", e.Folder, e.File)
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	var errs []error
	if e.Kind != nil {
		errs = append(errs, e.Kind)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// ErrURL means that a text is no complete URL of a remote.
var ErrURL = errors.New("not a URL of a remote")

// Env is what opening a backend needs of its surroundings.
type Env struct {
	Getenv func(string) string // settings, credentials
	Home   string              // the user's folder, for files with credentials
	Dir    string              // what relative paths are relative to
	Now    func() time.Time
	Rand   io.Reader
	Warn   func(string) // shows a warning; the text has no credentials
}

// An Opener opens the store a URL is of. Its errors have no credentials in
// them.
type Opener func(ctx context.Context, rawURL string, env Env) (Backend, error)

// A Registry has an opener for each scheme of URLs, in lower case. The one for
// "" gets plain paths.
type Registry map[string]Opener

// Open opens the store a URL is of, or a path. The error matches ErrURL if
// nothing here is for such a URL.
func (r Registry) Open(ctx context.Context, rawURL string, env Env) (Backend, error) {
	scheme, _, isURL := cutScheme(rawURL)
	if !isURL {
		// s3:bucket is far more often a slip than a file of that name.
		if name, _, ok := strings.Cut(rawURL, ":"); ok && name != "" && r[strings.ToLower(name)] != nil {
			return nil, badURL(rawURL, "write "+name+"://…")
		}
		if rawURL == "" {
			return nil, badURL(rawURL, "it is empty")
		}
	}
	open := r[scheme]
	if open == nil {
		return nil, badURL(rawURL, "known are "+r.known())
	}
	return open(ctx, rawURL, env)
}

func badURL(rawURL, reason string) error {
	return &Error{Op: "open", Kind: ErrURL, Err: fmt.Errorf("%q: %s", Redact(rawURL), reason)}
}

// known lists the schemes for people.
func (r Registry) known() string {
	var list []string
	for _, scheme := range slices.Sorted(maps.Keys(r)) {
		if scheme == "" {
			list = append(list, "a path")
		} else {
			list = append(list, scheme+"://")
		}
	}
	return strings.Join(list, ", ")
}

// cutScheme splits a URL at "://". A text without a scheme is a path.
func cutScheme(rawURL string) (scheme, rest string, ok bool) {
	scheme, rest, ok = strings.Cut(rawURL, "://")
	if !ok || scheme == "" {
		return "", rawURL, false
	}
	scheme = strings.ToLower(scheme)
	for i, c := range []byte(scheme) {
		if !(c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.')) {
			return "", rawURL, false
		}
	}
	return scheme, rest, true
}
