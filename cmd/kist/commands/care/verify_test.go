package care

import (
	"crypto/rand"
	"fmt"
	"testing"

	"github.com/kist-vcs/kist/cmd/kist/cli/clitest"
)

func TestVerifyPartsCoverEverythingOnce(t *testing.T) {
	env, _, _ := clitest.NewEnv(t)
	for _, parts := range []int{1, 2, 7, 31} {
		for _, objects := range []int{1, 5, 31, 1000} {
			seen := make([]int, objects)
			for part := 1; part <= parts; part++ {
				check, err := verifyOptions{readData: fmt.Sprintf("%d/%d", part, parts)}.shareToRead(env)
				if err != nil {
					t.Fatal(err)
				}
				for i := range seen {
					if check.Subset(i, objects) {
						seen[i]++
					}
				}
			}
			for i, n := range seen {
				if n != 1 {
					t.Errorf("object %d of %d is in %d of %d parts", i, objects, n, parts)
				}
			}
		}
	}
}

func TestVerifyShare(t *testing.T) {
	env, _, _ := clitest.NewEnv(t)
	env.Random = rand.Reader
	for _, text := range []string{"", "100%"} {
		if check, err := (verifyOptions{readData: text}).shareToRead(env); err != nil || check.Subset != nil || check.ReadData != (text != "") {
			t.Errorf("%q: %+v, %v", text, check, err)
		}
	}

	const n = 100_000
	read := make([]int, n)
	for range 3 {
		check, err := verifyOptions{readData: "20%"}.shareToRead(env)
		if err != nil {
			t.Fatal(err)
		}

		count := 0
		for i := range n {
			if check.Subset(i, n) {
				read[i]++
				count++
			}
		}
		if count < n/5-n/50 || count > n/5+n/50 {
			t.Errorf("20%% of %d selects %d objects", n, count)
		}
	}

	times := [4]int{}
	for _, k := range read {
		times[k]++
	}
	if times[3] > n/50 || times[0] < n/3 {
		t.Errorf("the choice is not random: of %[2]d objects, %[1]v were chosen 0, 1, 2, 3 times", times, n)
	}
}
