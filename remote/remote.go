// Package remote has the interface of a shared store: an S3 bucket, a MongoDB
// database, a folder. A [Backend] keeps immutable blobs under names, and creates
// small records at most once. It knows nothing of packs, roots or refs.
// docs/format/remote.md describes the content of a remote, and the protocol by
// which any number of processes share it.
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
	Archived bool      // Get may not work before a thaw, see [Archiver]
}

// Blobs keeps immutable byte strings under names. A blob is complete or
// missing, and never changes. Once it is stored, all clients see it with
// Get and Stat.
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
	// a new one for every attempt. ErrExists means that the name is taken, if
	// the store notices. After any other error the blob may appear, now or
	// later, or never. body is read from any offset, more than once, and by
	// one goroutine at a time.
	Put(ctx context.Context, name string, body io.ReaderAt, size int64) error

	// Stat describes a blob. An absent one is ErrNotFound.
	Stat(ctx context.Context, name string) (Info, error)

	// List yields the blobs and records whose names begin with prefix, sorted
	// by name. The prefix is empty or ends with a slash. The list may miss
	// names stored a short while ago, and have deleted ones: absence from a
	// list proves nothing. An error is yielded once, with a zero Info, and
	// ends it.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]

	// Delete removes a blob or record. A missing one is no error. A nil error
	// means that it is gone, or will be.
	Delete(ctx context.Context, name string) error
}

// Creator creates records.
type Creator interface {
	// Create stores a record, a blob of at most MaxRecord bytes, under a name
	// for which [IsRecord] is true, if and only if the name is free. Of any
	// number of callers at most one succeeds. ErrExists means that the name is
	// taken: by another client, or by an earlier attempt of the caller.
	// After any other error the record may exist, or may be created later.
	// Get, Stat, List and Delete also work on records, and see them at once.
	Create(ctx context.Context, name string, data []byte) error
}

// Replacer replaces records. All stores of this module are Replacers.
type Replacer interface {
	// Replace replaces the bytes of an existing record in one step: the name is
	// never free. Only a repair calls it, with the bytes that the record had
	// before it was damaged.
	Replace(ctx context.Context, name string, data []byte) error
}

// Doubter is a store whose server may lack what Create needs for several writers. No trial of Create can
// prove that, since the moments between two steps of a server are short.
type Doubter interface {
	// Doubt returns what the server lacks, or nil. It knows that after the first Create.
	Doubt() error
}

// Retention is a lock of a blob or record: until it ends, the stored bytes cannot
// be deleted or changed.
type Retention struct {
	Until time.Time // zero: not locked

	// Governance means that users with a special permission can end the lock.
	// Otherwise not even the owner of the store can.
	Governance bool
}

// Locker is a store that can lock blobs and records. Get it with [As]: its
// methods make each request once.
type Locker interface {
	// SetLock makes Put, Create and Replace lock each new blob and record from now
	// on. The zero Lock ends that. If the store cannot lock, their error
	// matches ErrUnsupported.
	SetLock(Lock)

	// Retention returns the lock of a blob or record. A missing one is
	// ErrNotFound.
	Retention(ctx context.Context, name string) (Retention, error)

	// Retain locks a blob or record, or extends its lock. A strict lock cannot
	// be made shorter, nor replaced by one with Governance: that is an error.
	Retain(ctx context.Context, name string, r Retention) error
}

// Lock describes the locks of new blobs and records.
type Lock struct {
	Age        time.Duration // from the moment of storing; 0: not at all
	Governance bool          // see [Retention]
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

// As returns b as a T, or the first wrapped backend that is a T. T has methods
// that only some stores have. A backend that wraps another returns it by Unwrap.
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

// CheckWritable returns the error of every write if nobody can write to a store, such as that behind a web
// server. The error matches ErrReadOnly.
func CheckWritable(b Backend) error {
	if r, ok := As[interface{ CheckWritable() error }](b); ok {
		return r.CheckWritable()
	}
	return nil
}

// MaxNameSize is the most bytes of a name.
const MaxNameSize = 200

// CheckName returns an error that matches ErrName if no blob can have the name. A
// name has components of the characters a to z, 0 to 9, '.', '_' and '-', which do
// not begin with a dot. Single slashes separate them. The limit is MaxNameSize
// bytes. Such a name is valid on every store.
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

// CheckBlob returns an error that matches ErrName if [Blobs].Put cannot use the
// name: [CheckName] refuses it, or it is the name of a record.
func CheckBlob(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	if IsRecord(name) {
		return &Error{Op: "check", Name: name, Kind: ErrName, Err: errors.New("it is the name of a record")}
	}
	return nil
}

// CheckRecord returns an error if a [Creator] cannot create a record with this
// name and size, in bytes. The error about a name matches ErrName.
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

// CheckPrefix returns an error that matches ErrName if the prefix of [Blobs].List
// is neither empty nor a name and a slash.
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

// HeaderMagic is the beginning of every blob and every root, encrypted or not.
const HeaderMagic = "kistblob"

const schemePlain = 0

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
	TypePack   Type = 1
	TypeIndex  Type = 2
	TypeRoot   Type = 3
	TypeState  Type = 4
	TypeKeyset Type = 5 // see docs/format/keysets.md
)

// String returns the type's name.
func (t Type) String() string {
	names := [...]string{TypePack: "pack", TypeIndex: "index file", TypeRoot: "root", TypeState: "state file", TypeKeyset: "keyset"}
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
	dst = append(dst, HeaderMagic...)
	dst = append(dst, byte(t), version, schemePlain)
	return append(dst, make([]byte, HeaderSize-len(HeaderMagic)-3)...)
}

