package remote

import (
	"errors"
	"strings"
)

var errOpenQuote = errors.New("a quote does not end")

// SplitWords splits a command into words as a shell does, with quotes and backslashes. Nothing
// else has a meaning. Commands are in the settings of some remotes, and in aliases.
func SplitWords(text string) (words []string, err error) {
	var word strings.Builder
	var quote rune
	started, escaped := false, false
	for _, r := range text {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			started, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			started, quote = true, r
		case quote == 0 && strings.ContainsRune(" \t\n", r):
			if started {
				words = append(words, word.String())
			}
			word.Reset()
			started = false
		default:
			word.WriteRune(r)
			started = true
		}
	}
	if quote != 0 || escaped {
		return nil, errOpenQuote
	}
	if started {
		words = append(words, word.String())
	}
	return words, nil
}
