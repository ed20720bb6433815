package model

// scenario is a machine within bounds, and the expected result of exploring it.
type scenario struct {
	name      string
	rule      string     // the rule that its mutation breaks; "" without a mutation
	states    int        // number of reachable states; unset if violation is set
	capped    bool       // there are more states
	reached   milestones // at least these
	violation string     // the first one; "" for none

	machine interface{ explore(options) result }
}

// run explores the machine.
func (r *scenario) run(o options) result { return r.machine.explore(o) }

// stateCap is the largest number of states that a run explores.
const stateCap = 4_000_000

// scenarios follow all rules of the protocol and lose no data.
var scenarios = []scenario{
	{
		name: "store: 2 pushers, 2 collectors", states: 97_476, reached: pushed | pushedAfterReplan | repacked | delisted,
		machine: store{pushers: 2, collectors: 2, rounds: 1},
	},
	{
		name: "store: 2 pushers, 1 collector, 3 rounds", states: 113_743, reached: pushed | pushedAfterReplan | repacked | delisted,
		machine: store{pushers: 2, collectors: 1, rounds: 3},
	},
	{
		name: "store: 1 pusher, 2 collectors, 2 rounds", states: 263_358, reached: pushed | pushedAfterReplan | repacked | delisted,
		machine: store{pushers: 1, collectors: 2, rounds: 2},
	},
	{
		name: "store: expire and undo, hold, delete the branch pushed", states: 182_394, reached: pushed | pushedAfterReplan | held | expired | repacked | delisted,
		machine: store{pushers: 1, collectors: 2, rounds: 1, expire: true, hold: true, dropPushed: true},
	},
	{
		name: "store: hold, expire, crash and resume", states: 410_450, reached: pushed | pushedAfterReplan | held | expired | repacked | delisted,
		machine: store{pushers: 1, collectors: 1, rounds: 3, replans: 2, crash: true, dropPushed: true, expire: true, hold: true},
	},
	{
		name: "store: late duplicates of PUT and DELETE", states: 740_784, reached: pushed | pushedAfterReplan | repacked | delisted,
		machine: store{pushers: 1, collectors: 1, rounds: 3, replans: 2, crash: true, dropPushed: true, latePut: true, lateDelete: true},
	},
	{
		name: "store: checkpoints of a long push", states: 757_295, reached: pushed | pushedAfterReplan | repacked | delisted,
		machine: store{pushers: 2, collectors: 1, rounds: 2, checkpoints: true},
	},
	{
		name: "index: 2 pushers, 1 collector, 2 rounds", states: 188_164, reached: pushed | merged | delisted,
		machine: index{pushers: 2, collectors: 1, rounds: 2},
	},
	{
		name: "index: 1 pusher, 2 collectors", states: 32_934, reached: pushed | merged | delisted,
		machine: index{pushers: 1, collectors: 2, rounds: 1},
	},
	{
		name: "log: no truncation", states: 99_688, reached: acknowledged,
		machine: log{},
	},
	{
		name: "log: stubs", states: 164_419, reached: acknowledged | stubbed,
		machine: log{truncation: truncateStubs, last: 3},
	},
	{
		name: "log: removed below a mark", states: 1_378_890, reached: acknowledged | cutOff,
		machine: log{truncation: truncateCut, check: checkCut, last: 3},
	},
	{
		name: "log: store restored from a backup", states: 123_187, reached: acknowledged | restored,
		machine: log{restore: true, sureReplies: true},
	},
	{
		name: "keys: 2 pushers, 1 removal", states: 136_336, reached: pushed | pushedAfterReplan | rotated | keysetDeleted | delisted,
		machine: keys{pushers: 2, changers: 1},
	},
	{
		name: "keys: 1 pusher, 2 removals, crash and resume", states: 237_697, reached: pushed | pushedAfterReplan | rotated | changedTwice | keysetDeleted | delisted,
		machine: keys{pushers: 1, changers: 2, crash: true, bothRemove: true},
	},
	{
		name: "keys: 1 pusher, 1 removal, crash and resume, 2 rounds", states: 190_458, reached: pushed | pushedAfterReplan | rotated | keysetDeleted | delisted,
		machine: keys{pushers: 1, changers: 1, rounds: 2, replans: 2, crash: true},
	},
	{
		name: "keys: 1 removal, 1 addition, 2 rounds", states: 61_811, reached: rotated | changedTwice | keysetDeleted | delisted,
		machine: keys{changers: 2, rounds: 2},
	},
	{
		name: "keeps: a clone that evicts, 1 collector, 2 rounds", states: 4_920, reached: keptAlone | reliedOnAway | promiseBroken | delisted,
		machine: keeps{},
	},
	{
		name: "keeps: a lazy clone, 1 collector, 2 rounds", states: 4_776, reached: keptAlone | reliedOnAway | promiseBroken | delisted,
		machine: keeps{lazy: true},
	},

	// With larger bounds.
	{
		name: "store: 2 pushers, 1 collector, crash and resume", states: 833_489, reached: pushed | pushedAfterReplan | repacked | delisted,
		machine: store{pushers: 2, collectors: 1, rounds: 2, replans: 2, crash: true, dropPushed: true},
	},
	{
		name: "store: 2 pushers, 2 collectors, hold", states: 1_142_417, reached: pushed | pushedAfterReplan | held | repacked | delisted,
		machine: store{pushers: 2, collectors: 2, rounds: 1, hold: true, dropPushed: true},
	},
	{
		name: "index: 1 pusher, 2 collectors, 2 rounds", capped: true, states: stateCap, reached: pushed | merged | delisted,
		machine: index{pushers: 1, collectors: 2, rounds: 2},
	},
	{
		name: "index: 2 pushers, 2 collectors", states: 2_038_691, reached: pushed | merged | delisted,
		machine: index{pushers: 2, collectors: 2, rounds: 1},
	},
	{
		name: "log: stubs, 5 roots", states: 1_332_899, reached: acknowledged | stubbed,
		machine: log{truncation: truncateStubs},
	},
	{
		name: "log: removed below a mark, 5 roots", capped: true, states: stateCap, reached: acknowledged | cutOff,
		machine: log{truncation: truncateCut, check: checkCut},
	},
	{
		name: "keys: 1 pusher, 1 removal, crash and resume, 3 rounds", states: 1_203_851, reached: pushed | pushedAfterReplan | rotated | keysetDeleted | delisted,
		machine: keys{pushers: 1, changers: 1, rounds: 3, replans: 2, crash: true},
	},
}
