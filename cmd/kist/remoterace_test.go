package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/kist-vcs/kist/object/objecttest"
)

// TestRemoteManyPushers checks that the history has each acknowledged commit once,
// after eight clones push to one branch. A clone pulls after a rejected push.
func TestRemoteManyPushers(t *testing.T) {
	const clients = 8
	onEachStore(t, func(p *place) {
		rounds := objecttest.Rounds(p, 2)
		type client struct {
			*shell
			rejected, unknown int
			commits           map[string]string // message by ID
		}

		var all []*client
		for _, s := range p.copies(p.begin(), clients) {
			all = append(all, &client{shell: s, commits: map[string]string{}})
		}

		var group sync.WaitGroup
		for i, s := range all {
			group.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(i), 1))
				for round := range rounds {
					message := fmt.Sprintf("commit %d of person %d", round, i)
					s.write(map[string]string{fmt.Sprintf("person-%d/%d", i, rng.IntN(9)): noise(rng, 100+rng.IntN(3000))})
					s.commits[s.commit(message)] = message

					for done := false; !done; {
						switch o := s.run("push", "--json"); o.status {
						case 0:
							done = true
						case 13:
							s.rejected++
							if _, text := o.failed(); !strings.Contains(text, "not a fast-forward") {
								p.Errorf("want an error about a fast-forward: %v", o)
							}
							s.kist("pull")
						case 15:
							s.unknown++
							if kind, _ := o.failed(); kind != "unknown" {
								p.Errorf("want kind unknown: %v", o)
								return
							}
							s.kist("fetch")
							done = strings.Contains(s.kist("status", "--branch", "--json"), `"ahead":0`)
						default:
							p.Errorf("want exit status 0, 13 or 15: %v", o)
							return
						}
					}
				}
			})
		}

		group.Wait()
		if p.Failed() {
			return
		}

		clone := p.clone()
		history := clone.kist("log", "--json")
		var rejected, unknown int
		for _, s := range all {
			rejected, unknown = rejected+s.rejected, unknown+s.unknown
			for id, message := range s.commits {
				if n := strings.Count(history, `{"id":"`+id+`"`); n != 1 {
					p.Errorf("commit %s, %q, is in the history %d times, want once", id, message, n)
				}
				if n := strings.Count(history, `"`+message); n != 1 {
					p.Errorf("message %q is in the history %d times, want once", message, n)
				}
			}
			s.kist("pull")
			s.wantFiles(s.readFiles("."), clone.readFiles("."))
		}

		p.wantIntact()
		p.Logf("%d commits; %d pushes rejected, %d with unknown outcome; %d roots", clients*rounds, rejected, unknown, p.head().Seq)
	})
}

// TestRemoteRace checks that exactly one of eight or more concurrent pushes to a branch
// wins. All stop after they looked up the missing objects, and continue at the same
// moment.
func TestRemoteRace(t *testing.T) {
	onEachStore(t, func(p *place) {
		first := p.begin()
		before := p.head().Seq

		racers := p.copies(first, min(objecttest.Rounds(p, 8), 64))
		commits := make([]string, len(racers))
		for i, s := range racers {
			rng := rand.New(rand.NewPCG(uint64(i), 2))
			s.write(map[string]string{fmt.Sprint("file-", i): noise(rng, 16<<10)})
			commits[i] = s.commit(fmt.Sprint("by racer ", i))
		}

		var running []*process
		for _, s := range racers {
			r := s.start("push", "--json", "--limit-upload", "4KiB")
			r.holdWhileSending()
			running = append(running, r)
		}

		for _, r := range running {
			r.signal(syscall.SIGCONT)
		}

		var winners []string
		for i, r := range running {
			switch o := r.wait(); o.status {
			case 0:
				winners = append(winners, commits[i])
			case 13:
				if kind, text := o.failed(); kind != "not-fast-forward" || !strings.Contains(text, "not a fast-forward") {
					p.Errorf("want error kind not-fast-forward: %v", o)
				}
			default:
				p.Errorf("want exit status 0 or 13: %v", o)
			}
		}
		if len(winners) != 1 || p.at("main") != winners[0] || !isNext(p.head().Seq, before) {
			p.Errorf("pushes of %v succeeded, want one; the branch is at %s, the head is root %d", winners, p.at("main"), p.head().Seq)
		}
		p.wantIntact()
	})
}
