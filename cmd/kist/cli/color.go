package cli

// style is how a terminal shows a piece of text: the parameters of an SGR
// escape sequence.
type style string

const (
	bold    style = "1"
	dim     style = "2"
	red     style = "31"
	green   style = "32"
	yellow  style = "33"
	blue    style = "34"
	magenta style = "35"
	cyan    style = "36"

	boldRed    style = "1;31"
	boldGreen  style = "1;32"
	boldYellow style = "1;33"
	boldCyan   style = "1;36"
)

// paint returns text in the given style, for Stdout, if colours are wanted.
func (e *Env) paint(s style, text string) string {
	return paint(e.colored(e.Terminal.Stdout), s, text)
}

// paintErr returns text in the given style, for Stderr, if colours are wanted.
func (e *Env) paintErr(s style, text string) string {
	return paint(e.colored(e.Terminal.Stderr), s, text)
}

func paint(colored bool, s style, text string) string {
	if !colored || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[m"
}

// colored decides by --color, and if that leaves it open by whether the stream
// is a terminal that knows colours and nobody has objected with NO_COLOR.
func (e *Env) colored(terminal bool) bool {
	switch e.global.color {
	case "always":
		return true
	case "never":
		return false
	}
	return terminal && e.Getenv("NO_COLOR") == "" && e.Getenv("TERM") != "dumb"
}
