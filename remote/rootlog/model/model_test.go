// Package model tests the protocol by which any number of processes share a remote
// (docs/format/remote.md). It models the protocol as five state machines. It visits
// every state that any order of steps reaches, within bounds, and looks for lost data.
//
// The files store*.go model packs, refs and the collector; index*.go index files;
// key*.go changes of the keys of an encrypted remote; keep*.go clones that lack content;
// log*.go the names of roots. runs_test.go has the bounds, mutations_test.go the rules and
// the ways to break them. docs/decisions/protocol-model.md explains how to work with the model.
package model

import (
	"flag"
	"fmt"
	"strings"
	"testing"
)

var full = flag.Bool("model.full", false, "also explore the scenarios that take much time and memory")

// smallStates is the largest number of states that a scenario may have without
// -model.full.
const smallStates = 300_000

// TestScenario checks that the protocol with all its rules loses no data.
func TestScenario(t *testing.T) {
	for _, run := range scenarios {
		if run.states > smallStates && !*full {
			continue
		}
		t.Run(run.name, func(t *testing.T) {
			got := run.run(options{cap: stateCap})
			check(t, &run, &got)
			if missing := run.reached &^ got.reached; missing != 0 {
				t.Errorf("milestones never reached: %v", missing)
			}
		})
	}
}

// TestMutation breaks one rule at a time, and checks the expected loss of data. With
// -v, it prints a shortest sequence of steps to the loss.
func TestMutation(t *testing.T) {
	for _, run := range mutations {
		t.Run(run.rule+"/"+run.name, func(t *testing.T) {
			got := run.run(options{cap: stateCap, first: run.violation != ""})
			check(t, &run, &got)
			if testing.Verbose() && got.violation != "" {
				t.Log(format(got.trace, got.violation))
			}
		})
	}
}

func check(t *testing.T, run *scenario, got *result) {
	t.Helper()
	t.Logf("%d states; reached: %v", got.states, got.reached)
	switch {
	case got.violation != run.violation:
		t.Errorf("violation %q, want %q", got.violation, run.violation)
	case run.violation != "": // the number of states does not matter
	case got.capped != run.capped || got.states != run.states && !run.capped:
		t.Errorf("%d states (capped: %t), want %d (%t)", got.states, got.capped, run.states, run.capped)
	}
}

// format returns the steps of a trace, each with the changed parts of the state,
// and the violation at the end.
func format(trace []traceStep, violation string) string {
	var text strings.Builder
	var before []part
	for i, step := range trace {
		fmt.Fprintf(&text, "\n%3d  %s\n", i, step.name)
		for n, part := range step.state {
			if before == nil || part != before[n] {
				fmt.Fprintf(&text, "       %-12s %s\n", part.what, part.text)
			}
		}
		before = step.state
	}
	fmt.Fprintf(&text, "\n     %s\n", violation)
	return text.String()
}
