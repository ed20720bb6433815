package crypt

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// Pin is what the configuration of a repository knows of an encrypted remote. A store cannot
// replace the remote by one in clear, or by one with keys of its own.
type Pin struct {
	Remote [16]byte    // ID of the remote
	Key    Fingerprint // of the key of epoch 1
}

// String returns the form in the configuration: two times 32 lower-case hexadecimal digits, and a colon between them.
func (p Pin) String() string { return hex.EncodeToString(p.Remote[:]) + ":" + p.Key.String() }

// ParsePin reads the result of Pin.String.
func ParsePin(text string) (p Pin, err error) {
	id, key, _ := strings.Cut(text, ":")
	for _, part := range []struct {
		text string
		to   []byte
	}{{id, p.Remote[:]}, {key, p.Key[:]}} {
		b, err := hex.DecodeString(part.text)
		if err != nil || len(b) != len(part.to) {
			return Pin{}, fmt.Errorf("%q is not two times 32 hexadecimal digits with a colon between them", text)
		}
		copy(part.to, b)
	}
	if p.String() != text {
		return Pin{}, fmt.Errorf("%q has capital letters", text)
	}
	return p, nil
}
