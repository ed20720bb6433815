package objecttest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Rounds returns the number of rounds of a test with random input: few, times
// KIST_TEST_SCALE, which 'make soak' sets. With -short, as under the race detector, it
// is a quarter of that. Rounds logs the number and the seed.
func Rounds(t testing.TB, few int) int {
	t.Helper()
	n := few * int(number("KIST_TEST_SCALE"))
	if testing.Short() {
		n = (n + 3) / 4
	}
	t.Logf("%d rounds, KIST_TEST_SEED=%d", n, Seed())
	return n
}

// Seed returns KIST_TEST_SEED, which selects the random input of tests. It is 1
// by default.
func Seed() uint64 { return number("KIST_TEST_SEED") }

// Rand returns random numbers that depend on Seed and on the stream. Each test
// has streams of its own.
func Rand(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(Seed(), stream)) }

// number returns a positive number from the environment. It is 1 by default.
func number(name string) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 32); err == nil && n > 0 {
		return n
	}
	return 1
}
