package model

// rules has the rules of the protocol by name. Comments of rootlog and transfer and the
// pages on formats use these names. For each rule, a mutation breaks it and loses
// data, except IDX_CONDEMN_MERGED, which protects readers.
var rules = map[string]string{
	// The rules of packs, refs and the collector.
	"RECHECK_HEAD":       "a pusher checks its claim at each new head before it appends",
	"HEED_FLOOR":         "packs and keysets that were begun before the floor are not used",
	"ONE_ROOT":           "one root decides about refs and live packs",
	"FRESH_NAMES":        "every upload has a new name",
	"RELY_ON_ALL_LIVE":   "a pusher relies on all packs that were live when it planned",
	"STOP_AT_REFS":       "the walk stops only at objects that refs reach",
	"WALK_EXPIRED":       "the walk does not take expired content for present",
	"UNDO_FROM_LIVE":     "an expiration is undone only if live packs have the content",
	"HOLD_FROM_LIVE":     "a hold is made only if live packs have the content",
	"CONDEMNED_IS_FINAL": "a condemned pack never becomes live",
	"REACH_EACH_HEAD":    "a collector that lost the race finds the reachable objects again before it condemns",
	"CHECK_REPACKED":     "a repacked pack follows the rules of a push",
	"CONDEMN_ORPHANS":    "orphans are condemned before they are deleted",
	"RESUME_AT_START":    "a resumed push keeps the start of its packs",
	"CHECK_CHECKPOINTS":  "a long push relies on the packs of its checkpoints, and checks them",
	"FLOOR_COVERS_ALL":   "every delisted pack raises the floor, live before or not",

	// The rules of index files.
	"IDX_WITHOUT_DELISTED": "no live index file names a delisted pack",
	"IDX_CONDEMN_ORPHANS":  "index files that no root names are condemned before they are deleted",
	"IDX_ROOT_FIRST":       "merged index files are deleted only after the root that replaces them",
	"IDX_REMAKE":           "a merged index file is made for each head",
	"IDX_LIVE_ONLY":        "a merged index file names live packs only",
	"IDX_CONDEMN_MERGED":   "merged index files are condemned before they are deleted",

	// The rules of the keys of encrypted remotes.
	"EPOCH_OF_HEAD":    "files that were begun before the root that began the head's epoch are not used",
	"KEYSET_OF_HEAD":   "a change of keys is made from the head's keyset, or made again",
	"EPOCH_AFTER_ROOT": "a process encrypts files with the key of an epoch only after a root has begun the epoch",

	// The rules of clones that lack content.
	"AWAY_IS_CLOSED":   "a clone lacks content only if its keep ref is in the head before the clone counts",
	"KEEP_FROM_LIVE":   "a keep ref is made only if live packs have its content",
	"KEEP_COVERS_AWAY": "a keep ref reaches all that is away, needed or not",
	"EVICT_KEPT":       "content is given away only if a head that was read under the lock of the clone keeps it",
	"RELY_ON_KEPT":     "a session relies on content that is away only if it reads a head that keeps it",

	// The rules of the root log.
	"KEEP_ALL_ROOTS":   "no root is ever removed",
	"CHECK_TXID":       "a taken name is a lost race only if its root has another txid",
	"READ_BACK":        "a store that reports success for a taken name is read back",
	"CHECK_KNOWN_HEAD": "a root is the head only if it is unchanged and the next is absent",
}

// mutation is a way to break a rule. The zero mutation breaks none.
type mutation string

