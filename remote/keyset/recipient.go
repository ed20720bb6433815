package keyset

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strings"

	"filippo.io/age"
	"filippo.io/age/agessh"
	"filippo.io/age/plugin"
	"filippo.io/age/tag"
	"golang.org/x/crypto/ssh"
)

const maxRecipientSize = 8 << 10 // bytes; a line of authorized_keys has at most as many

// ParseRecipient returns the canonical form of a public key: age1pq…, age1…, that of a plugin, or a key of ssh
// without its comment. The error matches [ErrRecipient], or [ErrSecret] for an identity; it does not
// show the text of an identity.
func ParseRecipient(text string) (string, error) {
	text = strings.TrimSpace(text)
	if isSecret(text) {
		return "", ErrSecret
	}
	bad := func() (string, error) { return "", fmt.Errorf("%w: %.40q", ErrRecipient, text) }
	if len(text) > maxRecipientSize || strings.ContainsAny(text, "\n\r") {
		return bad()
	}

	if strings.HasPrefix(text, "ssh-") { // the comment may have any letters
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
		if err != nil {
			return bad()
		}
		text = strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
	} else {
		if strings.ToUpper(text) == text {
			text = strings.ToLower(text) // Bech32 means the same in upper case, as in a QR code
		}
	}
	if _, err := recipientOf(text); err != nil {
		return bad()
	}
	return text, nil
}

// isSecret reports whether a text looks like an identity.
func isSecret(text string) bool {
	upper := strings.ToUpper(text)
	return strings.Contains(upper, "AGE-SECRET-KEY-") || strings.Contains(upper, "AGE-PLUGIN-") || strings.Contains(upper, "PRIVATE KEY")
}

// recipientOf returns age's form of a public key in canonical form, nil if a plugin must run for it.
func recipientOf(key string) (age.Recipient, error) {
	switch {
	case isTagged(key):
		return tag.ParseRecipient(key)
	case strings.HasPrefix(key, "age1pq1"):
		return age.ParseHybridRecipient(key)
	case pluginOf(key) != "":
		_, _, err := plugin.ParseRecipient(key)
		return nil, err
	case strings.HasPrefix(key, "age1"):
		return age.ParseX25519Recipient(key)
	default:
		return agessh.ParseRecipient(key)
	}
}

// pluginOf returns the name of the plugin that encrypts to a public key, "" if kist does.
func pluginOf(key string) string {
	data, ok := strings.CutPrefix(key, "age1")
	end := strings.LastIndexByte(data, '1')
	if !ok || end < 0 || strings.HasPrefix(key, "age1pq1") || isTagged(key) {
		return ""
	}
	return data[:end]
}

// isTagged reports whether a key lies in hardware, but needs no plugin to encrypt to it.
func isTagged(key string) bool {
	return strings.HasPrefix(key, "age1tag1") || strings.HasPrefix(key, taggedHybrid)
}

const taggedHybrid = "age1tagpq1"

// Kind returns the envelope that the recipient opens.
func (r Recipient) Kind() Kind {
	if strings.HasPrefix(r.Key, "age1pq1") || strings.HasPrefix(r.Key, taggedHybrid) {
		return Hybrid
	}
	return Classic
}

// NamedKey is a public key from a file, and the comment beside it.
type NamedKey struct {
	Key  string // in the form of [ParseRecipient]
	Name string // the comment of a key of ssh; may be empty
}

// ParseRecipients reads public keys, one on each line, as in a file of age or of ssh. Empty lines and
// comments are skipped. The errors are those of [ParseRecipient].
func ParseRecipients(data []byte) (keys []NamedKey, err error) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if isSecret(line) {
			return nil, ErrSecret
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := ParseRecipient(line)
		if err != nil {
			return nil, err
		}
		named := NamedKey{Key: key}
		if fields := strings.Fields(line); strings.HasPrefix(key, "ssh-") && len(fields) > 2 {
			named.Name = strings.Join(fields[2:], " ")
		}
		keys = append(keys, named)
	}
	if lines.Err() != nil || len(keys) == 0 || len(keys) > MaxRecipients {
		return nil, fmt.Errorf("%w: no line, too many, or a line that is too long", ErrRecipient)
	}
	return slices.Clip(keys), nil
}
