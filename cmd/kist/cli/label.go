package cli

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// labelTrailer begins a line of a commit's message that gives the commit a label. Such
// lines are in the last paragraph.
const labelTrailer = "Label: "

// labels returns the labels in the message of a commit.
func labels(message string) []string {
	var list []string
	for line := range strings.SplitSeq(message[strings.LastIndex(message, "\n\n")+1:], "\n") {
		if name, ok := strings.CutPrefix(line, labelTrailer); ok && name != "" {
			list = append(list, name)
		}
	}
	return list
}

// withLabels returns a message with labels at its end.
func withLabels(message string, names []string) string {
	if len(names) == 0 {
		return message
	}
	if len(labels(message)) == 0 {
		message += "\n"
	}
	return message + "\n" + labelTrailer + strings.Join(names, "\n"+labelTrailer)
}

// checkNames returns an error if the name of a host or label is not one line of printable
// text.
func checkNames(names ...string) error {
	for _, name := range names {
		if name == "" || len(name) > 255 || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || strings.TrimSpace(name) != name {
			return usagef("%s is no name of a host or label: it must be one line of at most 255 bytes, without spaces at its ends", quoteArg(name))
		}
	}
	return nil
}
