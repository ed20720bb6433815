package transfer_test

import "testing"

// TestOverCrypt runs tests of this package again, with encrypted remotes.
func TestOverCrypt(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"TestPush", TestPush},
		{"TestConcurrentBranches", TestConcurrentBranches},
		{"TestRejected", TestRejected},
		{"TestBaseCollected", TestBaseCollected},
		{"TestPartOfBaseCollected", TestPartOfBaseCollected},
		{"TestOwnPacksCondemned", TestOwnPacksCondemned},
		{"TestFloorRaised", TestFloorRaised},
		{"TestInlineAfterLostRace", TestInlineAfterLostRace},
		{"TestOwnIndexCondemned", TestOwnIndexCondemned},
		{"TestReplyOfRootLost", TestReplyOfRootLost},
		{"TestConfirmRefs", TestConfirmRefs},
		{"TestRoots", TestRoots},
		{"TestRollback", TestRollback},
		{"TestFetchClone", TestFetchClone},
		{"TestFetchIncremental", TestFetchIncremental},
		{"TestFetchDeleted", TestFetchDeleted},
		{"TestSingleWriter", TestSingleWriter},
		{"TestSignedRemote", TestSignedRemote},
		{"TestRootsRememberNothing", TestRootsRememberNothing},
		{"TestLostRace", TestLostRace},
		{"TestPurgeMeanwhile", TestPurgeMeanwhile},
		{"TestHoldGrace", TestHoldGrace},
		{"TestRoundTrip", TestRoundTrip},
		{"TestPushExpire", TestPushExpire},
		{"TestFindUnkept", TestFindUnkept},
		{"TestLocatorFindsAll", TestLocatorFindsAll},
		{"TestLocatorNeighbours", TestLocatorNeighbours},
		{"TestFetchOfSmallBranch", TestFetchOfSmallBranch},
		{"TestGetAll", TestGetAll},
		{"TestGetAllDamaged", TestGetAllDamaged},
		{"TestGetNodes", TestGetNodes},
		{"TestContentIsMarked", TestContentIsMarked},
	} {
		t.Run(test.name, test.run)
	}
}
