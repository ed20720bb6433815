package kist

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kist-vcs/kist/remote"
)

// docs/format/config.md lists each key, with its form and default.
func TestConfigKeysDocumented(t *testing.T) {
	page, err := os.ReadFile("docs/format/config.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range configKeys {
		found := false
		for line := range strings.Lines(string(page)) {
			cells := strings.Split(line, "|")
			if len(cells) != 6 || !strings.Contains(cells[1], "`"+k.Name+"`") {
				continue
			}
			found = true
			absent := ""
			if k.Default != "" {
				absent = "`" + k.Default + "`"
			}
			if !k.fixed && (strings.TrimSpace(cells[2]) != k.Form || strings.TrimSpace(cells[3]) != absent) {
				t.Errorf("%s is documented as %s, want the form %q and the default %q", k.Name, line, k.Form, absent)
			}
		}
		if !found {
			t.Errorf("docs/format/config.md lacks %s", k.Name)
		}
	}
}

// All keys have one spelling: small letters, with dashes between words.
func TestConfigKeySpelling(t *testing.T) {
	for _, k := range configKeys {
		if strings.Trim(k.Name, "abcdefghijklmnopqrstuvwxyz.-*") != "" {
			t.Errorf("%s has other characters than small letters and dashes", k.Name)
		}
	}
}

// The default of each key is a valid value.
func TestConfigKeyDefaults(t *testing.T) {
	for _, k := range ConfigKeys() {
		if k.Default == "" {
			continue
		}
		if err := k.check(ParseSetting(k.Name, k.Default)); err != nil {
			t.Errorf("default of %s: %v", k.Name, err)
		}
	}
	if _, size, err := parseAutoRepack("16MiB"); size != 16<<20 || err != nil {
		t.Errorf("parseAutoRepack(16MiB) = %d, %v", size, err)
	}
}

// A polynomial has exactly one valid form, with nothing before or after it.
func TestConfigPolynomial(t *testing.T) {
	for text, good := range map[string]bool{
		"0x3da3358b4dc173":         true,
		"0x3da3358b4dc173\n[user]": false, "0x3da3358b4dc173 ": false, "0x3da3358b4dc173,": false, " 0x3da3358b4dc173": false,
		"3da3358b4dc173": false, "0X3da3358b4dc173": false, "0x3DA3358B4DC173": false, "0x03da3358b4dc173": false, "0x+3da3358b4dc173": false, "0x": false, "": false,
		"0x3da3358b4dc17_3": false,
	} {
		c := &Config{}
		c.Chunker.Polynomial, c.Chunker.Min, c.Chunker.Average, c.Chunker.Max = text, 65536, 262144, 2097152
		if _, err := c.params(); (err == nil) != good {
			t.Errorf("%q: %v, want valid: %v", text, err, good)
		}
	}
}

func TestLineOf(t *testing.T) {
	file := "version = 1\n[gc]\n  auto = false\n\n[branch]\n  [branch.\"a.b\"]\n    merge = \"x\"\n"
	for key, want := range map[string]int{"version": 1, "gc.auto": 3, "branch.a.b.merge": 7, "gc.merge": 0} {
		if got := lineOf([]byte(file), splitKey(key)); got != want {
			t.Errorf("%s is on line %d, want %d", key, got, want)
		}
	}
}

func TestParseLock(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]remote.Lock{
		"": {}, "off": {Age: -1}, "30d": {Age: 30 * day}, "1d": {Age: day}, "30d,governance": {Age: 30 * day, Governance: true}, "3650d": {Age: 3650 * day},
	} {
		if got, err := ParseLock(text); err != nil || got != want {
			t.Errorf("ParseLock(%q) = %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"23h", "3651d", "never", "now", "x", "30d,compliance", ",governance", "off,governance", "-1d"} {
		if got, err := ParseLock(text); err == nil {
			t.Errorf("ParseLock(%q) = %+v, want an error", text, got)
		}
	}
}
