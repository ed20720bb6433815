package model

// Run is a machine within bounds, and what exploring it has to show.
type Run struct {
	Name      string
	States    int        // all that can be reached; not given for what breaks
	Capped    bool       // States are not all
	Reached   milestones // at least
	Violation string     // the first that is found; "": none

	machine interface{ explore(Options) Result }
}

// Explore explores the machine.
func (r *Run) Explore(o Options) Result { return r.machine.explore(o) }

// stateCap is how many states of a run are explored at most.
const stateCap = 4_000_000

// Scenarios are runs by the protocol as it is. Nothing breaks.
var Scenarios = []Run{
	{
		Name: "store: 2 pushers, 2 collectors", States: 97_476, Reached: pushed | pushedAfterReplan | repacked | delisted,
		machine: store{pushers: 2, collectors: 2, rounds: 1},
	},
	{
		Name: "store: 2 pushers, 1 collector, 3 rounds", States: 113_743, Reached: pushed | pushedAfterReplan | repacked | delisted,
		machine: store{pushers: 2, collectors: 1, rounds: 3},
	},
	{
		Name: "store: 1 pusher, 2 collectors, 2 rounds", States: 263_358, Reached: pushed | pushedAfterReplan | repacked | delisted,
		machine: store{pushers: 1, collectors: 2, rounds: 2},
	},
	{
		Name: "store: expire and undo, hold, delete the branch pushed", States: 182_394, Reached: pushed | pushedAfterReplan | held | expired | repacked | delisted,
		machine: store{pushers: 1, collectors: 2, rounds: 1, expire: true, hold: true, dropPushed: true},
	},
	{
		Name: "store: hold, expire, crash and resume", States: 410_450, Reached: pushed | pushedAfterReplan | held | expired | repacked | delisted,
		machine: store{pushers: 1, collectors: 1, rounds: 3, replans: 2, crash: true, dropPushed: true, expire: true, hold: true},
	},
	{
		Name: "store: late duplicates of PUT and DELETE", States: 740_784, Reached: pushed | pushedAfterReplan | repacked | delisted,
		machine: store{pushers: 1, collectors: 1, rounds: 3, replans: 2, crash: true, dropPushed: true, latePut: true, lateDelete: true},
	},
	{
		Name: "store: checkpoints of a long push", States: 757_295, Reached: pushed | pushedAfterReplan | repacked | delisted,
		machine: store{pushers: 2, collectors: 1, rounds: 2, checkpoints: true},
	},
	{
		Name: "index: 2 pushers, 1 collector, 2 rounds", States: 135_795, Reached: pushed | merged | delisted,
		machine: index{pushers: 2, collectors: 1, rounds: 2},
	},
	{
		Name: "index: 1 pusher, 2 collectors", States: 26_089, Reached: pushed | merged | delisted,
		machine: index{pushers: 1, collectors: 2, rounds: 1},
	},
	{
		Name: "log: no truncation", States: 99_688, Reached: acknowledged,
		machine: log{},
	},
	{
		Name: "log: stubs", States: 164_419, Reached: acknowledged | stubbed,
		machine: log{truncation: truncateStubs, last: 3},
	},
	{
		Name: "log: removed below a mark", States: 1_378_890, Reached: acknowledged | cutOff,
		machine: log{truncation: truncateCut, check: checkCut, last: 3},
	},
	{
		Name: "log: store restored from a backup", States: 123_187, Reached: acknowledged | restored,
		machine: log{restore: true, sureReplies: true},
	},

	// With larger bounds.
	{
		Name: "store: 2 pushers, 1 collector, crash and resume", States: 833_489, Reached: pushed | pushedAfterReplan | repacked | delisted,
		machine: store{pushers: 2, collectors: 1, rounds: 2, replans: 2, crash: true, dropPushed: true},
	},
	{
		Name: "store: 2 pushers, 2 collectors, hold", States: 1_142_417, Reached: pushed | pushedAfterReplan | held | repacked | delisted,
		machine: store{pushers: 2, collectors: 2, rounds: 1, hold: true, dropPushed: true},
	},
	{
		Name: "index: 1 pusher, 2 collectors, 2 rounds", States: 3_606_694, Reached: pushed | merged | delisted,
		machine: index{pushers: 1, collectors: 2, rounds: 2},
	},
	{
		Name: "index: 2 pushers, 2 collectors", States: 1_539_996, Reached: pushed | merged | delisted,
		machine: index{pushers: 2, collectors: 2, rounds: 1},
	},
	{
		Name: "log: stubs, 5 roots", States: 1_332_899, Reached: acknowledged | stubbed,
		machine: log{truncation: truncateStubs},
	},
	{
		Name: "log: removed below a mark, 5 roots", Capped: true, States: stateCap, Reached: acknowledged | cutOff,
		machine: log{truncation: truncateCut, check: checkCut},
	},
}
