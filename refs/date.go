package refs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DateForm is one of git's forms of a date. The zero DateForm is git's default form.
type DateForm struct {
	name   string
	layout string // of "format": text with the placeholders of strftime
	local  bool   // in the reader's zone instead of the writer's
}

// ErrDateForm is the error for the name of an unknown [DateForm].
var ErrDateForm = errors.New("not a form of dates")

// dateForms lists the names of the forms that [ParseDateForm] reads, with their main names.
var dateForms = map[string]string{
	"default": "", "iso": "iso", "iso8601": "iso", "iso-strict": "iso-strict", "iso8601-strict": "iso-strict",
	"rfc": "rfc", "rfc2822": "rfc", "short": "short", "relative": "relative", "human": "human", "raw": "raw", "unix": "unix",
}

// ParseDateForm reads the value of --date: default, iso, iso-strict, rfc, short,
// relative, human, raw, unix, or format:TEXT. TEXT has the placeholders of
// strftime. All but TEXT can end with "-local", and "local" means "default-local".
// The error matches [ErrDateForm].
func ParseDateForm(text string) (DateForm, error) {
	name, layout, custom := strings.Cut(text, ":")
	if name == "local" {
		name = "default-local"
	}
	name, local := strings.CutSuffix(name, "-local")
	if custom && name == "format" {
		return DateForm{"format", layout, local}, nil
	}
	main, known := dateForms[name]
	if !known || custom {
		return DateForm{}, fmt.Errorf("%w: %.64q", ErrDateForm, text)
	}
	return DateForm{main, "", local}, nil
}

// Layouts of forms, for package time.
const (
	gitDate      = "Mon Jan 2 15:04:05 2006 -0700"
	gitDateLocal = "Mon Jan 2 15:04:05 2006"
)

var dateLayouts = map[string]string{
	"iso":        "2006-01-02 15:04:05 -0700",
	"iso-strict": "2006-01-02T15:04:05-07:00",
	"rfc":        "Mon, 2 Jan 2006 15:04:05 -0700",
	"short":      time.DateOnly,
}

// Format returns a time in the form. The time is in the zone of its writer. Now is the
// present in the reader's zone; relative forms depend on it.
func (f DateForm) Format(at, now time.Time) string {
	if f.local {
		at = at.In(now.Location())
	}
	switch f.name {
	case "":
		if f.local {
			return at.Format(gitDateLocal)
		}
		return at.Format(gitDate)
	case "relative":
		return ago(at, now)
	case "human":
		return human(at, now)
	case "unix":
		return strconv.FormatInt(at.Unix(), 10)
	case "raw":
		return strconv.FormatInt(at.Unix(), 10) + at.Format(" -0700")
	case "format":
		return f.strftime(at)
	}
	return at.Format(dateLayouts[f.name])
}

// ago returns the age of a time as git words it: in one unit, and for some years in two.
func ago(at, now time.Time) string {
	count := func(n int64, unit string) string {
		if n == 1 {
			return "1 " + unit
		}
		return strconv.FormatInt(n, 10) + " " + unit + "s"
	}

	n := now.Unix() - at.Unix()
	if n < 0 {
		return "in the future"
	}
	if n < 90 {
		return count(n, "second") + " ago"
	}
	if n = (n + 30) / 60; n < 90 {
		return count(n, "minute") + " ago"
	}
	if n = (n + 30) / 60; n < 36 {
		return count(n, "hour") + " ago"
	}
	days := (n + 12) / 24
	switch {
	case days < 14:
		return count(days, "day") + " ago"
	case days < 70:
		return count((days+3)/7, "week") + " ago"
	case days < 365:
		return count((days+15)/30, "month") + " ago"
	case days >= 5*365:
		return count((days+183)/365, "year") + " ago"
	}
	months := (24*days + 365) / 730
	text := count(months/12, "year")
	if months%12 > 0 {
		text += ", " + count(months%12, "month")
	}
	return text + " ago"
}

// human returns a time with the parts that a reader at now needs: the age of a time of
// today, the weekday of the last days, the day of this year, and otherwise the date.
func human(at, now time.Time) string {
	year, month, day := at.Date()
	nowYear, nowMonth, nowDay := now.Date()
	switch {
	case year != nowYear:
		return at.Format("Jan 2 2006")
	case month == nowMonth && day == nowDay:
		return ago(at, now)
	case month == nowMonth && day < nowDay && nowDay < day+5:
		if zone, nowZone := at.Format("-0700"), now.Format("-0700"); zone != nowZone {
			return at.Format("Mon 15:04 -0700")
		}
		return at.Format("Mon 15:04")
	}
	return at.Format("Mon Jan 2 15:04")
}

// strftimeLayouts lists layouts for placeholders of strftime in the C locale. A value that
// begins with "%" stands for other placeholders.
var strftimeLayouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'c': "Mon Jan _2 15:04:05 2006", 'd': "02", 'D': "01/02/06",
	'e': "_2", 'F': time.DateOnly, 'H': "15", 'I': "03", 'j': "002", 'm': "01", 'M': "04", 'p': "PM", 'P': "pm",
	'r': "03:04:05 PM", 'R': "15:04", 'S': "05", 'T': time.TimeOnly, 'x': "01/02/06", 'X': time.TimeOnly, 'y': "06", 'Y': "2006", 'z': "-0700",
}

// strftime replaces the placeholders of strftime in the layout. A "-" in a placeholder
// leaves out the zeros and spaces before a number. Unknown placeholders stay.
func (f DateForm) strftime(at time.Time) string {
	var b strings.Builder
	for rest := f.layout; rest != ""; {
		before, after, found := strings.Cut(rest, "%")
		b.WriteString(before)
		if !found {
			break
		}
		verb, short := strings.CutPrefix(after, "-")
		text, known := "", false
		if verb != "" {
			text, known = f.strftimeField(verb[0], at)
		}
		if !known {
			b.WriteByte('%')
			rest = after
			continue
		}
		if short {
			text = strings.TrimLeft(text[:len(text)-1], "0 ") + text[len(text)-1:]
		}
		b.WriteString(text)
		rest = verb[1:]
	}
	return b.String()
}

// strftimeField returns the text of one placeholder of strftime.
func (f DateForm) strftimeField(verb byte, at time.Time) (text string, known bool) {
	isoYear, isoWeek := at.ISOWeek()
	number := func(width, n int) (string, bool) { return fmt.Sprintf("%0*d", width, n), true }
	switch verb {
	case '%':
		return "%", true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case 's':
		return strconv.FormatInt(at.Unix(), 10), true
	case 'C':
		return number(2, at.Year()/100)
	case 'g':
		return number(2, isoYear%100)
	case 'G':
		return number(4, isoYear)
	case 'k':
		return fmt.Sprintf("%2d", at.Hour()), true
	case 'l':
		return fmt.Sprintf("%2d", (at.Hour()+11)%12+1), true
	case 'u':
		return number(1, (int(at.Weekday())+6)%7+1)
	case 'U':
		return number(2, (at.YearDay()+6-int(at.Weekday()))/7)
	case 'V':
		return number(2, isoWeek)
	case 'w':
		return number(1, int(at.Weekday()))
	case 'W':
		return number(2, (at.YearDay()+6-(int(at.Weekday())+6)%7)/7)
	case 'Z':
		if f.local {
			text = at.Format("MST")
		}
		return text, true // the name of the writer's zone is unknown
	}
	layout, known := strftimeLayouts[verb]
	return at.Format(layout), known
}
