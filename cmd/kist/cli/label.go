package cli

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kist-vcs/kist/cmd/kist/jsonform"
)

// WithLabels returns a message with labels at its end.
func WithLabels(message string, names []string) string {
	if len(names) == 0 {
		return message
	}
	if len(jsonform.Labels(message)) == 0 {
		message += "\n"
	}
	return message + "\n" + jsonform.LabelTrailer + strings.Join(names, "\n"+jsonform.LabelTrailer)
}

// CheckNames returns an error if the name of a host or label is not one line of printable
// text.
func CheckNames(names ...string) error {
	for _, name := range names {
		if name == "" || len(name) > 255 || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || strings.TrimSpace(name) != name {
			return Usagef("%s is no name of a host or label: it must be one line of at most 255 bytes, without spaces at its ends", QuoteArg(name))
		}
	}
	return nil
}
