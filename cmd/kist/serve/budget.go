package serve

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/kist-vcs/kist/cmd/kist/serve/access"
)

// Places for costly requests. They may take all of a processor, and others are served beside
// them.
const (
	maxCostly      = 16 // at once
	maxOwnCostly   = 4  // of one client
	maxArchives    = 64 // at once
	maxOwnArchives = 4  // of one client
)

// maxOutput is the most bytes of an answer that is made for its request. Files have no limit.
const maxOutput = 256 << 20

// maxRanges is the most ranges of a request.
const maxRanges = 16

// errOutput means that an answer would be longer than its budget.
var errOutput = errors.New("the answer is too long")

// Budget bounds the work for a request, beside the limits that all requests share: its context
// ends when the client leaves, and a client that pauses is disconnected. A route has a function
// that returns the budgets of its requests.
type Budget struct {
	Time   time.Duration // until the answer is made; 0: any, because the client decides how fast it is read
	Output int64         // bytes of the answer; 0: any number
	Place  Slot
	Made   bool // the answer is made before its first byte is sent: then its place is free
}

// Slot is the sort of place that a request needs while the server works on it.
type Slot int

// The sorts of places. Each client can have some of them.
const (
	Cheap   Slot = iota // only the place that each request needs
	Costly              // searches, comparisons, lists
	Archive             // lasts as long as the client reads
)

// Work is the budget of a request whose answer is made before it is sent.
func Work(most time.Duration) Budget {
	return Budget{Time: most, Output: maxOutput, Place: Costly, Made: true}
}

// cheap is the budget of requests for files and for facts at hand.
func cheap(*http.Request) Budget { return Budget{} }

// giveBudgets gives each request its budget.
func (s *Server) giveBudgets(budget func(*http.Request) Budget, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := budget(r)
		if strings.Count(r.Header.Get("Range"), ",") >= maxRanges {
			r.Header.Del("Range") // each range may read a chunk, for a few bytes; the client gets all
		}
		if b.Time > 0 {
			ctx, stop := context.WithTimeout(r.Context(), b.Time)
			defer stop()
			r = r.WithContext(ctx)
		}
		leave, err := s.enterSlot(r, b.Place)
		if err != nil {
			s.site.Fail(w, r, err)
			return
		}
		defer leave()

		if a, ok := w.(*answer); ok {
			a.budget = b
			if b.Made {
				a.begun = leave
			}
		}
		next.ServeHTTP(w, r)
	})
}

// enterSlot waits for a place of a sort until the context of the request ends. Leave may be called
// more than once.
func (s *Server) enterSlot(r *http.Request, sort Slot) (leave func(), err error) {
	if sort == Cheap {
		return func() {}, nil
	}
	client := "user " + access.UserOf(r.Context()).Name
	if client == "user " {
		client = network(s.clientAddress(r)).String()
	}
	if sort == Archive {
		leave, err = s.archives.takePlace(client)
	} else {
		leave, err = s.costly.awaitPlace(r.Context(), client)
	}
	if err == nil {
		leave = sync.OnceFunc(leave)
	}
	return leave, err
}
