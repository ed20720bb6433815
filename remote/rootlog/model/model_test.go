package model

import (
	"flag"
	"fmt"
	"strings"
	"testing"
)

var full = flag.Bool("model.full", false, "explore all scenarios, whatever time and memory that takes")

// smallStates is how many states a scenario has at most that is explored in
// every run of the tests.
const smallStates = 300_000

// TestScenario explores the protocol as it is: nothing may break.
func TestScenario(t *testing.T) {
	for _, run := range Scenarios {
		if run.States > smallStates && !*full {
			continue
		}
		t.Run(run.Name, func(t *testing.T) {
			got := run.Explore(Options{Cap: stateCap})
			check(t, &run, &got)
			if missing := run.Reached &^ got.Reached; missing != 0 {
				t.Errorf("never reached: %v", missing)
			}
		})
	}
}

// TestMutation weakens the protocol, and expects it to break. With -v, it prints
// a shortest sequence of steps to what is broken.
func TestMutation(t *testing.T) {
	for _, run := range Mutations {
		t.Run(run.Name, func(t *testing.T) {
			got := run.Explore(Options{Cap: stateCap, First: run.Violation != ""})
			check(t, &run, &got)
			if testing.Verbose() && got.Violation != "" {
				t.Log(format(got.Trace, got.Violation))
			}
		})
	}
}

func check(t *testing.T, run *Run, got *Result) {
	t.Helper()
	t.Logf("%d states; reached: %v", got.States, got.Reached)
	switch {
	case got.Violation != run.Violation:
		t.Errorf("violation %q, want %q", got.Violation, run.Violation)
	case run.Violation != "": // how many states that took does not matter
	case got.Capped != run.Capped || got.States != run.States && !run.Capped:
		t.Errorf("%d states (capped: %t), want %d (%t)", got.States, got.Capped, run.States, run.Capped)
	}
}

// format has the steps of a trace, each with the parts of the state that it
// changed, and what is wrong in the end.
func format(trace []Step, violation string) string {
	var text strings.Builder
	var before []Part
	for i, step := range trace {
		fmt.Fprintf(&text, "\n%3d  %s\n", i, step.Name)
		for n, part := range step.State {
			if before == nil || part != before[n] {
				fmt.Fprintf(&text, "       %-12s %s\n", part.What, part.Text)
			}
		}
		before = step.State
	}
	fmt.Fprintf(&text, "\n     %s\n", violation)
	return text.String()
}
