package retain

import "time"

// period is a length of time. A rule keeps one commit for each.
type period int

const (
	commit period = iota // every commit has its own
	hour
	day
	week
	month
	year
)

// names are the names of periods in reasons.
var names = [...]string{hour: "hour", day: "day", week: "week", month: "month", year: "year"}

// of returns the period that contains t, by the clock of t's zone. An hour is
// identified by the moment at which it begins, so the repeated hour at the end
// of summer time counts as two.
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
