package model

// Mutation is a way to weaken the protocol. Its name stands in comments of the
// code that keeps to the rule, and in docs/format/remote.md.
type Mutation string

// The mutations of packs, refs and the collector.
const (
	NO_RECHECK      Mutation = "NO_RECHECK"      // a pusher does not look again at the head before it appends
	NO_FLOOR        Mutation = "NO_FLOOR"        // packs begun before the floor are used
	SEPARATE_CELLS  Mutation = "SEPARATE_CELLS"  // refs and what is live are decided by records of their own
	NAME_REUSE      Mutation = "NAME_REUSE"      // a pack is named for its content, so that a name is used again
	ANCHOR          Mutation = "ANCHOR"          // a pusher relies only on packs in which it looked something up; not on those of what refs made certain
	U_ALL           Mutation = "U_ALL"           // a pusher relies on a pack for each object, those that refs make certain too; holds
	STOP_AT_PRESENT Mutation = "STOP_AT_PRESENT" // the walk stops at a node that is there, though no ref reaches it
	EXP_WALK        Mutation = "EXP_WALK"        // the walk takes it for certain that expired content is there
	UNDO_NOCHECK    Mutation = "UNDO_NOCHECK"    // an expiration is undone because the content can still be read, in condemned packs
	HOLD_GRACE      Mutation = "HOLD_GRACE"      // a hold is made because what it holds can still be read, in condemned packs
	UNCONDEMN       Mutation = "UNCONDEMN"       // a hold takes condemned packs back
	GC_STALE_K      Mutation = "GC_STALE_K"      // a collector that lost the race condemns the same again
	GCQ_NOCHECK     Mutation = "GCQ_NOCHECK"     // a collector that lost the race uses its repacked pack without the rules of a push
	ORPH_AGE        Mutation = "ORPH_AGE"        // orphans are deleted by their age, without being condemned
	RESUME_NEWBASE  Mutation = "RESUME_NEWBASE"  // a resumed push uses its packs as if they were begun at today's head
	RESUME_HEAD     Mutation = "RESUME_HEAD"     // likewise, after it has looked whether each pack is there; PUTs and DELETEs may be late
	RESUME_HEAD_NOZ Mutation = "RESUME_HEAD_NOZ" // RESUME_HEAD in a store in which nothing is late; holds
	CKPT_NOCHECK    Mutation = "CKPT_NOCHECK"    // a long push takes the packs of its checkpoints for safe for ever
	F_ORPHAN_ONLY   Mutation = "F_ORPHAN_ONLY"   // only orphans raise the floor when they are delisted
)

// The mutations of index files.
const (
	IDX_DELIST     Mutation = "IDX_DELIST"     // a pack is delisted that a live index file names
	IDX_ORPH_AGE   Mutation = "IDX_ORPH_AGE"   // index files that no root names are deleted by their age, without being condemned
	IDX_DEL_BEFORE Mutation = "IDX_DEL_BEFORE" // merged index files are deleted before the root that replaces them
	IDX_STALE      Mutation = "IDX_STALE"      // whoever lost the race offers the same merged index file again
	IDX_UNION      Mutation = "IDX_UNION"      // a merged index file names condemned packs, too, and is offered again after a lost race
	IDX_NOW        Mutation = "IDX_NOW"        // merged index files are deleted right after the root that replaces them, without being condemned; holds, but readers need them
)

// The mutations of the root log.
const (
	TRUNC_ANY      Mutation = "TRUNC_ANY"      // roots are removed, in any order; one late writer, which looks at the root before its own afterwards
	TRUNC_ASC1     Mutation = "TRUNC_ASC1"     // oldest first; nothing else is late, and who takes a void root for the head is not looked at; holds
	TRUNC_ASC_DUP  Mutation = "TRUNC_ASC_DUP"  // oldest first, and PUTs may be late
	TRUNC_ASC2     Mutation = "TRUNC_ASC2"     // oldest first, two late writers: the second follows the first one's void root
	TRUNC_READER   Mutation = "TRUNC_READER"   // oldest first: a void root is taken for the head
	NO_TXID        Mutation = "NO_TXID"        // a name that is taken counts as a lost race, without looking whose root it is
	LINK_LIES      Mutation = "LINK_LIES"      // a success is believed, in a store that says so for a name that is taken
	ROLLBACK_BLIND Mutation = "ROLLBACK_BLIND" // that the next root is absent makes the last one the head, without looking whether that is still as it was
)

