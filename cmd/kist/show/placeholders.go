package show

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kist-vcs/kist/cmd/kist/cli"
	"github.com/kist-vcs/kist/object"
	"github.com/kist-vcs/kist/object/sshsig"
	"github.com/kist-vcs/kist/refs"
	"github.com/kist-vcs/kist/tree/look/log"
)

// item is a piece of a text with placeholders.
type item struct {
	write func(b []byte, t *printed) []byte
	magic byte     // '+', '-' or ' ' after the "%"; 0: none
	pad   *padding // nil: none
	inner []item   // with pad: the pieces to pad
}

// appendItems appends the pieces of a text.
func appendItems(b []byte, items []item, t *printed) []byte {
	for i := range items {
		it := &items[i]
		from := len(b)
		if it.pad != nil {
			b = it.pad.appendPadded(b, string(appendItems(nil, it.inner, t)))
		} else {
			b = it.write(b, t)
		}
		switch empty := len(b) == from; {
		case it.magic == '-' && empty:
			for len(b) > 0 && b[len(b)-1] == '\n' {
				b = b[:len(b)-1]
			}
		case it.magic == '+' && !empty:
			b = slices.Insert(b, from, '\n')
		case it.magic == ' ' && !empty:
			b = slices.Insert(b, from, ' ')
		}
	}
	return b
}

// compiler translates a text with placeholders.
type compiler struct {
	items []item
	auto  bool     // after %C(auto): hashes and names have their colours
	pad   *padding // of the next placeholder
	uses  uses
}

// compile returns the pieces of a text, never nil. As in git, an unknown placeholder
// stands for itself.
func compile(text string) ([]item, uses, error) {
	c := compiler{items: []item{}}
	for text != "" {
		before, after, found := strings.Cut(text, "%")
		c.addLiteral(before)
		if !found {
			break
		}
		if strings.HasPrefix(after, "%") {
			c.addLiteral("%")
			text = after[1:]
			continue
		}
		n, err := c.addPlaceholder(after)
		if err != nil {
			return nil, c.uses, err
		}
		if n == 0 {
			c.addLiteral("%")
		}
		text = after[n:]
	}
	return c.items, c.uses, nil
}

func (c *compiler) addLiteral(text string) {
	if text != "" {
		c.items = append(c.items, item{write: func(b []byte, _ *printed) []byte { return append(b, text...) }})
	}
}

// addPlaceholder adds the placeholder at the start of text, and returns its length. It
// returns 0 if there is none.
func (c *compiler) addPlaceholder(text string) (n int, err error) {
	var magic byte
	if text != "" && strings.IndexByte("+- ", text[0]) >= 0 {
		magic, n = text[0], 1
	}
	if n == 0 {
		if pad, length := parsePadding(text); pad != nil {
			c.pad = pad
			return length, nil
		}
	}
	it, length, err := c.findPlaceholder(text[n:])
	if err != nil || length == 0 {
		return n, err
	}
	n += length
	it.magic = magic
	if c.pad != nil {
		inner := []item{it}
		// A colour belongs to the placeholder directly after it.
		for strings.HasPrefix(text[n-length:], "C") && strings.HasPrefix(text[n:], "%") {
			var next item
			if next, length, err = c.findPlaceholder(text[n+1:]); err != nil {
				return n, err
			}
			if length == 0 {
				break
			}
			inner, n = append(inner, next), n+1+length
		}
		inner[0].magic = 0
		it = item{magic: magic, pad: c.pad, inner: inner}
		c.pad = nil
	}
	c.items = append(c.items, it)
	return n, nil
}

// findPlaceholder returns the placeholder at the start of text, without magic and padding, and its
// length: 0 if there is none.
func (c *compiler) findPlaceholder(text string) (it item, n int, err error) {
	if strings.HasPrefix(text, "C") {
		return c.colorPlaceholder(text)
	}
	if len(text) >= 3 && text[0] == 'x' {
		if code, err := hex.DecodeString(text[1:3]); err == nil {
			return item{write: func(b []byte, _ *printed) []byte { return append(b, code...) }}, 3, nil
		}
	}
	if len(text) >= 2 && (text[0] == 'a' || text[0] == 'c') {
		if field := personField(text[1]); field != nil {
			committer := text[0] == 'c'
			return item{write: func(b []byte, t *printed) []byte {
				if committer {
					return append(b, field(t, t.Committer)...)
				}
				return append(b, field(t, t.Author)...)
			}}, 2, nil
		}
	}
	for _, n := range []int{1, 2} {
		if len(text) < n {
			break
		}
		write := verbs[text[:n]]
		if painted := autoVerbs[text[:n]]; painted != nil && c.auto {
			write = painted
		}
		if write != nil {
			c.uses.names = c.uses.names || text[:n] == "d" || text[:n] == "D"
			c.uses.marks = c.uses.marks || text[:n] == "m"
			c.uses.signatures = c.uses.signatures || text[0] == 'G'
			return item{write: write}, n, nil
		}
	}
	return it, 0, nil
}

