package trace

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestLog(t *testing.T) {
	now := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	var out strings.Builder
	ctx := With(t.Context(), New(&out, func() time.Time { now = now.Add(time.Second); return now }, "pid", 7))
	end := From(ctx).Begin("get", "name", "a\nb")
	From(ctx).Note("hello")
	end(errors.New("broken"), "status", 500)
	want := `time=2026-11-27T10:00:02.000Z msg="begin get" pid=7 step=1 name="a\nb"
time=2026-11-27T10:00:03.000Z msg=hello pid=7
time=2026-11-27T10:00:05.000Z msg="end get" pid=7 step=1 took=3s status=500 error=broken
`
	if out.String() != want {
		t.Errorf("the log has\n%s\nwant\n%s", &out, want)
	}
}

func TestNoLog(t *testing.T) {
	From(context.Background()).Note("hello")
	From(context.Background()).Begin("get")(nil)
}