// Mutations has a run for each mutation, with bounds within which it breaks.
var Mutations = []Run{
	{Name: string(NO_RECHECK), machine: store{pushers: 1, collectors: 1, mutation: NO_RECHECK}, Violation: reachableMissing},
	{Name: string(NO_FLOOR), machine: store{pushers: 1, collectors: 1, rounds: 3, replans: 2, mutation: NO_FLOOR}, Violation: livePackMissing},
	{Name: string(SEPARATE_CELLS), machine: store{pushers: 1, collectors: 1, mutation: SEPARATE_CELLS}, Violation: reachableMissing},
	{Name: string(NAME_REUSE), machine: store{pushers: 1, collectors: 2, mutation: NAME_REUSE}, Violation: livePackMissing},
	{Name: string(ANCHOR), machine: store{pushers: 1, collectors: 1, mutation: ANCHOR}, Violation: reachableMissing},
	{Name: string(U_ALL), machine: store{pushers: 1, collectors: 2, mutation: U_ALL}, States: 263_358},
	{Name: string(STOP_AT_PRESENT), machine: store{pushers: 1, collectors: 1, mutation: STOP_AT_PRESENT}, Violation: reachableMissing},
	{Name: string(EXP_WALK), machine: store{pushers: 1, collectors: 1, expire: true, mutation: EXP_WALK}, Violation: reachableMissing},
	{Name: string(UNDO_NOCHECK), machine: store{pushers: 1, collectors: 1, expire: true, mutation: UNDO_NOCHECK}, Violation: reachableMissing},
	{Name: string(HOLD_GRACE), machine: store{pushers: 1, collectors: 1, hold: true, mutation: HOLD_GRACE}, Violation: reachableMissing},
	{Name: string(UNCONDEMN), machine: store{pushers: 1, collectors: 1, hold: true, mutation: UNCONDEMN}, Violation: livePackMissing},
	{Name: string(GC_STALE_K), machine: store{pushers: 1, collectors: 1, mutation: GC_STALE_K}, Violation: reachableMissing},
	{Name: string(GCQ_NOCHECK), machine: store{pushers: 1, collectors: 2, mutation: GCQ_NOCHECK}, Violation: livePackMissing},
	{Name: string(ORPH_AGE), machine: store{pushers: 1, collectors: 1, mutation: ORPH_AGE}, Violation: livePackMissing},
	{Name: string(RESUME_NEWBASE), machine: store{pushers: 1, collectors: 1, rounds: 3, replans: 2, crash: true, dropPushed: true, mutation: RESUME_NEWBASE}, Violation: livePackMissing},
	{Name: string(RESUME_HEAD), machine: store{pushers: 1, collectors: 1, rounds: 3, replans: 2, crash: true, dropPushed: true, latePut: true, lateDelete: true, mutation: RESUME_HEAD}, Violation: livePackMissing},
	{Name: string(RESUME_HEAD_NOZ), machine: store{pushers: 1, collectors: 1, rounds: 3, replans: 2, crash: true, dropPushed: true, mutation: RESUME_HEAD}, States: 12_004},
	{Name: string(CKPT_NOCHECK), machine: store{pushers: 1, collectors: 1, checkpoints: true, mutation: CKPT_NOCHECK}, Violation: reachableMissing},
	{Name: string(F_ORPHAN_ONLY), machine: store{pushers: 1, collectors: 1, rounds: 3, replans: 2, crash: true, dropPushed: true, mutation: F_ORPHAN_ONLY}, Violation: livePackMissing},

	{Name: string(IDX_DELIST), machine: index{pushers: 2, collectors: 1, rounds: 2, mutation: IDX_DELIST}, Violation: livePackMissing},
	{Name: string(IDX_ORPH_AGE), machine: index{pushers: 2, collectors: 1, rounds: 2, mutation: IDX_ORPH_AGE}, Violation: liveIndexFileMissing},
	{Name: string(IDX_DEL_BEFORE), machine: index{pushers: 1, collectors: 1, mutation: IDX_DEL_BEFORE}, Violation: liveIndexFileMissing},
	{Name: string(IDX_STALE), machine: index{pushers: 1, collectors: 2, rounds: 2, files: 7, mutation: IDX_STALE}, Violation: liveIndexFileMissing},
	{Name: string(IDX_UNION), machine: index{pushers: 1, collectors: 2, rounds: 2, files: 7, mutation: IDX_UNION}, Violation: livePackMissing},
	{Name: string(IDX_NOW), machine: index{pushers: 2, collectors: 1, rounds: 2, mutation: IDX_NOW}, States: 136_890},

	{Name: string(TRUNC_ANY), machine: log{truncation: truncateAny, check: checkPrevious, writers: 1, sureReplies: true, onlyAcks: true}, Violation: notInHistory},
	{Name: string(TRUNC_ASC1), machine: log{truncation: truncateAscending, check: checkPrevious, writers: 1, sureReplies: true, onlyAcks: true}, States: 1_846},
	{Name: string(TRUNC_ASC_DUP), machine: log{truncation: truncateAscending, check: checkPrevious, writers: 1, onlyAcks: true}, Violation: notInHistory},
	{Name: string(TRUNC_ASC2), machine: log{truncation: truncateAscending, check: checkPrevious, sureReplies: true, onlyAcks: true, withoutCrash: true}, Violation: notInHistory},
	{Name: string(TRUNC_READER), machine: log{truncation: truncateAscending, check: checkPrevious, sureReplies: true}, Violation: voidHead},
	{Name: string(NO_TXID), machine: log{mutation: NO_TXID}, Violation: falseRejection},
	{Name: string(LINK_LIES), machine: log{mutation: LINK_LIES}, Violation: notInHistory},
	{Name: string(ROLLBACK_BLIND), machine: log{restore: true, sureReplies: true, mutation: ROLLBACK_BLIND}, Violation: voidHead},
}
