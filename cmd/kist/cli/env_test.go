package cli

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/jsonform"
)

func TestColors(t *testing.T) {
	for _, test := range []struct {
		flag, noColor, term string
		terminal, want      bool
	}{
		{"auto", "", "xterm", true, true},
		{"auto", "", "xterm", false, false},
		{"auto", "1", "xterm", true, false},
		{"auto", "", "dumb", true, false},
		{"always", "1", "dumb", false, true},
		{"never", "", "xterm", true, false},
	} {
		env, _, _ := testEnv(t)
		env.Global.Color = test.flag
		env.Terminal.Stdout = test.terminal
		env.Getenv = func(name string) string {
			return map[string]string{"NO_COLOR": test.noColor, "TERM": test.term}[name]
		}
		if got := strings.Contains(env.Paint(Red, "x"), "\x1b"); got != test.want {
			t.Errorf("%+v: colour: %t, want %t", test, got, test.want)
		}
	}
}

func TestAuthor(t *testing.T) {
	env, _, _ := testEnv(t)
	if name, email := author(env, "", ""); name != "anna" || email != "anna@chest.example" {
		t.Errorf("without settings: %s <%s>", name, email)
	}
	if name, email := author(env, "A", "a@b"); name != "A" || email != "a@b" {
		t.Errorf("from the configuration: %s <%s>", name, email)
	}
	env.Getenv = func(name string) string { return name }
	if name, email := author(env, "A", "a@b"); name != "KIST_AUTHOR_NAME" || email != "KIST_AUTHOR_EMAIL" {
		t.Errorf("from the environment: %s <%s>", name, email)
	}
}

func TestCommitTime(t *testing.T) {
	env, _, _ := testEnv(t)
	if got, err := commitTime(env); err != nil || !got.Equal(env.Now()) {
		t.Errorf("without KIST_DATE: %v, %v", got, err)
	}
	env.Getenv = func(string) string { return "2020-02-29T23:59:59.5+01:00" }
	if got, err := commitTime(env); err != nil || !got.Equal(time.Date(2020, 2, 29, 22, 59, 59, 5e8, time.UTC)) {
		t.Errorf("with KIST_DATE: %v, %v", got, err)
	}
	env.Getenv = func(string) string { return "yesterday" }
	if _, err := commitTime(env); err == nil || OutcomeOf(err).Exit != ExitUsage {
		t.Errorf("with an invalid KIST_DATE: %v, want a usage error", err)
	}
}

// Flush returns an error if a result could not be encoded.
func TestJSONError(t *testing.T) {
	env, stdout, _ := testEnv(t)
	out := newResults(stdout, false)
	env.Stdout = out
	env.Global.JSON = true
	env.JSON(math.NaN())
	if err := out.Flush(); err == nil {
		t.Error("Flush returned no error after NaN")
	}
}

func TestRawPath(t *testing.T) {
	env, stdout, _ := testEnv(t)
	env.Global.JSON = true
	type entry struct {
		Path    string `json:"path"`
		PathRaw []byte `json:"path_raw,omitempty"`
	}
	for _, path := range []string{"<a>", "b\xff"} {
		env.JSON(entry{path, jsonform.Raw(path)})
	}
	want := `{"path":"<a>"}` + "\n" + `{"path":"b\ufffd","path_raw":"Yv8="}` + "\n"
	if got := stdout.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