const (
	appendUnchecked       mutation = "appendUnchecked"       // a pusher appends at a new head without a check
	ignoreFloor           mutation = "ignoreFloor"           // a pusher uses packs that it began before the floor
	separateCells         mutation = "separateCells"         // two records decide about refs and about live packs
	reuseNames            mutation = "reuseNames"            // packs with equal content have the same name, so a name is used twice
	relyOnLookedUp        mutation = "relyOnLookedUp"        // a pusher relies only on packs of looked-up objects, not on packs of objects that refs reach
	relyPerObject         mutation = "relyPerObject"         // a pusher relies on one pack for each object; holds
	stopAtPresent         mutation = "stopAtPresent"         // the walk stops at a node that is present but that no ref reaches
	trustExpired          mutation = "trustExpired"          // the walk takes expired content for present
	undoFromCondemned     mutation = "undoFromCondemned"     // an expiration is undone because condemned packs still have the content
	holdFromCondemned     mutation = "holdFromCondemned"     // a hold is made because condemned packs still have its content
	takeBackCondemned     mutation = "takeBackCondemned"     // a hold makes condemned packs live
	condemnStale          mutation = "condemnStale"          // a collector that lost the race condemns the same files at the new head
	useRepackedUnchecked  mutation = "useRepackedUnchecked"  // a collector that lost the race uses its repacked pack without the checks of a push
	deleteByAge           mutation = "deleteByAge"           // old orphans are deleted without being condemned
	resumeAtHead          mutation = "resumeAtHead"          // a resumed push uses its packs as if they were begun at today's head
	resumeAtHeadIfPresent mutation = "resumeAtHeadIfPresent" // the same, after a check that each pack is present; PUTs and DELETEs may be late
	resumeAtHeadInTime    mutation = "resumeAtHeadInTime"    // the same, in a store in which nothing is late; holds
	forgetCheckpoints     mutation = "forgetCheckpoints"     // a long push relies on the packs of its checkpoints without a check
	floorOfOrphans        mutation = "floorOfOrphans"        // only delisted orphans raise the floor

	keepDelisted       mutation = "keepDelisted"       // a pack is delisted although a live index file names it
	deleteIndexByAge   mutation = "deleteIndexByAge"   // old index files that no root names are deleted without being condemned
	deleteMergedFirst  mutation = "deleteMergedFirst"  // merged index files are deleted before the root that replaces them
	offerStale         mutation = "offerStale"         // a process that lost the race offers the same merged index file at the new head
	mergeCondemned     mutation = "mergeCondemned"     // a merged index file names condemned packs too, and is offered at the new head after a lost race
	deleteMergedAtOnce mutation = "deleteMergedAtOnce" // merged index files are deleted right after the root that replaces them; holds, but readers need them

	keepOldEpoch        mutation = "keepOldEpoch"        // a pusher uses packs that it began before the head's epoch
	repackOldEpoch      mutation = "repackOldEpoch"      // a collector that lost the race uses its repacked pack although an epoch began meanwhile
	changeOfStaleKeyset mutation = "changeOfStaleKeyset" // a change of keys that lost the race names the same keyset at the new head
	useEpochEarly       mutation = "useEpochEarly"       // a process uses its new epoch key from the moment at which it made it
	nameKeysetUnchecked mutation = "nameKeysetUnchecked" // a root names a keyset that may be condemned, or begun before the floor
	deleteKeysetByAge   mutation = "deleteKeysetByAge"   // old keysets that no root names are deleted without being condemned

	cloneUnkept       mutation = "cloneUnkept"       // a lazy clone counts before its keep ref is in the head
	keepFromCondemned mutation = "keepFromCondemned" // a keep ref is made although its content is condemned
	keepNeeded        mutation = "keepNeeded"        // a keep ref reaches only what names of the clone need
	keepCloned        mutation = "keepCloned"        // a keep ref reaches only what commits of the remote need
	evictUnkept       mutation = "evictUnkept"       // content is given away because a branch of the remote reaches it
	evictUnlocked     mutation = "evictUnlocked"     // another process of the clone drops the keep ref during an eviction
	trustAway         mutation = "trustAway"         // a session relies on content that is away without reading a head

	truncateInAnyOrder       mutation = "truncateInAnyOrder"       // roots are removed in any order; one late writer, which checks the root before its own afterwards
	truncateOldestOneWriter  mutation = "truncateOldestOneWriter"  // oldest first, one late writer and no late PUT; holds if a void root may be taken for the head
	truncateOldestLatePut    mutation = "truncateOldestLatePut"    // oldest first, and PUTs may be late
	truncateOldestTwoWriters mutation = "truncateOldestTwoWriters" // oldest first, two late writers; the second follows the void root of the first
	truncateOldestReader     mutation = "truncateOldestReader"     // oldest first; a reader takes a void root for the head
	ignoreTxid               mutation = "ignoreTxid"               // a taken name counts as a lost race, even if it has the writer's own root
	believeSuccess           mutation = "believeSuccess"           // a success is believed although the store reports it for a taken name
	trustAbsence             mutation = "trustAbsence"             // the absence of the next root makes the last one the head, without a check that the last one is unchanged
)