// verbs are the placeholders that need no parsing, except those of persons and colours.
var verbs = map[string]func(b []byte, t *printed) []byte{
	"n": func(b []byte, _ *printed) []byte { return append(b, '\n') },
	"H": func(b []byte, t *printed) []byte { return append(b, t.ID.String()...) },
	"h": func(b []byte, t *printed) []byte { return append(b, t.ID.Short()...) },
	"T": func(b []byte, t *printed) []byte { return append(b, t.Tree.String()...) },
	"t": func(b []byte, t *printed) []byte { return append(b, t.Tree.Short()...) },
	"P": func(b []byte, t *printed) []byte { return appendIDs(b, t.Parents, object.ID.String) },
	"p": func(b []byte, t *printed) []byte { return appendIDs(b, t.Parents, object.ID.Short) },
	"d": func(b []byte, t *printed) []byte { return t.appendNames(b, false, true) },
	"D": func(b []byte, t *printed) []byte { return t.appendNames(b, false, false) },
	"s": func(b []byte, t *printed) []byte {
		title, _ := t.splitMessage()
		return append(b, title...)
	},
	"f": func(b []byte, t *printed) []byte { return append(b, fileName(t.Safe(t.Commit.Message))...) },
	"b": func(b []byte, t *printed) []byte {
		_, body := t.splitMessage()
		return append(b, body...)
	},
	"B": func(b []byte, t *printed) []byte { return append(b, t.Safe(t.Commit.Message)...) },
	"m": func(b []byte, t *printed) []byte {
		if t.Mark == 0 {
			return append(b, '>')
		}
		return append(b, t.Mark)
	},
	"G?": func(b []byte, t *printed) []byte { return append(b, signatureLetters[t.checkedSignature().Status]...) },
	"GS": func(b []byte, t *printed) []byte { return append(b, t.Safe(t.checkedSignature().Principal)...) },
	"GK": func(b []byte, t *printed) []byte { return append(b, t.checkedSignature().Fingerprint...) },
	"GF": func(b []byte, t *printed) []byte { return append(b, t.checkedSignature().Fingerprint...) },
	"GP": func(b []byte, _ *printed) []byte { return b }, // as in git for ssh keys
	"GG": func(b []byte, t *printed) []byte {
		return append(b, t.Safe(cli.SignatureText(t.checkedSignature()))...)
	},
	"GT": func(b []byte, t *printed) []byte {
		if t.checkedSignature().Status == sshsig.Good {
			return append(b, "fully"...)
		}
		return append(b, "undefined"...)
	},
	"gD": func(b []byte, t *printed) []byte { return t.appendMove(b, func() string { return t.moveName(false) }) },
	"gd": func(b []byte, t *printed) []byte { return t.appendMove(b, func() string { return t.moveName(true) }) },
	"gs": func(b []byte, t *printed) []byte { return t.appendMove(b, func() string { return t.Reflog.Reason }) },
	"gn": func(b []byte, t *printed) []byte { return t.appendMove(b, func() string { return t.Reflog.Who.Name }) },
	"ge": func(b []byte, t *printed) []byte { return t.appendMove(b, func() string { return t.Reflog.Who.Email }) },
}

// signatureLetters are those of git for %G?.
var signatureLetters = map[sshsig.Verdict]string{
	sshsig.Good: "G", sshsig.UnknownKey: "U", sshsig.Expired: "Y", sshsig.Bad: "B", sshsig.None: "N",
}

// checkedSignature returns the result of the check of the commit's signature.
func (t *printed) checkedSignature() sshsig.Result {
	if t.signed == nil {
		result := sshsig.Result{Status: sshsig.None}
		if t.Signature != nil {
			result = t.Signature(object.Key{Kind: object.KindCommit, ID: t.ID})
		}
		t.signed = &result
	}
	return *t.signed
}

// autoVerbs replace verbs after %C(auto).
var autoVerbs = map[string]func(b []byte, t *printed) []byte{
	"H": func(b []byte, t *printed) []byte { return t.appendPainted(b, commitText, t.ID.String()) },
	"h": func(b []byte, t *printed) []byte { return t.appendPainted(b, commitText, t.ID.Short()) },
	"d": func(b []byte, t *printed) []byte { return t.appendNames(b, t.Color, true) },
	"D": func(b []byte, t *printed) []byte { return t.appendNames(b, t.Color, false) },
}

// appendMove appends a text about the move of a ref, if the log walks moves.
func (t *printed) appendMove(b []byte, text func() string) []byte {
	if t.Reflog == nil {
		return b
	}
	return append(b, t.Safe(text())...)
}

func appendIDs(b []byte, ids []object.ID, text func(object.ID) string) []byte {
	for i, id := range ids {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, text(id)...)
	}
	return b
}

