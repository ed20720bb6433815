package retain

import "time"

// period is what a rule keeps one commit of.
type period int

const (
	commit period = iota // each commit is one by itself
	hour
	day
	week
	month
	year
)

// names are how reasons call them.
var names = [...]string{hour: "hour", day: "day", week: "week", month: "month", year: "year"}

// of returns which one of its kind t lies in, by the clock of t's zone. An hour
// is told by the moment at which it began: the one that there is twice when
// summer ends is two.
func (p period) of(t time.Time) [3]int64 {
	switch y, m, d := t.Date(); p {
	case hour:
		return [3]int64{t.Unix() - int64(t.Minute()*60+t.Second())}
	case day:
		return [3]int64{int64(y), int64(m), int64(d)}
	case week:
		y, w := t.ISOWeek()
		return [3]int64{int64(y), int64(w)}
	case month:
		return [3]int64{int64(y), int64(m)}
	default:
		return [3]int64{int64(y)}
	}
}