// mutations has a scenario for each mutation, with the rule that it breaks and
// bounds within which data is lost. Four mutations marked "holds" lose no data: their
// rules are stricter than necessary.
var mutations = []scenario{
	{name: string(appendUnchecked), rule: "RECHECK_HEAD", machine: store{pushers: 1, collectors: 1, mutation: appendUnchecked}, violation: reachableMissing},
	{name: string(ignoreFloor), rule: "HEED_FLOOR", machine: store{pushers: 1, collectors: 1, rounds: 3, replans: 2, mutation: ignoreFloor}, violation: livePackMissing},
	{name: string(separateCells), rule: "ONE_ROOT", machine: store{pushers: 1, collectors: 1, mutation: separateCells}, violation: reachableMissing},
	{name: string(reuseNames), rule: "FRESH_NAMES", machine: store{pushers: 1, collectors: 2, mutation: reuseNames}, violation: livePackMissing},
	{name: string(relyOnLookedUp), rule: "RELY_ON_ALL_LIVE", machine: store{pushers: 1, collectors: 1, mutation: relyOnLookedUp}, violation: reachableMissing},
	{name: string(relyPerObject), rule: "RELY_ON_ALL_LIVE", machine: store{pushers: 1, collectors: 2, mutation: relyPerObject}, states: 263_358},
	{name: string(stopAtPresent), rule: "STOP_AT_REFS", machine: store{pushers: 1, collectors: 1, mutation: stopAtPresent}, violation: reachableMissing},
	{name: string(trustExpired), rule: "WALK_EXPIRED", machine: store{pushers: 1, collectors: 1, expire: true, mutation: trustExpired}, violation: reachableMissing},
	{name: string(undoFromCondemned), rule: "UNDO_FROM_LIVE", machine: store{pushers: 1, collectors: 1, expire: true, mutation: undoFromCondemned}, violation: reachableMissing},
	{name: string(holdFromCondemned), rule: "HOLD_FROM_LIVE", machine: store{pushers: 1, collectors: 1, hold: true, mutation: holdFromCondemned}, violation: reachableMissing},
	{name: string(takeBackCondemned), rule: "CONDEMNED_IS_FINAL", machine: store{pushers: 1, collectors: 1, hold: true, mutation: takeBackCondemned}, violation: livePackMissing},
	{name: string(condemnStale), rule: "REACH_EACH_HEAD", machine: store{pushers: 1, collectors: 1, mutation: condemnStale}, violation: reachableMissing},
	{name: string(useRepackedUnchecked), rule: "CHECK_REPACKED", machine: store{pushers: 1, collectors: 2, mutation: useRepackedUnchecked}, violation: livePackMissing},
	{name: string(deleteByAge), rule: "CONDEMN_ORPHANS", machine: store{pushers: 1, collectors: 1, mutation: deleteByAge}, violation: livePackMissing},
	{name: string(resumeAtHead), rule: "RESUME_AT_START", machine: store{pushers: 1, collectors: 1, rounds: 3, replans: 2, crash: true, dropPushed: true, mutation: resumeAtHead}, violation: livePackMissing},
	{name: string(resumeAtHeadIfPresent), rule: "RESUME_AT_START", machine: store{pushers: 1, collectors: 1, rounds: 3, replans: 2, crash: true, dropPushed: true, latePut: true, lateDelete: true, mutation: resumeAtHeadIfPresent}, violation: livePackMissing},
	{name: string(resumeAtHeadInTime), rule: "RESUME_AT_START", machine: store{pushers: 1, collectors: 1, rounds: 3, replans: 2, crash: true, dropPushed: true, mutation: resumeAtHeadIfPresent}, states: 12_004},
	{name: string(forgetCheckpoints), rule: "CHECK_CHECKPOINTS", machine: store{pushers: 1, collectors: 1, checkpoints: true, mutation: forgetCheckpoints}, violation: reachableMissing},
	{name: string(floorOfOrphans), rule: "FLOOR_COVERS_ALL", machine: store{pushers: 1, collectors: 1, rounds: 3, replans: 2, crash: true, dropPushed: true, mutation: floorOfOrphans}, violation: livePackMissing},

	{name: string(keepDelisted), rule: "IDX_WITHOUT_DELISTED", machine: index{pushers: 2, collectors: 1, rounds: 2, mutation: keepDelisted}, violation: livePackMissing},
	{name: string(deleteIndexByAge), rule: "IDX_CONDEMN_ORPHANS", machine: index{pushers: 2, collectors: 1, rounds: 2, mutation: deleteIndexByAge}, violation: liveIndexFileMissing},
	{name: string(deleteMergedFirst), rule: "IDX_ROOT_FIRST", machine: index{pushers: 1, collectors: 1, mutation: deleteMergedFirst}, violation: liveIndexFileMissing},
	{name: string(offerStale), rule: "IDX_REMAKE", machine: index{pushers: 1, collectors: 2, rounds: 2, files: 7, mutation: offerStale}, violation: liveIndexFileMissing},
	{name: string(mergeCondemned), rule: "IDX_LIVE_ONLY", machine: index{pushers: 1, collectors: 2, rounds: 2, files: 7, mutation: mergeCondemned}, violation: livePackMissing},
	{name: string(deleteMergedAtOnce), rule: "IDX_CONDEMN_MERGED", machine: index{pushers: 2, collectors: 1, rounds: 2, mutation: deleteMergedAtOnce}, states: 189_445},

	{name: string(keepOldEpoch), rule: "EPOCH_OF_HEAD", machine: keys{pushers: 1, changers: 1, mutation: keepOldEpoch}, violation: readableAfterRemoval},
	{name: string(repackOldEpoch), rule: "EPOCH_OF_HEAD", machine: keys{changers: 1, rounds: 2, mutation: repackOldEpoch}, violation: readableAfterRemoval},
	{name: string(changeOfStaleKeyset), rule: "KEYSET_OF_HEAD", machine: keys{changers: 2, mutation: changeOfStaleKeyset}, violation: changeLost},
	{name: string(useEpochEarly), rule: "EPOCH_AFTER_ROOT", machine: keys{pushers: 1, changers: 2, mutation: useEpochEarly}, violation: liveWithoutKey},
	{name: string(nameKeysetUnchecked), rule: "HEED_FLOOR", machine: keys{pushers: 1, changers: 1, mutation: nameKeysetUnchecked}, violation: liveKeysetMissing},
	{name: string(deleteKeysetByAge), rule: "CONDEMN_ORPHANS", machine: keys{changers: 1, mutation: deleteKeysetByAge}, violation: liveKeysetMissing},

	{name: string(cloneUnkept), rule: "AWAY_IS_CLOSED", machine: keeps{lazy: true, mutation: cloneUnkept}, violation: neededLost},
	{name: string(keepFromCondemned), rule: "KEEP_FROM_LIVE", machine: keeps{mutation: keepFromCondemned}, violation: keptUnreadable},
	{name: string(keepNeeded), rule: "KEEP_COVERS_AWAY", machine: keeps{mutation: keepNeeded}, violation: neededLost},
	{name: string(keepCloned), rule: "KEEP_COVERS_AWAY", machine: keeps{mutation: keepCloned}, violation: neededLost},
	{name: string(evictUnkept), rule: "EVICT_KEPT", machine: keeps{mutation: evictUnkept}, violation: neededLost},
	{name: string(evictUnlocked), rule: "EVICT_KEPT", machine: keeps{mutation: evictUnlocked}, violation: neededLost},
	{name: string(trustAway), rule: "RELY_ON_KEPT", machine: keeps{mutation: trustAway}, violation: neededLost},

	{name: string(truncateInAnyOrder), rule: "KEEP_ALL_ROOTS", machine: log{truncation: truncateAny, check: checkPrevious, writers: 1, sureReplies: true, onlyAcks: true}, violation: notInHistory},
	{name: string(truncateOldestOneWriter), rule: "KEEP_ALL_ROOTS", machine: log{truncation: truncateAscending, check: checkPrevious, writers: 1, sureReplies: true, onlyAcks: true}, states: 1_846},
	{name: string(truncateOldestLatePut), rule: "KEEP_ALL_ROOTS", machine: log{truncation: truncateAscending, check: checkPrevious, writers: 1, onlyAcks: true}, violation: notInHistory},
	{name: string(truncateOldestTwoWriters), rule: "KEEP_ALL_ROOTS", machine: log{truncation: truncateAscending, check: checkPrevious, sureReplies: true, onlyAcks: true, withoutCrash: true}, violation: notInHistory},
	{name: string(truncateOldestReader), rule: "KEEP_ALL_ROOTS", machine: log{truncation: truncateAscending, check: checkPrevious, sureReplies: true}, violation: voidHead},
	{name: string(ignoreTxid), rule: "CHECK_TXID", machine: log{mutation: ignoreTxid}, violation: falseRejection},
	{name: string(believeSuccess), rule: "READ_BACK", machine: log{mutation: believeSuccess}, violation: notInHistory},
	{name: string(trustAbsence), rule: "CHECK_KNOWN_HEAD", machine: log{restore: true, sureReplies: true, mutation: trustAbsence}, violation: voidHead},
}
