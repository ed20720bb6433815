package blame

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kist-vcs/kist/tree"
)

// ParseLines reads git's form of a range of lines: START,END. Each is a number or /RE/. END
// can also be +N or -N, a number of lines from START. Without END, the range goes to the end of
// text. /RE/ as START is searched from the line with number after, and ^/RE/ from the first line.
// :RE stands for the lines from a heading that matches, as hunks have it, up to the next heading.
func ParseLines(spec string, text []string, after int) (Lines, error) {
	if again, ok := strings.CutPrefix(spec, "^:"); ok {
		spec, after = ":"+again, 0
	}
	if re, ok := strings.CutPrefix(spec, ":"); ok {
		return findSection(re, text, after)
	}
	lo, rest, err := lineAt(spec, text, after)
	if err != nil {
		return Lines{}, err
	}
	if lo >= len(text) {
		return Lines{}, fmt.Errorf("the file has only %d lines", len(text))
	}

	end, hasEnd := strings.CutPrefix(rest, ",")
	hi := len(text)
	switch sign := strings.TrimLeft(end, "+-"); {
	case !hasEnd && rest != "":
		return Lines{}, fmt.Errorf("unexpected %q at the end", rest)
	case end == "":
	case sign != end:
		n, err := strconv.Atoi(end)
		if err != nil || n == 0 {
			return Lines{}, fmt.Errorf("%q is not a number of lines", end)
		}
		if n < 0 {
			return Lines{max(lo+1+n, 0), lo + 1}, nil
		}
		hi = lo + min(n, len(text)) // no overflow
	default:
		last, rest, err := lineAt(end, text, lo+1)
		if err != nil {
			return Lines{}, err
		}
		if rest != "" {
			return Lines{}, fmt.Errorf("unexpected %q at the end", rest)
		}
		lo, hi = min(lo, last), max(lo, last)+1
	}
	return Lines{lo, min(hi, len(text))}, nil
}

// findSection returns the lines from a heading that matches a regular expression up to the next
// heading.
func findSection(pattern string, text []string, after int) (Lines, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return Lines{}, err
	}
	for lo := after; lo < len(text); lo++ {
		if tree.IsHeading(text[lo]) && re.MatchString(strings.TrimSuffix(text[lo], "\n")) {
			hi := lo + 1
			for hi < len(text) && !tree.IsHeading(text[hi]) {
				hi++
			}
			return Lines{lo, hi}, nil
		}
	}
	return Lines{}, fmt.Errorf("no heading matches %q from line %d on", pattern, after+1)
}

// linesOfFile matches a range, a colon and a path.
var linesOfFile = sync.OnceValue(func() *regexp.Regexp {
	const place = `(?:[+-]?[0-9]+|\^?/(?:[^\\/]|\\.)*/|)`
	return regexp.MustCompile(`(?s)^(\^?:(?:[^\\:]|\\.)+|` + place + `(?:,` + place + `)?):(.+)$`)
})

// CutPath splits git's form of a range of lines of a file, RANGE:PATH.
func CutPath(text string) (spec, path string, ok bool) {
	m := linesOfFile().FindStringSubmatch(text)
	if m == nil || m[1] == "" {
		return "", "", false
	}
	return m[1], m[2], true
}

// lineAt returns the line that the start of spec names, and the rest of spec.
func lineAt(spec string, text []string, after int) (line int, rest string, err error) {
	if again, ok := strings.CutPrefix(spec, "^/"); ok {
		spec, after = "/"+again, 0
	}
	if !strings.HasPrefix(spec, "/") {
		digits, _, _ := strings.Cut(spec, ",")
		rest = spec[len(digits):]
		if digits == "" {
			return 0, rest, nil
		}
		n, err := strconv.Atoi(digits)
		if err != nil || n < 1 {
			return 0, rest, fmt.Errorf("%q is not a line number", digits)
		}
		return n - 1, rest, nil
	}

	end := 1
	for end < len(spec) && spec[end] != '/' {
		if spec[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(spec) {
		return 0, "", fmt.Errorf("the / at the end of the regular expression is missing")
	}
	re, err := regexp.Compile(strings.ReplaceAll(spec[1:end], `\/`, "/"))
	if err != nil {
		return 0, "", err
	}
	for i := after; i < len(text); i++ {
		if re.MatchString(strings.TrimSuffix(text[i], "\n")) {
			return i, spec[end+1:], nil
		}
	}
	return 0, "", fmt.Errorf("no line matches %q from line %d on", spec[1:end], after+1)
}

// JoinLines returns ranges in order, with those joined that overlap or touch.
func JoinLines(list []Lines) []Lines {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b Lines) int { return a.Lo - b.Lo })
	out := list[:0]
	for _, r := range list {
		if n := len(out); n > 0 && r.Lo <= out[n-1].Hi {
			out[n-1].Hi = max(out[n-1].Hi, r.Hi)
			continue
		}
		out = append(out, r)
	}
	return out
}