// HeaderVersion returns the version of a blob. [CheckHeader] must have accepted
// its header.
func HeaderVersion(data []byte) uint8 { return data[len(HeaderMagic)+1] }

// CheckHeader checks that data begins with the header of a blob of a type, in a
// version that this program knows.
func CheckHeader(data []byte, t Type) error {
	if len(data) < HeaderSize {
		return fmt.Errorf("%d bytes are too few for a %s", len(data), t)
	}
	if string(data[:len(HeaderMagic)]) != HeaderMagic {
		return fmt.Errorf("not a %s", t)
	}
	rest := data[len(HeaderMagic):HeaderSize]
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

// The kinds of an [Error]. The first three are answers. The others are reasons why
// there is no answer.
var (
	ErrNotFound = errors.New("not found on the remote")
	ErrExists   = errors.New("exists on the remote already")
	ErrName     = errors.New("not a name for a blob")

	// ErrTemporary means that a retry may succeed: the store is busy or cannot
	// be reached, the connection broke, the body was cut short. It is unclear
	// whether a write took effect.
	ErrTemporary = errors.New("temporary remote error")
	// ErrCredentials means that credentials are missing, wrong or expired.
	ErrCredentials = errors.New("credentials not accepted by the remote")
	// ErrCertificate means that the server's certificate is not trusted.
	ErrCertificate = errors.New("certificate not trusted")
	// ErrPermission means that the credentials do not allow the operation.
	ErrPermission = errors.New("not permitted by the remote")
	// ErrNoStore means that the bucket, database or folder does not exist.
	ErrNoStore = errors.New("remote does not exist")
	// ErrFull means that the store has no room left.
	ErrFull = errors.New("remote is full")
	// ErrUnsupported means that the store does not support an operation.
	ErrUnsupported = errors.New("not supported by the remote")
	// ErrDamaged means that a store has a blob but cannot return its bytes.
	ErrDamaged = errors.New("damaged on the remote")
)

// More causes of an [Error], which need words of their own.
var (
	// ErrProgram means that the program which connects cannot be started.
	ErrProgram = errors.New("the program that connects cannot be started")
	// ErrHostKey means that ssh does not know the key of a host, or knows another one.
	ErrHostKey = errors.New("the key of the host is not known")
	// ErrClock means that the clocks of this machine and of the store differ.
	ErrClock = errors.New("the clock of this machine differs from the clock of the store")
	// ErrArchived means that a blob lies in an archive, where it cannot be read before a thaw. See [Archiver].
	ErrArchived = errors.New("the store has archived the file")
	// ErrClass means that a store has no such class of storage.
	ErrClass = errors.New("the store has no such class of storage")
	// ErrServer means that a web server does not send files as they are, or not in parts.
	ErrServer = errors.New("the web server is not fit for a remote")
	// ErrReadOnly means that a store can only be read, by anybody. The kind is then ErrPermission.
	ErrReadOnly = errors.New("the remote can only be read")
)

// Error is the error of an operation on a remote.
type Error struct {
	Op   string // "get", "put", "create", "replace", "stat", "list", "delete", "lock", "thaw", "open"
	Name string // of the blob, or the prefix of a list; may be empty
	Kind error  // one of the sentinels above; nil: none of them, and no retry

	// Wait is the time that the store asked to wait before a retry; 0: none.
	Wait time.Duration

	// Err is the cause with the store's reason, or nil. It has no credentials.
	Err error
}

func (e *Error) Error() string {
	s := e.Op
	if e.Name != "" {
		s += fmt.Sprintf(" %q", e.Name)
	}
	for _, err := range e.Unwrap() {
		s += ": " + err.Error()
	}
	return s
}

// EnvError names a variable of the environment that the user has to set.
type EnvError struct {
	Variable string
	Value    string // "": any
	Reason   string // why it is needed
}

func (e *EnvError) Error() string { return e.Reason }

// ForeignError is the error for a folder that is no remote and has other files.
type ForeignError struct {
	Folder string
	File   string // one of the files
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%q has other files in it, such as %q, and is no kist remote", e.Folder, e.File)
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	return slices.DeleteFunc([]error{e.Kind, e.Err}, func(err error) bool { return err == nil })
}

// ErrURL means that a text is no complete URL of a remote.
var ErrURL = errors.New("not a URL of a remote")

// Env has the surroundings that the opening of a backend needs.
type Env struct {
	Getenv func(string) string // settings, credentials
	Home   string              // the user's folder, for files with credentials
	Dir    string              // the start of relative paths
	Now    func() time.Time
	Rand   io.Reader
	Warn   func(string) // shows a warning; the text has no credentials
	SSH    []string     // the program that connects by SSH, with its first arguments; nil: ssh
	Jobs   int          // the most connections by SSH; 0: a few
}

// An Opener opens the store of a URL. Its errors have no credentials.
type Opener func(ctx context.Context, rawURL string, env Env) (Backend, error)

// A Registry has an opener for each scheme of URLs, in lower case. The opener of
// "" opens plain paths.
type Registry map[string]Opener

// Open opens the store of a URL or a path. The error matches ErrURL if no opener
// fits.
func (r Registry) Open(ctx context.Context, rawURL string, env Env) (Backend, error) {
	scheme, _, isURL := cutScheme(rawURL)
	if !isURL {
		// s3:bucket is more likely a mistake than the name of a file.
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
