package cli

import (
	"strings"
	"testing"
)

// TestLogWithoutSecrets checks the lines of the log of KIST_DEBUG.
func TestLogWithoutSecrets(t *testing.T) {
	for line, want := range map[string]string{
		`msg=note`: `msg=note`,
		`url=https://host/a/b?X-Amz-Signature=1 more=2`:       `url=https://host/a/b more=2`,
		`args="[clone mongodb://ada:pw@h1,h2/db?x=1 b]"`:      `args="[clone mongodb://h1,h2/db b]"`,
		`error="Get \"https://ada:p/w@host/x?token=1\": EOF"`: `error="Get \"https://host/x\": EOF"`,
		`url=s3://ada@bucket?endpoint=http://k:s@host`:        `url=s3://host/`, // all up to the last @ may be a password
		`file=/srv/a?b@c:d`: `file=/srv/a?b@c:d`,
	} {
		var out strings.Builder
		if n, err := (withoutSecrets{&out}).Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("%s: wrote %d bytes, %v", line, n, err)
		}
		if got := out.String(); got != want {
			t.Errorf("%s: the log has %s, want %s", line, got, want)
		}
	}
}
