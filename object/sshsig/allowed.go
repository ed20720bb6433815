package sshsig

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// The limits of a file of allowed signers.
const (
	MaxAllowedSigners = 1 << 20 // bytes
	maxAllowedLines   = 10_000  // with a key
	maxAllowedLine    = 64 << 10
)

// AllowedSigners are the keys that a user trusts, from a file in the format of ssh-keygen(1),
// "ALLOWED SIGNERS". Nil trusts nobody.
type AllowedSigners struct{ list []allowedSigner }

// allowedSigner is a line of the file.
type allowedSigner struct {
	principals    string // patterns, as the line has them
	namespaces    string // patterns; empty: all
	after, before time.Time
	authority     bool // the key signs certificates
	key           ssh.PublicKey
}

// AllowedError is the error for a line of a file of allowed signers.
type AllowedError struct {
	Line int
	Err  error
}

func (e *AllowedError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *AllowedError) Unwrap() error { return e.Err }

// ErrTooLarge is the error for a file of allowed signers beyond the limits.
var ErrTooLarge = errors.New("too many or too long lines")

// ParseAllowedSigners reads a file of allowed signers. Dates without a zone are in local. It skips
// keys of a kind that kist does not accept, which can fit no signature. Any other line that it
// does not understand is an [*AllowedError], because an option may limit the trust.
func ParseAllowedSigners(data []byte, local *time.Location) (*AllowedSigners, error) {
	if len(data) > MaxAllowedSigners {
		return nil, ErrTooLarge
	}
	a := &AllowedSigners{}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if len(line) > maxAllowedLine || len(a.list) == maxAllowedLines {
			return nil, &AllowedError{n, ErrTooLarge}
		}
		s, err := parseAllowed(line, local)
		if errors.Is(err, errKeyType) {
			continue
		}
		if err != nil {
			return nil, &AllowedError{n, err}
		}
		a.list = append(a.list, s)
	}
	return a, nil
}

// parseAllowed reads a line: principals, perhaps options, a key, and perhaps a comment.
func parseAllowed(line string, local *time.Location) (s allowedSigner, err error) {
	principals, rest, err := cutWord(line)
	if err != nil {
		return s, err
	}
	if s.principals = strings.Trim(principals, `"`); s.principals == "" || strings.ContainsFunc(s.principals, isControl) {
		return s, errors.New("no principal")
	}

	if !isKeyName(rest) {
		options, after, err := cutWord(rest)
		if err != nil {
			return s, err
		}
		if err := s.setOptions(options, local); err != nil {
			return s, err
		}
		rest = after
	}
	s.key, err = parseAllowedKey(rest)
	return s, err
}

// parseAllowedKey reads the key of a line. The error matches errKeyType for a well-formed key of
// another kind.
func parseAllowedKey(text string) (ssh.PublicKey, error) {
	words := strings.Fields(text)
	if len(words) < 2 || !isKeyName(words[0]) {
		return nil, errors.New("no public key")
	}
	if !slices.Contains(keyTypes, words[0]) {
		return nil, errKeyType
	}
	return parseKeyText(words[0] + " " + words[1])
}

// isKeyName reports whether a word names a kind of key, known or not. No option looks like one.
func isKeyName(word string) bool {
	for _, prefix := range []string{"ssh-", "ecdsa-", "sk-", "webauthn-", "rsa-"} {
		if strings.HasPrefix(word, prefix) {
			return true
		}
	}
	return false
}

// setOptions reads the options of a line. An unknown one is an error.
func (s *allowedSigner) setOptions(text string, local *time.Location) error {
	seen := map[string]bool{}
	for text != "" {
		option, rest, err := cutOption(text)
		if err != nil {
			return err
		}
		text = rest
		name, value, hasValue := strings.Cut(option, "=")
		name = strings.ToLower(name)
		if seen[name] {
			return fmt.Errorf("option %q twice", name)
		}
		seen[name] = true

		unquoted, wasQuoted := unquote(value)
		if hasValue != (name != "cert-authority") || hasValue && !wasQuoted {
			return fmt.Errorf("option %.64q: unknown, or without a value in quotes", option)
		}
		switch name {
		case "cert-authority":
			s.authority = true
		case "namespaces":
			if s.namespaces = unquoted; unquoted == "" {
				err = errors.New("no namespaces")
			}
		case "valid-after":
			s.after, err = parseDate(unquoted, local)
		case "valid-before":
			s.before, err = parseDate(unquoted, local)
		default:
			err = fmt.Errorf("option %.64q is unknown", name)
		}
		if err != nil {
			return err
		}
	}
	if !s.after.IsZero() && !s.before.IsZero() && !s.before.After(s.after) {
		return errors.New("valid-before is not after valid-after")
	}
	return nil
}

