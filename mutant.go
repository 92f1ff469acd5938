package redlock

// mutant names the guard that a test turns off, to see that it matters: what
// stands for the guard, a story or the simulator, has to fail then (make
// mutants prints the table). No option of the package sets one; only tests of
// the package itself can. 0 is none.
type mutant uint8

const (
	// mutantNoInfo lets the closing check do with MGET alone, so that neither
	// the role nor the replid is seen.
	mutantNoInfo mutant = 1 + iota
	// mutantNoSeal counts every vote, whatever the seal and the quarantine say.
	mutantNoSeal
	// mutantTokenReused keeps one token for all attempts of a Locker (hazard H2).
	mutantTokenReused
	// mutantValidFromReply counts the validity from the answer, not from T0 (H25).
	mutantValidFromReply
	// mutantNoDrift gives the whole TTL as validity.
	mutantNoDrift
	// mutantWonLate takes a majority that came after the validity had ended.
	mutantWonLate
	// mutantHalfQuorum is content with half of the nodes.
	mutantHalfQuorum
	// mutantReaddedCounts lets READDED count in its own round (H29).
	mutantReaddedCounts
	// mutantReaddedTrusted lets a node that was given the key back count from the
	// next round on, whether or not it abstained meanwhile.
	mutantReaddedTrusted
	// mutantLateExtend takes an extend whose majority came after the old end.
	mutantLateExtend
	// mutantLostByStrangers lets nodes that never had the key speak for a loss.
	mutantLostByStrangers
	// mutantExtendBound lets no extend count on a node in quarantine.
	mutantExtendBound
	// mutantNoQuarantine seals a node that forgot, and counts it at once.
	mutantNoQuarantine
	// mutantNodeClockOnly believes the node's clock when a quarantine is over (H22).
	mutantNodeClockOnly
	// mutantReplicaVotes counts the vote of a replica.
	mutantReplicaVotes
	// mutantForeignCounts counts votes under another deployment's seal (H21).
	mutantForeignCounts
	// mutantSealEarly seals a node before every other was asked (H21).
	mutantSealEarly
	// mutantSameServer lets one server vote under two names (H17).
	mutantSameServer
	// mutantEvicting lets a server vote that evicts keys (H15).
	mutantEvicting
	// mutantInitTrusts declares a node empty although another one has a seal.
	mutantInitTrusts
	// mutantUndoGranted undoes an attempt only where it was granted (H1).
	mutantUndoGranted
	// mutantSendsAfterEnd sends what is queued also for a token that is over (P8).
	mutantSendsAfterEnd
	// mutantNoStamp sends extends without their not-after stamp.
	mutantNoStamp
	// mutantNoKill leaves a broken connection's buffer alone (H1).
	mutantNoKill
	// mutantKillsStrangers kills by id without looking whose process it is.
	mutantKillsStrangers
	// mutantNoDebts forgets a delete that was not answered.
	mutantNoDebts
	// mutantShortDebts ends a debt with its first answer, although the connection
	// that broke may still write.
	mutantShortDebts
	// mutantLaneHop lets a token's calls take any lane.
	mutantLaneHop
	// mutantReleaseOnCtx ends a Release with its caller's context (H32).
	mutantReleaseOnCtx
	// mutantNoMargin lets the Context live until the very end (P6).
	mutantNoMargin
	// mutantNoBreakMark lets a renewal bring back what Break freed.
	mutantNoBreakMark
	// mutantGatedPolls asks one node first also on first tries and polls.
	mutantGatedPolls
	// mutantOwnerless lets a token have no owner for a moment during a hand-over.
	mutantOwnerless
	// mutantOldHandle lets a lease that was handed over still release.
	mutantOldHandle
	// mutantUndoWakes lets the undoing of a failed attempt wake a waiter.
	mutantUndoWakes
	// mutantNoPassOn lets a wake-up die with who could not use it.
	mutantNoPassOn
	// mutantStaleGift hands a lease over without looking whether it still stands.
	mutantStaleGift
	// mutantNoStandBack hands over without end, and stands back for nobody.
	mutantNoStandBack

	// mutantNoLag gives a Sentinel or Cluster vote the quarantine of a plain master (H12).
	mutantNoLag
	// mutantFirstView believes the first node that says who owns a slot (H12).
	mutantFirstView
	// mutantOldMaster trusts a Cluster's connection however long it was silent (H12).
	mutantOldMaster
	// mutantTwinCounts lets one master of a Cluster vote twice for a name (H19).
	mutantTwinCounts
	// mutantBucketSeal takes a Cluster's vote whatever the seal of the bucket says (H11).
	mutantBucketSeal

	// mutantLateUndo deletes what an acquire set and that did not count, also when
	// an extend of the same lease has counted there since.
	mutantLateUndo
	// mutantInnerFrees lets the Release of one of several handles free the name.
	mutantInnerFrees
	// mutantReleasedTwice counts the second Release of a handle, too.
	mutantReleasedTwice
	// mutantHeldStays does not undo a lost lease where its acquire was answered HELD,
	// although an extend may have brought the key there since.
	mutantHeldStays
	// mutantNestedUnfenced nests a call that asks for a fence in a lease without one.
	mutantNestedUnfenced
	// mutantNoWriteBack takes the highest number without writing it back (H35).
	mutantNoWriteBack
	// mutantLoneWriteBack is content with one node that took it.
	mutantLoneWriteBack
	// mutantAnyFence takes the number of any node instead of the highest.
	mutantAnyFence
	// mutantBlockStart stores the first number of a block instead of the last.
	mutantBlockStart
	// mutantNoSpread lets a node vote on fences whose clock is far from the others'.
	mutantNoSpread
	// mutantFarWriteBack raises a counter however far it is ahead of the node's clock.
	mutantFarWriteBack
	// mutantExtendsFirst extends only the first of several names.
	mutantExtendsFirst

	// mutantFirstSentinel believes the first sentinel that names a master (H12).
	mutantFirstSentinel
	// mutantEpochBack follows sentinels whose config epoch went back.
	mutantEpochBack
	// mutantKeptLanes keeps the connections to a master that was replaced (H12).
	mutantKeptLanes

	mutantsEnd // one more than the last
)

func (m mutant) has(one mutant) bool { return m == one }

// withMutant turns a guard off.
func withMutant(m mutant) Option { return lockerOption(func(s *settings) { s.mutant = m }) }
