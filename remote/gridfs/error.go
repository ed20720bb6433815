package gridfs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/kist-vcs/kist/remote"
)

// maxReason limits the text of a server's reason, in bytes.
const maxReason = 600

// convertError converts an error of the driver to one of package remote. ctx is the
// caller's context.
func (b *Backend) convertError(ctx context.Context, op, name string, err error) error {
	e := &remote.Error{Op: op, Name: name}
	if e.Err = ctx.Err(); e.Err != nil {
		return e
	}

	if ready, ok := errors.AsType[*remote.Error](err); ok {
		return ready
	}

	e.Kind = b.kindOf(err)
	text := b.cleanText(err.Error())
	if e.Kind == remote.ErrCertificate {
		_, reason, _ := strings.Cut(text, "x509: ")
		reason, _, _ = strings.Cut(reason, " }")
		text = "the certificate of the server is not trusted: " + reason
	}

	e.Err = errors.New(text)
	return e
}

// codes has the kinds of server errors, by number.
var codes = map[int]error{
	11000: remote.ErrExists, // DuplicateKey

	18:  remote.ErrCredentials, // AuthenticationFailed
	11:  remote.ErrCredentials, // UserNotFound
	391: remote.ErrCredentials, // ReauthenticationRequired
	13:  remote.ErrPermission,  // Unauthorized

	14031: remote.ErrFull, // OutOfDiskSpace

	59:  remote.ErrUnsupported, // CommandNotFound
	115: remote.ErrUnsupported, // CommandNotSupported
	123: remote.ErrUnsupported, // NotAReplicaSet
	148: remote.ErrUnsupported, // ReadConcernMajorityNotEnabled
	238: remote.ErrUnsupported, // NotImplemented

	6: remote.ErrTemporary, 7: remote.ErrTemporary, 9001: remote.ErrTemporary, // HostUnreachable, HostNotFound, SocketException
	89: remote.ErrTemporary, 262: remote.ErrTemporary, 50: remote.ErrTemporary, // NetworkTimeout, ExceededTimeLimit, MaxTimeMSExpired
	91: remote.ErrTemporary, 11600: remote.ErrTemporary, // ShutdownInProgress, InterruptedAtShutdown
	11601: remote.ErrTemporary, 11602: remote.ErrTemporary, // Interrupted, InterruptedDueToReplStateChange
	189: remote.ErrTemporary, 10107: remote.ErrTemporary, 10058: remote.ErrTemporary, // PrimarySteppedDown, NotWritablePrimary
	13435: remote.ErrTemporary, 13436: remote.ErrTemporary, // NotPrimaryNoSecondaryOk, NotPrimaryOrSecondary
	133: remote.ErrTemporary, 134: remote.ErrTemporary, // FailedToSatisfyReadPreference, ReadConcernMajorityNotAvailableYet
	43: remote.ErrTemporary, 237: remote.ErrTemporary, 175: remote.ErrTemporary, // CursorNotFound, CursorKilled, QueryPlanKilled
	24: remote.ErrTemporary, 46: remote.ErrTemporary, 112: remote.ErrTemporary, // LockTimeout, LockBusy, WriteConflict
	202: remote.ErrTemporary, 462: remote.ErrTemporary, // NetworkInterfaceExceededTimeLimit, IngressRequestRateLimitExceeded
	63: remote.ErrTemporary, 150: remote.ErrTemporary, 13388: remote.ErrTemporary, // StaleShardVersion, StaleEpoch, StaleConfig
}

// kindOf returns the kind of an error of the driver, or nil.
func (b *Backend) kindOf(err error) error {
	// After a failed write concern, the write may exist now or later.
	write, isWrite := errors.AsType[mongo.WriteException](err)
	bulk, isBulk := errors.AsType[mongo.BulkWriteException](err)
	if isWrite && len(write.WriteErrors) == 0 || isBulk && len(bulk.WriteErrors) == 0 {
		return remote.ErrTemporary
	}

	text := strings.ToLower(err.Error())
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}

	if answer, ok := errors.AsType[mongo.ServerError](err); ok {
		for _, code := range answer.ErrorCodes() {
			if kind := codes[code]; kind != nil {
				return kind
			}
		}
		switch {
		case has("space quota", "no space left", "disk is full", "disk full"): // Atlas, or a server that repeats the system's error
			return remote.ErrFull
		case has("bad auth", "authentication failed"):
			return remote.ErrCredentials
		case has("not authorized", "not allowed to do action"):
			return remote.ErrPermission
		case answer.HasErrorLabel("RetryableWriteError"), answer.HasErrorLabel("TransientTransactionError"), answer.HasErrorLabel("SystemOverloadedError"):
			return remote.ErrTemporary
		}
	}

	_, network := errors.AsType[net.Error](err)
	switch {
	case has("x509: "):
		return remote.ErrCertificate
	case has("tls: "): // no TLS; a retry does not help
		return nil
	case has("unable to authenticate") && !has("eof", "connection reset", "broken pipe", "timed out", "timeout", "context "):
		return remote.ErrCredentials // perhaps another call failed and closed this connection
	case mongo.IsNetworkError(err), mongo.IsTimeout(err), network, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		has("server selection error", "connection pool"):
		return remote.ErrTemporary
	}

	return nil
}

// cleanText returns a text of the driver or the server that is safe to show: one
// short line of printable characters without secrets.
func (b *Backend) cleanText(text string) string {
	secrets := slices.DeleteFunc(slices.Clone(b.secrets), func(s string) bool { return s == "" })
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // one may be part of another
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return remote.OneLine(text, maxReason)
}
