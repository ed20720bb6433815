package keyset

import (
	"strings"
	"testing"
)

// FuzzParseRecipients checks that each public key that is read is in its canonical form, and that no identity is taken for one.
func FuzzParseRecipients(f *testing.F) {
	identity, err := NewIdentity()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(identity.Recipient() + "\n# a comment\n\nage1re806xllah8zhpks2sankfmu6g8fw2y7k5u3uvgqjnpxfq2cjyrq684p58\n"))
	f.Add([]byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPKSUTyz1HwHReFVvD5obVsALAgJRNarH4TRpNePnAS anna at a desk\n"))
	f.Add([]byte(strings.ToUpper("age1re806xllah8zhpks2sankfmu6g8fw2y7k5u3uvgqjnpxfq2cjyrq684p58")))
	f.Add([]byte(identity.Secret()))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, err := ParseRecipients(data)
		if err != nil {
			return
		}
		if len(keys) == 0 || len(keys) > MaxRecipients {
			t.Fatalf("%d keys without an error", len(keys))
		}
		for _, key := range keys {
			if again, err := ParseRecipient(key.Key); err != nil || again != key.Key {
				t.Fatalf("%q read again is %q, %v", key.Key, again, err)
			}
			if isSecret(key.Key) {
				t.Fatalf("an identity is taken for a public key: %q", key.Key)
			}
		}
	})
}

// FuzzParsePaper checks that an identity from paper is the same one after it was written again.
func FuzzParsePaper(f *testing.F) {
	identity, err := NewIdentity()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(identity.Paper())
	f.Add(strings.ToLower(identity.Secret()))
	f.Add("AGE-SECRET-KEY-1QQQ")
	f.Fuzz(func(t *testing.T, text string) {
		read, err := ParsePaper(text)
		if err != nil {
			return
		}
		if again, err := ParsePaper(read.Paper()); err != nil || again.Secret() != read.Secret() {
			t.Fatalf("an identity is another one after it was written: %v", err)
		}
	})
}
