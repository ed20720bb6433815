package s3

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"

	"github.com/kist-vcs/kist/remote"
	"github.com/kist-vcs/kist/remote/httpclient"
)

// maxReason limits the text of a store's reason, in bytes.
const maxReason = 400

// cause is the cause of a failure with a text that can be shown.
type cause struct {
	text string
	err  error // may be nil
}

func (c *cause) Error() string { return c.text }
func (c *cause) Unwrap() error { return c.err }

// convertError turns the error of a request into one of package remote.
func (b *Backend) convertError(ctx context.Context, op, name string, a *answer, err error) error {
	e := &remote.Error{Op: op, Name: name}
	if resp := minio.ToErrorResponse(err); resp.StatusCode != 0 {
		e.Kind = kindOf(op, resp)
		if httpclient.IsHTML(a.header) && e.Kind == remote.ErrNotFound {
			e.Kind = nil // this is no S3 server, so the blob's state is unknown
		}
		e.Wait = httpclient.WaitAsked(a.header, b.now())
		e.Err = b.reasonFor(op, resp, a)
		if isDeleted(op, name, a.header) {
			e.Kind, e.Err = remote.ErrDamaged, errDeleted
		}
		return e
	}
	if ctx.Err() != nil {
		e.Err = ctx.Err()
		return e
	}
	if a.err != nil {
		err = a.err
	}

	local, isLocal := errors.AsType[*bodyError](err)
	_, noCredentials := errors.AsType[*credentialsError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case isLocal:
		e.Err = local.err
		return e
	case noCredentials:
		e.Kind, e.Err = remote.ErrCredentials, &cause{b.cleanText(err.Error()), err}
		return e
	case a.err == nil && a.status == 0: // no request was made
	case untrusted:
		e.Kind = remote.ErrCertificate
	case httpclient.IsPlain(err), errors.Is(err, errEndless):
	default:
		e.Kind = remote.ErrTemporary
	}

	e.Err = b.unanswered(err)
	return e
}

// unanswered returns the cause of a request without an answer. It leaves out
// the request's URL.
func (b *Backend) unanswered(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}

	text := b.cleanText(err.Error())
	dial, _ := errors.AsType[*net.OpError](err)
	certificate, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case untrusted:
		text = fmt.Sprintf("the certificate of %s is not trusted: %s", b.endpoint.Host, b.cleanText(certificate.Err.Error()))
	case err == io.EOF, err == io.ErrUnexpectedEOF:
		text = "the connection was closed too early"
	case httpclient.IsPlain(err):
		text = fmt.Sprintf("%s does not use TLS: write endpoint=http://… to reach it without", b.endpoint.Host)
	case dial != nil && dial.Op == "dial":
		text = fmt.Sprintf("%s cannot be reached: %s", b.endpoint.Host, text)
	}

	return &cause{text, err}
}

// kindOf returns the kind of an error in the store's answer. The codes are
// those of S3, MinIO and other stores.
func kindOf(op string, resp minio.ErrorResponse) error {
	if lacksLock(resp) {
		return remote.ErrUnsupported
	}
	switch resp.Code {
	case codeNoRanges:
		return remote.ErrUnsupported
	case codeArchived:
		return nil
	case codeClass:
		return remote.ErrUnsupported
	case "NoSuchBucket":
		return remote.ErrNoStore
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "InvalidTokenId", "TokenRefreshRequired",
		"InvalidSecurity", "NotSignedUp", codeClock, "RequestExpired", "UnauthorizedAccess":
		return remote.ErrCredentials
	case "QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "InsufficientStorage", "StorageCapExceeded":
		return remote.ErrFull
	case "SlowDown", "SlowDownRead", "SlowDownWrite", "RequestTimeout", "InternalError", "BadDigest", "IncompleteBody",
		"Throttling", "ThrottlingException", "RequestLimitExceeded", "OperationAborted":
		return remote.ErrTemporary
	}

	switch status := resp.StatusCode; {
	case status == http.StatusNotFound && op == "list":
		return remote.ErrNoStore
	case status == http.StatusNotFound:
		return remote.ErrNotFound
	case status == http.StatusPreconditionFailed:
		return remote.ErrExists
	case status == http.StatusUnauthorized:
		return remote.ErrCredentials
	case status == http.StatusForbidden:
		return remote.ErrPermission
	case status == http.StatusNotImplemented:
		return remote.ErrUnsupported
	case status == http.StatusInsufficientStorage:
		return remote.ErrFull
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusTooEarly,
		status == http.StatusTooManyRequests, status == 499, status >= 500:
		return remote.ErrTemporary
	}

	return nil
}

// Codes of S3 that mean something special. The first one is made up: no store sends it.
const (
	codeNoRanges = "no ranges"
	codeClock    = "RequestTimeTooSkewed"
	codeArchived = "InvalidObjectState"
	codeClass    = "InvalidStorageClass"
)

// ownWords has the causes that are more than the store's reason, by the code of S3.
var ownWords = map[string]error{codeClock: remote.ErrClock, codeArchived: remote.ErrArchived, codeClass: remote.ErrClass}

// reasonFor returns the store's reason for an error, in its own words.
func (b *Backend) reasonFor(op string, resp minio.ErrorResponse, a *answer) error {
	text := b.cleanText(resp.Message)
	if httpclient.IsHTML(a.header) {
		text = "a page of HTML, not an answer of S3" // from a proxy or a server that is no S3
	}

	code := b.cleanText(resp.Code)
	if resp.Code == "NoSuchBucket" {
		text = fmt.Sprintf("bucket %q does not exist at %s: %s", b.bucket, b.endpoint.Host, text)
	}
	own := ownWords[resp.Code]
	if own != nil {
		text = own.Error() + ": " + text
	}
	if text == "" {
		text = cmp.Or(code, http.StatusText(resp.StatusCode))
	}
	if strings.Contains(code, " ") || code == text { // the status instead of a code
		code = ""
	} else {
		code += ", "
	}

	text = fmt.Sprintf("%s (%sHTTP %d)", text, code, resp.StatusCode)
	if resp.StatusCode == http.StatusForbidden && resp.Code == minio.AccessDenied && (op == "get" || op == "stat") {
		text += "; if it may just not be there: without the permission s3:ListBucket that is answered so too"
	}

	return &cause{text, own}
}

// cleanText returns a text of the store that is safe to show: one short line of
// printable characters without credentials.
func (b *Backend) cleanText(text string) string {
	return remote.OneLine(b.source.redactSecrets(text), maxReason)
}