// personField returns the function for a placeholder such as %an, by its second letter, or
// nil.
func personField(letter byte) func(t *printed, s object.Stamp) string {
	forms := map[byte]string{'D': "rfc", 'r': "relative", 't': "unix", 'i': "iso", 'I': "iso-strict", 's': "short", 'h': "human"}
	if name := forms[letter]; name != "" {
		form, _ := refs.ParseDateForm(name)
		return func(t *printed, s object.Stamp) string { return form.Format(s.When(), t.Now) }
	}
	switch letter {
	case 'n', 'N':
		return func(t *printed, s object.Stamp) string { return t.Safe(s.Name) }
	case 'e', 'E':
		return func(t *printed, s object.Stamp) string { return t.Safe(s.Email) }
	case 'l', 'L':
		return func(t *printed, s object.Stamp) string {
			local, _, _ := strings.Cut(s.Email, "@")
			return t.Safe(local)
		}
	case 'd':
		return (*printed).formatDate
	}
	return nil
}

// fileName returns the first line of a message as a name for files: letters, digits, dots
// and underscores. All else becomes a hyphen.
func fileName(message string) string {
	line, _, _ := strings.Cut(log.SkipBlank(message), "\n")
	var out []byte
	gap := false
	for i := range len(line) {
		c := line[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_') {
			gap = true
			continue
		}
		if c == '.' && !gap && len(out) > 0 && out[len(out)-1] == '.' {
			continue
		}
		if gap && len(out) > 0 {
			out = append(out, '-')
		}
		gap = false
		out = append(out, c)
	}
	return strings.TrimRight(string(out), ".-")
}

// colorPlaceholder returns the placeholder of a colour.
func (c *compiler) colorPlaceholder(text string) (it item, n int, err error) {
	paint := func(code string, always bool) item {
		return item{write: func(b []byte, t *printed) []byte {
			if t.Color || always {
				b = append(b, code...)
			}
			return b
		}}
	}
	for name, code := range map[string]string{"Cred": "\x1b[31m", "Cgreen": "\x1b[32m", "Cblue": "\x1b[34m", "Creset": reset} {
		if strings.HasPrefix(text, name) {
			c.auto = false
			return paint(code, false), len(name), nil
		}
	}
	spec, _, ok := strings.Cut(strings.TrimPrefix(text, "C("), ")")
	if !ok || !strings.HasPrefix(text, "C(") {
		return it, 0, nil
	}
	n = len("C()") + len(spec)
	if spec == "auto" {
		c.auto = true
		return item{write: func(b []byte, t *printed) []byte {
			if t.Color && len(b) > 0 {
				b = append(b, reset...)
			}
			return b
		}}, n, nil
	}
	c.auto = false
	spec = strings.TrimPrefix(spec, "auto,")
	spec, always := strings.CutPrefix(spec, "always,")
	code, err := parseColor(spec)
	return paint(code, always), n, err
}

var (
	colorNames   = []string{"black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"}
	attributes   = map[string]string{"bold": "1", "dim": "2", "italic": "3", "ul": "4", "blink": "5", "reverse": "7", "strike": "9"}
	attributeOff = map[string]string{"bold": "22", "dim": "22", "italic": "23", "ul": "24", "blink": "25", "reverse": "27", "strike": "29"}
)

// parseColor returns the escape sequence of a colour in git's words, such as "bold red" or
// "yellow blue": attributes, the colour of the text, the colour behind it.
func parseColor(spec string) (string, error) {
	if spec == "reset" {
		return reset, nil
	}
	var styles, colors []string
	count := 0
	for word := range strings.FieldsSeq(spec) {
		name := strings.TrimPrefix(strings.TrimPrefix(word, "no"), "-")
		if off := attributeOff[name]; off != "" && name != word {
			styles = append(styles, off)
			continue
		}
		if code := attributes[word]; code != "" {
			styles = append(styles, code)
			continue
		}
		code, ok := colorCode(word, count > 0)
		if !ok || count == 2 {
			return "", fmt.Errorf("%w: colour %.32q", ErrFormat, spec)
		}
		count++
		if code != "" {
			colors = append(colors, code)
		}
	}
	if len(styles)+len(colors) == 0 {
		return "", nil
	}
	slices.Sort(styles)
	return "\x1b[" + strings.Join(append(slices.Compact(styles), colors...), ";") + "m", nil
}

// colorCode returns the SGR parameters of a colour.
func colorCode(word string, behind bool) (code string, ok bool) {
	base, extended := 30, "38"
	if behind {
		base, extended = 40, "48"
	}
	name, bright := strings.CutPrefix(word, "bright")
	if i := slices.Index(colorNames, name); i >= 0 {
		if bright {
			base += 60
		}
		return strconv.Itoa(base + i), true
	}
	switch word {
	case "normal":
		return "", true
	case "default":
		return strconv.Itoa(base + 9), true
	}
	if rgb, ok := strings.CutPrefix(word, "#"); ok && len(rgb) == 6 {
		v, err := hex.DecodeString(rgb)
		if err != nil {
			return "", false
		}
		return fmt.Sprintf("%s;2;%d;%d;%d", extended, v[0], v[1], v[2]), true
	}
	n, err := strconv.ParseUint(word, 10, 8)
	switch {
	case err != nil:
		return "", false
	case n < 8:
		return strconv.Itoa(base + int(n)), true
	case n < 16:
		return strconv.Itoa(base + 60 + int(n) - 8), true
	}
	return extended + ";5;" + strconv.FormatUint(n, 10), true
}