// parseDate reads a date as ssh-keygen does: YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS, and
// perhaps Z for UTC.
func parseDate(text string, local *time.Location) (time.Time, error) {
	digits, utc := strings.CutSuffix(text, "Z")
	if utc {
		local = time.UTC
	}
	layout := "20060102150405"
	if len(digits) == 8 || len(digits) == 12 || len(digits) == 14 {
		if at, err := time.ParseInLocation(layout[:len(digits)], digits, local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.64q is no date as in 20260131 or 202601311200Z", text)
}

// Verdict is the result of a check of a signature.
type Verdict string

// The results, the best one first.
const (
	Good       Verdict = "good"        // by a key that the user trusts
	UnknownKey Verdict = "unknown-key" // it fits, but no line of the allowed signers has the key
	Expired    Verdict = "expired"     // it fits, but its key did not count at that time
	Bad        Verdict = "bad"         // it does not fit, or is none
	None       Verdict = "none"        // there is no signature
)

// Result is the result of a check, with facts about the key as far as they are known.
type Result struct {
	Status      Verdict
	Principal   string // who signed, as the allowed signers name them; only if Good or Expired
	Fingerprint string // as in "SHA256:…"
	KeyType     string // as in "ED25519"
	Err         error  // the reason, if it is neither Good nor None
}

// The reasons for UnknownKey and Expired.
var (
	ErrNotAllowed = errors.New("no line of the allowed signers has this key")
	ErrNamespaces = errors.New("the allowed signers have the key, but not for this namespace")
	ErrDates      = errors.New("the key was not valid at that time")
	ErrAuthority  = errors.New("the allowed signers have the authority, but the certificate does not count")
)

// Check checks a signature of a message in a namespace, made at a time that the message states.
func (a *AllowedSigners) Check(namespace string, message, signature []byte, at time.Time) Result {
	if len(signature) == 0 {
		return Result{Status: None}
	}
	s, err := Parse(signature)
	if err != nil {
		return Result{Status: Bad, Err: err}
	}
	result := Result{Status: UnknownKey, Fingerprint: s.Fingerprint(), KeyType: s.KeyType(), Err: ErrNotAllowed}
	if err := s.Verify(namespace, message); err != nil {
		result.Status, result.Err = Bad, err
		return result
	}
	if a == nil {
		return result
	}

	for i := range a.list {
		who, err := a.list[i].judgeKey(s.key, namespace, at)
		switch {
		case err == nil:
			result.Status, result.Principal, result.Err = Good, who, nil
			return result
		case errors.Is(err, ErrDates):
			result.Status, result.Principal, result.Err = Expired, who, err
		case !errors.Is(err, ErrNotAllowed) && result.Status != Expired:
			result.Err = err
		}
	}
	return result
}

// judgeKey returns the principals for which a line allows a key, or the reason why it does not.
func (s *allowedSigner) judgeKey(key ssh.PublicKey, namespace string, at time.Time) (string, error) {
	who := s.principals
	cert, isCert := key.(*ssh.Certificate)
	switch {
	case !s.authority && !sameKey(s.key, key), s.authority && (!isCert || !sameKey(s.key, cert.SignatureKey)):
		return "", ErrNotAllowed
	case s.namespaces != "" && !matchList(namespace, s.namespaces):
		return "", ErrNamespaces
	}
	if s.authority {
		var err error
		if who, err = s.certifiedNames(cert, at); err != nil {
			return who, err
		}
	}
	if !s.after.IsZero() && at.Before(s.after) || !s.before.IsZero() && at.After(s.before) {
		return who, ErrDates
	}
	return who, nil
}

// certifiedNames returns the names in a certificate that the line allows.
func (s *allowedSigner) certifiedNames(cert *ssh.Certificate, at time.Time) (string, error) {
	var names []string
	for _, name := range cert.ValidPrincipals {
		if matchList(name, s.principals) && !strings.ContainsFunc(name, isControl) {
			names = append(names, name)
		}
	}
	if cert.CertType != ssh.UserCert || len(names) == 0 || cert.Signature == nil || cert.Signature.Format != signatureFormat(cert.SignatureKey) {
		return "", ErrAuthority
	}

	when := time.Unix(int64(min(cert.ValidAfter, 1<<62)), 0)
	checker := ssh.CertChecker{Clock: func() time.Time { return when }}
	if err := checker.CheckCert(names[0], cert); err != nil { // all but the time
		return "", fmt.Errorf("%w: %w", ErrAuthority, err)
	}
	who := strings.Join(names, ",")
	checker.Clock = func() time.Time { return at }
	if checker.CheckCert(names[0], cert) != nil {
		return who, ErrDates
	}
	return who, nil
}

// cutWord cuts the first word of a line. Blanks in double quotes belong to the word.
func cutWord(line string) (word, rest string, err error) {
	end, err := unquotedIndex(line, " \t")
	return line[:end], strings.TrimLeft(line[end:], " \t"), err
}

// cutOption cuts the first option of a list with commas.
func cutOption(list string) (option, rest string, err error) {
	end, err := unquotedIndex(list, ",")
	option = list[:end]
	if err == nil && (option == "" || end == len(list)-1) {
		err = errors.New("an empty option")
	}
	return option, strings.TrimPrefix(list[end:], ","), err
}

// unquotedIndex returns the index of the first of some characters that is in no double quotes, or
// the length of the text.
func unquotedIndex(text, chars string) (int, error) {
	quoted := false
	for i := range len(text) {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case !quoted && strings.IndexByte(chars, text[i]) >= 0:
			return i, nil
		}
	}
	if quoted {
		return len(text), errors.New("a quote that does not end")
	}
	return len(text), nil
}

// unquote returns a value without its double quotes. It reports whether it had them.
func unquote(value string) (string, bool) {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return value, false
	}
	inner := value[1 : len(value)-1]
	return inner, !strings.Contains(inner, `"`)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func decodeBase64(text string) ([]byte, error) { return base64.StdEncoding.DecodeString(text) }

// matchList reports whether a name matches one of the patterns in a list with commas, and none
// that begins with an exclamation mark.
func matchList(name, list string) bool {
	found := false
	for pattern := range strings.SplitSeq(list, ",") {
		negated, isNegated := strings.CutPrefix(pattern, "!")
		switch {
		case isNegated && matchPattern(name, negated):
			return false
		case !isNegated && pattern != "" && matchPattern(name, pattern):
			found = true
		}
	}
	return found
}

// matchPattern reports whether a name matches a pattern, in which * stands for any text and ? for
// one character. It takes no more steps than the product of both lengths.
func matchPattern(name, pattern string) bool {
	n, p, star, from := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			n++
			p++
		case star >= 0: // the star takes one character more
			from++
			n, p = from, star+1
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
