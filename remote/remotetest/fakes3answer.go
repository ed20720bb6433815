package remotetest

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// S3Answer replaces the right answer of a [FakeS3] to a request.
type S3Answer struct {
	// Status, Code and Message are the error to answer; Status 0: no error.
	Status        int
	Code, Message string
	Header        http.Header // added to the answer, also to a good one

	Effect bool // a PUT or DELETE takes effect in spite of the faults below
	Reset  bool // the connection is reset instead of an answer
	Stuck  bool // there is no answer until the client goes away

	// Slow is the delay before each 4 KiB of a GET's body.
	Slow time.Duration

	// Body replaces the object of a GET, before its range is cut. It must not
	// change its argument.
	Body func(whole []byte) []byte

	// With Cut or Short, a GET's body ends after half of its bytes. With Cut its
	// headers give the full length, with Short the half.
	Cut, Short bool
}

// S3Error answers requests of some kinds with an error; without kinds, all.
func S3Error(status int, code, message string, kinds ...string) func(S3Request) *S3Answer {
	return S3Do(S3Answer{Status: status, Code: code, Message: message}, kinds...)
}

// S3Do answers requests of some kinds with a; without kinds, all.
func S3Do(a S3Answer, kinds ...string) func(S3Request) *S3Answer {
	return func(r S3Request) *S3Answer {
		if len(kinds) > 0 && !slices.Contains(kinds, r.Kind) {
			return nil
		}
		return &a
	}
}

// S3Once does something with the next n requests of some kinds.
func S3Once(n int, a S3Answer, kinds ...string) func(S3Request) *S3Answer {
	do := S3Do(a, kinds...)
	return func(r S3Request) *S3Answer {
		if n == 0 {
			return nil
		}
		answer := do(r)
		if answer != nil {
			n--
		}
		return answer
	}
}

// S3AbsentDenied answers 403 for a missing object, as S3 does to users without
// the permission to list the bucket.
func S3AbsentDenied(r S3Request) *S3Answer {
	if (r.Kind == "get" || r.Kind == "head") && !r.Exists {
		return &S3Answer{Status: 403, Code: "AccessDenied", Message: "Access Denied"}
	}
	return nil
}

// S3Rates are the probabilities, from 0 to 1, of faults. Each request has at most
// one fault.
type S3Rates struct {
	Busy  float64 // 429, 500, 502, 503 or SlowDown, without effect
	Reset float64 // connection reset before the request takes effect
	Lost  float64 // connection reset after it took effect
	Cut   float64 // the body of a GET is cut short
	Flip  float64 // a GET has one wrong bit
	Stuck float64 // no answer

	// RetryAfter is sent with Busy, in whole seconds; 0: not sent.
	RetryAfter time.Duration
}

// Answers returns the function that draws the rates at random.
func (s S3Rates) Answers(seed uint64) func(S3Request) *S3Answer {
	rng := rand.New(rand.NewPCG(seed, 1))
	return func(S3Request) *S3Answer {
		x := rng.Float64()
		hit := func(rate float64) bool {
			x -= rate
			return x < 0
		}
		switch {
		case hit(s.Busy):
			return s.busy(rng)
		case hit(s.Reset):
			return &S3Answer{Reset: true}
		case hit(s.Lost):
			return &S3Answer{Reset: true, Effect: true}
		case hit(s.Cut):
			return &S3Answer{Cut: true}
		case hit(s.Flip):
			return &S3Answer{Body: S3Flip(rng.Uint64())}
		case hit(s.Stuck):
			return &S3Answer{Stuck: true}
		}
		return nil
	}
}

func (s S3Rates) busy(rng *rand.Rand) *S3Answer {
	all := []S3Answer{
		{Status: 429, Code: "TooManyRequests", Message: "Too many requests."},
		{Status: 500, Code: "InternalError", Message: "We encountered an internal error. Please try again."},
		{Status: 502},
		{Status: 503, Code: "ServiceUnavailable", Message: "Please reduce your request rate."},
		{Status: 503, Code: "SlowDown", Message: "Please reduce your request rate."},
	}
	a := all[rng.IntN(len(all))]
	if s.RetryAfter > 0 {
		a.Header = http.Header{"Retry-After": {strconv.Itoa(int(s.RetryAfter / time.Second))}}
	}
	return &a
}

// S3Flip returns a change of a body that flips one bit, chosen by n.
func S3Flip(n uint64) func([]byte) []byte {
	return func(whole []byte) []byte {
		if len(whole) == 0 {
			return whole
		}
		changed := slices.Clone(whole)
		bit := n % uint64(8*len(whole))
		changed[bit/8] ^= 1 << (bit % 8)
		return changed
	}
}

// S3Swap returns a change of a body that returns another object's body.
func S3Swap(other []byte) func([]byte) []byte {
	return func([]byte) []byte { return other }
}

// S3Listing has the faults of the lists of a [FakeS3].
type S3Listing struct {
	Hide  float64 // the rate at which entries are left out
	Short float64 // the rate at which a page ends early and says that it is the last
}
